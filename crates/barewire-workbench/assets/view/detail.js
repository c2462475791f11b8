// One frame -> everything that is known about it: what is wrong, its operation, HTTP heads, members, text.

import { append, appendText, attribute, button, byId, copy, el, remember, remembered, replace, say } from "./dom.js";
import { counted, duration, instant, size } from "./format.js";
import { isAborted, wordsOf } from "./api.js";
import { JsonTree } from "./json-tree.js";
import { placeOf, show, view, viewLink } from "./state.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").Frame} Frame
 * @typedef {import("./types").Operation} Operation
 */

/** Bytes of a text that are shown at once. */
const TEXT_PART = 65_536;

/** The most that the program takes in one request, in bytes. */
const MOST_EDITED = 4 * 1024 * 1024;

/** @param {number} length */
function tooLong(length) {
  return new Error(`The frame has ${size(length)}, which is too long to be edited here: at most ${size(MOST_EDITED)} can be sent, as text in JSON`);
}

/** The frame that is selected. */
export class Detail {
  /**
   * @param {Api} api
   * @param {(frame: Frame | null) => void} loaded
   * @param {() => void} edit
   */
  constructor(api, loaded, edit) {
    this.api = api;
    this.loaded = loaded;
    this.edit = edit;
    this.drivable = false;
    /** @type {Frame | null} */
    this.frame = null;
    this.source = "";
    /** Whether the frame could not be loaded. It may not have been read yet. */
    this.isMissing = false;
    /** Whether the program has not read this frame yet. @type {(source: string, place: ReturnType<typeof view>["f"]) => boolean} */
    this.isUnread = () => false;
    /** @type {AbortController | null} */
    this.loading = null;
    this.pane = byId("detail");
  }

  /** Shows the frame or the event of the view. */
  async show() {
    const { s: source, f: place } = view();
    if (this.frame && placeOf(this.frame.row) === place && this.source === source) return;
    this.loading?.abort();
    this.loading = new AbortController();
    this.isMissing = false;
    const { signal } = this.loading;
    document.body.classList.toggle("has-detail", place !== 0);
    if (!place || !source) {
      this.frame = null;
      this.loaded(null);
      replace(this.pane, el("p", { class: "empty" }, "Select a frame to see what is in it."));
      return;
    }
    if (this.isUnread(source, place)) {
      this.#missing(place, "The frame has not been read yet.");
      return;
    }
    try {
      const frame = await this.api.frame(source, place, signal);
      if (signal.aborted) return;
      this.frame = frame;
      this.source = source;
      this.#fill(frame);
      this.loaded(frame);
    } catch (error) {
      if (isAborted(error)) return;
      this.#missing(place, wordsOf(error));
    }
  }

  /**
   * @param {ReturnType<typeof view>["f"]} place
   * @param {string} why
   */
  #missing(place, why) {
    this.frame = null;
    this.isMissing = true;
    this.loaded(null);
    replace(this.pane, this.#bar(typeof place === "number" ? `Frame ${place}` : "Event"), el("p", { class: "empty" }, why));
  }

  /** Loads the frame again: its response may have arrived. */
  async refresh() {
    const { frame, source } = this;
    if (this.isMissing) this.show();
    if (!frame?.operation || frame.operation.latency !== null) return;
    try {
      const newer = await this.api.frame(source, placeOf(frame.row));
      if (this.frame !== frame || newer.operation?.frames.length === frame.operation.frames.length) return;
      frame.operation = newer.operation;
      const old = this.pane.querySelector(".operation");
      if (old && newer.operation) old.replaceWith(this.#operation(newer.operation));
    } catch {
      // The next change asks again.
    }
  }

  /**
   * Returns the whole text of the frame, to edit it, and what is to be known about it; null if there is no frame, or
   * another one by then. Fails if the text is too long to be sent, or was not kept.
   * @returns {Promise<{text: string, warnings: string[]} | null>}
   */
  async editable() {
    const { frame, source } = this;
    if (!frame || frame.row.frame === null) return null;
    if (frame.length > MOST_EDITED) throw tooLong(frame.length);
    const parts = [];
    let isLossy = false;
    // Secrets that were replaced make the text longer or shorter than the frame.
    for (let at = 0, end = 1; at < end; ) {
      const part = await this.api.text(source, frame.row.frame, at, TEXT_PART);
      if (this.frame !== frame) return null;
      if (part.to <= at && frame.length > 0) throw new Error("The text of this frame was not kept, so it cannot be edited");
      parts.push(part.text);
      isLossy ||= part.lossy;
      [at, end] = [part.to, part.length];
    }
    const text = parts.join("");
    if (new TextEncoder().encode(JSON.stringify({ text })).length > MOST_EDITED) throw tooLong(frame.length);
    const warnings = [];
    if (isLossy) warnings.push("The frame has bytes that are not UTF-8. They are written as \\xHH here, and these letters would be sent.");
    if (frame.row.redacted || /<redacted-\d+>/.test(text)) warnings.push("Secrets of the frame were replaced: <redacted-…> would be sent in their place.");
    return { text, warnings };
  }

  /** Goes from a request to its response, and back. */
  partner() {
    const frame = this.frame;
    const frames = frame?.operation?.frames.filter((each) => each.role === "request" || each.role === "response") ?? [];
    const here = frames.findIndex((each) => each.frame === frame?.row.frame);
    // Several rounds have several pairs: the response follows its request.
    const next = here < 0 ? frames[0] : frames[here].role === "request" ? frames[here + 1] : frames[here - 1];
    if (next) show({ f: next.frame });
    else say("No request or response belongs to this frame");
  }

  /** @param {string} title */
  #bar(title) {
    return el("div", { class: "detail-bar" }, el("h2", null, title), this.#close());
  }

  #close() {
    return button("✕", () => show({ f: 0 }), { class: "quiet", title: "Close (Esc)", "aria-label": "Close the frame" });
  }

  /** @param {Frame} frame */
  #fill(frame) {
    const { row } = frame;
    const heading = el("h2", null, row.frame === null ? "Event" : `Frame ${row.frame}`);
    const bar = el(
      "div",
      { class: "detail-bar" },
      heading,
      ...(row.frame === null ? [] : [this.#step("‹", frame.prev, "Previous frame"), this.#step("›", frame.next, "Next frame")]),
      el("span", { class: "spring" }),
      el("button", { type: "button", class: "quiet wide-only", title: "Make this pane wide, or narrow again (w)", "aria-label": "Wide", onclick: () => document.body.classList.toggle("wide-detail") }, "⇔"),
      this.#close(),
    );
    const facts = [row.dir === ">" ? "to the server" : row.dir === "<" ? "to the client" : "", row.time === null ? "" : `at ${instant(row.time)} s`, size(frame.length), row.latency === null ? "" : `after ${duration(row.latency)}`, row.conversation ?? ""];
    const title = el("p", { class: "detail-title" }, el("span", { class: `kind kind-${/^[a-z-]+$/.test(row.kind) ? row.kind : "other"}` }, row.kind), " ", el("span", { class: "method" }, row.method ?? ""), " ", el("b", null, row.name ?? ""));
    /** @type {HTMLElement[]} */
    const parts = [bar, title, el("p", { class: "facts" }, facts.filter(Boolean).join(" · ")), this.#copies(frame)];
    if (row.note) parts.push(el("p", { class: "facts" }, row.note));
    if (frame.explanation) parts.push(el("p", { class: "explanation" }, frame.explanation));
    if (frame.invalid) parts.push(this.#invalid(frame.invalid));
    if (frame.findings.length) parts.push(this.#findings(frame));
    if (frame.schema.length) parts.push(this.#schema(frame.schema));
    if (frame.operation) parts.push(this.#operation(frame.operation));
    if (frame.elements.length) parts.push(this.#elements(frame));
    if (frame.http) parts.push(this.#http(frame.http));
    // The heads have all that the event of an exchange says.
    if (row.kind !== "http" || !frame.http) parts.push(this.#content(frame));
    replace(this.pane, ...parts);
    this.pane.scrollTop = 0;
  }

  /**
   * @param {string} label
   * @param {number | null} target
   * @param {string} title
   */
  #step(label, target, title) {
    return button(label, () => target && show({ f: target }), { class: "quiet", title, "aria-label": title, disabled: target === null });
  }

  /** @param {Frame} frame */
  #copies(frame) {
    const { json, call, curl } = frame.copy;
    const line = el("div", { class: "copies" });
    /** @param {string} text @param {string} what */
    const copyText = (text, what) => copy(text, /<redacted-\d+>/.test(text) ? `${what}, in which <redacted-…> stands for secrets: fill them in` : what);
    if (json !== null) append(line, button("Copy JSON", () => copyText(json, "the JSON")));
    if (call !== null) append(line, button("Copy as call", () => copyText(call, "the command"), { title: call }));
    if (curl !== null) append(line, button("Copy as curl", () => copyText(curl, "the command"), { title: curl }));
    append(line, button("Copy link", () => copy(location.href, "the link")));
    if (this.drivable && frame.row.frame !== null) append(line, button("Edit and send", () => this.edit(), { title: "Edit this frame and send it to the server (r)" }));
    return line;
  }

  /** @param {import("./types").InvalidFrame} invalid */
  #invalid(invalid) {
    const caret = `${" ".repeat(Math.max(0, invalid.caret))}^`;
    const excerpt = el("pre", { class: "excerpt" }, `${invalid.excerpt}\n${caret}`);
    return el("section", { class: "box bad" }, el("h3", null, `Not a valid message: ${invalid.rule}`), el("p", null, `${invalid.detail}, at byte ${invalid.at}`), excerpt);
  }

  /** @param {Frame} frame */
  #findings(frame) {
    const list = frame.findings.map((finding) => {
      const place = finding.places.find((each) => each.frame === frame.row.frame) ?? finding.places[0];
      const lines = [el("p", { class: "finding-title" }, el("span", { class: `level level-${severityClass(finding.severity)}` }, finding.severity), " ", finding.title)];
      if (place?.detail) lines.push(el("p", null, place.detail));
      if (finding.fix) lines.push(el("p", { class: "fix" }, el("b", null, "Fix: "), finding.fix));
      if (finding.rule) lines.push(el("p", { class: "rule" }, finding.rule));
      return el("li", null, lines);
    });
    return el("section", { class: "box warn" }, el("h3", null, counted(frame.findings.length, "finding")), el("ul", { class: "plain" }, list));
  }

  /** @param {Frame["schema"]} errors */
  #schema(errors) {
    const list = errors.map((error) => el("li", null, button(error.path || "(whole)", () => this.#reveal(error.at), { class: "quiet code" }), " ", error.message));
    return el("section", { class: "box bad" }, el("h3", null, "Members that do not fit"), el("ul", { class: "plain" }, list));
  }

  /** @param {Operation} operation */
  #operation(operation) {
    const name = operation.title ?? `${operation.method ?? ""} ${operation.name ?? ""}`.trim();
    const rows = operation.frames.map((each) =>
      el(
        "tr",
        { class: each.frame === view().f ? "selected" : null },
        el("td", { class: "number" }, viewLink({ f: each.frame }, { "aria-current": each.frame === view().f ? "true" : null }, String(each.frame))),
        el("td", null, each.role ?? ""),
        el("td", { class: "number" }, instant(each.time)),
        el("td", { class: "number" }, duration(each.latency)),
      ),
    );
    const facts = [operation.state, operation.latency === null ? "" : duration(operation.latency), operation.asker === null ? "" : `asked by the ${operation.asker}`].filter(Boolean).join(" · ");
    const table = el("table", { class: "data" }, el("thead", null, el("tr", null, ["Frame", "Role", "Time (s)", "Latency"].map((label) => el("th", { scope: "col" }, label)))), el("tbody", null, rows));
    const around = [];
    if (operation.parent !== null) around.push(el("p", null, "Asked during ", this.#operationLink(operation.parent)));
    if (operation.children.length) around.push(el("p", null, "Asked meanwhile: ", ...operation.children.flatMap((child, index) => [index ? ", " : "", this.#operationLink(child)])));
    return el("section", { class: "operation" }, el("h3", null, `Operation ${operation.number}: ${name}`), el("p", { class: "facts" }, facts), ...around, el("div", { class: "table-box" }, table));
  }

  /** @param {import("./types").OperationRef | number} reference */
  #operationLink(reference) {
    if (typeof reference === "number") return `operation ${reference}`;
    const label = reference.title ?? `${reference.method ?? "operation"} ${reference.name ?? reference.number ?? reference.op ?? ""}`.trim();
    return reference.frame ? viewLink({ f: reference.frame }, null, label) : label;
  }

  /** @param {Frame} frame */
  #elements(frame) {
    const rows = frame.elements.map((each, index) => el("tr", null, el("td", { class: "number" }, String(index)), el("td", null, each.kind), el("td", null, String(each.id ?? "")), el("td", null, `${each.method ?? ""} ${each.name ?? ""}`), el("td", null, each.note ?? "")));
    return el("section", null, el("h3", null, `Batch of ${counted(rows.length, "message")}`), el("div", { class: "table-box" }, el("table", { class: "data" }, el("tbody", null, rows))));
  }

  /** @param {import("./types").HttpHeads} http */
  #http(http) {
    /** @param {[string, string][]} headers */
    const table = (headers) => el("div", { class: "table-box" }, el("table", { class: "data headers" }, el("tbody", null, headers.map(([name, value]) => el("tr", null, el("th", { scope: "row" }, name), el("td", null, value))))));
    const section = el("section", null);
    if (http.request) append(section, el("h3", null, `${http.request.method} ${http.request.target}`), table(http.request.headers));
    if (http.response) append(section, el("h3", { class: http.response.status >= 400 ? "failed" : null }, `${http.response.status} ${http.response.reason}`), table(http.response.headers));
    return section;
  }

  /** @param {Frame} frame */
  #content(frame) {
    const { source } = this;
    const place = placeOf(frame.row);
    this.text = new RawText(frame, (from) => this.api.text(source, place, from, TEXT_PART));
    this.tree = new JsonTree({
      load: async (at, from, length) => {
        const { nodes, total } = await this.api.tree(source, Number(place), at, from, length);
        /** @param {Frame["schema"]} list @param {number} place */
        const saidAt = (list, place) => list.find((each) => each.at === place)?.message ?? null;
        return { nodes: nodes.map((node) => ({ ...node, schema: saidAt(frame.schema, node.at), mark: saidAt(frame.marks, node.at) })), total };
      },
      selected: (node) => this.text?.mark(node.at, node.length),
    });
    this.tree.show(frame.tree);
    const box = el("div", { class: "content" });
    const mode = remembered("content") ?? "both";
    const choices = ["tree", "text", "both"].map((each) =>
      button(each === "both" ? "Both" : each === "tree" ? "Tree" : "Text", () => {
        remember("content", each);
        box.dataset.mode = each;
        choices.forEach((choice) => attribute(choice, "aria-pressed", choice.dataset.mode === each));
      }, { "data-mode": each, "aria-pressed": each === mode }),
    );
    box.dataset.mode = frame.tree.length ? mode : "text";
    const notes = [];
    if (frame.row.redacted) notes.push("secrets are redacted");
    if (frame.lossy) notes.push("bytes that are not UTF-8 are shown as \\xHH");
    append(box, frame.tree.length ? this.tree.element : null, this.text.element);
    return el("section", null, el("div", { class: "content-bar" }, el("h3", null, "Content"), frame.tree.length ? el("div", { class: "segments", role: "group", "aria-label": "Show the content as" }, choices) : null, el("span", { class: "facts" }, notes.join(", "))), box);
  }

  /** @param {number} at */
  async #reveal(at) {
    await this.tree?.reveal(at);
    await this.text?.mark(at, 1);
    this.pane.querySelector(".content")?.scrollIntoView({ block: "nearest" });
  }
}

/**
 * Returns a severity as part of the name of a class.
 * @param {string} severity
 */
export function severityClass(severity) {
  return ["critical", "high", "medium"].includes(severity) ? severity : "other";
}

/** The text of a frame, of which one part is shown at a time. */
class RawText {
  /**
   * @param {Frame} frame
   * @param {(from: number) => Promise<import("./types").FrameText>} load
   */
  constructor(frame, load) {
    this.load = load;
    this.length = frame.length;
    this.lossy = frame.lossy;
    this.from = 0;
    this.to = frame.text_complete ? frame.length : Math.min(frame.length, TEXT_PART);
    this.string = frame.text;
    this.box = el("pre", { class: "raw", tabindex: 0, "aria-label": "Text of the frame" });
    this.where = el("span", { class: "facts" });
    const pager = el("div", { class: "pager" }, button("‹", () => this.#go(this.from - TEXT_PART), { "aria-label": "Previous part", class: "quiet" }), button("›", () => this.#go(this.to), { "aria-label": "Next part", class: "quiet" }), button("End", () => this.#go(this.length - TEXT_PART), { class: "quiet" }), this.where);
    pager.hidden = frame.text_complete;
    this.element = el("div", { class: "raw-box" }, pager, this.box);
    this.#draw();
  }

  /** @param {number} from */
  async #go(from) {
    const start = Math.max(0, Math.min(from, this.length - 1));
    if (start === this.from) return;
    const part = await this.load(start);
    this.from = part.from;
    this.to = part.to;
    this.length = part.length;
    this.string = part.text;
    this.lossy = part.lossy;
    this.#draw();
  }

  #draw() {
    CSS.highlights?.delete("member");
    this.box.replaceChildren();
    appendText(this.box, this.string);
    replace(this.where, `bytes ${this.from} to ${this.to} of ${this.length}`);
  }

  /**
   * Marks a range of bytes, and scrolls to it.
   * @param {number} at
   * @param {number} length
   */
  async mark(at, length) {
    if (at < this.from || at >= this.to) await this.#go(Math.max(0, at - 1024));
    CSS.highlights?.delete("member");
    // Escapes of bytes are longer than the bytes, so offsets would be wrong.
    if (this.lossy || !CSS.highlights) return;
    const [start, end] = [this.#place(at - this.from), this.#place(Math.min(at + length, this.to) - this.from)];
    if (!start || !end) return;
    const range = document.createRange();
    range.setStart(start.node, start.offset);
    range.setEnd(end.node, end.offset);
    CSS.highlights.set("member", new Highlight(range));
    const rectangle = range.getBoundingClientRect();
    const box = this.box.getBoundingClientRect();
    if (rectangle.top < box.top || rectangle.top > box.bottom - 20) this.box.scrollTop += rectangle.top - box.top - box.height / 3;
  }

  /**
   * Returns the place of a byte in the elements.
   * @param {number} byte
   */
  #place(byte) {
    let bytes = 0;
    let unit = 0;
    while (bytes < byte && unit < this.string.length) {
      const code = this.string.codePointAt(unit) ?? 0;
      bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
      unit += code > 0xffff ? 2 : 1;
    }
    let passed = 0;
    for (const node of this.box.childNodes) {
      const units = node instanceof Text ? node.data.length : (this.string.codePointAt(passed) ?? 0) > 0xffff ? 2 : 1;
      if (unit <= passed + units) return node instanceof Text ? { node, offset: unit - passed } : { node, offset: unit > passed ? 1 : 0 };
      passed += units;
    }
    return null;
  }
}
