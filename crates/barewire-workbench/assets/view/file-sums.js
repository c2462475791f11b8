// The operations and rows of an exported file -> what the statistics and the timeline show of them, as view/stats.rs and
// view/timeline.rs sum them up.

/**
 * @typedef {import("./types").Exported} Exported
 * @typedef {import("./types").FileRow} FileRow
 * @typedef {import("./types").FileOperation} FileOperation
 * @typedef {import("./types").Bar} Bar
 */

/** The bounds of the classes of a histogram, in seconds. */
const CLASS_BOUNDS = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500];
/** The number of steps of a capture for which calls and bytes are summed. */
const TRAFFIC_STEPS = 240;
/** The maximum number of bars; of more, the slowest are shown, and sums of all. */
const MOST_BARS = 3000;
const SLOWEST_BARS = 500;
/** The shortest time, in seconds, that is called slow. */
const LEAST_SLOW = 0.1;

/**
 * Returns the statistics of some operations and rows.
 * @param {Exported} data
 * @param {Set<number>} selected
 * @param {FileRow[]} rows
 * @returns {import("./types").Stats}
 */
export function fileStats(data, selected, rows) {
  const { from, to } = data.timeline;
  const step = Math.max((to - from) / TRAFFIC_STEPS, 1e-6);
  const zeros = () => /** @type {number[]} */ (Array(TRAFFIC_STEPS).fill(0));
  const over = { step, from, calls: zeros(), errors: zeros(), to_server: zeros(), to_client: zeros() };
  /** @param {number} time */
  const stepOf = (time) => Math.min(Math.trunc(Math.max((time - from) / step, 0)), TRAFFIC_STEPS - 1);
  /** @type {Map<string, FileOperation[]>} */
  const methods = new Map();
  for (const operation of data.operations) {
    if (!selected.has(operation.op)) continue;
    const same = methods.get(operation.method);
    if (same) same.push(operation);
    else methods.set(operation.method, [operation]);
    if (operation.start !== null) over.calls[stepOf(operation.start)] += 1;
  }
  for (const row of rows) {
    if (row.frame === null || row.match.part !== undefined || row.time === null) continue;
    const at = stepOf(row.time);
    if (row.match.failed) over.errors[at] += 1;
    if (row.match.stream === ">") over.to_server[at] += row.size ?? 0;
    else if (row.match.stream === "<") over.to_client[at] += row.size ?? 0;
  }
  const names = [...methods.keys()].sort((a, b) => (a < b ? -1 : 1));
  return { methods: names.map((name) => methodStats(name, methods.get(name) ?? [])), over_time: to > from ? over : null };
}

/**
 * @param {string} method
 * @param {FileOperation[]} operations
 * @returns {import("./types").MethodStats}
 */
function methodStats(method, operations) {
  const latencies = operations.flatMap((each) => (each.latency === null ? [] : [each.latency])).sort((a, b) => a - b);
  const last = latencies.length - 1;
  /** @param {number} percent */
  const at = (percent) => (last < 0 ? null : latencies[Math.ceil((last * percent) / 100)]);
  /** @type {[number, number, number][]} */
  const histogram = [];
  let [from, done] = [0, 0];
  for (const to of [...CLASS_BOUNDS, Infinity]) {
    let end = done;
    while (end < latencies.length && latencies[end] < to) end += 1;
    if (end > done) histogram.push([from, to === Infinity ? latencies[last] : to, end - done]);
    [from, done] = [to, end];
  }
  return {
    method,
    count: operations.length,
    errors: operations.filter((each) => each.state === "failed").length,
    open: operations.filter((each) => each.state === "open").length,
    p50: at(50),
    p90: at(90),
    p99: at(99),
    max: at(100),
    total: latencies.reduce((sum, each) => sum + each, 0),
    histogram,
  };
}

/**
 * Returns the bars of some operations in a range of time.
 * @param {Exported} data
 * @param {Set<number>} selected
 * @param {number | null} from
 * @param {number | null} to
 * @param {number} width
 * @returns {import("./types").Timeline}
 */
export function fileTimeline(data, selected, from, to, width) {
  const { timeline } = data;
  const start = from ?? timeline.from;
  const end = Math.max(to ?? timeline.to, start);
  const bars = timeline.bars.filter((bar) => selected.has(bar.op) && bar.start <= end && (bar.end ?? timeline.to) >= start);
  /** @param {Bar} bar */
  const length = (bar) => (bar.end ?? timeline.to) - bar.start;
  const ended = bars.filter((bar) => bar.end !== null).map(length).sort((a, b) => a - b);
  const slow = ended.length ? Math.max(3 * ended[Math.floor(ended.length / 2)], LEAST_SLOW) : Infinity;
  const lanes = bars.reduce((most, bar) => Math.max(most, bar.lane + 1), 0);
  const isTooMany = bars.length > MOST_BARS;
  const shown = isTooMany ? [...bars].sort((a, b) => length(b) - length(a)).slice(0, SLOWEST_BARS).sort((a, b) => a.op - b.op) : bars;
  return { from: start, to: end, lanes, bars: shown.map((bar) => ({ ...bar, slow: length(bar) >= slow && !bar.listening })), buckets: isTooMany ? bucketsOf(bars, length, start, end, width) : null };
}

/**
 * @param {Bar[]} bars
 * @param {(bar: Bar) => number} length
 * @param {number} from
 * @param {number} to
 * @param {number} width
 */
function bucketsOf(bars, length, from, to, width) {
  const number = Math.max(10, Math.min(Math.floor(Math.max(10, Math.min(Math.round(width), 4000)) / 4), 1000));
  const step = Math.max((to - from) / number, 1e-6);
  /** @type {Map<number, import("./types").Bucket>} */
  const buckets = new Map();
  for (const bar of bars) {
    const at = Math.min(Math.trunc(Math.max((bar.start - from) / step, 0)), number - 1);
    const bucket = buckets.get(at) ?? { from: from + at * step, to: from + (at + 1) * step, count: 0, errors: 0, max: 0 };
    bucket.count += 1;
    if (bar.failed) bucket.errors += 1;
    bucket.max = Math.max(bucket.max, length(bar));
    buckets.set(at, bucket);
  }
  return [...buckets.entries()].sort(([a], [b]) => a - b).map(([, bucket]) => bucket);
}
