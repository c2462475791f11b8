// Keys -> actions, and the list of them.

import { append, byId, el, remember, remembered, replace } from "./dom.js";

/**
 * @typedef {{keys: string[], label: string, run: () => void}} Shortcut
 */

/** Whether single letters are shortcuts. Speech input types letters by accident, so they can be switched off. */
let enabled = remembered("keys") !== "off";

/**
 * Starts to listen.
 * @param {Shortcut[]} shortcuts
 */
export function startKeys(shortcuts) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {Element} */ (event.target);
    const typing = target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
    if (typing && event.key !== "Escape") return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key !== "Escape" && !enabled) return;
    const shortcut = shortcuts.find((each) => each.keys.includes(event.key));
    if (!shortcut) return;
    event.preventDefault();
    shortcut.run();
  });
  byId("help-button").addEventListener("click", openHelp);
  fillHelp(shortcuts);
}

/** Opens the list of keys. */
export function openHelp() {
  /** @type {HTMLDialogElement} */ (byId("help")).showModal();
}

/** @param {Shortcut[]} shortcuts */
function fillHelp(shortcuts) {
  /** @type {[string[], string][]} */
  const more = [
    [["Tab"], "Go to the next part of the page"],
    [["↑", "↓", "PgUp", "PgDn", "Home", "End"], "Move in the list of frames, in a tree, between bars"],
    [["→", "←"], "Unfold and fold a row or a member"],
    [["Enter"], "In the list: go to the frame's detail. In the timeline: select the frame"],
    [["+", "-", "0"], "In the timeline: zoom in, out, show all; Shift with → ← pans"],
  ];
  /** @param {string[]} keys @param {string} label */
  const row = (keys, label) => el("tr", null, el("th", { scope: "row" }, keys.flatMap((key, index) => [index ? " " : "", el("kbd", null, key)])), el("td", null, label));
  const table = el("table", { class: "keys" }, el("tbody", null, [...shortcuts.map((each) => row(each.keys.map((key) => (key === "Escape" ? "Esc" : key)), each.label)), ...more.map(([keys, label]) => row(keys, label))]));
  const box = el("input", { type: "checkbox", checked: enabled });
  box.addEventListener("change", () => {
    enabled = box.checked;
    remember("keys", enabled ? "on" : "off");
  });
  const body = byId("help-body");
  replace(body, el("label", { class: "check" }, box, " Single letters are shortcuts"), table);
  const filters = el("table", { class: "keys" }, el("tbody", null, FILTERS.map(([example, label]) => el("tr", null, el("th", { scope: "row" }, el("code", null, example)), el("td", null, label)))));
  append(body, el("h3", null, "Filter"), el("p", null, "All parts must match. The same as the options of barewire read."), filters);
}

const FILTERS = [
  ["kind:request,error", "these kinds: request, notification, result, error, batch, invalid, cut"],
  ["direction:>", "to the server (>) or to the client (<)"],
  ["method:tools/*", "this method, and the responses to it"],
  ["tool:paint", "calls of a tool, with progress, cancellation and response"],
  ["id:6", "messages with this id, and the progress and cancellation of the request"],
  ["slower-than:100ms", "responses that took at least this long"],
  ["errors", "errors, results with isError, invalid frames"],
  ["unanswered", "requests that are neither answered nor cancelled"],
  ['text:"colour"', "frames that contain this text, in upper or lower case"],
];
