// Findings of the program -> a list by check, each with its fix and the frames where it is.

import { append, byId, el, notice, replace } from "./dom.js";
import { counted, instant } from "./format.js";
import { wordsOf } from "./api.js";
import { viewLink, show, view } from "./state.js";
import { severityClass } from "./detail.js";
import { queryOf } from "./frames.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").Findings} FindingList
 */

/** Findings that are shown without being opened. */
const SHORT_LIST = 12;
/** The checks whose places are shown, by their id. @type {Set<string>} */
const opened = new Set();
let drawnFindings = "";

/**
 * Loads and shows the findings.
 * @param {Api} api
 */
export async function showFindings(api) {
  const { s: source, c, q } = view();
  if (!source) return;
  const panel = byId("panel-findings");
  try {
    const list = await api.findings(source, queryOf(view()));
    const now = view();
    if (now.s !== source || now.c !== c || now.q !== q) return;
    // The list is left alone if it is the same, so that the focus stays where it is.
    const key = JSON.stringify([source, c, q, list]);
    if (key === drawnFindings) return;
    drawnFindings = key;
    fillFindings(panel, list, c !== "" || q !== "");
  } catch (error) {
    drawnFindings = "";
    replace(panel, el("p", { class: "empty" }, wordsOf(error)));
  }
}

/**
 * @param {HTMLElement} panel
 * @param {FindingList} list
 * @param {boolean} isPart
 */
function fillFindings(panel, list, isPart) {
  if (list.groups.length === 0) {
    replace(panel, el("p", { class: "empty" }, isPart ? "No findings in the frames that the filter and the chosen conversation show." : "No findings: everything that was checked is as the specification says."));
    return;
  }
  const words = `${counted(list.total, "finding")} of ${counted(list.groups.length, "check")}${list.kept < list.total ? `; the first ${list.kept} are kept` : ""}`;
  const isShort = list.total <= SHORT_LIST;
  const groups = list.groups.map((group) => {
    const box = el("details", { class: "finding", open: opened.has(group.check) || isShort });
    box.addEventListener("toggle", () => (box.open ? opened.add(group.check) : opened.delete(group.check)));
    append(box, el("summary", null, el("span", { class: `level level-${severityClass(group.severity)}` }, group.severity), " ", el("b", null, group.title), " ", el("span", { class: "facts" }, [`${group.count}×`, group.level ?? "", group.origin ?? "", group.check].filter(Boolean).join(" · "))));
    if (group.fix) append(box, el("p", { class: "fix" }, el("b", null, "Fix: "), group.fix));
    if (group.rule) append(box, el("p", { class: "rule" }, group.rule));
    const places = group.places.map((place) =>
      el(
        "li",
        null,
        place.frame === null ? el("span", { class: "facts" }, "the whole capture") : viewLink({ f: place.frame }, null, `Frame ${place.frame}`),
        el("span", { class: "facts" }, [place.time === null ? "" : ` ${instant(place.time)} s`, place.conversation ?? "", place.side ?? ""].filter(Boolean).join(" · ")),
        " ",
        place.detail,
        place.evidence.length ? el("pre", { class: "excerpt" }, place.evidence.join("\n")) : null,
      ),
    );
    append(box, el("ul", { class: "plain places" }, places));
    if (group.count > group.places.length) append(box, el("p", { class: "facts" }, `and ${counted(group.count - group.places.length, "more place")}`));
    return box;
  });
  replace(panel, el("p", { class: "facts" }, isPart ? `${words}, in what the filter and the chosen conversation show` : words), ...groups);
}

/**
 * Goes to the next frame with a finding, or to the previous one.
 * @param {Api} api
 * @param {1 | -1} step
 */
export async function goToFinding(api, step) {
  const { s: source, f: place } = view();
  const here = typeof place === "number" ? place : 0;
  if (!source) return;
  const { groups } = await api.findings(source, queryOf(view()));
  const frames = [...new Set(groups.flatMap((group) => group.places.map((place) => place.frame ?? 0)))].filter((frame) => frame > 0).sort((a, b) => (a - b) * step);
  if (frames.length === 0) {
    notice(view().q || view().c ? "No frame that is shown has a finding" : "No frame has a finding");
    return;
  }
  show({ f: frames.find((frame) => (frame - here) * step > 0) ?? frames[0] });
}
