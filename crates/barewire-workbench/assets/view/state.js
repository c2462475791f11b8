// The fragment of the URL <-> what the page shows. Everything that a user chooses is in the URL, so "back" works and a link
// shows a colleague the same.

import { link, setTarget } from "./dom.js";

/** @typedef {import("./types").View} View */

const DEFAULTS = Object.freeze({ s: "", tab: "frames", c: "", q: "", f: 0, fold: true, x: "", t: "", a: "", b: "" });

/** The tabs of this page. @type {readonly string[]} */
let knownTabs = [DEFAULTS.tab];
/** Returns what can be shown instead of what the URL says. @type {(view: View) => View} */
let correct = (view) => view;
/** @type {View} */
let current = { ...DEFAULTS };
/** @type {((view: View, before: View) => void)[]} */
const listeners = [];

/**
 * Returns the part of the URL that shows `view`.
 * @param {View} view
 */
function fragment(view) {
  const params = new URLSearchParams();
  if (view.s) params.set("s", view.s);
  if (view.tab !== DEFAULTS.tab) params.set("tab", view.tab);
  for (const name of /** @type {const} */ (["c", "q", "x", "t", "a", "b"])) if (view[name]) params.set(name, view[name]);
  if (view.f) params.set("f", String(view.f));
  if (!view.fold) params.set("fold", "0");
  return `#${params}`;
}

/**
 * @param {string} text
 * @returns {View}
 */
function parseFragment(text) {
  const params = new URLSearchParams(text.replace(/^#/, ""));
  const place = params.get("f") ?? "";
  const tab = params.get("tab") ?? "";
  return {
    s: params.get("s") ?? "",
    tab: knownTabs.includes(tab) ? tab : DEFAULTS.tab,
    c: params.get("c") ?? "",
    q: params.get("q") ?? "",
    f: /^e\d{1,10}$/.test(place) ? place : /^\d{1,15}$/.test(place) ? Number(place) : 0,
    fold: params.get("fold") !== "0",
    x: params.get("x") ?? "",
    t: params.get("t") ?? "",
    a: params.get("a") ?? "",
    b: params.get("b") ?? "",
  };
}

/**
 * Returns the place of a row; 0 if it cannot be opened.
 * @param {import("./types").Row} row
 * @returns {import("./types").RowPlace}
 */
export function placeOf(row) {
  return row.frame ?? (row.event === null ? 0 : row.key);
}

/** Returns what the page shows. */
export function view() {
  return current;
}

/** The links of the page, each with what it changes. @type {WeakMap<Element, Partial<View>>} */
const changes = new WeakMap();

/**
 * Creates a link that shows the current view with a change. The view can be another one when the link is used, so its
 * address is made again before anything can read it.
 * @param {Partial<View>} change
 * @param {Parameters<typeof link>[1]} props
 * @param {...Parameters<typeof link>[2]} children
 */
export function viewLink(change, props, ...children) {
  const element = link(fragment({ ...current, ...change }), props, ...children);
  changes.set(element, change);
  return element;
}

for (const name of ["pointerover", "pointerdown", "touchstart", "focusin", "contextmenu", "dragstart", "click", "auxclick"]) {
  document.addEventListener(
    name,
    (event) => {
      const element = event.target instanceof Element ? event.target.closest("a") : null;
      const change = element && changes.get(element);
      if (change) setTarget(element, fragment({ ...current, ...change }));
    },
    { capture: true, passive: true },
  );
}

/**
 * Changes what the page shows. A change of place can be undone with "back"; one that replaces the place cannot.
 * @param {Partial<View>} change
 * @param {{replace?: boolean}} [how]
 */
export function show(change, how) {
  const next = { ...current, ...change };
  const target = fragment(next);
  if (target === fragment(current)) return;
  if (how?.replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  become(next);
}

/**
 * Calls `listener` after every change.
 * @param {(view: View, before: View) => void} listener
 */
export function onView(listener) {
  listeners.push(listener);
}

/**
 * Reads the URL, and follows it from now on. Returns the token that was in it, which is removed from it.
 * @param {readonly string[]} tabs
 * @param {(view: View) => View} correction
 * @param {(token: string) => void} enter called with a token that comes later: the URL of another program was pasted
 */
export function startView(tabs, correction, enter) {
  knownTabs = tabs;
  correct = correction;
  const params = new URLSearchParams(location.hash.slice(1));
  const token = params.get("token");
  current = parseFragment(location.hash);
  history.replaceState(null, "", fragment(current));
  // `hashchange` also comes after a link and after an edit of the address; `popstate` comes with both.
  window.addEventListener("popstate", () => {
    const later = new URLSearchParams(location.hash.slice(1)).get("token");
    if (later) enter(later);
    const next = correct(parseFragment(location.hash));
    // An address that was edited can say what does not exist.
    history.replaceState(null, "", fragment(next));
    become(next);
  });
  return token;
}

/** @param {View} next */
function become(next) {
  const before = current;
  current = next;
  for (const listener of listeners) listener(next, before);
}
