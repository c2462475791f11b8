// The data in an exported file -> the same answers that the program gives.

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").Row} Row
 * @typedef {import("./types").Exported} Exported
 */

/** The id of the element that contains the data of an exported file. */
const DATA = "barewire-data";

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
  /** What was selected last, since the list asks for one page after the other. */
  let last = { key: "", rows: /** @type {Row[]} */ ([]) };
  /** @param {import("./types").RowQuery} query */
  const select = (query) => {
    const key = JSON.stringify(query);
    if (last.key !== key) last = { key, rows: folded(filtered(data, query.filter, query.conversation), query) };
    return last.rows;
  };
  /** @param {number} number */
  const frameOf = (number) => {
    const frame = data.frames[String(number)];
    if (!frame) throw new Error(`Frame ${number} is not in this file`);
    return frame;
  };
  /** @param {import("./types").RowPlace} place */
  const placed = (place) => (typeof place === "string" ? eventOf(data, place) : frameOf(place));
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
      const rows = select(query);
      return { total: rows.length, final: true, scanned: data.rows.length, from, rows: rows.slice(from, from + count) };
    },
    find: async (_source, query, place) => {
      /** @param {Row} row */
      const isThere = (row) => (row.frame ?? row.key) === place;
      const index = select(query).findIndex(isThere);
      if (index >= 0) return { index, op: null };
      const hidden = filtered(data, query.filter, query.conversation).find(isThere);
      return { index: null, op: hidden?.op ?? null };
    },
    near: async (_source, query, time) => indexOrNull(select(query).findIndex((row) => (row.time ?? 0) >= time)),
    frame: async (_source, place) => placed(place),
    tree: async (_source, number, at, from, count) => {
      const nodes = frameOf(number).nodes?.[String(at)];
      if (!nodes) throw new Error("These members are not in this file");
      return { nodes: nodes.slice(from, from + count), total: nodes.length };
    },
    text: async (_source, place) => {
      const frame = placed(place);
      return { text: frame.text, from: 0, to: new TextEncoder().encode(frame.text).length, length: frame.length, lossy: frame.lossy };
    },
    timeline: async (_source, { from, to, conversation, filter }) => {
      const { timeline } = data;
      const [start, end] = [from ?? timeline.from, to ?? timeline.to];
      const operations = filter === "" ? null : new Set(filtered(data, filter, conversation).map((row) => row.op));
      const bars = timeline.bars.filter((bar) => bar.start <= end && (bar.end ?? timeline.to) >= start && (conversation === "" || bar.conversation === conversation) && (operations === null || operations.has(bar.op)));
      return { from: start, to: end, lanes: timeline.lanes, bars, buckets: null };
    },
    stats: async () => data.stats,
    findings: async (_source, { filter, conversation }) => (filter || conversation ? findingsOf(filtered(data, filter, conversation), data.findings) : data.findings),
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
 * Returns the findings at these rows.
 * @param {Row[]} rows
 * @param {import("./types").Findings} findings
 */
function findingsOf(rows, findings) {
  const frames = new Set(rows.map((row) => row.frame));
  const groups = findings.groups.map((group) => {
    const places = group.places.filter((place) => place.frame !== null && frames.has(place.frame));
    return { ...group, places, count: places.length };
  });
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  return { total, kept: total, groups: groups.filter((group) => group.count > 0) };
}

/**
 * Returns an event like a frame. A file may have no more of it than its row.
 * @param {Exported} data
 * @param {string} key
 * @returns {import("./types").Frame}
 */
function eventOf(data, key) {
  const row = data.rows.find((each) => each.key === key && each.event !== null);
  if (!row) throw new Error("This event is not in this file");
  const text = row.preview || (row.event ?? "");
  return (
    data.frames[key] ?? {
      row, length: row.size ?? text.length, text, text_complete: true, lossy: false, invalid: null, tree: [], explanation: "This file has the beginning of the text.", http: null, schema: [],
      marks: [], findings: [], operation: null, elements: [], prev: null, next: null, copy: { json: null, call: null, curl: null },
    }
  );
}

/** @param {number} index */
function indexOrNull(index) {
  return index < 0 ? null : index;
}

/**
 * Returns the rows of a conversation that match a filter.
 * @param {Exported} data
 * @param {string} filter
 * @param {string} conversation
 */
function filtered(data, filter, conversation) {
  const conditions = conditionsOf(filter, data);
  return data.rows.filter((row) => (conversation === "" || row.conversation === conversation) && conditions.every((condition) => condition(row)));
}

/**
 * Returns the rows without those below a folded request.
 * @param {Row[]} rows
 * @param {import("./types").RowQuery} query
 */
function folded(rows, query) {
  if (!query.fold) return rows;
  const unfolded = new Set(query.expand.split(",").filter(Boolean).map(Number));
  /** @type {Map<number, Row>} */
  const heads = new Map();
  /** @type {Row[]} */
  const kept = [];
  for (const row of rows) {
    const head = row.op === null ? undefined : heads.get(row.op);
    if (head && (row.role === "progress" || (row.round ?? 1) > 1)) {
      head.children += 1;
      if (unfolded.has(Number(row.op))) kept.push({ ...row, depth: 1 });
      continue;
    }
    const copy = { ...row, children: 0 };
    if (row.op !== null && !head) heads.set(row.op, copy);
    kept.push(copy);
  }
  return kept;
}

/**
 * Reads the one-line filter, as the program does.
 * @param {string} filter
 * @param {Exported} data
 * @returns {((row: Row) => boolean)[]}
 */
function conditionsOf(filter, data) {
  return [...filter.matchAll(/(?:([a-z-]+):)?("(?:[^"\\]|\\.)*"|\S+)/g)].map(([whole, name, word]) => {
    const value = word.startsWith('"') && word.endsWith('"') && word.length > 1 ? word.slice(1, -1) : word;
    switch (name) {
      case undefined:
        if (whole === "errors") return (row) => ["error", "tool-error", "invalid"].includes(row.outcome ?? "") || row.kind === "error" || row.bad;
        if (whole === "unanswered") return (row) => row.role === "request" && row.latency === null && !data.rows.some((each) => each.op === row.op && each.role === "response");
        return containing(value, data);
      case "text":
        return containing(value, data);
      case "kind": {
        const kinds = value.split(",");
        return (row) => kinds.includes(row.kind);
      }
      case "direction": {
        const direction = { "to-server": ">", "to-client": "<" }[value] ?? value;
        return (row) => row.dir === direction;
      }
      case "method":
        return (row) => row.method !== null && globMatches(value, row.method);
      case "tool":
        return (row) => row.method === "tools/call" && row.name !== null && globMatches(value, row.name);
      case "id":
        return (row) => row.id !== null && (String(row.id) === value || JSON.stringify(row.id) === word);
      case "slower-than": {
        const parts = /^([\d.]+)(us|ms|s|m)$/.exec(value);
        if (!parts) throw new Error("slower-than: takes a time, such as 100ms");
        const least = Number(parts[1]) * { us: 1e-6, ms: 1e-3, s: 1, m: 60 }[/** @type {"us"} */ (parts[2])];
        return (row) => row.latency !== null && row.latency >= least;
      }
      default:
        throw new Error(`there is no filter ${name}:`);
    }
  });
}

/**
 * @param {string} word
 * @param {Exported} data
 * @returns {(row: Row) => boolean}
 */
function containing(word, data) {
  const wanted = word.toLowerCase();
  return (row) => (data.frames[String(row.frame)]?.text ?? row.event ?? row.preview).toLowerCase().includes(wanted);
}

/**
 * Whether `text` matches a pattern in which `*` stands for any characters.
 * @param {string} glob
 * @param {string} text
 */
function globMatches(glob, text) {
  const parts = glob.split("*");
  let rest = text;
  for (const [index, part] of parts.entries()) {
    if (index === 0) {
      if (!rest.startsWith(part)) return false;
      rest = rest.slice(part.length);
      if (parts.length === 1) return rest === "";
    } else if (index === parts.length - 1) {
      return rest.endsWith(part);
    } else {
      const at = rest.indexOf(part);
      if (at < 0) return false;
      rest = rest.slice(at + part.length);
    }
  }
  return true;
}
