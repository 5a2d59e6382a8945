// Elements of what the server sends as [name, attributes, children], and small words for the rest.
const ALLOWED = new Set("a abbr article aside b button circle code dd details dialog div dl dt em figure footer form g h1 h2 h3 kbd label li line mark nav ol option p path pre rect section select small span strong summary svg table tbody td text th thead time title tr ul".split(" "));
const SVG = new Set("circle g line path rect svg text title".split(" "));
const NAMESPACE = "http://www.w3.org/2000/svg";

export function build(tree, inside = "") {
  if (tree === null || tree === undefined) return document.createTextNode("");
  if (typeof tree === "string") return document.createTextNode(tree);
  const [name, attributes, children] = tree;
  if (name === "") {
    const some = document.createDocumentFragment();
    for (const child of children) some.append(build(child, inside));
    return some;
  }
  if (!ALLOWED.has(name)) return document.createTextNode("");
  const drawn = SVG.has(name) && (name !== "title" || inside !== "");
  const element = drawn ? document.createElementNS(NAMESPACE, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on") || key === "style") continue;
    if ((key === "href" || key === "src") && !/^(\/segue\/inspector\/|#)/.test(value)) continue;
    element.setAttribute(key, value);
  }
  for (const child of children) element.append(build(child, drawn ? name : ""));
  return element;
}

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function announce(text) {
  const place = document.getElementById("announce");
  if (place) place.textContent = text;
}

export async function post(path, body) {
  const token = document.querySelector("meta[name=segue-token]")?.content ?? "";
  const answer = await fetch(`/segue/inspector/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-segue-token": token },
    body: JSON.stringify(body),
  });
  const held = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(held.error ? `${held.error} ${held.hint ?? ""}`.trim() : `Refused (${answer.status}).`), { status: answer.status });
  return held;
}
