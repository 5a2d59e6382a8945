// Rows change in place; new ones wait until they are asked for. While the tab is hidden nothing is asked: a browser has six
// connections to one host.
import { announce, build } from "./dom.js";

let source = null, last = "", paused = false, away = 0, since = null;
const waiting = new Map();

function show(text, kind) {
  const state = document.getElementById("livestate");
  if (!state) return;
  state.textContent = text;
  document.getElementById("live").dataset.kind = kind;
}

const clock = () => new Date().toLocaleTimeString([], { hour12: false });

function open() {
  if (source || paused || document.hidden) return;
  source = new EventSource(`/segue/inspector/events${last ? `?after=${last}` : ""}`);
  source.addEventListener("hello", () => {
    away = 0;
    show("live", "live");
  });
  source.addEventListener("change", (event) => {
    last = event.lastEventId || last;
    change(JSON.parse(event.data));
  });
  source.addEventListener("resync", () => location.reload());
  source.onerror = () => {
    close();
    if (!since || !away) since = clock();
    away += 1;
    show(`no connection since ${since}`, "away");
    setTimeout(open, Math.min(1000 * 2 ** away, 15000));
  };
}

function close() {
  source?.close();
  source = null;
}

function change(told) {
  const rows = document.getElementById("rows");
  if (!rows) {
    const here = location.pathname.split("/c/")[1]?.split("/")[0];
    if (here && told.rows.some((row) => row.id === decodeURIComponent(here) && !["waiting", "streaming"].includes(row.state))) offer();
    return;
  }
  const figures = document.getElementById("figures");
  if (figures && told.figures) figures.replaceChildren(build(told.figures));
  for (const row of told.rows) {
    const line = rows.querySelector(`[data-row="${CSS.escape(row.id)}"]`);
    if (!line) {
      waiting.set(row.id, row);
      continue;
    }
    const focused = line.contains(document.activeElement);
    line.replaceChildren(...row.cells.map((cell) => build(cell)));
    if (focused) line.querySelector("a")?.focus();
  }
  newer();
}

function newer() {
  const button = document.getElementById("newer");
  if (!button) return;
  button.hidden = waiting.size === 0;
  const text = `${waiting.size} newer conversation${waiting.size === 1 ? "" : "s"}`;
  if (button.textContent !== text && waiting.size) announce(text);
  button.textContent = text;
}

function offer() {
  let place = document.getElementById("offer");
  if (place) return;
  place = document.createElement("p");
  place.id = "offer";
  place.className = "offer";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "aslink";
  button.textContent = "Something new was said: show it";
  button.addEventListener("click", () => location.reload());
  place.append(button);
  document.getElementById("turns")?.after(place);
  announce("Something new was said.");
}

export function showNewer() {
  if (!waiting.size) return;
  const rows = document.getElementById("rows");
  document.querySelector(".empty")?.remove();
  for (const row of waiting.values()) {
    const line = document.createElement("tr");
    line.dataset.row = row.id;
    line.dataset.href = `/segue/inspector/c/${row.id}`;
    line.append(...row.cells.map((cell) => build(cell)));
    rows.prepend(line);
  }
  waiting.clear();
  newer();
}

export function pause() {
  paused = !paused;
  if (paused) {
    close();
    show(`paused at ${clock()}`, "paused");
  } else {
    show("live", "live");
    open();
  }
}

export function follow() {
  open();
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
}
