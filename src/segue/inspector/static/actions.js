// What buttons do. Whatever costs money or cannot be undone asks first.
import { announce, build, make, post } from "./dom.js";

function tell(text, kind = "") {
  let place = document.getElementById("told");
  if (!place) {
    place = make("p", { id: "told", role: "status" });
    document.querySelector("main .head")?.after(place);
  }
  place.className = `told ${kind}`;
  place.textContent = text;
  announce(text);
}

function ask(title, text, yes, fields = []) {
  return new Promise((resolve) => {
    const inputs = fields.map(([name, label, value, type]) => {
      const input = make("input", { id: `ask-${name}`, name, type: type ?? "text", value: value ?? "", class: "field" });
      return [make("label", { for: `ask-${name}`, class: "q s" }, label), input];
    });
    const form = make("form", { method: "dialog" }, make("h2", { id: "ask-title" }, title), make("p", { class: "q gap8" }, text), ...inputs.flat());
    const go = make("button", { class: "btn main", value: "yes", type: "submit" }, yes);
    const stop = make("button", { class: "btn", value: "no", type: "submit", formnovalidate: "" }, "Cancel");
    form.append(make("p", { class: "row gap16" }, go, stop));
    const dialog = make("dialog", { "aria-labelledby": "ask-title" }, form);
    document.body.append(dialog);
    dialog.addEventListener("close", () => {
      const given = Object.fromEntries(new FormData(form));
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? given : null);
    });
    dialog.showModal();
    (inputs[0]?.[1] ?? go).focus();
  });
}

async function done(promise) {
  const held = await promise;
  if (held.said) tell(held.said);
  if (held.key) {
    const place = document.getElementById("key-form") ?? document.querySelector("main");
    const copy = make("button", { type: "button", class: "btn" }, "Copy");
    copy.addEventListener("click", () => navigator.clipboard?.writeText(held.key));
    place.replaceChildren(make("p", { class: "told" }, held.said, " ", make("code", {}, held.key), " ", copy));
  }
  if (held.reload) setTimeout(() => location.reload(), 600);
}

const number = (text) => (text ? Number(text) : null);
const limits = (given) => ({
  models: (given.models ?? "").split(/[\s,]+/).filter(Boolean),
  ...Object.fromEntries(FIGURES.map(([name]) => [name, number(given[name])])),
});
const FIGURES = [
  ["dollars_per_day", "Dollars a day", "day"],
  ["dollars_per_month", "Dollars a month", "month"],
  ["requests_per_minute", "Requests a minute", "minute"],
  ["tokens_per_minute", "Tokens a minute", "tokens"],
  ["concurrent", "Requests at a time", "concurrent"],
];
const LIMITS = (data) => [
  ["models", "Models, such as claude-*, openai/*; empty: all", data.models],
  ...FIGURES.map(([name, label, held]) => [name, `${label}; empty: no limit`, data[held], "number"]),
];

async function runOnce(data) {
  const asked = await post("api/run-once", { conversation: data.conversation, model: data.model });
  const yes = await ask(
    "Run once",
    `${asked.model} gets the last request of this conversation, about ${asked.tokens.toLocaleString()} tokens: about ${asked.price}. The answer is shown here; the conversation is not changed.`,
    `Run for ${asked.price}`,
  );
  if (!yes) return;
  const place = document.getElementById("once");
  place.replaceChildren(make("p", { class: "q gap16" }, `Asking ${asked.model} …`));
  const got = await post("api/run-once", { conversation: data.conversation, model: data.model, confirmed: true }).catch((error) => {
    place.replaceChildren();
    throw error;
  });
  const calls = got.calls.map((call) => make("p", { class: "mono" }, `→ ${call.name} ${JSON.stringify(call.arguments)}`));
  place.replaceChildren(
    make(
      "section",
      { class: "sec" },
      make("div", { class: "sub" }, make("h2", {}, "The same turn, twice"), make("span", { class: "q s" }, `${got.seconds} · ${got.dollars}`)),
      make("div", { class: "two gap8" }, make("div", {}, make("h3", {}, got.original_model), make("p", { class: "pre" }, got.original || "(only calls)")), make("div", {}, make("h3", {}, got.model), make("p", { class: "pre" }, got.text || ""), ...calls)),
    ),
  );
  announce(`${got.model} has answered.`);
}

async function answer(data, allow) {
  const given = await ask(
    `${allow ? "Approve" : "Deny"} ${data.tool}?`,
    allow ? "It runs with the arguments that this page shows." : "It does not run. The model reads that, and your reason.",
    allow ? "Approve" : "Deny",
    [["why", "Reason; may be empty", ""], ...("signed" in data ? [] : [["by", "Your name, for the journal", data.by]])],
  );
  if (!given) return;
  try {
    await done(post("api/answer", { session: data.session, call_id: data.call, allow, ...given }));
  } catch (error) {
    if (error.status === 404 || error.status === 409) {
      const row = [...document.querySelectorAll("[data-row]")].find((one) => one.dataset.row === data.call && one.querySelector("button").dataset.session === data.session);
      for (const button of row?.querySelectorAll("button") ?? []) button.disabled = true;
    }
    throw error;
  }
}

const ACTIONS = {
  approve: (data) => answer(data, true),
  deny: (data) => answer(data, false),
  switch: (data) => done(post("api/switch", { conversation: data.conversation, model: data.model ?? document.getElementById("next-model").value })),
  "switch-back": (data) => done(post("api/switch", { conversation: data.conversation, model: "" })),
  fork: (data) => done(post("api/fork", { conversation: data.conversation, turn: Number(data.turn) })),
  reveal: async (data) => {
    await post("api/reveal", { conversation: data.conversation });
    location.reload();
  },
  "run-once": runOnce,
  copy: async (data) => {
    const answer = await fetch(data.path);
    await navigator.clipboard.writeText(await answer.text());
    tell("Copied, without the key.");
  },
  save: (data) => {
    const bytes = Uint8Array.from(atob(data.data), (letter) => letter.charCodeAt(0));
    const link = make("a", { download: data.name });
    link.href = URL.createObjectURL(new Blob([bytes]));
    link.click();
    URL.revokeObjectURL(link.href);
  },
  "new-key": async () => {
    const given = await ask("New key", "Where there was no caller before, every program needs a key from now on, and so do these pages: make the first one an operator’s.", "Make the key", [["name", "Name of the caller", ""], ...LIMITS({}), ["admin", "Operator (yes or empty)", ""]]);
    if (given) await done(post("api/key-create", { name: given.name, admin: Boolean(given.admin), ...limits(given) }));
  },
  "key-limits": async (data) => {
    const given = await ask(`Limits of ${data.name}`, "They hold from the next request on.", "Change", LIMITS(data));
    if (given) await done(post("api/key-limits", { name: data.name, ...limits(given) }));
  },
  "key-rotate": async (data) => (await ask(`Rotate the key of ${data.name}?`, "The old key is refused at once.", "Rotate")) && done(post("api/key-rotate", { name: data.name })),
  "key-revoke": async (data) => (await ask(`Revoke the key of ${data.name}?`, "Its requests are refused from now on. What it has used stays known.", "Revoke")) && done(post("api/key-revoke", { name: data.name })),
  "key-remove": async (data) => (await ask(`Remove ${data.name}?`, "Its name may be given again; what it has used stays under it.", "Remove")) && done(post("api/key-remove", { name: data.name })),
};

async function examine(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  const held = await post("api/doctor", { name: file.name, data: btoa(text) });
  document.getElementById("checked").replaceChildren(build(held.tree));
}

export function act() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-action]");
    const go = ACTIONS[button?.dataset.action];
    if (!go) return;
    try {
      await go(button.dataset);
    } catch (error) {
      tell(error.message, "bad");
    }
  });
  const zone = document.getElementById("drop");
  if (!zone) return;
  const take = (file) => file && examine(file).catch((error) => tell(error.message, "bad"));
  document.getElementById("file").addEventListener("change", (event) => take(event.target.files[0]));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });
}

export function openMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.drop[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
}
