// Every key has a control that can be seen and pressed as well.
import { pause, showNewer } from "./live.js";

const rows = () => [...document.querySelectorAll("[data-row], [data-item]")].filter((row) => row.offsetParent !== null);
let chosen = null;

function select(row, focus = true) {
  if (!row) return;
  chosen?.classList.remove("at");
  chosen = row;
  row.classList.add("at");
  const link = row.querySelector("a, button, select");
  if (focus) (row.matches("tr") && link ? link : row).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function step(by) {
  const all = rows();
  const nav = document.querySelector(`[data-nav="${by > 0 ? "j" : "k"}"]`);
  if (!all.length) return nav?.click();
  const at = chosen ? all.indexOf(chosen) : all.findIndex((row) => row.contains(document.activeElement));
  select(all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))]);
}

function next(kind, by) {
  const marks = [...document.querySelectorAll(kind)];
  if (!marks.length) return;
  for (const mark of marks) mark.closest("details")?.setAttribute("open", "");
  const now = marks.findIndex((mark) => mark.classList.contains("here"));
  marks[now]?.classList.remove("here");
  const to = marks[(now + by + marks.length) % marks.length];
  to.classList.add("here");
  to.scrollIntoView({ block: "center" });
  if (to.hasAttribute("tabindex")) to.focus({ preventScroll: true });
}

function fold(name) {
  const place = document.getElementById("req");
  if (!place) return;
  const hidden = place.classList.toggle(`no-${name}`);
  document.querySelector(`[data-fold="${name}"]`)?.setAttribute("aria-expanded", String(!hidden));
}

function help() {
  const dialog = document.getElementById("help");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

function press(key) {
  const inside = chosen?.querySelector(`[data-key="${key}"]`);
  (inside ?? document.querySelector(`main [data-key="${key}"]`))?.click();
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  n: () => next("[data-mark]:not([data-mark=''] option), [data-change]", 1),
  N: () => next("[data-mark]:not([data-mark=''] option), [data-change]", -1),
  x: () => next("[data-seam]", 1),
  1: () => fold("client"),
  2: () => fold("canonical"),
  3: () => fold("provider"),
  4: () => fold("answer"),
  p: pause,
  ".": showNewer,
  "?": help,
  d: () => document.querySelector('[data-nav="d"]')?.click(),
  f: () => document.querySelector('[data-action="fork"]')?.click(),
  r: () => document.querySelector('summary[data-key="r"]')?.click(),
  s: () => (chosen?.matches("tr[data-href]") && !chosen.querySelector('[data-key="s"]') ? (location.href = chosen.dataset.href) : press("s")),
  o: () => press("o"),
  c: () => press("c"),
  y: () => navigator.clipboard?.writeText(location.href),
};

export function keyboard() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.matches("input, textarea, select");
    if (event.key === "Escape") {
      const filter = document.getElementById("filter");
      if (document.querySelector("dialog[open]")) return;
      const menu = document.querySelector("details.drop[open]");
      if (menu) {
        menu.open = false;
        menu.querySelector("summary").focus();
        return;
      }
      if (filter && filter.value) {
        filter.value = "";
        filter.form.requestSubmit();
      } else if (typing) event.target.blur();
      else document.querySelector(".crumb a:last-of-type")?.click();
      return;
    }
    if (typing) return;
    if (event.key === "/") {
      const filter = document.getElementById("filter");
      if (filter) {
        event.preventDefault();
        filter.focus();
      }
      return;
    }
    if (event.key === "Enter" && chosen?.dataset.href && !event.target.matches("a, button, summary")) {
      location.href = chosen.dataset.href;
      return;
    }
    const act = KEYS[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
  document.addEventListener("click", (event) => {
    const key = event.target.closest("header [data-key], #newer")?.dataset.key;
    if (key) KEYS[key]?.();
    const column = event.target.closest("[data-fold]")?.dataset.fold;
    if (column) fold(column);
    const tab = event.target.closest("[data-tab]");
    if (tab) {
      document.getElementById("req").dataset.show = tab.dataset.tab;
      for (const one of tab.parentElement.children) one.setAttribute("aria-pressed", String(one === tab));
    }
    if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
    const row = event.target.closest("tr[data-href]");
    if (row && !event.target.closest("a, button, summary, label, input, select") && !String(getSelection())) location.href = row.dataset.href;
  });
}
