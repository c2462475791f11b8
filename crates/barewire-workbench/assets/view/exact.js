// JSON text -> values whose numbers are written again exactly as they were: 9007199254740993, 1.0 and 1e400 too.

/**
 * What JavaScript engines have for this since 2023. Others read such numbers as the nearest that they can hold.
 * @type {any}
 */
const EXACT_JSON = JSON;

/**
 * Returns a number that is written as `source`.
 * @param {string} source a JSON number
 */
export function exactNumber(source) {
  const number = Number(source);
  return String(number) === source || !EXACT_JSON.rawJSON ? number : EXACT_JSON.rawJSON(source);
}

/** Whether a value is a number that is kept as its text. @param {unknown} value */
export function isExactNumber(value) {
  return EXACT_JSON.isRawJSON?.(value) === true;
}

/**
 * Parses JSON. Numbers that JavaScript cannot hold are kept as their text: those for whose member `isKept` is true.
 * @param {string} text
 * @param {(name: string) => boolean} isKept
 * @returns {any}
 */
export function parseExact(text, isKept = () => true) {
  /** @type {(name: string, value: unknown, context?: {source?: string}) => unknown} */
  const revive = (name, value, context) => (typeof value === "number" && context?.source !== undefined && isKept(name) ? exactNumber(context.source) : value);
  return EXACT_JSON.parse(text, revive);
}
