// Sources and their conversations -> the list at the left.

import { append, attribute, byId, el, replace } from "./dom.js";
import { count, counted } from "./format.js";
import { viewLink, view } from "./state.js";

/**
 * @typedef {import("./types").Source} Source
 * @typedef {import("./types").Conversation} Conversation
 */

const STATES = { reading: "reading", complete: "", live: "live", ended: "ended", lost: "lost", failed: "failed" };
/** Conversations of one source that are listed. A load test can have thousands. */
const MOST_CONVERSATIONS = 500;
let drawnList = "";

/**
 * Shows the list.
 * @param {Source[]} sources
 */
export function showConversations(sources) {
  const shown = view();
  // The list is left alone if it is the same, so that the focus stays where it is.
  const key = JSON.stringify([sources.map((source) => ({ ...source, bytes: 0, last: 0 })), shown.s, shown.c, shown.tab]);
  if (key === drawnList) return;
  drawnList = key;
  const nav = byId("conversations");
  const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest("#conversations a"))?.dataset.key;
  const blocks = sources.map((source) => sourceBlock(source, sources));
  if (sources.length === 0) blocks.push(el("p", { class: "empty" }, "No tap is running. Start one: barewire tap -- SERVER"));
  replace(nav, ...blocks);
  if (focused !== undefined) {
    for (const entry of nav.querySelectorAll("a")) if (entry.dataset.key === focused) entry.focus();
  }
}

/**
 * Returns the name of a source without its folders; of two sources with one name, both keep theirs.
 * @param {Source} source
 * @param {Source[]} sources
 */
export function shortName(source, sources) {
  const base = (/** @type {Source} */ each) => {
    if (each.kind === "file") return each.name.replace(/^.*[/\\](?=.)/, "");
    // The words of a command, without the folders of programs and scripts.
    return each.name.replace(/(^|\s)\/\S*\/(?=\S)/g, "$1");
  };
  const name = base(source);
  return sources.some((each) => each !== source && base(each) === name) ? source.name : name;
}

/**
 * @param {Source} source
 * @param {Source[]} sources
 */
function sourceBlock(source, sources) {
  const shown = view();
  const id = String(source.id);
  const current = shown.s === id;
  const block = el("section", { class: `source state-${source.state}` });
  const head = viewLink({ s: id, c: "", f: 0, x: "", t: "" }, { class: "source-link", "aria-current": current && shown.c === "" ? "true" : null, "data-key": id, title: source.name }, el("span", { class: `dot ${source.state}`, "aria-hidden": "true" }), el("span", { class: "source-name" }, shortName(source, sources)));
  append(block, head);
  const state = [STATES[source.state], source.kind === "driven" ? "driven from here" : "", source.note ?? ""].filter(Boolean).join(" · ");
  if (state) append(block, el("p", { class: "facts state" }, state));
  if (source.progress && source.state === "reading") append(block, progressBar(source));
  append(block, el("p", { class: "facts" }, countsOf(source.frames, source.failures, source.findings)));
  const listed = source.conversations.slice(0, MOST_CONVERSATIONS);
  // A single conversation is the source, so it needs no link of its own.
  const single = listed.length === 1;
  const list = el("ul", { class: "plain" });
  for (const conversation of listed) append(list, el("li", null, conversationEntry(id, conversation, single)));
  append(block, list);
  if (source.conversations.length > listed.length) append(block, el("p", { class: "facts" }, `and ${counted(source.conversations.length - listed.length, "more conversation")}`));
  return block;
}

/** @param {Source} source */
function progressBar(source) {
  const { read, total } = source.progress ?? { read: 0, total: null };
  const bar = el("progress", { "aria-label": `Reading ${source.name}`, value: total ? read : null });
  attribute(bar, "max", total);
  return bar;
}

/**
 * @param {string} source
 * @param {Conversation} conversation
 * @param {boolean} single
 */
function conversationEntry(source, conversation, single) {
  const shown = view();
  /** @param {import("./types").Software | null} software @param {string} unknown */
  const name = (software, unknown) => (software ? `${software.name}${software.version ? ` ${software.version}` : ""}` : unknown);
  const who = `${name(conversation.client, "client")} → ${name(conversation.server, "server")}`;
  const revision = [conversation.revision ?? "", conversation.era ?? "", conversation.http ? "HTTP" : ""].filter(Boolean).join(" · ");
  const parts = [el("span", { class: "who" }, who), el("span", { class: "facts" }, revision)];
  const ended = conversation.state === "ended" ? (conversation.end ?? "ended") : "running";
  parts.push(el("span", { class: "facts" }, ended));
  if (single) return el("div", { class: "conversation" }, ...parts);
  parts.push(el("span", { class: "facts" }, countsOf(conversation.frames, conversation.failures, conversation.findings)));
  const current = shown.s === source && shown.c === conversation.name;
  return viewLink({ s: source, c: conversation.name, f: 0, x: "", t: "" }, { class: "conversation", "aria-current": current ? "true" : null, "data-key": `${source}/${conversation.name}`, title: conversation.name }, el("span", { class: "facts" }, conversation.name), ...parts);
}

/**
 * @param {number} frames
 * @param {number} failures
 * @param {number} findings
 */
function countsOf(frames, failures, findings) {
  const parts = [counted(frames, "frame")];
  if (failures) parts.push(`${count(failures)} failed`);
  if (findings) parts.push(counted(findings, "finding"));
  return parts.join(", ");
}
