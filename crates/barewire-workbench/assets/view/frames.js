// Rows of the program -> the list of frames, with the filter above it.

import { append, attribute, button, byId, el, notice, say, setText, visible } from "./dom.js";
import { count, counted, duration, instant, size } from "./format.js";
import { ApiError, isAborted, wordsOf } from "./api.js";
import { placeOf, show, view } from "./state.js";
import { VirtualList } from "./virtual-list.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").Row} Row
 * @typedef {import("./types").RowQuery} RowQuery
 * @typedef {import("./types").View} View
 */

/** What the columns are called, and the class of their cells. */
const COLUMNS = /** @type {const} */ ([
  ["frame", "#", "Number of the frame"],
  ["time", "Time (s)", "Seconds since the start of the capture"],
  ["dir", "⇄", "Direction"],
  ["kind", "Kind", "Kind of message"],
  ["id", "Id", "JSON-RPC id"],
  ["what", "Method and name", "Method, and tool, prompt or resource"],
  ["size", "Size", "Size of the frame"],
  ["latency", "Latency", "Time from the request to its response"],
  ["note", "Notes", "How the frame relates to others"],
]);

const DIRECTIONS = { ">": ["→", "to the server"], "<": ["←", "to the client"], "!": ["!", "stderr of the server"] };

/**
 * Returns what selects the rows of a view.
 * @param {View} shown
 * @returns {RowQuery}
 */
export function queryOf(shown) {
  return { filter: shown.q, conversation: shown.c, fold: shown.fold, expand: shown.x };
}

/** The list of frames. */
export class Frames {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** The operation of the selected frame. @type {number | null} */
    this.operation = null;
    this.final = true;
    /** @type {WeakMap<HTMLElement, Record<string, HTMLElement>>} */
    this.cells = new WeakMap();
    /** @type {AbortController | null} */
    this.finding = null;
    this.grid = el("div", { class: "grid", role: "treegrid", tabindex: 0, "aria-label": "Frames", "aria-describedby": "frames-status", "aria-colcount": COLUMNS.length });
    this.grid.append(
      el("div", { class: "list-header", role: "rowgroup" }, el("div", { class: "row header", role: "row", "aria-rowindex": 1 }, COLUMNS.map(([name, label, title]) => el("div", { class: `cell ${name}`, role: "columnheader", title, "aria-label": label === "⇄" ? title : null }, label)))),
    );
    this.status = el("span", { id: "frames-status", class: "status" });
    this.foldButton = button("Fold", () => show({ fold: !view().fold, x: "" }), { title: "Fold batches, rounds, progress and HTTP heads below their request (f)" });
    this.followButton = button("Follow", () => this.toggleFollow(), { title: "Stay at the newest frame (F)" });
    this.empty = el("div", { class: "empty", hidden: true });
    append(byId("panel-frames"), el("div", { class: "toolbar" }, this.foldButton, this.followButton, this.status), this.empty, this.grid);
    /** @type {VirtualList<Row>} */
    this.list = new VirtualList({
      scroller: this.grid,
      prefix: "frame-row",
      createRow: () => this.#createRow(),
      fillRow: (row, item) => this.#fillRow(row, item),
      load: (from, length, signal) => this.#load(from, length, signal),
      moved: (item) => this.#moved(item),
      failed: (error) => this.#failed(error),
    });
    this.grid.addEventListener("click", (event) => this.#clicked(event));
    this.grid.addEventListener("dblclick", () => byId("detail").focus());
    this.grid.addEventListener("keydown", (event) => this.#key(event));
    this.grid.addEventListener("scroll", () => this.#showFollow(), { passive: true });
  }

  /** Loads the list from its beginning, because the source or the filter is another one. */
  reset() {
    const shown = view();
    attribute(this.foldButton, "aria-pressed", shown.fold);
    this.filterError("");
    this.list.reset();
    this.#showFollow();
    if (shown.f) this.#findSelected();
  }

  /** Loads what is visible again. */
  refresh() {
    this.list.refresh();
  }

  /** Moves the cursor to the selected frame. */
  select() {
    const item = this.list.item(this.list.cursor);
    if (item && placeOf(item) === view().f) this.list.redraw();
    else this.#findSelected();
  }

  /**
   * Highlights the rows of an operation.
   * @param {number | null} operation
   */
  highlight(operation) {
    if (this.operation === operation) return;
    this.operation = operation;
    this.list.redraw();
  }

  toggleFollow() {
    if (this.list.following) this.list.following = false;
    else this.list.follow();
    this.#showFollow();
  }

  /**
   * Shows what is wrong with the filter.
   * @param {string} text
   */
  filterError(text) {
    const box = byId("filter-error");
    setText(box, text);
    box.hidden = text === "";
    attribute(byId("filter"), "aria-invalid", text !== "");
  }

  /**
   * Moves the cursor by a number of rows.
   * @param {number} rows
   */
  move(rows) {
    this.list.moveTo(this.list.cursor < 0 ? this.list.firstVisible : this.list.cursor + rows);
  }

  /** Unfolds the operation of the row under the cursor, or folds it. */
  toggleRow() {
    const item = this.list.item(this.list.cursor);
    if (item) this.#toggle(item);
  }

  /**
   * @param {number} from
   * @param {number} length
   * @param {AbortSignal} signal
   */
  async #load(from, length, signal) {
    const shown = view();
    if (!shown.s) return { total: 0, rows: [] };
    const answer = await this.api.rows(shown.s, queryOf(shown), from, length, signal);
    this.final = answer.final;
    const words = `${counted(answer.total, "row")}${answer.final ? "" : `, ${count(answer.scanned)} frames searched so far`}`;
    setText(this.status, words);
    if (answer.final) say(words);
    this.empty.hidden = answer.total > 0;
    setText(this.empty, answer.final ? (shown.q || shown.c ? "No frame matches the filter." : "No frames.") : "Reading…");
    return { total: answer.total, rows: answer.rows };
  }

  /** @param {unknown} error */
  #failed(error) {
    if (isAborted(error)) return;
    if (error instanceof ApiError && error.status === 400) {
      this.filterError(wordsOf(error));
      setText(this.status, "");
    } else {
      setText(this.status, wordsOf(error));
    }
  }

  async #findSelected() {
    const shown = view();
    this.finding?.abort();
    this.finding = new AbortController();
    if (!shown.f || !shown.s) {
      this.list.redraw();
      return;
    }
    const { signal } = this.finding;
    try {
      const { index, op } = await this.api.find(shown.s, queryOf(shown), shown.f, signal);
      if (signal.aborted) return;
      if (op !== null && shown.fold && !shown.x.split(",").includes(String(op))) {
        // The frame is folded away: its operation is unfolded, and the frame is looked for again.
        show({ x: [...shown.x.split(",").filter(Boolean), op].join(",") }, { replace: true });
        this.#findSelected();
        return;
      }
      if (index === null) {
        this.list.redraw();
        return;
      }
      // The rows before it say how long the list is.
      if (index >= this.list.total) {
        const { total } = await this.#load(index, 1, signal);
        if (signal.aborted) return;
        this.list.grow(total);
      }
      this.list.moveTo(index, { middle: true, quiet: true });
      this.list.redraw();
    } catch (error) {
      if (!isAborted(error)) this.#failed(error);
    }
  }

  /** @param {Row} item */
  #moved(item) {
    this.operation = item.op;
    const place = placeOf(item);
    if (place && place !== view().f) show({ f: place }, { replace: true });
    this.list.redraw();
    say(item.frame === null ? `event, ${item.event ?? item.kind}` : `frame ${item.frame}, ${item.kind} ${item.method ?? ""} ${item.name ?? ""}`);
  }

  #showFollow() {
    attribute(this.followButton, "aria-pressed", this.list.following);
  }

  /** @param {Event} event */
  #clicked(event) {
    const target = /** @type {Element} */ (event.target);
    const row = target.closest(".list-layer .row");
    if (!row) return;
    const index = Number(row.id.slice("frame-row-".length));
    const item = this.list.item(index);
    if (item && target.closest(".fold")) {
      this.#toggle(item);
      return;
    }
    // A click is a place to come back to; a step with a key is not.
    if (item && placeOf(item)) show({ f: placeOf(item) });
    this.list.moveTo(index);
    this.#showFollow();
  }

  /** @param {Row} item */
  #toggle(item) {
    if (item.op === null || !view().fold) return;
    const unfolded = view().x.split(",").filter(Boolean);
    const operation = String(item.op);
    if (unfolded.includes(operation)) show({ x: unfolded.filter((each) => each !== operation).join(",") }, { replace: true });
    else if (item.children > 0) show({ x: [...unfolded, operation].join(",") }, { replace: true });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { list } = this;
    const unfolded = () => view().x.split(",").includes(String(list.item(list.cursor)?.op));
    switch (event.key) {
      case "ArrowDown":
        this.move(1);
        break;
      case "ArrowUp":
        this.move(-1);
        break;
      case "PageDown":
        this.move(list.visibleRows - 1);
        break;
      case "PageUp":
        this.move(1 - list.visibleRows);
        break;
      case "Home":
        list.moveTo(0);
        break;
      case "End":
        list.moveTo(list.total - 1);
        if (!this.final) list.following = true;
        break;
      case "Enter":
        if (list.cursor < 0) this.move(0);
        else byId("detail").focus();
        break;
      case "ArrowRight":
        if (!unfolded()) this.toggleRow();
        break;
      case "ArrowLeft":
        if (unfolded()) this.toggleRow();
        break;
      case " ":
        this.toggleRow();
        break;
      default:
        return;
    }
    event.preventDefault();
    this.#showFollow();
  }

  #createRow() {
    const cells = /** @type {Record<string, HTMLElement>} */ ({});
    const row = el("div", { class: "row", role: "row" });
    for (const [name] of COLUMNS) {
      cells[name] = el("div", { class: `cell ${name}`, role: "gridcell" });
      row.append(cells[name]);
    }
    cells.fold = el("span", { class: "fold", "aria-hidden": "true" });
    cells.method = el("span", { class: "method" });
    cells.name = el("b", { class: "name" });
    cells.what.append(cells.fold, cells.method, cells.name);
    cells.words = el("span", { class: "words" });
    cells.flags = el("span", { class: "flags" });
    cells.preview = el("span", { class: "preview" });
    cells.note.append(cells.flags, cells.words, cells.preview);
    this.cells.set(row, cells);
    return row;
  }

  /**
   * @param {HTMLElement} row
   * @param {Row | null} item
   */
  #fillRow(row, item) {
    const cells = /** @type {Record<string, HTMLElement>} */ (this.cells.get(row));
    if (!item) {
      row.className = "row loading";
      for (const name of ["frame", "time", "dir", "kind", "id", "size", "latency", "fold", "method", "name", "words", "flags", "preview"]) cells[name].textContent = "";
      return;
    }
    const [arrow, direction] = item.dir ? DIRECTIONS[item.dir] : ["", ""];
    const classes = ["row", `kind-${/^[a-z-]+$/.test(item.kind) ? item.kind : "other"}`];
    const place = placeOf(item);
    const selected = place !== 0 && place === view().f;
    if (selected) classes.push("selected");
    else if (item.op !== null && item.op === this.operation) classes.push("pair");
    if (item.depth) classes.push("child");
    if (item.frame === null) classes.push("event");
    if (item.bad || item.kind === "invalid") classes.push("bad");
    if (item.outcome === "error" || item.outcome === "tool-error") classes.push("failed");
    row.className = classes.join(" ");
    setText(cells.frame, item.frame);
    setText(cells.time, instant(item.time));
    setText(cells.dir, arrow);
    attribute(cells.dir, "title", direction || null);
    attribute(cells.dir, "aria-label", direction || null);
    setText(cells.kind, item.kind);
    setText(cells.id, item.id);
    const folded = item.children > 0;
    const open = item.op !== null && view().x.split(",").includes(String(item.op));
    cells.fold.textContent = folded && view().fold ? (open ? "▾" : `▸ ${item.children}`) : "";
    attribute(row, "aria-level", item.depth + 1);
    attribute(row, "aria-expanded", folded && view().fold ? open : null);
    setText(cells.method, item.event === null ? item.method : item.event);
    setText(cells.name, item.name);
    attribute(cells.what, "title", item.method ? `${item.method}${item.name ? ` ${item.name}` : ""}` : null);
    setText(cells.size, size(item.size));
    setText(cells.latency, duration(item.latency));
    setText(cells.flags, flagsOf(item));
    attribute(cells.flags, "title", item.findings.length ? item.findings.join(", ") : null);
    setText(cells.words, item.note);
    setText(cells.preview, item.preview);
    attribute(cells.note, "title", item.note ? visible(item.note) : null);
  }
}

/** @param {Row} item */
function flagsOf(item) {
  const flags = [];
  if (item.kind === "invalid") flags.push("✗");
  if (item.findings.length) flags.push(`⚠${item.findings.length > 1 ? item.findings.length : ""}`);
  if (item.redacted) flags.push("redacted");
  return flags.join(" ");
}

/** Says that a frame cannot be seen. @param {import("./types").RowPlace} place */
export function hiddenByFilter(place) {
  notice(`The filter hides ${typeof place === "number" ? `frame ${place}` : "the event"}`);
}
