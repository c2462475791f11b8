// What a server offers -> forms; what the user enters -> requests of the program, with their progress and results.

import { append, attribute, button, byId, el, notice, replace, setText, visible } from "./dom.js";
import { counted, duration } from "./format.js";
import { wordsOf } from "./api.js";
import { shortName } from "./conversations.js";
import { SchemaForm, textForm } from "./form.js";
import { viewLink } from "./state.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").Catalog} Catalog
 * @typedef {import("./types").CallState} CallState
 * @typedef {import("./types").Source} Source
 * @typedef {import("./types").Json} Json
 */

const KINDS = /** @type {const} */ ([["tools", "Tools"], ["resources", "Resources"], ["templates", "Templates"], ["prompts", "Prompts"], ["any", "Any request"], ["raw", "Raw frame"], ["replay", "Replay"]]);
/** Entries that are listed at once. */
const MOST_ENTRIES = 300;
/** Calls whose results are kept. */
const MOST_CALLS = 50;

/** Drives a server. */
export class DriveTab {
  /**
   * @param {Api} api
   * @param {import("./questions.js").Questions} questions
   * @param {() => Source[]} sources
   */
  constructor(api, questions, sources) {
    this.api = api;
    this.questions = questions;
    this.sources = sources;
    this.source = "";
    this.kind = "tools";
    /** @type {Catalog | null} */
    this.catalog = null;
    this.chosen = "";
    this.frameText = "";
    /** What the user has to know about the frame. @type {string[]} */
    this.frameWarnings = [];
    this.panel = byId("panel-drive");
    this.search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search what the server offers" });
    this.search.addEventListener("input", () => this.#fillList());
    this.kinds = el("div", { class: "segments", role: "group", "aria-label": "What to send" }, KINDS.map(([kind, label]) => button(label, () => this.#choose(kind), { "data-kind": kind, "aria-pressed": "false" })));
    this.list = el("ul", { class: "plain entries" });
    this.form = el("div", { class: "drive-form" });
    this.calls = el("ol", { class: "plain calls", "aria-label": "Calls" });
    this.questionButton = button("Questions", () => this.questions.look(this.source, { again: true }), { hidden: true, class: "primary" });
    this.status = el("span", { class: "status" });
  }

  /**
   * Shows the server of the view.
   * @param {Source | undefined} source
   */
  show(source) {
    if (!source?.drivable) {
      this.source = "";
      const other = this.sources().find((each) => each.drivable);
      replace(this.panel, el("p", { class: "empty" }, "This source cannot be driven. ", other ? viewLink({ s: String(other.id), c: "", f: 0 }, null, `Go to ${other.name}`) : "Start one with: barewire view -- SERVER"));
      return;
    }
    this.#note(source);
    const id = String(source.id);
    if (this.source === id) return;
    this.source = id;
    this.catalog = null;
    this.chosen = "";
    this.calls.replaceChildren();
    replace(this.panel, el("div", { class: "toolbar" }, this.kinds, button("List again", () => this.#list(true), { title: "Ask the server again what it offers" }), this.questionButton, this.status), el("div", { class: "drive" }, el("div", { class: "drive-list" }, this.search, this.list), el("div", { class: "drive-main" }, this.form, el("h2", null, "Calls"), this.calls)));
    this.#choose(this.kind);
    this.#list(false);
  }

  /** @param {Source} source */
  #note(source) {
    this.questionButton.hidden = !source.questions;
    setText(this.questionButton, counted(source.questions ?? 0, "question"));
  }

  /**
   * Shows a frame in the editor.
   * @param {string} text
   * @param {string[]} warnings
   */
  edit(text, warnings) {
    this.frameText = text;
    this.frameWarnings = warnings;
    this.#choose("raw");
    this.form.querySelector("textarea")?.focus();
  }

  /** @param {boolean} refresh */
  async #list(refresh) {
    const { source } = this;
    setText(this.status, "Asking the server what it offers…");
    try {
      const catalog = await this.api.catalog(source, refresh);
      if (this.source !== source) return;
      this.catalog = catalog;
      setText(this.status, (catalog.errors ?? []).join("; "));
      this.#fillList();
    } catch (error) {
      setText(this.status, wordsOf(error));
    }
  }

  /** @param {string} kind */
  #choose(kind) {
    this.kind = kind;
    this.chosen = "";
    for (const each of this.kinds.querySelectorAll("button")) attribute(each, "aria-pressed", each.dataset.kind === kind);
    this.search.hidden = ["any", "raw", "replay"].includes(kind);
    this.#fillList();
    if (kind === "any") this.#anyForm();
    else if (kind === "raw") this.#rawForm();
    else if (kind === "replay") this.#replayForm();
    else replace(this.form, el("p", { class: "empty" }, "Choose one from the list."));
  }

  /** @returns {Json[]} */
  #entries() {
    if (!this.catalog || !["tools", "resources", "templates", "prompts"].includes(this.kind)) return [];
    const list = this.catalog[/** @type {"tools"} */ (this.kind)];
    return Array.isArray(list) ? list : [];
  }

  #fillList() {
    const wanted = this.search.value.toLowerCase();
    const entries = this.#entries().filter((entry) => keyOf(entry).toLowerCase().includes(wanted) || identityOf(entry).toLowerCase().includes(wanted) || String(entry.title ?? "").toLowerCase().includes(wanted));
    /** @type {Map<string, number>} */
    const named = new Map();
    for (const entry of this.#entries()) named.set(keyOf(entry), (named.get(keyOf(entry)) ?? 0) + 1);
    const items = entries.slice(0, MOST_ENTRIES).map((entry) => {
      const key = keyOf(entry);
      const title = typeof entry.title === "string" && entry.title !== key ? entry.title : "";
      const identity = identityOf(entry);
      const one = button(key, () => this.#open(entry), { class: "entry", "aria-current": identity === this.chosen ? "true" : null, "data-key": identity, title });
      // Resources can have one name.
      if ((named.get(key) ?? 0) > 1 && identity !== key) append(one, el("span", { class: "facts" }, identity));
      return el("li", null, one);
    });
    replace(this.list, ...items);
    if (entries.length > items.length) append(this.list, el("li", { class: "facts" }, `and ${entries.length - items.length} more: search`));
    if (this.catalog && entries.length === 0 && !this.search.hidden) append(this.list, el("li", { class: "facts" }, "none"));
  }

  /** @param {Json} entry */
  #open(entry) {
    this.chosen = identityOf(entry);
    for (const each of this.list.querySelectorAll("button")) attribute(each, "aria-current", each.dataset.key === visible(this.chosen) ? "true" : null);
    const head = [el("h2", null, keyOf(entry)), typeof entry.title === "string" ? el("p", null, entry.title) : null, typeof entry.description === "string" ? el("p", { class: "description", tabindex: isLong(entry.description) ? 0 : null }, entry.description) : null];
    if (this.kind === "tools") this.#toolForm(entry, head);
    else if (this.kind === "resources") this.#fillForm([...head, el("p", null, el("code", { class: "address" }, String(entry.uri)))], "Read", () => this.#call("resources/read", JSON.stringify({ uri: entry.uri }), String(entry.uri)));
    else if (this.kind === "prompts") this.#promptForm(entry, head);
    else this.#templateForm(entry, head);
  }

  /** @param {Json} tool @param {(Node | null)[]} head */
  #toolForm(tool, head) {
    const name = keyOf(tool);
    const form = new SchemaForm(tool.inputSchema ?? { type: "object" });
    const marks = Object.entries(tool.annotations ?? {}).filter(([, value]) => value === true).map(([key]) => el("span", { class: "badge" }, key.replace(/Hint$/, "")));
    const run = () => this.#call("tools/call", `{"name":${JSON.stringify(name)},"arguments":${form.text}}`, name);
    this.#fillForm([...head, el("p", null, ...marks), form.element], "Call", run);
  }

  /** @param {Json} prompt @param {(Node | null)[]} head */
  #promptForm(prompt, head) {
    const name = keyOf(prompt);
    const form = textForm(Array.isArray(prompt.arguments) ? prompt.arguments : [], (argument, value) => this.api.complete(this.source, { ref: { type: "ref/prompt", name }, argument: { name: argument, value }, context: { arguments: form.value ?? {} } }));
    this.#fillForm([...head, form.element], "Get", () => this.#call("prompts/get", `{"name":${JSON.stringify(name)},"arguments":${form.text}}`, name));
  }

  /** @param {Json} template @param {(Node | null)[]} head */
  #templateForm(template, head) {
    const uriTemplate = String(template.uriTemplate ?? "");
    const names = [...new Set([...uriTemplate.matchAll(/\{[+#./;?&]?([^}]+)\}/g)].flatMap((match) => match[1].split(",").map((part) => part.replace(/(:\d+|\*)$/, ""))))];
    const form = textForm(names.map((name) => ({ name })), (argument, value) => this.api.complete(this.source, { ref: { type: "ref/resource", uri: uriTemplate }, argument: { name: argument, value }, context: { arguments: form.value ?? {} } }));
    this.#fillForm([...head, form.element], "Read", () => {
      const uri = expandTemplate(uriTemplate, form.value ?? {});
      this.#call("resources/read", JSON.stringify({ uri }), uri);
    });
  }

  /**
   * @param {(Node | null)[]} body
   * @param {string} label
   * @param {() => void} run
   */
  #fillForm(body, label, run) {
    const form = el("form", null, ...body, el("div", { class: "dialog-buttons" }, el("button", { type: "submit", class: "primary" }, label)));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      run();
    });
    // Problems of values are shown by the form itself, and never keep a value from being sent.
    form.noValidate = true;
    replace(this.form, form);
  }

  #anyForm() {
    const method = el("input", { type: "text", value: "tools/list", spellcheck: "false", autocomplete: "off" });
    const params = el("textarea", { class: "json", rows: 6, spellcheck: "false" });
    params.value = "{}";
    this.#fillForm([el("label", { class: "stack" }, "Method", method), el("label", { class: "stack" }, "Params as JSON", params)], "Send", () => this.#call(method.value, params.value, method.value));
  }

  #rawForm() {
    const area = el("textarea", { class: "json", rows: 12, spellcheck: "false" });
    area.value = this.frameText;
    area.addEventListener("input", () => (this.frameText = area.value));
    const label = el("label", { class: "stack" }, "The text of one frame, sent as it is, also if it is broken", area);
    this.#fillForm([label, ...this.frameWarnings.map((warning) => el("p", { class: "problem" }, warning))], "Send", async () => {
      try {
        await this.api.send(this.source, area.value);
        notice("Sent: the frame is the last one in the list");
      } catch (error) {
        notice(wordsOf(error));
      }
    });
  }

  #replayForm() {
    const others = this.sources().filter((each) => String(each.id) !== this.source);
    const select = el("select", null, others.map((each) => el("option", { value: each.id }, shortName(each, this.sources()))));
    const result = el("div", { role: "status" });
    if (others.length === 0) {
      replace(this.form, el("p", { class: "empty" }, "Open a capture beside the server to replay it: barewire view FILE -- SERVER"));
      return;
    }
    this.#fillForm([el("p", null, "Sends the client's messages of a capture to this server, and compares the responses."), el("label", { class: "stack" }, "Capture", select), result], "Replay", async () => {
      try {
        const run = await this.api.replay(this.source, select.value);
        for (;;) {
          const state = await this.api.replayState(this.source, run);
          fillReplay(result, state);
          if (state.state !== "running") break;
          await new Promise((resolve) => setTimeout(resolve, 250));
        }
      } catch (error) {
        notice(wordsOf(error));
      }
    });
  }

  /**
   * Sends a request, and follows it until it is done.
   * @param {string} method
   * @param {string} params
   * @param {string} title
   */
  async #call(method, params, title) {
    const { source } = this;
    const box = el("li", { class: "call" });
    this.calls.prepend(box);
    while (this.calls.children.length > MOST_CALLS) this.calls.lastElementChild?.remove();
    setText(box, `${method} ${title}…`);
    let last = "";
    try {
      const call = await this.api.call(source, method, params);
      // The frames of a call can be known a moment after its result.
      let waits = 0;
      for (let wait = 60; ; wait = Math.min(500, wait * 1.3)) {
        const state = await this.api.callState(source, call);
        const key = JSON.stringify({ ...state, elapsed: 0 });
        if (key !== last || state.state === "running") this.#fillCall(box, state, `${method} ${title === method ? "" : title}`, call, key !== last);
        last = key;
        if (state.state !== "running" && (state.frames?.response || (waits += 1) > 8)) break;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    } catch (error) {
      replace(box, el("p", null, el("b", null, title), " ", el("span", { class: "failed" }, wordsOf(error))));
    }
  }

  /**
   * @param {HTMLElement} box
   * @param {CallState} state
   * @param {string} title
   * @param {string} call
   * @param {boolean} changed
   */
  #fillCall(box, state, title, call, changed) {
    const elapsed = box.querySelector(".elapsed");
    if (!changed && elapsed) {
      setText(elapsed, duration(state.elapsed));
      return;
    }
    const failed = state.state === "failed" || state.error !== null;
    const head = el("p", { class: "call-head" }, el("b", null, title), " ", el("span", { class: `badge ${failed ? "failed" : state.state}` }, state.state), " ", el("span", { class: "elapsed facts" }, duration(state.elapsed)), " ");
    for (const [label, frame] of /** @type {[string, number | null][]} */ ([["request", state.frames?.request], ["response", state.frames?.response]])) if (frame) append(head, viewLink({ f: frame }, null, `${label} ${frame}`), " ");
    /** @type {HTMLElement[]} */
    const parts = [head];
    if (state.state === "running") {
      // The button stays the same element while the call runs, so that it keeps the focus.
      append(head, box.querySelector("button") ?? button("Cancel", () => this.api.cancel(this.source, call).catch((error) => notice(wordsOf(error)))));
      if (state.progress) {
        const { done, total, message } = state.progress;
        parts.push(el("p", null, el("progress", { "aria-label": "Progress", value: total ? done : null, max: total }), ` ${done ?? ""}${total ? ` of ${total}` : ""} ${message ?? ""}`));
      }
    }
    if (state.error) {
      parts.push(el("p", { class: "failed" }, `${state.error.code} ${state.error.message}`));
      if (state.error.data !== undefined && state.error.data !== null) parts.push(el("pre", { class: "excerpt", tabindex: 0 }, JSON.stringify(state.error.data, null, 2)));
    }
    if (state.result !== null && state.result !== undefined) parts.push(...resultParts(state.result));
    replace(box, ...parts);
  }
}

/** Whether a description may have to scroll, which the keyboard must reach. @param {string} text */
function isLong(text) {
  return text.length > 300 || text.split("\n").length > 5;
}

/** Returns what is sent to the server to name the entry. @param {Json} entry */
function identityOf(entry) {
  return String(entry?.uri ?? entry?.uriTemplate ?? entry?.name ?? "");
}

/** @param {Json} entry */
function keyOf(entry) {
  return String(entry?.name ?? entry?.uri ?? entry?.uriTemplate ?? "");
}

/**
 * Fills in a URI template: simple variables and lists of them, as RFC 6570 says for level 1 to 3.
 * @param {string} template
 * @param {Record<string, unknown>} values
 */
function expandTemplate(template, values) {
  return template.replace(/\{([+#./;?&]?)([^}]+)\}/g, (_, /** @type {string} */ operator, /** @type {string} */ names) => {
    const encode = operator === "+" || operator === "#" ? encodeURI : encodeURIComponent;
    const parts = names.split(",").map((name) => name.replace(/(:\d+|\*)$/, "")).filter((name) => values[name] !== undefined).map((name) => {
      const value = encode(String(values[name]));
      return [";", "?", "&"].includes(operator) ? `${name}=${value}` : value;
    });
    if (parts.length === 0) return "";
    const separator = { "": ",", "+": ",", "#": ",", ".": ".", "/": "/", ";": ";", "?": "&", "&": "&" }[operator] ?? ",";
    return `${operator === "+" ? "" : operator}${parts.join(separator)}`;
  });
}

/**
 * Shows the texts of a result, and its JSON.
 * @param {string} text
 */
function resultParts(text) {
  let result;
  try {
    result = JSON.parse(text);
  } catch {
    return [el("pre", { class: "excerpt", tabindex: 0 }, text)];
  }
  /** @type {HTMLElement[]} */
  const parts = [];
  const blocks = Array.isArray(result?.content) ? result.content : Array.isArray(result?.contents) ? result.contents : [];
  if (result?.isError === true) parts.push(el("p", { class: "failed" }, "isError"));
  for (const block of blocks.slice(0, 50)) {
    if (typeof block?.text === "string") parts.push(el("pre", { class: "excerpt", tabindex: 0 }, block.text));
    else parts.push(el("p", { class: "facts" }, `${block?.type ?? "content"} ${block?.mimeType ?? ""} ${block?.uri ?? ""}`));
  }
  const whole = el("details", { open: blocks.length === 0 }, el("summary", null, "JSON"), el("pre", { class: "excerpt", tabindex: 0 }, JSON.stringify(result, null, 2)));
  return [...parts, whole];
}

/**
 * @param {HTMLElement} box
 * @param {import("./types").ReplayState} state
 */
function fillReplay(box, state) {
  const differences = state.differences ?? [];
  const rows = differences.slice(0, 500).map((each) => el("tr", null, el("td", { class: "number" }, String(each.frame)), el("td", null, el("code", null, each.path)), el("td", null, each.expected ?? "absent"), el("td", null, each.received ?? "absent")));
  const table = el("table", { class: "data" }, el("thead", null, el("tr", null, ["Frame", "Where", "Recorded", "Received"].map((label) => el("th", { scope: "col" }, label)))), el("tbody", null, rows));
  const summary = typeof state.summary === "string" ? state.summary : state.summary ? JSON.stringify(state.summary) : "";
  replace(box, el("p", null, el("b", null, state.state), " ", summary, differences.length ? ` ${counted(differences.length, "difference")}` : state.state === "running" ? "" : " no differences"), ...(state.notes ?? []).slice(0, 100).map((note) => el("p", { class: "facts" }, note)), rows.length ? el("div", { class: "table-box" }, table) : null);
}
