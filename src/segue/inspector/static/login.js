// The token of `segue inspect` is behind the # of the address: no server ever sees it there. It is posted once, and the address
// is replaced, so that it stays in no history.
import { post } from "./dom.js";

export async function logIn() {
  const said = document.getElementById("said");
  const token = new URLSearchParams(location.hash.slice(1)).get("t");
  const go = async (given) => {
    try {
      await post("login", given);
      location.replace("/segue/inspector/");
    } catch {
      said.textContent = given.token ? "This link was used before, or is older than a minute." : "This key is not known.";
    }
  };
  if (token) {
    history.replaceState(null, "", "/segue/inspector/login");
    await go({ token });
  }
  document.getElementById("login")?.addEventListener("submit", (event) => {
    event.preventDefault();
    go({ key: document.getElementById("key").value });
  });
}
