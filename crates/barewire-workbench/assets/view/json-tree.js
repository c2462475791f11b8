// Members of a JSON value, loaded when they are opened -> a tree for the eye, the keyboard and screen readers. The elements are
// a flat list with levels: a value that is nested 100,000 times deep does not nest elements.

import { append, attribute, el, notice, setText } from "./dom.js";
import { count, counted, size } from "./format.js";
import { wordsOf } from "./api.js";

/**
 * @typedef {import("./types").Node} TreeNode
 * @typedef {{node: TreeNode | null, level: number, open: boolean, element: HTMLElement, more: {parent: TreeItem, from: number} | null}} TreeItem
 */

/** Members that are loaded at once. */
const MEMBERS = 200;
/** Items that a tree has at most, so that the page stays quick. */
const MOST_ITEMS = 4000;
/** Levels that are indented; deeper ones show their level as a number. */
const INDENTED_LEVELS = 24;

/** The tree of one frame. */
export class JsonTree {
  /**
   * @param {{load: (at: number, from: number, count: number) => Promise<import("./types").Nodes>, selected: (node: TreeNode) => void}} options
   */
  constructor(options) {
    this.options = options;
    /** @type {TreeItem[]} */
    this.items = [];
    this.active = 0;
    this.element = el("div", { class: "tree", role: "tree", "aria-label": "Members of the frame" });
    this.element.addEventListener("click", (event) => this.#clicked(event));
    this.element.addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * Shows the outermost members.
   * @param {TreeNode[]} nodes
   */
  show(nodes) {
    this.items = nodes.map((node, index) => this.#item(node, 1, index, nodes.length));
    this.active = 0;
    this.element.replaceChildren(...this.items.map((item) => item.element));
    if (this.items.length) attribute(this.items[0].element, "tabindex", 0);
  }

  /**
   * Opens the values around the byte `at`, and selects the innermost.
   * @param {number} at
   */
  async reveal(at) {
    let found = -1;
    for (let steps = 0; steps < 200; steps += 1) {
      const next = this.items.findIndex((item, index) => index > found && item.node !== null && item.node.at <= at && at < item.node.at + item.node.length);
      if (next < 0) break;
      found = next;
      const item = this.items[found];
      if (!isBranch(item)) break;
      if (!item.open) await this.#open(item);
    }
    if (found >= 0) this.#activate(found, false);
  }

  /**
   * @param {TreeNode} node
   * @param {number} level
   * @param {number} position
   * @param {number} siblings
   * @returns {TreeItem}
   */
  #item(node, level, position, siblings) {
    const branch = isBranch({ node });
    const element = el("div", {
      class: "tree-item",
      role: "treeitem",
      tabindex: -1,
      "aria-level": level,
      "aria-setsize": siblings,
      "aria-posinset": position + 1,
      "aria-expanded": branch ? "false" : null,
      "aria-selected": "false",
    });
    element.style.paddingInlineStart = `${Math.min(level - 1, INDENTED_LEVELS) * 14 + 4}px`;
    append(element, el("span", { class: "twist", "aria-hidden": "true" }, branch ? "▸" : ""));
    if (level > INDENTED_LEVELS) append(element, el("span", { class: "level" }, String(level)));
    const label = node.key ?? (node.index === null ? null : String(node.index));
    if (label !== null) append(element, el("span", { class: node.key === null ? "index" : "key" }, label), ": ");
    append(element, el("span", { class: `value ${node.kind}` }, node.preview));
    if (branch && node.count !== null) append(element, el("span", { class: "members" }, ` ${counted(node.count, node.kind === "array" ? "element" : "member")}`));
    if (node.length > 10_240) append(element, el("span", { class: "members" }, `, ${size(node.length)}`));
    if (node.meaning) append(element, el("span", { class: "meaning" }, node.meaning));
    if (node.schema) append(element, el("span", { class: "schema-error" }, `✗ ${node.schema}`));
    if (node.mark) append(element, el("span", { class: "member-mark" }, `⚠ ${node.mark}`));
    return { node, level, open: false, element, more: null };
  }

  /**
   * @param {TreeItem} parent
   * @param {number} from
   * @param {number} left
   * @returns {TreeItem}
   */
  #moreItem(parent, from, left) {
    const level = parent.level + 1;
    const element = el("div", { class: "tree-item more", role: "treeitem", tabindex: -1, "aria-level": level, "aria-selected": "false" });
    element.style.paddingInlineStart = `${Math.min(level - 1, INDENTED_LEVELS) * 14 + 4}px`;
    setText(element, `Show ${count(Math.min(left, MEMBERS))} more of ${count(left)}`);
    return { node: null, level, open: false, element, more: { parent, from } };
  }

  /** @param {TreeItem} item */
  async #open(item) {
    if (item.open || !isBranch(item)) return;
    item.open = true;
    attribute(item.element, "aria-expanded", "true");
    setText(/** @type {Element} */ (item.element.firstChild), "▾");
    await this.#insert(item, 0, item);
  }

  /**
   * Inserts members of `parent` after the item `after`.
   * @param {TreeItem} parent
   * @param {number} from
   * @param {TreeItem} after
   */
  async #insert(parent, from, after) {
    if (!parent.node) return;
    if (this.items.length > MOST_ITEMS) {
      notice("Too many members are open: close some first");
      return;
    }
    let loaded;
    try {
      loaded = await this.options.load(parent.node.at, from, MEMBERS);
    } catch (error) {
      notice(wordsOf(error));
      return;
    }
    const { nodes, total } = loaded;
    if (!parent.open || !parent.element.isConnected) return;
    const level = parent.level + 1;
    const added = nodes.map((node, index) => this.#item(node, level, from + index, total));
    const end = from + nodes.length;
    if (end < total && nodes.length) added.push(this.#moreItem(parent, end, total - end));
    const index = this.items.indexOf(after) + 1;
    this.items.splice(index, 0, ...added);
    after.element.after(...added.map((item) => item.element));
    if (this.active >= index) this.active += added.length;
  }

  /** @param {TreeItem} item */
  #close(item) {
    if (!item.open) return;
    item.open = false;
    attribute(item.element, "aria-expanded", "false");
    setText(/** @type {Element} */ (item.element.firstChild), "▸");
    const index = this.items.indexOf(item);
    let end = index + 1;
    while (end < this.items.length && this.items[end].level > item.level) end += 1;
    for (const gone of this.items.splice(index + 1, end - index - 1)) gone.element.remove();
    this.active = index;
    this.#activate(index, true);
  }

  /**
   * @param {number} index
   * @param {boolean} focus
   */
  #activate(index, focus) {
    for (const item of this.element.querySelectorAll('[tabindex="0"], [aria-selected="true"]')) {
      attribute(item, "tabindex", -1);
      attribute(item, "aria-selected", "false");
    }
    this.active = Math.max(0, Math.min(index, this.items.length - 1));
    const item = this.items[this.active];
    if (!item) return;
    attribute(item.element, "tabindex", 0);
    attribute(item.element, "aria-selected", "true");
    item.element.scrollIntoView({ block: "nearest" });
    if (focus) item.element.focus();
    if (item.node) this.options.selected(item.node);
  }

  /** @param {TreeItem} item */
  async #use(item) {
    if (item.more) {
      const { parent, from } = item.more;
      const index = this.items.indexOf(item);
      const before = this.items[index - 1];
      this.items.splice(index, 1);
      item.element.remove();
      await this.#insert(parent, from, before);
      this.#activate(index, true);
    } else if (item.open) {
      this.#close(item);
    } else {
      await this.#open(item);
    }
  }

  /** @param {Event} event */
  #clicked(event) {
    const element = /** @type {Element} */ (event.target).closest(".tree-item");
    const index = this.items.findIndex((item) => item.element === element);
    if (index < 0) return;
    this.#activate(index, true);
    // A drag that selects text is no click.
    if (String(getSelection()) === "") this.#use(this.items[index]);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const item = this.items[this.active];
    if (!item) return;
    switch (event.key) {
      case "ArrowDown":
      case "j":
        this.#activate(this.active + 1, true);
        break;
      case "ArrowUp":
      case "k":
        this.#activate(this.active - 1, true);
        break;
      case "Home":
        this.#activate(0, true);
        break;
      case "End":
        this.#activate(this.items.length - 1, true);
        break;
      case "ArrowRight":
        if (item.open) this.#activate(this.active + 1, true);
        else this.#open(item);
        break;
      case "ArrowLeft":
        if (item.open) this.#close(item);
        else {
          let parent = this.active;
          while (parent > 0 && this.items[parent].level >= item.level) parent -= 1;
          this.#activate(parent, true);
        }
        break;
      case "Enter":
      case " ":
        this.#use(item);
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Whether an item can have members; those of a very long value are not counted. @param {{node: TreeNode | null}} item */
function isBranch({ node }) {
  return node !== null && (node.kind === "object" || node.kind === "array") && node.count !== 0;
}
