// Counts and percentiles of the program -> a table of methods, their histograms, and charts over time.

import { append, byId, el, replace, svg } from "./dom.js";
import { axisTime, count, duration, size } from "./format.js";
import { wordsOf } from "./api.js";
import { viewLink, view } from "./state.js";
import { queryOf } from "./frames.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").MethodStats} MethodStats
 */

/**
 * Loads and shows the statistics.
 * @param {Api} api
 */
export async function showStatistics(api) {
  const panel = byId("panel-statistics");
  const { s: source, c, q } = view();
  if (!source) return;
  try {
    const stats = await api.stats(source, queryOf(view()));
    const now = view();
    if (now.s !== source || now.c !== c || now.q !== q) return;
    const parts = [];
    if (c || q) parts.push(el("p", { class: "facts" }, api.live ? "Only what the filter and the chosen conversation show" : "Of everything in this file: it has no statistics of what a filter shows"));
    if (stats.methods.length === 0) parts.push(el("p", { class: "empty" }, "No operations."));
    else parts.push(el("h2", null, "Operations by method"), el("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Operations by method" }, methodTable(stats.methods)));
    const over = stats.over_time;
    if (over && over.calls.length) {
      const failed = over.errors.reduce((sum, value) => sum + value, 0);
      parts.push(
        el("h2", null, "Operations over time"),
        chart(over, [["calls", over.calls], ["failed", over.errors]], (value) => count(value), `${count(over.calls.reduce((sum, value) => sum + value, 0))} operations, ${count(failed)} failed`),
        el("h2", null, "Bytes over time"),
        chart(over, [["to-server", over.to_server], ["to-client", over.to_client]], (value) => size(value), `${size(over.to_server.reduce((sum, value) => sum + value, 0))} to the server, ${size(over.to_client.reduce((sum, value) => sum + value, 0))} to the client`),
      );
    }
    replace(panel, ...parts);
  } catch (error) {
    replace(panel, el("p", { class: "empty" }, wordsOf(error)));
  }
}

/** @param {MethodStats[]} methods */
function methodTable(methods) {
  const columns = ["Method", "Count", "Failed", "Open", "p50", "p90", "p99", "Max", "Total", "Latency"];
  const rows = methods.map((each) =>
    el(
      "tr",
      null,
      el("th", { scope: "row" }, viewLink({ tab: "frames", q: filterOf(each.method), f: 0 }, { title: "Show these frames" }, each.method)),
      el("td", { class: "number" }, count(each.count)),
      el("td", { class: `number ${each.errors ? "failed" : ""}` }, each.errors ? count(each.errors) : "-"),
      el("td", { class: "number" }, each.open ? count(each.open) : "-"),
      ...[each.p50, each.p90, each.p99, each.max, each.total].map((value) => el("td", { class: "number" }, value === null ? "-" : duration(value))),
      el("td", null, histogram(each)),
    ),
  );
  return el("table", { class: "data" }, el("thead", null, el("tr", null, columns.map((label) => el("th", { scope: "col" }, label)))), el("tbody", null, rows));
}

/**
 * Returns the filter for a method.
 * @param {string} method
 */
function filterOf(method) {
  return `method:${/^[\w/.*-]+$/.test(method) ? method : JSON.stringify(method)}`;
}

/** @param {MethodStats} stats */
function histogram(stats) {
  const bars = stats.histogram;
  if (bars.length === 0) return "";
  const most = bars.reduce((max, [, , value]) => Math.max(max, value), 1);
  const wide = 160 / Math.max(bars.length, 12);
  const drawn = bars.map(([from, to, value], index) => {
    // A single operation is still visible.
    const high = value === 0 ? 0 : Math.max(2, (value / most) * 26);
    return svg("rect", { class: "bar", x: index * wide, y: 28 - high, width: Math.max(1, wide - 1), height: high }, titled(`${duration(from)} to ${duration(to)}: ${count(value)}`));
  });
  const label = `${count(stats.count)} from ${duration(bars[0][0])} to ${duration(bars[bars.length - 1][1])}`;
  const box = el("div", { class: "histogram" });
  box.append(svg("svg", { class: "chart", viewBox: "0 0 160 28", width: 160, height: 28, role: "img", "aria-label": `Histogram of latency: ${label}` }, ...drawn));
  append(box, el("span", { class: "facts" }, `${duration(bars[0][0])} – ${duration(bars[bars.length - 1][1])}`));
  return box;
}

/** @param {string} text */
function titled(text) {
  const title = svg("title", {});
  title.textContent = text;
  return title;
}

/**
 * Draws values over time as columns, one row of columns above the axis and one below.
 * @param {{step: number, from: number}} axis
 * @param {[string, number[]][]} series
 * @param {(value: number) => string} words
 * @param {string} summary
 */
function chart(axis, series, words, summary) {
  const steps = series.reduce((most, [, values]) => Math.max(most, values.length), 1);
  const most = series.reduce((max, [, values]) => values.reduce((a, b) => Math.max(a, b), max), 1);
  const wide = 1000 / steps;
  const drawn = [];
  for (const [row, [name, values]] of series.entries()) {
    for (const [index, value] of values.entries()) {
      if (!value) continue;
      const high = Math.max(1, (value / most) * 56);
      const time = axis.from + index * axis.step;
      const text = `${axisTime(time, axis.step)}: ${words(value)} ${name}`;
      drawn.push(svg("rect", { class: `series-${name}`, x: index * wide, y: row === 0 ? 60 - high : 61, width: Math.max(1, wide - 0.5), height: high }, titled(text)));
    }
  }
  drawn.push(svg("line", { class: "axis", x1: 0, y1: 60.5, x2: 1000, y2: 60.5 }));
  const end = axis.from + steps * axis.step;
  const box = el("figure", { class: "over-time" });
  box.append(svg("svg", { class: "chart", viewBox: "0 0 1000 120", preserveAspectRatio: "none", role: "img", "aria-label": summary }, ...drawn));
  const labels = series.map(([name]) => el("span", null, el("i", { class: `swatch ${name}` }), name.replace("-", " the ")));
  append(box, el("figcaption", null, el("span", null, axisTime(axis.from, axis.step)), el("span", { class: "legend" }, ...labels), el("span", null, summary), el("span", null, `at most ${words(most)} in ${duration(axis.step)}`), el("span", null, axisTime(end, axis.step))));
  return box;
}
