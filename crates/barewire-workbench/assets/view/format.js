// Numbers -> the words of `barewire read`: times, sizes, latencies.

const THREE_DIGITS = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, minimumSignificantDigits: 3, useGrouping: false });
const WHOLE = new Intl.NumberFormat("en");

/**
 * Returns a duration in seconds with three digits: 700 us, 41.2 ms, 1.21 s.
 * @param {number | null | undefined} seconds
 * @returns {string}
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return "0 us";
  if (seconds < 0.000_999_5) return `${digits(seconds * 1e6)} us`;
  if (seconds < 0.999_5) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 120) return `${digits(seconds)} s`;
  if (seconds < 7200) return `${digits(seconds / 60)} min`;
  return `${digits(seconds / 3600)} h`;
}

/** @param {number} value */
function digits(value) {
  return value >= 1000 ? String(Math.round(value)) : THREE_DIGITS.format(value);
}

/**
 * Returns a time since the start of the capture, to the microsecond.
 * @param {number | null | undefined} seconds
 */
export function instant(seconds) {
  return seconds === null || seconds === undefined ? "" : seconds.toFixed(6);
}

/**
 * Returns a time on an axis whose marks are `step` seconds apart.
 * @param {number} seconds
 * @param {number} step
 */
export function axisTime(seconds, step) {
  if (step >= 60) return `${WHOLE.format(Math.round(seconds / 6) / 10)} min`;
  const decimals = Math.max(0, Math.min(6, -Math.floor(Math.log10(step))));
  return `${seconds.toFixed(decimals)} s`;
}

/**
 * Returns a number of bytes: 262 B, 2.3 KiB.
 * @param {number | null | undefined} bytes
 */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1023.95 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/**
 * Returns a whole number with separators.
 * @param {number} value
 */
export function count(value) {
  return WHOLE.format(value);
}

/**
 * Returns a number with its noun: 1 frame, 2 frames.
 * @param {number} value
 * @param {string} noun
 * @param {string} [plural]
 */
export function counted(value, noun, plural = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

/**
 * Returns distances for the marks of an axis: the smallest of 1, 2, 5, 10… that leaves room for at most `most` marks.
 * @param {number} span
 * @param {number} most
 */
export function axisStep(span, most) {
  const least = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least || 1));
  for (const factor of [1, 2, 5, 10]) if (power * factor >= least) return power * factor;
  return power * 10;
}
