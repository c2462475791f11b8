// The URL, the sources and the keys -> what is shown where. The page starts here.

import { append, attribute, byId, el, link, notice, remember, remembered, replace, say, setText } from "./dom.js";
import { count } from "./format.js";
import { embeddedData, fileApi } from "./api-file.js";
import { isAborted, programApi, wordsOf } from "./api.js";
import { onView, show, startView, view } from "./state.js";
import { shortName, showConversations } from "./conversations.js";
import { Frames, hiddenByFilter, queryOf } from "./frames.js";
import { Detail } from "./detail.js";
import { TimelineTab } from "./timeline.js";
import { showStatistics } from "./statistics.js";
import { goToFinding, showFindings } from "./findings.js";
import { Questions } from "./questions.js";
import { DriveTab } from "./drive.js";
import { showComparison } from "./compare.js";
import { openHelp, startKeys } from "./keys.js";

/**
 * @typedef {import("./types").Source} Source
 * @typedef {import("./types").View} View
 */

const TABS = /** @type {const} */ ([["frames", "Frames"], ["timeline", "Timeline"], ["statistics", "Statistics"], ["findings", "Findings"], ["drive", "Drive"], ["compare", "Compare"]]);
const EXPORTS = /** @type {const} */ ([["wire", "Capture (.wire)"], ["har", "HAR"], ["svg", "Diagram (SVG)"], ["mermaid", "Diagram (Mermaid)"], ["otlp", "Traces (OTLP)"], ["html", "This page as a file (HTML)"]]);
/** Sources that a banner names. */
const MOST_NAMED = 5;
/** How often statistics and similar are computed again while frames arrive, in milliseconds. */
const SLOW_REFRESH = 1000;

const embedded = embeddedData();
const api = embedded ? fileApi(embedded) : programApi();
/** @type {Source[]} */
let sources = [];
/** What was last known of the sources, to see what changed. */
let known = new Map();
let slowTimer = 0;
/** Runs until what was typed into the filter is applied. */
let filterTimer = 0;

const frames = new Frames(api);
const timeline = new TimelineTab(api);
const questions = new Questions(api);
const drive = new DriveTab(api, questions, () => sources);
const detail = new Detail(api, (frame) => frames.highlight(frame?.operation?.number ?? frame?.row.op ?? null), editFrame);

/** Returns the source that is shown. */
function currentSource() {
  return sources.find((source) => String(source.id) === view().s);
}

/** Puts the selected frame into the editor, if its source can be driven. */
async function editFrame() {
  if (!detail.drivable) return;
  try {
    const edited = await detail.editable();
    if (!edited) return;
    show({ tab: "drive" });
    drive.edit(edited.text, edited.warnings);
  } catch (error) {
    notice(wordsOf(error));
  }
}

function makeTabs() {
  const tabs = TABS.filter(([name]) => api.live || (name !== "drive" && name !== "compare"));
  const buttons = tabs.map(([name, label], index) => el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, title: `${label} (${index + 1})`, onclick: () => show({ tab: name }) }, label, el("span", { class: "tab-count", "aria-hidden": "true" })));
  replace(byId("tabs"), ...buttons);
  byId("tabs").addEventListener("keydown", (event) => {
    const index = tabs.findIndex(([name]) => name === view().tab);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step ? (index + step + tabs.length) % tabs.length : event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : -1;
    if (next < 0) return;
    event.preventDefault();
    show({ tab: tabs[next][0] });
    buttons[next].focus();
  });
  return tabs.map(([name]) => name);
}

/** Shows the tab of the view. */
function showTab() {
  const { tab } = view();
  for (const [name] of TABS) {
    const chosen = name === tab;
    byId(`panel-${name}`).hidden = !chosen;
    const control = document.getElementById(`tab-${name}`);
    if (control) {
      attribute(control, "aria-selected", chosen);
      attribute(control, "tabindex", chosen ? 0 : -1);
    }
  }
  fillTab();
}

/** Loads what the tab shows, again if it was loaded before. */
function fillTab() {
  const source = currentSource();
  switch (view().tab) {
    case "timeline":
      timeline.show(source);
      break;
    case "statistics":
      showStatistics(api);
      break;
    case "findings":
      showFindings(api);
      break;
    case "drive":
      drive.show(source);
      break;
    case "compare":
      showComparison(api, sources);
      break;
  }
}

/**
 * Returns the view with another source if there is none with its number.
 * @param {View} wanted
 * @returns {View}
 */
function withSource(wanted) {
  if (sources.length === 0 || sources.some((source) => String(source.id) === wanted.s)) return wanted;
  const s = String((sources.find((each) => each.drivable) ?? sources[0]).id);
  return { ...wanted, s, c: "", ...(wanted.s ? { f: 0, x: "", t: "" } : {}) };
}

/** @param {View} shown @param {View} before */
function viewChanged(shown, before) {
  /** @param {...keyof View} names */
  const changed = (...names) => names.some((name) => shown[name] !== before[name]);
  const other = changed("s", "c", "q", "fold");
  if (other) {
    frames.reset();
    timeline.reset();
  } else if (changed("x")) {
    frames.refresh();
  }
  if (changed("s", "f")) detail.show();
  if (changed("f") && !other) frames.select();
  if (changed("tab")) showTab();
  else if (other || changed("a", "b")) fillTab();
  else if (shown.tab === "timeline" && (changed("f") || (changed("t") && timeline.range !== shown.t))) timeline.show(currentSource());
  if (changed("s", "c", "tab", "q", "f", "x", "t")) showConversations(sources);
  const filter = /** @type {HTMLInputElement} */ (byId("filter"));
  // What is being typed is not replaced by what it will replace.
  if (changed("q") && (filterTimer === 0 || shown.q === "") && filter.value.trim() !== shown.q) {
    clearTimeout(filterTimer);
    filterTimer = 0;
    filter.value = shown.q;
  }
  showSource();
  if (changed("s", "c") && matchMedia("(max-width: 1100px)").matches) toggleConversations(false);
}

/** @param {import("./types").Sources} message */
function sourcesChanged(message) {
  sources = message.sources;
  showUnredacted(message.redacted);
  show(withSource(view()), { replace: true });
  showConversations(sources);
  showSource();
  const source = currentSource();
  const before = known.get(view().s);
  const now = source ? JSON.stringify([source.frames, source.state, source.operations, source.findings, source.last]) : "";
  known.set(view().s, now);
  if (before === undefined && detail.isMissing) detail.show();
  if (before === undefined) fillTab();
  else if (before !== now) {
    frames.refresh();
    detail.refresh();
    slowTimer ||= window.setTimeout(() => {
      slowTimer = 0;
      fillTab();
    }, SLOW_REFRESH);
  }
  detail.drivable = source?.drivable ?? false;
  if (view().tab === "drive") drive.show(source);
  const asking = sources.find((each) => (each.questions ?? 0) > 0) ?? (questions.open ? sources.find((each) => String(each.id) === questions.source) : undefined);
  if (asking) questions.look(String(asking.id));
}

/**
 * Says whose secrets the page shows.
 * @param {boolean} redacted
 */
function showUnredacted(redacted) {
  const banner = byId("not-redacted");
  const unredacted = sources.filter((source) => source.unredacted).map((source) => shortName(source, sources));
  banner.hidden = redacted && unredacted.length === 0;
  const names = unredacted.length > MOST_NAMED ? [...unredacted.slice(0, MOST_NAMED), `${unredacted.length - MOST_NAMED} more`] : unredacted;
  const words = redacted ? `Secrets of ${names.join(", ")} are not redacted: this page shows them as they were sent.` : "Secrets are not redacted: this page shows them as they were sent (--no-redact).";
  if (banner.textContent !== words) setText(banner, words);
}

/** Shows the state of the source in the top bar, in the tabs and in the title. */
function showSource() {
  const source = currentSource();
  const state = byId("state");
  if (!source) {
    setText(state, sources.length ? "" : api.live ? "no source" : "");
    return;
  }
  const reading = source.state === "reading" && source.progress?.total ? `reading ${Math.floor((100 * source.progress.read) / source.progress.total)} %` : source.state;
  state.dataset.state = source.state;
  setText(state, reading);
  document.title = `${shortName(source, sources)} – barewire view`;
  /** @param {string} tab @param {number} value */
  const badge = (tab, value) => {
    const element = document.querySelector(`#tab-${tab} .tab-count`);
    if (element) setText(element, value ? count(value) : "");
  };
  badge("frames", source.frames);
  badge("findings", source.findings);
  const lost = byId("connection");
  if (lost.dataset.by !== "program") {
    lost.hidden = source.state !== "lost" && source.state !== "failed";
    if (!lost.hidden) setText(lost, source.state === "lost" ? `The tap is lost${source.note ? `: ${source.note}` : ""}.` : `${source.name}: ${source.note ?? "cannot be read"}`);
  }
  showExports(source);
}

/** @param {Source} source */
function showExports(source) {
  const menu = byId("export");
  const links = EXPORTS.map(([format, label]) => ({ label, address: api.exportAddress(String(source.id), format, queryOf(view())) }));
  menu.hidden = links.every((each) => each.address === null);
  const list = byId("export-list");
  const key = JSON.stringify(links);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  replace(list, ...links.flatMap(({ label, address }) => (address === null ? [] : [el("li", null, link(address, { download: true }, label))])));
  if (view().q || view().c) append(list, el("li", { class: "facts" }, "Only what the filter shows, and the other half of each request and response"));
}

/** @param {import("./types").Connection} state */
function connectionChanged(state) {
  const banner = byId("connection");
  if (state === "connected") {
    if (banner.dataset.by !== "program") return;
    delete banner.dataset.by;
    banner.hidden = true;
    say("Connected again");
    if (view().s) {
      known.clear();
      frames.refresh();
      detail.show();
      fillTab();
    }
    return;
  }
  banner.dataset.by = "program";
  banner.hidden = false;
  setText(banner, state === "lost" ? "barewire does not answer: it has ended, or the connection is lost. Trying again…" : "barewire does not know this page: open the URL that it has printed.");
}

/** @param {boolean} [open] */
function toggleConversations(open) {
  const now = document.body.classList.toggle("has-nav", open);
  attribute(byId("nav-button"), "aria-expanded", now);
  if (now) /** @type {HTMLElement | null} */ (byId("conversations").querySelector("a"))?.focus();
}

function startFilter() {
  const filter = /** @type {HTMLInputElement} */ (byId("filter"));
  // The filter that typing began with, and where it has led: "back" leaves out what was between them.
  let typed = "";
  let isTyping = false;
  const apply = () => {
    clearTimeout(filterTimer);
    filterTimer = 0;
    const q = filter.value.trim();
    if (q === view().q) return;
    show({ q }, { replace: isTyping && view().q === typed });
    [typed, isTyping] = [q, true];
  };
  filter.value = view().q;
  filter.addEventListener("input", () => {
    clearTimeout(filterTimer);
    filterTimer = window.setTimeout(apply, filter.value === "" ? 0 : 250);
  });
  filter.addEventListener("blur", () => {
    isTyping = false;
  });
  byId("filter-form").addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
    isTyping = false;
    if (view().tab === "frames") frames.grid.focus();
  });
}

function startSplitter() {
  const splitter = byId("splitter");
  const layout = byId("layout");
  /** @param {number} percent */
  const set = (percent) => {
    const value = Math.round(Math.max(15, Math.min(80, percent)));
    layout.style.setProperty("--detail", `${value}%`);
    attribute(splitter, "aria-valuenow", value);
    remember("split", String(value));
  };
  const narrow = matchMedia("(max-width: 1100px)");
  const orient = () => attribute(splitter, "aria-orientation", narrow.matches ? "horizontal" : "vertical");
  narrow.addEventListener("change", orient);
  orient();
  set(Number(remembered("split")) || 42);
  splitter.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 3, ArrowUp: 3, ArrowRight: -3, ArrowDown: -3 }[event.key];
    if (!step) return;
    event.preventDefault();
    set(Number(splitter.getAttribute("aria-valuenow")) + step);
  });
  splitter.addEventListener("pointerdown", (down) => {
    splitter.setPointerCapture(down.pointerId);
    const box = layout.getBoundingClientRect();
    /** @param {PointerEvent} event */
    const move = (event) => set(narrow.matches ? (100 * (box.bottom - event.clientY)) / box.height : (100 * (box.right - event.clientX)) / box.width);
    splitter.addEventListener("pointermove", move);
    splitter.addEventListener("pointerup", () => splitter.removeEventListener("pointermove", move), { once: true });
  });
}

/** Closes what is open: a menu, the list of conversations, the filter, the frame. */
function escape() {
  const menu = /** @type {HTMLDetailsElement} */ (byId("export"));
  const filter = byId("filter");
  if (menu.open) {
    menu.open = false;
    menu.querySelector("summary")?.focus();
  } else if (document.body.classList.contains("has-nav")) {
    toggleConversations(false);
    byId("nav-button").focus();
  } else if (document.activeElement === filter) {
    if (view().q) show({ q: "" });
    else frames.grid.focus();
  } else if (byId("detail").contains(document.activeElement) && view().tab === "frames" && !matchMedia("(max-width: 640px)").matches) {
    frames.grid.focus();
  } else if (view().f) {
    show({ f: 0 });
    if (view().tab === "frames") frames.grid.focus();
  }
}

/** Goes from a request to its response, also if the filter hides it. */
async function goToPartner() {
  detail.partner();
  const { s: source, f: frame } = view();
  const { index, op } = await api.find(source, queryOf(view()), frame);
  if (index === null && op === null) hiddenByFilter(frame);
}

async function start() {
  const names = makeTabs();
  const token = startView(names, withSource, (later) => api.enter(later).catch((error) => notice(wordsOf(error))));
  onView(viewChanged);
  startFilter();
  startSplitter();
  byId("nav-button").addEventListener("click", () => toggleConversations());
  /** @param {number} rows */
  const move = (rows) => () => view().tab === "frames" && frames.move(rows);
  startKeys([
    { keys: ["/"], label: "Go to the filter", run: () => byId("filter").focus() },
    { keys: ["j"], label: "Next row", run: move(1) },
    { keys: ["k"], label: "Previous row", run: move(-1) },
    { keys: ["p"], label: "From a request to its response, and back", run: goToPartner },
    { keys: ["n"], label: "Next finding", run: () => goToFinding(api, 1) },
    { keys: ["N"], label: "Previous finding", run: () => goToFinding(api, -1) },
    { keys: ["f"], label: "Fold or unfold all rows", run: () => show({ fold: !view().fold, x: "" }) },
    { keys: ["F"], label: "Follow: stay at the newest frame", run: () => frames.toggleFollow() },
    { keys: ["g"], label: "First row", run: () => frames.list.moveTo(0) },
    { keys: ["G"], label: "Last row", run: () => frames.list.moveTo(frames.list.total - 1) },
    { keys: ["w"], label: "Make the frame's pane wide, or narrow again", run: () => document.body.classList.toggle("wide-detail") },
    { keys: ["r"], label: "Edit the frame and send it again", run: editFrame },
    { keys: ["b"], label: "Show or hide the conversations, if the page is narrow", run: () => toggleConversations() },
    { keys: ["e"], label: "Export", run: () => openExport() },
    ...names.map((name, index) => ({ keys: [String(index + 1)], label: `Tab ${TABS.find(([each]) => each === name)?.[1]}`, run: () => showTabOf(name) })),
    { keys: ["Escape"], label: "Close what is open; back to the list", run: escape },
    { keys: ["?"], label: "This list", run: openHelp },
  ]);
  setText(byId("notes"), api.notes.join(" "));
  byId("notes").hidden = api.notes.length === 0;
  if (token) {
    try {
      await api.enter(token);
    } catch (error) {
      connectionChanged("refused");
      say(wordsOf(error));
    }
  }
  detail.isUnread = (id, place) => {
    const source = sources.find((each) => String(each.id) === id);
    return typeof place === "number" && (source ? source.state === "reading" && place > source.frames : sources.length === 0);
  };
  // Without the cookie, which the token is exchanged for, nothing can be loaded.
  showTab();
  detail.show();
  api.follow(sourcesChanged, connectionChanged);
  if (view().s) frames.reset();
}

function openExport() {
  const menu = /** @type {HTMLDetailsElement} */ (byId("export"));
  menu.open = true;
  menu.querySelector("a")?.focus();
}

/** @param {string} name */
function showTabOf(name) {
  show({ tab: name });
  byId(`tab-${name}`).focus();
}

start().catch((error) => {
  if (!isAborted(error)) setText(byId("state"), wordsOf(error));
});
