// Two sources -> their operations side by side, with what differs.

import { append, byId, el, replace } from "./dom.js";
import { counted, duration } from "./format.js";
import { wordsOf } from "./api.js";
import { shortName } from "./conversations.js";
import { viewLink, show, view } from "./state.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").Source} Source
 * @typedef {import("./types").ComparedOperation} ComparedOperation
 * @typedef {import("./types").ComparedSide} ComparedSide
 */

/** Operations that are shown at once. */
const MOST_COMPARED = 1000;
let onlyDifferent = true;
let comparedKey = "";

const DIFFERENCE = { same: "same", different: "differs", "only-a": "only left", "only-b": "only right" };

/**
 * Shows the comparison of the view.
 * @param {Api} api
 * @param {Source[]} sources
 */
export async function showComparison(api, sources) {
  const panel = byId("panel-compare");
  const shown = view();
  const ids = sources.map((source) => String(source.id));
  const a = ids.includes(shown.a) ? shown.a : shown.s;
  const b = ids.includes(shown.b) ? shown.b : (ids.find((id) => id !== a) ?? "");
  const key = JSON.stringify([a, b, onlyDifferent, sources.map((source) => [source.id, source.name])]);
  if (key === comparedKey && panel.childElementCount) return;
  comparedKey = key;
  if (sources.length < 2) {
    replace(panel, el("p", { class: "empty" }, "Open two captures to compare them: barewire view FILE FILE"));
    return;
  }
  /** @param {"a" | "b"} side @param {string} value */
  const chooser = (side, value) => {
    const select = el("select", { "aria-label": side === "a" ? "Left" : "Right" }, sources.map((source) => el("option", { value: source.id, selected: String(source.id) === value }, shortName(source, sources))));
    select.addEventListener("change", () => show(side === "a" ? { a: select.value, b } : { a, b: select.value }));
    return select;
  };
  const box = el("input", { type: "checkbox", checked: onlyDifferent });
  box.addEventListener("change", () => {
    onlyDifferent = box.checked;
    showComparison(api, sources);
  });
  const body = el("div", { class: "compared", "aria-busy": "true" }, el("p", { class: "empty" }, "Comparing…"));
  replace(panel, el("div", { class: "toolbar" }, chooser("a", a), el("span", null, "with"), chooser("b", b), el("label", { class: "check" }, box, " Only differences")), body);
  try {
    const comparison = await api.compare(a, b);
    if (comparedKey !== key) return;
    const wanted = comparison.operations.filter((each) => !onlyDifferent || each.state !== "same");
    const counts = Object.entries(DIFFERENCE).map(([state, label]) => `${comparison.operations.filter((each) => each.state === state).length} ${label}`);
    const rows = wanted.slice(0, MOST_COMPARED).map((each) => operationRow(each, a, b));
    const head = el("thead", null, el("tr", null, ["Operation", "", "Left", "", "Right", ""].map((label, index) => el(label ? "th" : "td", label ? { scope: "col", colspan: index === 2 || index === 4 ? 1 : null } : null, label))));
    replace(body, el("p", { class: "facts" }, `${counted(comparison.operations.length, "operation")}: ${counts.join(", ")}`), wanted.length ? el("div", { class: "table-box" }, el("table", { class: "data compare" }, head, el("tbody", null, rows.flat()))) : el("p", { class: "empty" }, "Nothing differs."));
    if (wanted.length > MOST_COMPARED) append(body, el("p", { class: "facts" }, `and ${counted(wanted.length - MOST_COMPARED, "more operation")}`));
    body.setAttribute("aria-busy", "false");
  } catch (error) {
    replace(body, el("p", { class: "empty" }, wordsOf(error)));
  }
}

/**
 * @param {ComparedOperation} operation
 * @param {string} a
 * @param {string} b
 */
function operationRow(operation, a, b) {
  /** @param {ComparedSide | null} side @param {string} source */
  const cells = (side, source) => [
    el("td", { class: "number" }, side?.frame ? viewLink({ s: source, tab: "frames", c: "", q: "", f: side.frame }, null, `frame ${side.frame}`) : ""),
    el("td", { class: "number" }, side ? `${duration(side.latency)} ${side.outcome ?? ""}` : ""),
  ];
  const rows = [el("tr", { class: `state-${operation.state}` }, el("th", { scope: "row" }, operation.title), el("td", null, DIFFERENCE[operation.state] ?? ""), ...cells(operation.a, a), ...cells(operation.b, b))];
  for (const difference of operation.differences.slice(0, 50)) {
    rows.push(el("tr", { class: "difference" }, el("td", { colspan: 2 }, el("code", null, difference.path)), el("td", { colspan: 2 }, el("code", { class: "gone" }, difference.a ?? "absent")), el("td", { colspan: 2 }, el("code", { class: "new" }, difference.b ?? "absent"))));
  }
  return rows;
}
