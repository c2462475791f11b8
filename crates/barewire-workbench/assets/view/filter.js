// One line of text, such as `errors tool:search "two words"` -> a filter, and whether it selects a row of an exported file. The
// program has the same rules in filter/line.rs and its neighbours; interop/view/filters.mjs compares both.

import { ApiError } from "./api.js";

/**
 * @typedef {import("./types").FileRow} FileRow
 * @typedef {{raw: string, at: number}} FilterWord `raw` has its quotes; `at` is its place in the line
 * @typedef {{kinds: string[], direction: string | null, method: string | null, id: FilterId | null, tool: string | null, slowerThan: number | null, errors: boolean, unanswered: boolean, texts: string[]}} Filter
 *   `slowerThan` is in nanoseconds; the texts are without case.
 * @typedef {{number: string | null, string: string}} FilterId
 */

const FILTER_NAMES = ["kind", "direction", "method", "id", "tool", "slower-than", "text"];
const FILTERS_ALLOWED = "filters are kind:, direction:, method:, id:, tool:, slower-than:, text:, errors, unanswered, and words to search for";
const FRAME_KINDS = ["request", "notification", "result", "error", "batch", "invalid", "cut"];
const FILTER_EXAMPLES = /** @type {Record<string, string>} */ ({ kind: "kind:request,error", direction: "direction:>", method: "method:tools/*", id: "id:3", tool: "tool:search", "slower-than": "slower-than:100ms", text: 'text:"two words"' });
const FILTER_SPACE = /[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const SECONDS_IN = /** @type {Record<string, number>} */ ({ us: 1e-6, µs: 1e-6, ms: 1e-3, "": 1, s: 1, m: 60, min: 60, h: 3600 });
const YEAR_IN_SECONDS = 365 * 24 * 3600;

/**
 * Reads a filter.
 * @param {string} text
 * @returns {Filter}
 */
export function parseFilter(text) {
  /** @type {Filter} */
  const filter = { kinds: [], direction: null, method: null, id: null, tool: null, slowerThan: null, errors: false, unanswered: false, texts: [] };
  const line = trimmed(text);
  let at = 0;
  while (at < line.length) {
    if (FILTER_SPACE.test(line[at])) {
      at += 1;
      continue;
    }
    const name = nameAt(line, at);
    const word = wordAt(line, name === null ? at : at + name.length + 1);
    if (name !== null) addCondition(filter, line, at, name, word);
    else if (word.raw === "errors") filter.errors = true;
    else if (word.raw === "unanswered") filter.unanswered = true;
    else filter.texts.push(withoutCase(unquoted(word.raw)));
    at = word.at + word.raw.length;
  }
  return filter;
}

/**
 * Whether a filter has a condition.
 * @param {Filter} filter
 */
export function isFilterSet(filter) {
  return isAboutMessages(filter) || filter.direction !== null || filter.errors || filter.texts.length > 0;
}

/**
 * Whether a filter selects a row.
 * @param {Filter} filter
 * @param {FileRow} row
 * @param {() => string | null} text returns the text of the row, or null if it was not kept
 */
export function matchesRow(filter, row, text) {
  const facts = row.match;
  const inBatch = facts.part !== undefined;
  if (row.frame === null) {
    if (isAboutMessages(filter) || (filter.direction !== null && facts.stream !== filter.direction) || (filter.errors && !facts.failed)) return false;
  } else if (row.kind === "batch" && !inBatch && !filter.kinds.includes("batch")) {
    // A batch is selected by its messages, which have rows of their own; its text has theirs.
    if (isAboutMessages(filter) || filter.direction !== null || filter.errors) return false;
  } else if (
    (filter.kinds.length > 0 && !filter.kinds.includes(row.kind) && !(inBatch && filter.kinds.includes("batch"))) ||
    (filter.direction !== null && facts.stream !== filter.direction) ||
    (filter.method !== null && !(facts.method !== undefined && globMatches(filter.method, facts.method))) ||
    (filter.id !== null && !(facts.ids ?? []).some((id) => isSameId(/** @type {FilterId} */ (filter.id), id))) ||
    (filter.tool !== null && !(facts.tool !== undefined && globMatches(filter.tool, facts.tool))) ||
    (filter.slowerThan !== null && !(row.latency !== null && Math.round(row.latency * 1e6) * 1000 >= filter.slowerThan)) ||
    (filter.errors && !facts.failed) ||
    (filter.unanswered && !facts.open)
  ) {
    return false;
  }
  if (filter.texts.length === 0) return true;
  const whole = text();
  if (whole === null) return false;
  const folded = withoutCase(whole);
  return filter.texts.every((wanted) => folded.includes(wanted));
}

/** @param {Filter} filter */
function isAboutMessages(filter) {
  return filter.kinds.length > 0 || filter.method !== null || filter.id !== null || filter.tool !== null || filter.slowerThan !== null || filter.unanswered;
}

/** @param {string} text */
function trimmed(text) {
  let [from, to] = [0, text.length];
  while (from < to && FILTER_SPACE.test(text[from])) from += 1;
  while (to > from && FILTER_SPACE.test(text[to - 1])) to -= 1;
  return text.slice(from, to);
}

/**
 * Makes an error as the program sends it.
 * @param {string} line
 * @param {number} at
 * @param {string} error
 * @param {string} hint
 */
function filterError(line, at, error, hint) {
  return new ApiError(400, { error, hint, at: new TextEncoder().encode(line.slice(0, at)).length });
}

/**
 * Returns the name of a condition that begins here: lower case letters before a colon. The scheme of a URL is no name.
 * @param {string} line
 * @param {number} at
 */
function nameAt(line, at) {
  const found = /^([a-z-]+):(?!\/\/)/.exec(line.slice(at));
  return found ? found[1] : null;
}

/**
 * Reads up to the next white space; in quotes, up to the closing quote.
 * @param {string} line
 * @param {number} at
 * @returns {FilterWord}
 */
function wordAt(line, at) {
  const quoted = line[at] === '"';
  let closed = false;
  let end = at;
  while (end < line.length && ((quoted && !closed) || !FILTER_SPACE.test(line[end]))) {
    if (closed) {
      const character = String.fromCodePoint(line.codePointAt(end) ?? 0);
      throw filterError(line, end, `\`${character}\` follows the closing quote`, 'put white space between conditions; \\" is a quote in a text');
    }
    closed = quoted && line[end] === '"' && end > at;
    end += quoted && line[end] === "\\" && ['"', "\\"].includes(line[end + 1]) ? 2 : 1;
  }
  if (quoted && !closed) throw filterError(line, at, "the quote is not closed", 'end the text with "; \\" is a quote in a text');
  return { raw: line.slice(at, end), at };
}

/**
 * Returns a word without quotes and escapes.
 * @param {string} raw
 */
function unquoted(raw) {
  const isQuoted = raw.length > 1 && raw.startsWith('"') && raw.endsWith('"');
  return isQuoted ? raw.slice(1, -1).replace(/\\(["\\])/g, "$1") : raw;
}

/**
 * @param {Filter} filter
 * @param {string} line
 * @param {number} at
 * @param {string} name
 * @param {FilterWord} word
 */
function addCondition(filter, line, at, name, word) {
  if (!FILTER_NAMES.includes(name)) {
    const near = nearestName(name, FILTER_NAMES);
    const known = near === null ? "" : `did you mean \`${near}:\`? `;
    throw filterError(line, at, `there is no filter \`${name}:\``, `${known}${FILTERS_ALLOWED}; to search for the text, put it in quotes`);
  }
  if (word.raw === "") throw filterError(line, word.at, `\`${name}:\` has no value`, `for example ${FILTER_EXAMPLES[name]}`);
  const text = unquoted(word.raw);
  /** @template T @param {T | null} before @param {T} value @returns {T} */
  const once = (before, value) => {
    if (before !== null) throw filterError(line, at, `\`${name}:\` is given twice`, "all conditions must hold; one pattern with * matches several names");
    return value;
  };
  switch (name) {
    case "kind": {
      let place = word.at;
      for (const kind of word.raw.split(",")) {
        if (!FRAME_KINDS.includes(kind)) throw filterError(line, place, `there is no kind \`${kind}\``, `kinds are ${FRAME_KINDS.join(", ")}`);
        filter.kinds.push(kind);
        place += kind.length + 1;
      }
      break;
    }
    case "direction": {
      const direction = { ">": ">", "to-server": ">", "<": "<", "to-client": "<" }[text];
      if (direction === undefined) throw filterError(line, word.at, `there is no direction \`${text}\``, "directions are > or to-server, and < or to-client");
      filter.direction = once(filter.direction, direction);
      break;
    }
    case "method":
      filter.method = once(filter.method, text);
      break;
    case "id":
      // The quotes of an id are part of it.
      filter.id = once(filter.id, filterIdOf(word.raw));
      break;
    case "tool":
      filter.tool = once(filter.tool, text);
      break;
    case "slower-than":
      filter.slowerThan = once(filter.slowerThan, nanosOf(line, word.at, text));
      break;
    default:
      filter.texts.push(withoutCase(text));
  }
}

/**
 * @param {string} line
 * @param {number} at
 * @param {string} text
 */
function nanosOf(line, at, text) {
  const parts = /^(\d+\.?\d*|\.\d+)(\D*)$/.exec(text);
  const unit = parts && !parts[2].includes(".") && Object.hasOwn(SECONDS_IN, parts[2]) ? SECONDS_IN[parts[2]] : null;
  if (!parts || unit === null) throw filterError(line, at, `\`${text}\` is not a time`, "expected a time such as 100ms, 2s or 1.5 (seconds)");
  const seconds = Number(parts[1]) * unit;
  if (seconds > YEAR_IN_SECONDS) throw filterError(line, at, `\`${text}\` is not a time`, "more than a year");
  return Math.round(seconds * 1e9);
}

/**
 * Whether a whole name matches a pattern in which `*` stands for any characters and `?` for one. It takes at most the length of
 * the pattern times that of the name.
 * @param {string} glob
 * @param {string} name
 */
function globMatches(glob, name) {
  const [pattern, letters] = [[...glob], [...name]];
  let [at, place] = [0, 0];
  // The places behind the last star, and behind what it stands for so far.
  let [behind, matched] = [-1, 0];
  while (place < letters.length) {
    if (pattern[at] === "*") {
      at += 1;
      [behind, matched] = [at, place];
    } else if (at < pattern.length && (pattern[at] === "?" || pattern[at] === letters[place])) {
      at += 1;
      place += 1;
    } else if (behind >= 0) {
      matched += 1;
      [at, place] = [behind, matched];
    } else {
      return false;
    }
  }
  return pattern.slice(at).every((letter) => letter === "*");
}

/**
 * Reads an id as typed: `1` is the number and the text, `"1"` only the text.
 * @param {string} raw
 * @returns {FilterId}
 */
function filterIdOf(raw) {
  const typed = idValue(raw);
  if (typed !== null && raw.startsWith('"')) return { number: null, string: typed };
  return { number: typed, string: JSON.stringify(raw) };
}

/**
 * @param {FilterId} wanted
 * @param {string} id as the peer wrote it
 */
function isSameId(wanted, id) {
  const value = idValue(id);
  return value !== null && (value === wanted.string || value === wanted.number);
}

/**
 * Returns a form of an id that is the same for equal ids, or null if it is none: a text as JSON, or the digits of a number.
 * @param {string} text
 * @returns {string | null}
 */
function idValue(text) {
  if (text.startsWith('"')) {
    try {
      return JSON.stringify(JSON.parse(text));
    } catch {
      return null;
    }
  }
  const parts = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (!parts) return null;
  const [, sign, whole, fraction = "", exponent = "0"] = parts;
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (significant === "") return "0";
  return `${sign}${significant}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - significant.length)}`;
}

/**
 * Returns a text in which letters that differ only by case are the same, letter by letter.
 * @param {string} text
 */
function withoutCase(text) {
  // Upper case first, because some letters have two lower case forms; the sigma at the end of a word is one of them.
  return text.toUpperCase().replaceAll("Σ", "σ").toLowerCase();
}

/**
 * Returns the name that is most similar to `wanted`, if it is similar enough.
 * @param {string} wanted
 * @param {string[]} names
 */
function nearestName(wanted, names) {
  if (wanted.length > 64) return null;
  const near = names.map((name) => /** @type {[number, string]} */ ([editDistance(wanted, name), name])).sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1))[0];
  return near[0] <= Math.max(2, Math.floor(wanted.length / 3)) ? near[1] : null;
}

/**
 * Returns the number of letters that must be added, removed or changed to turn one word into the other.
 * @param {string} a
 * @param {string} b
 */
function editDistance(a, b) {
  const row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 0; i < a.length; i += 1) {
    let diagonal = row[0];
    row[0] = i + 1;
    for (let j = 0; j < b.length; j += 1) {
      const changed = diagonal + (a[i] === b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = Math.min(changed, row[j] + 1, diagonal + 1);
    }
  }
  return row[b.length];
}
