// Pages of rows that are loaded when they come into sight -> a list of any length of which only the visible rows exist.

import { attribute, el } from "./dom.js";

/** Rows that are loaded at once. */
const PAGE = 200;
/** Pages that are kept. A row takes about 1 KB, so this is about 16 MB. */
const MOST_PAGES = 80;
/** The height up to which the list is as high as its rows. Browsers have a limit, which is lower if the page is zoomed. */
const MOST_HEIGHT = 6_000_000;
/** Pages that are loaded at the same time. A browser has six connections to a server. */
const MOST_LOADS = 2;

/**
 * @template Item
 * @typedef {{
 *   scroller: HTMLElement,
 *   prefix: string,
 *   createRow: () => HTMLElement,
 *   fillRow: (row: HTMLElement, item: Item | null, index: number) => void,
 *   load: (from: number, count: number, signal: AbortSignal) => Promise<{total: number, rows: Item[]}>,
 *   moved: (item: Item, index: number) => void,
 *   failed: (error: unknown) => void,
 * }} ListOptions
 */

/**
 * A list whose rows are in a scrolling element. The element has the focus; the cursor is its active descendant.
 * @template Item
 */
export class VirtualList {
  /** @param {ListOptions<Item>} options */
  constructor(options) {
    this.options = options;
    this.scroller = options.scroller;
    this.total = 0;
    this.cursor = -1;
    /** Whether the list stays at its end when rows are added. */
    this.following = false;
    /** Pixels from the top of the first row to the top of the visible part, as if the list had its full height. */
    this.offset = 0;
    this.rowHeight = 22;
    this.lastScroll = 0;
    this.generation = 0;
    /** @type {Map<number, {generation: number, rows: Item[]}>} the page used last is the last */
    this.pages = new Map();
    /** @type {Map<number, AbortController>} */
    this.loads = new Map();
    /** @type {HTMLElement[]} */
    this.pool = [];
    this.frame = 0;
    this.idle = 0;
    this.settle = 0;
    /** Whether the row under the cursor has to be loaded before its move can be told. */
    this.moving = false;
    this.viewHeight = 0;
    this.layer = el("div", { class: "list-layer", role: "presentation" });
    this.spacer = el("div", { class: "list-spacer", role: "presentation" }, this.layer);
    this.scroller.append(this.spacer);
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#resize()).observe(this.scroller);
  }

  /** Forgets all rows: the list is another one now. */
  reset() {
    for (const load of this.loads.values()) load.abort();
    this.loads.clear();
    this.pages.clear();
    this.generation += 1;
    this.cursor = -1;
    this.moving = false;
    this.total = 0;
    this.offset = 0;
    this.#resize();
    this.#want(0);
  }

  /** Loads what is visible again: rows may have changed or have been added. */
  refresh() {
    this.generation += 1;
    this.#draw();
    // Without rows nothing is visible, so nothing would be loaded.
    if (this.total === 0) this.#want(0);
    else if (this.following) this.#want(Math.floor((this.total - 1) / PAGE));
  }

  /**
   * Returns a row that has been loaded.
   * @param {number} index
   * @returns {Item | null}
   */
  item(index) {
    return this.pages.get(Math.floor(index / PAGE))?.rows[index % PAGE] ?? null;
  }

  /** The number of rows that fit into the visible part. */
  get visibleRows() {
    return Math.max(1, Math.floor(this.viewHeight / this.rowHeight));
  }

  /** The index of the first row that is visible. */
  get firstVisible() {
    return Math.floor(this.offset / this.rowHeight);
  }

  /**
   * Moves the cursor, and scrolls only as far as needed, or puts the row into the middle.
   * @param {number} index
   * @param {{middle?: boolean, quiet?: boolean}} [how]
   */
  moveTo(index, how) {
    if (this.total === 0) return;
    this.cursor = Math.max(0, Math.min(index, this.total - 1));
    const top = this.cursor * this.rowHeight;
    const hidden = top < this.offset || top + this.rowHeight > this.offset + this.viewHeight;
    if (how?.middle && hidden) this.#setOffset(top - this.viewHeight / 2 + this.rowHeight / 2);
    else if (top < this.offset) this.#setOffset(top);
    else if (hidden) this.#setOffset(top + this.rowHeight - this.viewHeight);
    if (!how?.quiet && this.cursor < this.total - 1) this.following = false;
    this.#draw();
    if (!how?.quiet) this.#tellMove();
  }

  /**
   * Makes the list as long as it is by now.
   * @param {number} total
   */
  grow(total) {
    if (total === this.total) return;
    this.total = total;
    this.#resize();
  }

  /** Shows the last row, and stays at the end. */
  follow() {
    this.following = true;
    this.#setOffset(this.#mostOffset);
    this.#draw();
  }

  /** Draws the rows again, with the items that are there. */
  redraw() {
    for (const row of this.pool) row.dataset.drawn = "";
    this.#draw();
  }

  #tellMove() {
    const item = this.item(this.cursor);
    this.moving = item === null;
    if (item !== null) this.options.moved(item, this.cursor);
  }

  get #fullHeight() {
    return this.total * this.rowHeight;
  }

  get #mostOffset() {
    return Math.max(0, this.#fullHeight - this.viewHeight);
  }

  /** The most that the element can be scrolled. */
  get #mostScroll() {
    return Math.max(0, Math.min(this.#fullHeight, MOST_HEIGHT) - this.viewHeight);
  }

  /** @param {number} offset */
  #setOffset(offset) {
    this.offset = Math.max(0, Math.min(offset, this.#mostOffset));
    this.#syncScroll();
  }

  /** Moves the scroll bar to where the offset says it should be. */
  #syncScroll() {
    const most = this.#mostOffset;
    const target = most > 0 ? Math.round((this.offset / most) * this.#mostScroll) : 0;
    this.lastScroll = target;
    if (Math.abs(this.scroller.scrollTop - target) >= 1) this.scroller.scrollTop = target;
    this.lastScroll = this.scroller.scrollTop;
  }

  #scrolled() {
    const at = this.scroller.scrollTop;
    const delta = at - this.lastScroll;
    if (Math.abs(delta) < 1) return;
    this.lastScroll = at;
    const most = this.#mostOffset;
    if (this.#fullHeight <= MOST_HEIGHT) {
      this.offset = at;
    } else if (Math.abs(delta) < 3 * this.viewHeight && at > 0 && at < this.#mostScroll) {
      // A step of the wheel: as many pixels as the user expects, although the scroll bar stands for more.
      this.offset += delta;
    } else {
      this.offset = (at / Math.max(1, this.#mostScroll)) * most;
    }
    this.offset = Math.max(0, Math.min(this.offset, most));
    this.following = this.offset >= most - this.rowHeight;
    clearTimeout(this.idle);
    this.idle = window.setTimeout(() => this.#syncScroll(), 150);
    this.#schedule();
  }

  #schedule() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.#draw();
    });
  }

  #resize() {
    const style = getComputedStyle(this.scroller);
    this.rowHeight = parseFloat(style.getPropertyValue("--row-height")) || 22;
    const header = /** @type {HTMLElement | null} */ (this.scroller.querySelector(".list-header"));
    const top = header?.offsetHeight ?? 0;
    this.spacer.style.height = `${Math.max(Math.min(this.#fullHeight, MOST_HEIGHT), this.scroller.clientHeight - top)}px`;
    this.layer.style.top = `${top}px`;
    this.viewHeight = Math.max(0, this.scroller.clientHeight - top);
    this.layer.style.height = `${this.viewHeight}px`;
    if (this.following) this.offset = this.#mostOffset;
    this.offset = Math.min(this.offset, this.#mostOffset);
    this.#syncScroll();
    this.redraw();
  }

  #draw() {
    const rows = Math.ceil(this.viewHeight / this.rowHeight) + 1;
    while (this.pool.length < rows) {
      const row = this.options.createRow();
      this.pool.push(row);
      this.layer.append(row);
    }
    while (this.pool.length > rows) this.pool.pop()?.remove();
    const first = Math.floor(this.offset / this.rowHeight);
    let active = "";
    for (let step = 0; step < rows; step += 1) {
      const index = first + step;
      // Each index has its own element, so that most elements keep their content while the list scrolls.
      const row = this.pool[index % rows];
      if (index >= this.total) {
        row.hidden = true;
        row.dataset.drawn = "";
        continue;
      }
      row.hidden = false;
      row.style.transform = `translateY(${index * this.rowHeight - this.offset}px)`;
      const page = this.pages.get(Math.floor(index / PAGE));
      const drawn = `${index}:${page ? page.generation : "-"}:${index === this.cursor ? 1 : 0}`;
      if (row.dataset.drawn !== drawn) {
        row.dataset.drawn = drawn;
        row.id = `${this.options.prefix}-${index}`;
        attribute(row, "aria-rowindex", index + 2);
        attribute(row, "aria-selected", index === this.cursor);
        this.options.fillRow(row, page?.rows[index % PAGE] ?? null, index);
      }
      if (index === this.cursor) active = row.id;
    }
    attribute(this.scroller, "aria-activedescendant", active || null);
    attribute(this.scroller, "aria-rowcount", this.total + 1);
    this.#loadVisible(first, Math.min(this.total, first + rows));
  }

  /**
   * @param {number} first
   * @param {number} end
   */
  #loadVisible(first, end) {
    if (end <= first) return;
    /** @type {number[]} */
    const wanted = [];
    for (let page = Math.floor(first / PAGE); page <= Math.floor((end - 1) / PAGE); page += 1) wanted.push(page);
    if (this.following) wanted.push(Math.floor((this.total - 1) / PAGE));
    for (const [page, load] of this.loads) {
      if (!wanted.includes(page) && page !== 0) {
        load.abort();
        this.loads.delete(page);
      }
    }
    if (wanted.every((page) => this.pages.get(page)?.generation === this.generation)) return;
    clearTimeout(this.settle);
    // While the scroll bar is dragged, every position would ask for other rows.
    const dragged = wanted.every((page) => !this.pages.has(page)) && this.pages.size > 0;
    if (dragged) this.settle = window.setTimeout(() => wanted.forEach((page) => this.#want(page)), 40);
    else for (const page of wanted) this.#want(page);
  }

  /** @param {number} page */
  async #want(page) {
    const generation = this.generation;
    if (this.loads.has(page) || this.pages.get(page)?.generation === generation) return;
    if (this.loads.size >= MOST_LOADS) return;
    const load = new AbortController();
    this.loads.set(page, load);
    let failure = null;
    try {
      const { total, rows } = await this.options.load(page * PAGE, PAGE, load.signal);
      if (load.signal.aborted) return;
      this.pages.delete(page);
      this.pages.set(page, { generation, rows });
      for (const oldest of this.pages.keys()) {
        if (this.pages.size <= MOST_PAGES) break;
        this.pages.delete(oldest);
      }
      if (total !== this.total) {
        this.total = total;
        this.cursor = Math.min(this.cursor, total - 1);
        this.#resize();
      }
    } catch (error) {
      failure = error;
    } finally {
      if (this.loads.get(page) === load) this.loads.delete(page);
    }
    if (load.signal.aborted) return;
    if (failure) this.options.failed(failure);
    else {
      this.#draw();
      if (this.moving) this.#tellMove();
    }
  }
}
