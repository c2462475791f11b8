// Questions of a server (elicitation, sampling, roots) -> dialogs, one after the other; what the user enters -> the answer.

import { append, button, byId, el, notice, outsideLink, replace, say } from "./dom.js";
import { wordsOf } from "./api.js";
import { SchemaForm } from "./form.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").Question} Question
 * @typedef {import("./types").Json} Json
 */

/** The dialogs for the questions of one source. */
export class Questions {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    this.dialog = /** @type {HTMLDialogElement} */ (byId("question"));
    this.source = "";
    /** @type {Question | null} */
    this.open = null;
    /** Questions that the user has put aside with Esc. @type {Set<string>} */
    this.aside = new Set();
    this.dialog.addEventListener("cancel", () => {
      if (!this.open) return;
      this.aside.add(this.#key(this.open));
      this.open = null;
      notice("The question stays open: see Drive");
    });
  }

  /** @param {Question} question */
  #key(question) {
    return `${this.source}/${question.id}`;
  }

  /**
   * Opens the first question that is open, and closes the dialog of one that is not.
   * @param {string} source
   * @param {{again?: boolean}} [how] `again`: also questions that were put aside
   */
  async look(source, how) {
    if (how?.again) this.aside.clear();
    let questions;
    try {
      questions = await this.api.questions(source);
    } catch {
      // The next change of the source asks again.
      return;
    }
    this.source = source;
    if (this.open && !questions.some((each) => each.id === this.open?.id)) {
      this.open = null;
      this.dialog.close();
      notice("The question was withdrawn");
    }
    if (this.open || this.dialog.open) return;
    // Roots are answered by the program after a moment, so nobody is disturbed for them.
    const next = questions.find((each) => (how?.again || each.method !== "roots/list") && !this.aside.has(this.#key(each)));
    if (next) this.#show(next);
  }

  /** @param {Question} question */
  #show(question) {
    this.open = question;
    const params = question.params ?? {};
    if (question.method === "elicitation/create") this.#elicitation(question, params);
    else if (question.method === "sampling/createMessage") this.#sampling(question, params);
    else if (question.method === "roots/list") this.#roots(question);
    else this.#other(question);
    this.dialog.showModal();
    say(`The server asks: ${question.method}`);
  }

  /**
   * @param {string} title
   * @param {(Node | string | null)[]} body
   * @param {HTMLElement[]} buttons
   */
  #fill(title, body, buttons) {
    replace(this.dialog, el("form", null, el("h2", { id: "question-title" }, title), ...body, el("div", { class: "dialog-buttons" }, ...buttons)));
    this.dialog.querySelector("form")?.addEventListener("submit", (event) => {
      event.preventDefault();
      buttons[0]?.click();
    });
  }

  /**
   * @param {Question} question
   * @param {Json} answer
   */
  async #answer(question, answer) {
    try {
      await this.api.answer(this.source, String(question.id), answer);
    } catch (error) {
      notice(wordsOf(error));
      return;
    }
    this.open = null;
    this.dialog.close();
    this.look(this.source);
  }

  /**
   * @param {Question} question
   * @param {Json} params
   */
  #elicitation(question, params) {
    const message = el("p", { class: "message" }, String(params.message ?? ""));
    /** @param {string} action */
    const without = (action) => () => this.#answer(question, { action });
    const no = [button("Decline", without("decline")), button("Cancel", without("cancel"))];
    if (params.mode === "url" || typeof params.url === "string") {
      const address = String(params.url ?? "");
      this.#fill("The server asks to open a page", [message, el("p", null, el("code", { class: "address" }, address)), outsideLink(address) ?? el("p", { class: "problem" }, "This is not a web address.")], [button("Accept", without("accept"), { class: "primary" }), ...no]);
      return;
    }
    const form = new SchemaForm(params.requestedSchema ?? { type: "object" }, { label: "Answer as JSON" });
    const accept = button("Accept", () => {
      const content = form.value;
      if (content === undefined) notice("The answer is not JSON");
      else this.#answer(question, { action: "accept", content });
    }, { class: "primary" });
    this.#fill("The server asks", [message, form.element], [accept, ...no]);
  }

  /**
   * @param {Question} question
   * @param {Json} params
   */
  #sampling(question, params) {
    const messages = (Array.isArray(params.messages) ? params.messages : []).slice(0, 200).map((/** @type {Json} */ message) => {
      const contents = Array.isArray(message?.content) ? message.content : [message?.content];
      const text = contents.map((/** @type {Json} */ each) => (typeof each?.text === "string" ? each.text : JSON.stringify(each))).join("\n");
      return el("div", { class: "sample" }, el("b", null, String(message?.role ?? "")), el("pre", null, text));
    });
    const facts = [params.systemPrompt ? `system prompt: ${params.systemPrompt}` : "", params.maxTokens ? `at most ${params.maxTokens} tokens` : ""].filter(Boolean).join(" · ");
    const reply = el("textarea", { rows: 4, "aria-label": "Answer of the model" });
    const model = el("input", { type: "text", value: "human", "aria-label": "Name of the model" });
    const send = button("Send", () => this.#answer(question, { result: { role: "assistant", content: { type: "text", text: reply.value }, model: model.value, stopReason: "endTurn" } }), { class: "primary" });
    const refuse = button("Refuse", () => this.#answer(question, { error: { code: -1, message: "User rejected sampling request" } }));
    this.#fill("The server asks a model", [facts ? el("p", { class: "facts" }, facts) : null, el("div", { class: "samples", tabindex: 0, role: "group", "aria-label": "Messages" }, ...messages), el("label", { class: "stack" }, "Answer", reply), el("label", { class: "stack" }, "Model", model)], [send, refuse]);
  }

  /** @param {Question} question */
  #roots(question) {
    const area = el("textarea", { rows: 3, placeholder: "file:///home/me/project", spellcheck: "false" });
    const send = button("Send", () => {
      const roots = area.value.split("\n").map((line) => line.trim()).filter(Boolean).map((uri) => ({ uri }));
      this.#answer(question, { result: { roots } });
    }, { class: "primary" });
    this.#fill("The server asks for roots", [el("label", { class: "stack" }, "One URI a line", area)], [send]);
  }

  /** @param {Question} question */
  #other(question) {
    const area = el("textarea", { rows: 6, class: "json", spellcheck: "false" });
    area.value = "{}";
    const send = button("Send as result", () => {
      try {
        this.#answer(question, { result: JSON.parse(area.value) });
      } catch {
        notice("The result is not JSON");
      }
    }, { class: "primary" });
    const refuse = button("Refuse", () => this.#answer(question, { error: { code: -32601, message: "Method not found" } }));
    const params = el("pre", { class: "excerpt", tabindex: 0 }, JSON.stringify(question.params, null, 2) ?? "");
    const body = [params, el("label", { class: "stack" }, "Result as JSON", area)];
    append(this.dialog);
    this.#fill(`The server asks: ${question.method}`, body, [send, refuse]);
  }
}
