// The page's script. Pages work without it; with it rows live, keys work and buttons act. It never reads HTML: what comes
// from the server is text, or a tree of plain elements that `build` makes.
import { act, openMenus } from "./actions.js";
import { follow } from "./live.js";
import { keyboard } from "./keyboard.js";
import { logIn } from "./login.js";

const page = document.getElementById("main")?.dataset.page;
if (page === "login") logIn();
else {
  keyboard();
  act();
  openMenus();
  if (document.getElementById("main")?.dataset.live !== undefined) follow();
}
