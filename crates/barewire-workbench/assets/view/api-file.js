// The data in an exported file -> the same answers that the program gives.

import { isFilterSet, matchesRow, parseFilter } from "./filter.js";
import { membersAt, textPart } from "./file-text.js";
import { fileStats, fileTimeline } from "./file-sums.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").FileRow} FileRow
 * @typedef {import("./types").Exported} Exported
 * @typedef {{filter: string, conversation: string}} FileSelection
 */

/** The id of the element that contains the data of an exported file. */
const DATA = "barewire-data";
/** The length of the text of a frame that is shown at first, in bytes. */
const FIRST_TEXT = 65_536;

/** Returns the data of this page, or null if the program serves the page. @returns {Exported | null} */
export function embeddedData() {
  const element = document.getElementById(DATA);
  return element === null ? null : JSON.parse(element.textContent ?? "");
}

/**
 * Returns the answers that are in a file.
 * @param {Exported} data
 * @returns {Api}
 */
export function fileApi(data) {
  const selections = new FileSelections(data);
  /** The bytes of the frame that was asked for last: a tree and a text ask for parts of it. @type {{place: import("./types").RowPlace, bytes: Uint8Array}} */
  let last = { place: 0, bytes: new Uint8Array() };
  /** @param {number} number */
  const frameOf = (number) => {
    const frame = data.frames[String(number)];
    if (!frame) throw new Error(`Frame ${number} is not in this file`);
    return frame;
  };
  /** @param {import("./types").RowPlace} place */
  const placed = (place) => (typeof place === "string" ? eventOf(data, place) : frameOf(place));
  /** @param {import("./types").RowPlace} place */
  const bytesOf = (place) => {
    if (last.place !== place) last = { place, bytes: bytesOfFrame(placed(place)) };
    return last.bytes;
  };
  const cannot = async () => {
    throw new Error("A file cannot do this: use barewire view");
  };
  return {
    live: false,
    notes: data.notes,
    enter: cannot,
    follow: (changed, connected) => {
      connected("connected");
      changed(data.sources);
    },
    rows: async (_source, query, from, count) => {
      const list = selections.list(query);
      const rows = list.slice(from, from + count).map(({ row, depth }) => ({ ...row, children: selections.childrenOf(row), depth }));
      return { total: list.length, final: true, scanned: data.rows.length, from, rows };
    },
    find: async (_source, query, place) => {
      const list = selections.list(query);
      const row = data.rows.find((each) => (each.frame ?? each.key) === place && each.match.part === undefined);
      const index = row ? list.findIndex((each) => each.row === row) : -1;
      if (index >= 0) return { index, op: null };
      const above = query.fold ? selections.above(row) : null;
      const shown = above ? list.findIndex((each) => each.row === above) : -1;
      return shown < 0 ? { index: null, op: null } : { index: shown, op: above?.op ?? null };
    },
    near: async (_source, query, time) => {
      const list = selections.list(query);
      if (list.length === 0) return null;
      const first = data.rows.findIndex((row) => row.time !== null && row.time >= time);
      const index = first < 0 ? -1 : list.findIndex(({ row, depth }) => depth === 0 && selections.place(row) >= first);
      return index < 0 ? list.length - 1 : index;
    },
    frame: async (_source, place) => {
      const frame = placed(place);
      const { text, to } = textPart(bytesOf(place), 0, FIRST_TEXT);
      const copy = { ...frame.copy, json: frame.copied ? frame.text : frame.copy.json };
      return { ...frame, text, text_complete: to === bytesOf(place).length && frame.kept === undefined, copy };
    },
    tree: async (_source, number, at, from, count) => {
      const members = membersAt(bytesOf(number), at, from, count, data.meanings);
      if (members === null) throw new Error(`These members are not in this file: it has only the first ${frameOf(number).kept} bytes of the frame`);
      return members;
    },
    text: async (_source, place, from, count) => {
      const bytes = bytesOf(place);
      // The end of a text that is cut is the end of what is there.
      const start = from < bytes.length ? from : Math.max(0, bytes.length - count);
      const { kept, length } = placed(place);
      return { ...textPart(bytes, start, count), length: kept === undefined ? bytes.length : length };
    },
    timeline: async (_source, { from, to, conversation, filter, width }) => fileTimeline(data, selections.operations({ filter, conversation }), from, to, width),
    stats: async (_source, query) => fileStats(data, selections.operations(query), selections.rows(query)),
    findings: async (_source, query) => {
      if (selections.isAll(query)) return data.findings;
      const frames = new Set(selections.rows(query).map((row) => row.frame));
      const groups = data.findings.groups.flatMap((group) => {
        const places = group.places.filter((place) => place.frame !== null && frames.has(place.frame));
        return places.length ? [{ ...group, party: places[0].side, places, count: places.length }] : [];
      });
      const total = groups.reduce((sum, group) => sum + group.count, 0);
      return { total, kept: total, groups };
    },
    explain: async (word) => data.words[word] ?? null,
    exportAddress: () => null,
    compare: cannot,
    catalog: cannot,
    call: cannot,
    callState: cannot,
    cancel: cannot,
    questions: async () => [],
    answer: cannot,
    complete: cannot,
    send: cannot,
    replay: cannot,
    replayState: cannot,
  };
}

/**
 * Returns an event like a frame.
 * @param {Exported} data
 * @param {string} key
 * @returns {import("./types").FileFrame}
 */
function eventOf(data, key) {
  const row = data.rows.find((each) => each.key === key && each.frame === null);
  if (!row) throw new Error("This event is not in this file");
  const known = data.frames[key] ?? {
    row, length: row.size ?? 0, lossy: false, invalid: null, tree: [], explanation: null, http: null, schema: [],
    marks: [], findings: [], operation: null, elements: [], prev: null, next: null, copy: { json: null, call: null, curl: null },
  };
  return { ...known, text: row.match.text ?? row.preview, explanation: row.match.lost ? "Only the beginning of the text is in this file." : known.explanation };
}

/**
 * Returns the bytes of a frame, as far as the file has them.
 * @param {Exported["frames"][string]} frame
 */
function bytesOfFrame(frame) {
  return frame.bytes === undefined ? new TextEncoder().encode(frame.text) : Uint8Array.from(atob(frame.bytes), (c) => c.charCodeAt(0));
}

/** What filters, conversations and folding show of the rows of a file. */
class FileSelections {
  /** @param {Exported} data */
  constructor(data) {
    this.data = data;
    /** The rows below each row, in their order. @type {Map<FileRow, FileRow[]>} */
    this.below = new Map();
    /** @type {Map<FileRow, number>} */
    this.places = new Map(data.rows.map((row, place) => [row, place]));
    for (const row of data.rows) {
      const above = this.above(row);
      const rows = above && this.below.get(above);
      if (rows) rows.push(row);
      else if (above) this.below.set(above, [row]);
    }
    // The list asks for one page after the other.
    this.found = { key: "", rows: /** @type {FileRow[]} */ ([]) };
    this.listed = { key: "", rows: /** @type {{row: FileRow, depth: number}[]} */ ([]) };
  }

  /** Returns the row that this one is folded below. @param {FileRow | undefined} row */
  above(row) {
    return row?.match.above === undefined ? null : this.data.rows[row.match.above];
  }

  /** Returns the place of a row among all. @param {FileRow} row */
  place(row) {
    return this.places.get(row) ?? 0;
  }

  /** @param {FileRow} row */
  childrenOf(row) {
    return this.below.get(row)?.length ?? 0;
  }

  /** @param {FileSelection} selection */
  isAll(selection) {
    return selection.conversation === "" && !isFilterSet(parseFilter(selection.filter));
  }

  /** Returns the rows that a filter and a conversation select, folded or not. @param {FileSelection} selection */
  rows({ filter, conversation }) {
    const key = JSON.stringify([filter, conversation]);
    if (this.found.key === key) return this.found.rows;
    const parsed = parseFilter(filter);
    const rows = this.data.rows.filter((row) => (conversation === "" || row.conversation === conversation) && matchesRow(parsed, row, () => this.#text(row)));
    this.found = { key, rows };
    return rows;
  }

  /** Returns the numbers of the operations that have a selected row. @param {FileSelection} selection */
  operations({ filter, conversation }) {
    const isSet = isFilterSet(parseFilter(filter));
    const selected = isSet ? new Set(this.rows({ filter, conversation }).map((row) => row.match.op)) : null;
    const ofConversation = this.data.operations.filter((each) => conversation === "" || each.conversation === conversation);
    return new Set(ofConversation.filter((each) => selected === null || selected.has(each.op)).map((each) => each.op));
  }

  /** Returns the rows of a list, with those below unfolded rows in their places. @param {import("./types").RowQuery} query */
  list(query) {
    const key = JSON.stringify(query);
    if (this.listed.key === key) return this.listed.rows;
    const selected = this.rows(query);
    const all = new Set(selected);
    /** @type {Set<FileRow>} */
    const kept = new Set();
    const isAll = this.isAll(query);
    for (const row of selected) {
      const above = query.fold ? this.above(row) : null;
      // The HTTP heads before a request are folded below it too, although they come first.
      const isFolded = above !== null && (this.place(above) > this.place(row) ? all.has(above) : isAll || kept.has(above));
      if (!isFolded) kept.add(row);
    }
    const unfolded = new Set(query.fold ? query.expand.split(",").filter(Boolean).map(Number) : []);
    const rows = [...kept].flatMap((row) => {
      const isOpen = row.op !== null && unfolded.has(row.op) && this.above(row) === null;
      const below = isOpen ? (this.below.get(row) ?? []).filter((each) => !kept.has(each)) : [];
      return [{ row, depth: 0 }, ...below.map((each) => ({ row: each, depth: 1 }))];
    });
    this.listed = { key, rows };
    return rows;
  }

  /** Returns the text of a row, or null if it is not in the file. @param {FileRow} row */
  #text(row) {
    const { match } = row;
    if (match.lost) return null;
    if (row.frame === null) return match.text ?? "";
    const frame = this.data.frames[String(row.frame)];
    if (!frame) return null;
    if (match.part === undefined && frame.bytes === undefined) return frame.text;
    const bytes = bytesOfFrame(frame);
    // As the program searches: with one replacement character for each sequence that is not UTF-8.
    const [from, length] = match.part ?? [0, bytes.length];
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(from, from + length));
  }
}
