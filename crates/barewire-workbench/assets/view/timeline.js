// Operations with their times -> bars in lanes on a time axis, with zoom and pan, and the same as a table.

import { append, attribute, button, byId, el, replace, say, setText, visible } from "./dom.js";
import { axisStep, axisTime, count, counted, duration, instant } from "./format.js";
import { isAborted, wordsOf } from "./api.js";
import { viewLink, show, view } from "./state.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").Bar} Bar
 * @typedef {import("./types").Timeline} TimelineData
 */

/** Lanes that are visible at once. */
const MOST_LANES = 20;
const LANE = 20;
const BAR = 14;
const AXIS = 22;
const OVERVIEW = 30;
/** The most that can be zoomed in: a microsecond a pixel. */
const LEAST_SPAN = 0.000_5;

/**
 * Returns the shortest range at a time. Times that are large are numbers with fewer decimals.
 * @param {number} time
 */
function leastSpan(time) {
  return Math.max(LEAST_SPAN, Math.abs(time) * 1e-13);
}

/**
 * Reads a range of the URL; null unless it is two numbers, the second after the first.
 * @param {string} text
 */
function rangeOf(text) {
  const match = /^(-?\d+(?:\.\d+)?)~(-?\d+(?:\.\d+)?)$/.exec(text);
  const [from, to] = match ? [Number(match[1]), Number(match[2])] : [0, 0];
  return Number.isFinite(from) && Number.isFinite(to) && to > from ? { from, to } : null;
}

/** The timeline of a source. */
export class TimelineTab {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** The whole time of the capture. */
    this.whole = { from: 0, to: 1 };
    this.from = 0;
    this.to = 1;
    /** @type {TimelineData | null} */
    this.data = null;
    /** What the overview shows. @type {TimelineData | null} */
    this.overview = null;
    this.overviewKey = "";
    this.lane = 0;
    /** The operation under the cursor. @type {number | null} */
    this.active = null;
    /** The fingers or buttons that are down on the canvas. @type {Map<number, PointerEvent>} */
    this.pointers = new Map();
    /** @type {AbortController | null} */
    this.loading = null;
    this.timer = 0;
    this.drawing = 0;
    this.sort = "latency";
    /** The range as this wrote it into the URL. */
    this.range = "";
    this.timed = true;
    /** @type {{bar: Bar, x: number, y: number, width: number}[]} */
    this.hits = [];
    this.canvas = el("canvas", { class: "bars", tabindex: 0, role: "img", "aria-label": "Timeline of operations. The table below has the same.", "aria-describedby": "timeline-help" });
    this.map = el("canvas", { class: "overview", "aria-hidden": "true" });
    this.tip = el("div", { class: "tip", hidden: true });
    this.status = el("span", { class: "status" });
    this.table = el("div", { class: "table-box" });
    this.sortButtons = ["latency", "start"].map((each) => button(each === "latency" ? "Slowest first" : "In order", () => this.#sortBy(each), { "aria-pressed": each === this.sort, "data-sort": each }));
    const help = el("span", { id: "timeline-help", class: "facts" }, "wheel zooms, drag pans, arrows go from bar to bar, + − 0 zoom, Enter opens");
    append(
      byId("panel-timeline"),
      el("div", { class: "toolbar" }, button("+", () => this.#zoom(0.5), { "aria-label": "Zoom in", title: "Zoom in (+)" }), button("−", () => this.#zoom(2), { "aria-label": "Zoom out", title: "Zoom out (-)" }), button("All", () => this.#goTo(this.whole.from, this.whole.to), { title: "Show all (0)" }), this.#legend(), this.status),
      el("div", { class: "timeline-box" }, this.map, this.canvas, this.tip),
      el("div", { class: "toolbar" }, el("h2", null, "Operations in this range"), ...this.sortButtons, help),
      this.table,
    );
    this.canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.#drag(event));
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    this.canvas.addEventListener("focus", () => this.#schedule());
    this.canvas.addEventListener("blur", () => this.#schedule());
    this.map.addEventListener("pointerdown", (event) => this.#dragMap(event));
    this.width = 0;
    new ResizeObserver(() => {
      this.#schedule();
      if (this.width === this.canvas.clientWidth) return;
      this.width = this.canvas.clientWidth;
      this.#load();
    }).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#schedule());
  }

  /** Forgets what was loaded: the source or the filter is another one. */
  reset() {
    this.data = null;
    this.overview = null;
    this.overviewKey = "";
    this.active = null;
    this.lane = 0;
    this.range = "";
  }

  /**
   * Shows the range of the view.
   * @param {import("./types").Source | undefined} source
   */
  show(source) {
    if (!source) return;
    this.timed = source.timed;
    const first = source.first ?? 0;
    this.whole = { from: first, to: Math.max(source.last ?? 1, first + leastSpan(first)) };
    this.range = view().t;
    // The URL may be of anybody.
    const { from, to } = rangeOf(view().t) ?? this.whole;
    this.#become(from, to);
    this.#load();
    this.#schedule();
  }

  #legend() {
    return el("span", { class: "legend", "aria-hidden": "true" }, ["ok", "slow", "failed", "open"].map((each) => el("span", null, el("i", { class: `swatch ${each}` }), each === "open" ? "no response" : each)));
  }

  /** @param {string} order */
  #sortBy(order) {
    this.sort = order;
    for (const each of this.sortButtons) attribute(each, "aria-pressed", each.dataset.sort === order);
    this.#fillTable();
  }

  get #span() {
    return this.to - this.from;
  }

  /**
   * Takes a range, or the nearest one that can be shown.
   * @param {number} from
   * @param {number} to
   */
  #become(from, to) {
    const margin = (this.whole.to - this.whole.from) * 0.02;
    let span = Math.max(leastSpan(this.whole.to), Math.min(to - from, this.whole.to - this.whole.from + 2 * margin));
    let start = Math.max(this.whole.from - margin, Math.min(from, this.whole.to + margin - span));
    if (start <= this.whole.from - margin && span >= this.whole.to - this.whole.from) {
      start = this.whole.from;
      span = this.whole.to - this.whole.from;
    }
    this.from = start;
    this.to = start + span;
  }

  /**
   * Shows a range, and puts it into the URL.
   * @param {number} from
   * @param {number} to
   */
  #goTo(from, to) {
    this.#become(from, to);
    this.#schedule();
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      const all = this.from <= this.whole.from && this.to >= this.whole.to;
      this.range = all ? "" : `${this.from.toFixed(6)}~${this.to.toFixed(6)}`;
      show({ t: this.range }, { replace: true });
      this.#load();
    }, 100);
  }

  /**
   * @param {number} factor
   * @param {number} [around]
   */
  #zoom(factor, around) {
    const center = around ?? this.#activeBar()?.start ?? (this.from + this.to) / 2;
    const inside = center >= this.from && center <= this.to ? center : (this.from + this.to) / 2;
    this.#goTo(inside - (inside - this.from) * factor, inside + (this.to - inside) * factor);
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const delta = ((event.deltaX || event.deltaY) / this.canvas.clientWidth) * this.#span;
      this.#goTo(this.from + delta, this.to + delta);
    } else {
      // A pinch arrives as a wheel with the control key, in small steps.
      const factor = Math.exp(event.deltaY * (event.ctrlKey ? 0.01 : 0.0015));
      this.#zoom(factor, this.#timeAt(event.offsetX));
    }
    event.preventDefault();
  }

  /** @param {number} x */
  #timeAt(x) {
    return this.from + (x / Math.max(1, this.canvas.clientWidth)) * this.#span;
  }

  /** @param {PointerEvent} down */
  #drag(down) {
    const { pointers } = this;
    this.canvas.setPointerCapture(down.pointerId);
    pointers.set(down.pointerId, down);
    // A second finger joins the first one.
    if (pointers.size > 1) return;
    let moved = false;
    let distance = 0;
    // Where the finger was, and what was shown then, since the number of fingers changed.
    let start = { x: down.offsetX, y: down.offsetY, from: this.from, to: this.to, lane: this.lane };
    /** @param {PointerEvent} event */
    const move = (event) => {
      if (!pointers.has(event.pointerId)) return;
      pointers.set(event.pointerId, event);
      const [one, two] = [...pointers.values()];
      if (two) {
        const next = Math.hypot(one.offsetX - two.offsetX, one.offsetY - two.offsetY);
        if (distance) this.#zoom(distance / Math.max(1, next), this.#timeAt((one.offsetX + two.offsetX) / 2));
        distance = next;
        moved = true;
        return;
      }
      const delta = ((event.offsetX - start.x) / this.canvas.clientWidth) * (start.to - start.from);
      if (Math.abs(event.offsetX - start.x) + Math.abs(event.offsetY - start.y) > 4) moved = true;
      if (!moved) return;
      this.lane = this.#clampLane(start.lane - (event.offsetY - start.y) / LANE);
      this.#goTo(start.from - delta, start.to - delta);
    };
    /** @param {PointerEvent} event */
    const end = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      distance = 0;
      const [rest] = pointers.values();
      if (rest) {
        start = { x: rest.offsetX, y: rest.offsetY, from: this.from, to: this.to, lane: this.lane };
        return;
      }
      this.canvas.removeEventListener("pointermove", move);
      this.canvas.removeEventListener("pointerup", end);
      this.canvas.removeEventListener("pointercancel", end);
      const hit = moved || event.type === "pointercancel" ? undefined : this.#hit(event);
      if (hit) {
        this.active = hit.op;
        show({ f: hit.frame });
        this.#schedule();
      }
    };
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", end);
    this.canvas.addEventListener("pointercancel", end);
  }

  /** @param {PointerEvent} down */
  #dragMap(down) {
    this.map.setPointerCapture(down.pointerId);
    const wholeSpan = this.whole.to - this.whole.from;
    /** @param {PointerEvent} event */
    const move = (event) => {
      const center = this.whole.from + (event.offsetX / this.map.clientWidth) * wholeSpan;
      // From the whole, a click into the overview zooms to a tenth.
      const span = this.#span >= wholeSpan * 0.999 ? wholeSpan / 10 : this.#span;
      this.#goTo(center - span / 2, center + span / 2);
    };
    const end = () => {
      this.map.removeEventListener("pointermove", move);
      this.map.removeEventListener("pointerup", end);
    };
    move(down);
    this.map.addEventListener("pointermove", move);
    this.map.addEventListener("pointerup", end);
  }

  /** @param {number} lane */
  #clampLane(lane) {
    const fit = (this.canvas.clientHeight - AXIS) / LANE;
    return Math.max(0, Math.min(lane, (this.data?.lanes ?? 0) - fit + 1));
  }

  /** @param {{offsetX: number, offsetY: number}} at */
  #hit(at) {
    for (let index = this.hits.length - 1; index >= 0; index -= 1) {
      const { bar, x, y, width } = this.hits[index];
      if (at.offsetX >= x - 3 && at.offsetX <= x + width + 3 && at.offsetY >= y && at.offsetY <= y + BAR) return bar;
    }
    return undefined;
  }

  /** @param {PointerEvent} event */
  #hover(event) {
    const bar = this.#hit(event);
    this.tip.hidden = !bar;
    if (!bar) return;
    replace(this.tip, el("b", null, titleOf(bar)), el("br"), `${instant(bar.start)} s · ${latencyOf(bar)} · ${outcomeOf(bar)}`);
    this.tip.style.left = `${Math.min(event.offsetX + 12, this.canvas.clientWidth - this.tip.offsetWidth - 4)}px`;
    this.tip.style.top = `${OVERVIEW + event.offsetY + 16}px`;
  }

  #activeBar() {
    return this.data?.bars.find((bar) => bar.op === this.active);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const bars = [...(this.data?.bars ?? [])].sort((a, b) => a.start - b.start);
    const index = bars.findIndex((bar) => bar.op === this.active);
    /** @param {Bar | undefined} bar */
    const activate = (bar) => {
      if (!bar) return;
      this.active = bar.op;
      const end = bar.end ?? bar.start;
      if (bar.start < this.from || bar.start > this.to) this.#goTo(bar.start - this.#span / 2, bar.start + this.#span / 2);
      const fit = (this.canvas.clientHeight - AXIS) / LANE - 1;
      if (bar.lane < this.lane) this.lane = bar.lane;
      else if (bar.lane > this.lane + fit) this.lane = this.#clampLane(bar.lane - fit);
      say(`${titleOf(bar)}, ${latencyOf(bar)}, ${outcomeOf(bar)}, from ${instant(bar.start)} to ${instant(end)} seconds`);
      this.#schedule();
    };
    const pan = this.#span / 5;
    switch (event.key) {
      case "ArrowRight":
        if (event.shiftKey) this.#goTo(this.from + pan, this.to + pan);
        else activate(index < 0 ? bars.find((bar) => bar.start >= this.from) ?? bars[0] : bars[index + 1]);
        break;
      case "ArrowLeft":
        if (event.shiftKey) this.#goTo(this.from - pan, this.to - pan);
        else activate(bars[index - 1]);
        break;
      case "ArrowDown":
      case "ArrowUp": {
        const here = this.#activeBar();
        const step = event.key === "ArrowDown" ? 1 : -1;
        if (!here) this.lane = this.#clampLane(this.lane + step);
        else {
          const next = bars.filter((bar) => (bar.lane - here.lane) * step > 0).sort((a, b) => (a.lane - b.lane) * step || Math.abs(a.start - here.start) - Math.abs(b.start - here.start));
          activate(next[0]);
        }
        this.#schedule();
        break;
      }
      case "Home":
        activate(bars[0]);
        break;
      case "End":
        activate(bars[bars.length - 1]);
        break;
      case "+":
      case "=":
        this.#zoom(0.5);
        break;
      case "-":
        this.#zoom(2);
        break;
      case "0":
        this.#goTo(this.whole.from, this.whole.to);
        break;
      case "Enter": {
        const bar = this.#activeBar();
        if (bar) show({ f: bar.frame });
        break;
      }
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  async #load() {
    const shown = view();
    if (!shown.s || this.canvas.clientWidth === 0) return;
    if (!this.timed) {
      setText(this.status, "This capture has no times.");
      this.data = { from: 0, to: 1, lanes: 0, bars: [], buckets: null };
      this.#schedule();
      this.#fillTable();
      return;
    }
    this.loading?.abort();
    this.loading = new AbortController();
    const { signal } = this.loading;
    const range = { conversation: shown.c, filter: shown.q, width: this.canvas.clientWidth };
    const key = JSON.stringify([shown.s, range, this.whole]);
    try {
      const data = await this.api.timeline(shown.s, { ...range, from: this.from, to: this.to }, signal);
      this.data = data;
      this.canvas.style.height = `${AXIS + 10 + Math.max(4, Math.min(data.lanes, MOST_LANES)) * LANE}px`;
      const slow = data.bars.filter((bar) => bar.slow).length;
      setText(this.status, data.buckets ? `${counted(data.buckets.reduce((sum, bucket) => sum + bucket.count, 0), "operation")}: the ${count(data.bars.length)} slowest are drawn; zoom in for all` : `${counted(data.bars.length, "operation")}${slow ? `, ${slow} slow` : ""}`);
      this.#schedule();
      this.#fillTable();
      if (this.overviewKey !== key) {
        this.overview = this.from <= this.whole.from && this.to >= this.whole.to ? data : await this.api.timeline(shown.s, { ...range, ...this.whole }, signal);
        this.overviewKey = key;
        this.#schedule();
      }
    } catch (error) {
      if (!isAborted(error)) setText(this.status, wordsOf(error));
    }
  }

  #fillTable() {
    const bars = (this.data?.bars ?? []).filter((bar) => bar.start <= this.to && (bar.end ?? this.to) >= this.from);
    const time = (/** @type {Bar} */ bar) => (bar.end ?? this.whole.to) - bar.start;
    bars.sort(this.sort === "start" ? (a, b) => a.start - b.start : (a, b) => time(b) - time(a));
    const rows = bars.slice(0, 200).map((bar) =>
      el(
        "tr",
        { class: bar.frame === view().f ? "selected" : null },
        el("td", { class: "number" }, viewLink({ f: bar.frame }, null, String(bar.frame))),
        el("td", { class: "number" }, instant(bar.start)),
        el("td", null, bar.parent === null ? "" : "↳ ", titleOf(bar)),
        el("td", { class: `number ${bar.slow ? "slow" : ""}` }, latencyOf(bar)),
        el("td", null, outcomeOf(bar)),
      ),
    );
    const head = el("thead", null, el("tr", null, ["Frame", "Start (s)", "Operation", "Latency", "Outcome"].map((label) => el("th", { scope: "col" }, label))));
    replace(this.table, el("table", { class: "data" }, head, el("tbody", null, rows)), bars.length > rows.length ? el("p", { class: "facts" }, `and ${counted(bars.length - rows.length, "more operation")}: zoom in to see them`) : null);
  }

  #schedule() {
    this.drawing ||= requestAnimationFrame(() => {
      this.drawing = 0;
      this.#draw();
    });
  }

  #draw() {
    const style = getComputedStyle(document.documentElement);
    /** @param {string} name */
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    this.#drawBars(color);
    this.#drawOverview(color);
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @returns {[CanvasRenderingContext2D, number, number] | null}
   */
  #context(canvas) {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const context = canvas.getContext("2d");
    if (!context || width === 0) return null;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return [context, width, height];
  }

  /** @param {(name: string) => string} color */
  #drawBars(color) {
    const got = this.#context(this.canvas);
    if (!got) return;
    const [context, width, height] = got;
    const x = (/** @type {number} */ time) => ((time - this.from) / this.#span) * width;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const step = axisStep(this.#span, width / 90);
    context.lineWidth = 1;
    const firstMark = Math.ceil(this.from / step);
    // The number of marks is limited, because a sum of large and small numbers may not grow.
    for (let index = 0; index <= width / 20; index += 1) {
      const mark = (firstMark + index) * step;
      if (!(mark <= this.to)) break;
      const at = Math.round(x(mark)) + 0.5;
      context.strokeStyle = color("line");
      context.beginPath();
      context.moveTo(at, AXIS - 6);
      context.lineTo(at, height);
      context.stroke();
      context.fillStyle = color("dim");
      context.fillText(axisTime(mark, step), at + 3, AXIS / 2);
    }
    this.hits = [];
    const fills = { ok: color("bar-ok"), slow: color("bar-slow"), failed: color("bar-failed") };
    const stripes = pattern(context, color("bar-slow"), color("bar-slow-line"));
    const hatch = pattern(context, color("bar-failed"), color("bar-failed-line"), true);
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    const bars = this.data?.bars ?? [];
    const selected = view().f;
    for (const bar of bars) {
      const end = bar.end ?? this.whole.to;
      if (end < this.from || bar.start > this.to) continue;
      const y = AXIS + 3 + (bar.lane - this.lane) * LANE;
      if (y < AXIS - BAR || y > height) continue;
      const left = Math.max(-2, x(bar.start));
      const right = Math.min(width + 2, x(end));
      const long = Math.max(2, right - left);
      const inset = Math.min(3, bar.depth * 2);
      const failed = failedBar(bar);
      const rounds = bar.rounds.length > 1 ? bar.rounds : [{ start: bar.start, end: bar.end }];
      if (rounds.length > 1) {
        // The user answered in between: a thin line joins the rounds.
        context.fillStyle = color("dim");
        context.fillRect(left, y + BAR / 2 - 1, long, 2);
      }
      for (const round of rounds) {
        const from = Math.max(-2, x(round.start));
        const to = Math.min(width + 2, x(round.end ?? this.whole.to));
        const wide = Math.max(2, to - from);
        if (bar.end === null) {
          context.strokeStyle = fills.ok;
          context.setLineDash([4, 2]);
          context.strokeRect(from + 0.5, y + inset + 0.5, wide, BAR - 2 * inset - 1);
          context.setLineDash([]);
        } else {
          context.fillStyle = failed ? hatch : bar.slow ? stripes : fills.ok;
          context.fillRect(from, y + inset, wide, BAR - 2 * inset);
        }
      }
      if (bar.op === this.active || bar.frame === selected) {
        context.strokeStyle = color("text");
        context.lineWidth = bar.op === this.active && document.activeElement === this.canvas ? 2 : 1;
        context.strokeRect(left - 1, y - 1, long + 2, BAR + 2);
        context.lineWidth = 1;
      }
      this.hits.push({ bar, x: left, y, width: long });
    }
    this.#drawLabels(context, width, color);
    context.restore();
    if (bars.length === 0) {
      context.fillStyle = color("dim");
      context.fillText(this.data ? "No operations here." : "Reading…", 12, AXIS + 20);
    }
  }

  /**
   * Writes the names of bars into them or behind them, where there is room.
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {(name: string) => string} color
   */
  #drawLabels(context, width, color) {
    /** @type {Map<number, typeof this.hits>} */
    const lanes = new Map();
    for (const hit of this.hits) {
      const lane = lanes.get(hit.bar.lane) ?? [];
      lane.push(hit);
      lanes.set(hit.bar.lane, lane);
    }
    for (const lane of lanes.values()) {
      lane.sort((a, b) => a.x - b.x);
      for (const [index, hit] of lane.entries()) {
        const next = lane[index + 1]?.x ?? width;
        const outside = hit.x + hit.width + 5;
        // The name of the tool tells bars apart; there is often no room for the method too.
        const label = visible(hit.bar.name ?? titleOf(hit.bar)).slice(0, 60);
        const needed = context.measureText(label).width;
        const y = hit.y + BAR / 2;
        if (next - outside > needed + 4) {
          context.fillStyle = color("text");
          context.fillText(label, outside, y);
        } else if (hit.width > 30 && hit.bar.end !== null && hit.bar.rounds.length < 2) {
          context.save();
          context.beginPath();
          // A bar that begins inside this one is drawn over it.
          context.rect(hit.x, hit.y, Math.min(hit.width - 3, next - hit.x - 2), BAR);
          context.clip();
          const [from, ground] = [Math.max(hit.x, 0) + 2, failedBar(hit.bar) ? "bar-failed" : hit.bar.slow ? "bar-slow" : "bar-ok"];
          // No pattern behind the letters.
          context.fillStyle = color(ground);
          context.fillRect(from, hit.y, needed + 4, BAR);
          context.fillStyle = color("bar-text");
          context.fillText(label, Math.max(hit.x, 0) + 4, y);
          context.restore();
        }
      }
    }
  }

  /** @param {(name: string) => string} color */
  #drawOverview(color) {
    const got = this.#context(this.map);
    if (!got) return;
    const [context, width, height] = got;
    const span = this.whole.to - this.whole.from;
    const columns = new Float64Array(Math.ceil(width / 2));
    const failed = new Uint8Array(columns.length);
    const data = this.overview;
    const column = (/** @type {number} */ time) => Math.max(0, Math.min(columns.length - 1, Math.floor(((time - this.whole.from) / span) * columns.length)));
    if (data?.buckets) {
      for (const bucket of data.buckets) {
        const [first, last] = [column(bucket.from), column(bucket.to)];
        for (let index = first; index <= last; index += 1) {
          columns[index] = Math.max(columns[index], bucket.count);
          if (bucket.errors) failed[index] = 1;
        }
      }
    } else {
      for (const bar of data?.bars ?? []) {
        const [first, last] = [column(bar.start), column(bar.end ?? bar.start)];
        for (let index = first; index <= last; index += 1) columns[index] += 1;
        if (failedBar(bar)) failed[last] = 1;
      }
    }
    const most = columns.reduce((a, b) => Math.max(a, b), 1);
    for (const [index, value] of columns.entries()) {
      if (!value) continue;
      const high = Math.max(2, (value / most) * (height - 6));
      context.fillStyle = failed[index] ? color("bar-failed") : color("bar-ok");
      context.fillRect(index * 2, height - high - 1, 2, high);
    }
    const left = ((this.from - this.whole.from) / span) * width;
    const right = ((this.to - this.whole.from) / span) * width;
    context.fillStyle = color("shade");
    context.fillRect(0, 0, Math.max(0, left), height);
    context.fillRect(right, 0, Math.max(0, width - right), height);
    context.strokeStyle = color("accent");
    context.lineWidth = 2;
    context.strokeRect(Math.max(1, left), 1, Math.max(3, Math.min(width, right) - Math.max(1, left) - 1), height - 2);
  }
}

/**
 * Returns a pattern, so that bars do not differ in their colour alone.
 * @param {CanvasRenderingContext2D} context
 * @param {string} ground
 * @param {string} lines
 * @param {boolean} [crossed]
 */
function pattern(context, ground, lines, crossed = false) {
  const tile = document.createElement("canvas");
  tile.width = 6;
  tile.height = 6;
  const on = tile.getContext("2d");
  if (!on) return ground;
  on.fillStyle = ground;
  on.fillRect(0, 0, 6, 6);
  on.strokeStyle = lines;
  on.lineWidth = 1.5;
  on.beginPath();
  for (const shift of [-6, 0, 6]) {
    on.moveTo(shift - 1, 7);
    on.lineTo(shift + 7, -1);
    if (crossed) {
      on.moveTo(shift - 1, -1);
      on.lineTo(shift + 7, 7);
    }
  }
  on.stroke();
  return context.createPattern(tile, "repeat") ?? ground;
}

/** @param {Bar} bar */
function failedBar(bar) {
  return bar.outcome === "error" || bar.outcome === "tool-error";
}

/** @param {Bar} bar */
function titleOf(bar) {
  return bar.title ?? (bar.name ? `${bar.method} ${bar.name}` : bar.method);
}

/** @param {Bar} bar */
function latencyOf(bar) {
  return bar.end === null ? "no response" : duration(bar.end - bar.start);
}

/** @param {Bar} bar */
function outcomeOf(bar) {
  const outcome = bar.outcome ?? (bar.end === null ? "open" : "ok");
  return bar.slow ? `${outcome}, slow` : outcome;
}
