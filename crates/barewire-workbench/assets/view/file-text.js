// The bytes of a frame in an exported file -> a part of its text, and the members of its values.

import { visible } from "./dom.js";

/** @typedef {import("./types").Node} FileNode */

/** The longest key and the longest preview of a value, in characters. */
const LONGEST_KEY = 200;
const LONGEST_PREVIEW = 200;
const [QUOTE, BACKSLASH, COMMA, OPEN_BRACKET, OPEN_BRACE, CLOSE_BRACKET, CLOSE_BRACE] = [...'"\\,[{]}'].map((c) => c.charCodeAt(0));

/**
 * Returns bytes as text; those that are not UTF-8 are written as \xHH.
 * @param {Uint8Array} bytes
 */
export function textOfBytes(bytes) {
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    return { text: strict.decode(bytes), lossy: false };
  } catch {
    let text = "";
    for (let at = 0; at < bytes.length; ) {
      let length = 1;
      let character = `\\x${bytes[at].toString(16).padStart(2, "0")}`;
      for (let wanted = 1; wanted <= 4 && at + wanted <= bytes.length; wanted += 1) {
        try {
          character = strict.decode(bytes.subarray(at, at + wanted));
          length = wanted;
          break;
        } catch {
          // More bytes can make it a character.
        }
      }
      text += character;
      at += length;
    }
    return { text, lossy: true };
  }
}

/**
 * Returns a part of a text. It ends where a character ends, unless it is the last one.
 * @param {Uint8Array} bytes
 * @param {number} from
 * @param {number} count
 */
export function textPart(bytes, from, count) {
  let to = Math.min(bytes.length, from + count);
  // A character has at most three bytes behind its first.
  for (let back = 0; to < bytes.length && back < 3 && to > from && (bytes[to] & 0xc0) === 0x80; back += 1) to -= 1;
  return { ...textOfBytes(bytes.subarray(from, to)), from, to };
}

/**
 * Returns the members of the object or array that begins at a byte of a valid message; null if the text ends before it does.
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} from
 * @param {number} count
 * @param {Record<string, string>} meanings
 */
export function membersAt(bytes, at, from, count, meanings) {
  /** @type {FileNode[]} */
  const nodes = [];
  const total = eachMember(bytes, at, (index, keyAt, valueAt, end) => {
    if (index < from || nodes.length >= count) return;
    const name = keyAt < 0 ? null : nameOf(bytes.subarray(keyAt, stringEndOf(bytes, keyAt)));
    nodes.push(nodeOf(bytes, name, index, valueAt, end, meanings));
  });
  return total === null ? null : { nodes, total };
}

/**
 * @param {Uint8Array} bytes
 * @param {string | null} name
 * @param {number} index
 * @param {number} at
 * @param {number} end
 * @param {Record<string, string>} meanings
 * @returns {FileNode}
 */
function nodeOf(bytes, name, index, at, end, meanings) {
  const first = bytes[at];
  const kind = first === OPEN_BRACE ? "object" : first === OPEN_BRACKET ? "array" : first === QUOTE ? "string" : first === 0x6e ? "null" : first === 0x74 || first === 0x66 ? "boolean" : "number";
  return {
    key: name === null ? null : shortened(name, LONGEST_KEY),
    index: name === null ? index : null,
    kind,
    at,
    length: end - at,
    count: kind === "object" || kind === "array" ? eachMember(bytes, at, () => {}) : null,
    // A character has at most four bytes.
    preview: shortened(textPart(bytes.subarray(at, end), 0, 4 * LONGEST_PREVIEW + 4).text, LONGEST_PREVIEW),
    meaning: name !== null && Object.hasOwn(meanings, name) ? meanings[name] : null,
    schema: null,
    mark: null,
  };
}

/**
 * Returns the text of a string.
 * @param {Uint8Array} string
 */
function nameOf(string) {
  const { text } = textOfBytes(string);
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

/**
 * @param {string} text
 * @param {number} most
 */
function shortened(text, most) {
  const letters = [...visible(text.replace(/[\t\r\n]+/g, " "))];
  return letters.length <= most ? letters.join("") : `${letters.slice(0, most - 1).join("")}…`;
}

/**
 * Calls `use` with each member of the object or array at `at`: its index, the place of its key or -1, and where its value begins and
 * ends. Returns their number, or null if the text ends before the value does.
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {(index: number, keyAt: number, valueAt: number, end: number) => void} use
 */
function eachMember(bytes, at, use) {
  const isObject = bytes[at] === OPEN_BRACE;
  let place = afterSpace(bytes, at + 1);
  let index = 0;
  while (place < bytes.length && bytes[place] !== CLOSE_BRACE && bytes[place] !== CLOSE_BRACKET) {
    let keyAt = -1;
    if (isObject) {
      keyAt = place;
      // The colon, with white space around it.
      place = afterSpace(bytes, afterSpace(bytes, stringEndOf(bytes, place)) + 1);
    }
    const end = valueEndOf(bytes, place);
    if (end === null) return null;
    use(index, keyAt, place, end);
    index += 1;
    place = afterSpace(bytes, end);
    if (bytes[place] === COMMA) place = afterSpace(bytes, place + 1);
  }
  return place < bytes.length ? index : null;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 */
function afterSpace(bytes, at) {
  let place = at;
  while (place < bytes.length && bytes[place] <= 0x20) place += 1;
  return place;
}

/**
 * Returns the place behind the quote that ends a string.
 * @param {Uint8Array} bytes
 * @param {number} at
 */
function stringEndOf(bytes, at) {
  let place = at + 1;
  while (place < bytes.length && bytes[place] !== QUOTE) place += bytes[place] === BACKSLASH ? 2 : 1;
  return place + 1;
}

/**
 * Returns the place behind a value, or null if the text ends before the value does.
 * @param {Uint8Array} bytes
 * @param {number} at
 */
function valueEndOf(bytes, at) {
  let depth = 0;
  let place = at;
  while (place < bytes.length) {
    const byte = bytes[place];
    if (byte === QUOTE) {
      place = stringEndOf(bytes, place);
      if (depth === 0) return place <= bytes.length ? place : null;
      continue;
    }
    const closes = byte === CLOSE_BRACE || byte === CLOSE_BRACKET;
    if (depth === 0 && (closes || byte === COMMA || byte <= 0x20)) return place;
    if (closes) depth -= 1;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    place += 1;
    if (closes && depth === 0) return place;
  }
  // A number or a word ends with the text, unless the text was cut.
  return depth === 0 && at === 0 ? place : null;
}
