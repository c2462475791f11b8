// Text and values -> elements. All elements of the page are made here. A string only ever becomes the text of a node or the
// value of an attribute in a fixed list, so what a peer has sent is never read as markup.

/**
 * @typedef {string | number | Node | null | undefined | false} Child
 * @typedef {Record<string, unknown>} Props
 */

const ATTRIBUTES = new Set([
  "class", "id", "role", "type", "tabindex", "title", "for", "name", "placeholder", "value", "min", "max", "step", "rows", "open",
  "checked", "disabled", "hidden", "required", "readonly", "selected", "scope", "colspan", "spellcheck", "autocomplete", "autocapitalize",
  "download", "list", "multiple", "label", "inputmode",
]);

/** Characters that are invisible, control a terminal, or change the order in which text is shown. The same as in `barewire read`. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u180b-\u180e\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\ud800-\udfff]/u;
const ALL_HIDDEN = new RegExp(HIDDEN.source, "gu");

/**
 * Returns the code point of a character as a visible escape: ‹U+202E›.
 * @param {string} character
 */
function escapeOf(character) {
  return `‹U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`;
}

/**
 * Returns `text` with visible escapes in place of hidden characters, for attributes.
 * @param {unknown} text
 */
export function visible(text) {
  const whole = String(text);
  return HIDDEN.test(whole) ? whole.replace(ALL_HIDDEN, escapeOf) : whole;
}

/**
 * Sets the text of an element. Hidden characters become escapes that can be told from text.
 * @param {Element} element
 * @param {unknown} value
 */
export function setText(element, value) {
  const text = value === null || value === undefined ? "" : String(value);
  if (!HIDDEN.test(text)) {
    element.textContent = text;
    return;
  }
  element.textContent = "";
  appendText(element, text);
}

/**
 * Appends text to an element. Hidden characters become escapes that can be told from text.
 * @param {Node} element
 * @param {string} text
 */
export function appendText(element, text) {
  let end = 0;
  for (const match of text.matchAll(ALL_HIDDEN)) {
    if (match.index > end) element.appendChild(document.createTextNode(text.slice(end, match.index)));
    const mark = document.createElement("span");
    mark.className = "escape";
    mark.textContent = escapeOf(match[0]);
    element.appendChild(mark);
    end = match.index + match[0].length;
  }
  if (end < text.length) element.appendChild(document.createTextNode(text.slice(end)));
}

/**
 * Creates an element. Members of `props` are attributes, `aria-…` and `data-…`, or listeners (`onclick`).
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (typeof value === "function" && name.startsWith("on")) {
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else {
      attribute(element, name, value);
    }
  }
  append(element, ...children);
  return element;
}

/**
 * Sets an attribute that is in the fixed list; false, null and undefined remove it.
 * @param {Element} element
 * @param {string} name
 * @param {unknown} value
 */
export function attribute(element, name, value) {
  if (!ATTRIBUTES.has(name) && !/^(aria|data)-[a-z-]+$/.test(name)) throw new TypeError(`the attribute ${name} is not in the list`);
  // ARIA distinguishes "false" from an absent attribute.
  if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) element.removeAttribute(name);
  else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : visible(value));
}

/**
 * Appends children; strings become text.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function append(element, ...children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) element.appendChild(child);
    else appendText(element, String(child));
  }
}

/**
 * Replaces the children of an element.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, ...children);
}

/**
 * Returns the element of the page with this id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element ${id}`);
  return element;
}

/**
 * Creates a button.
 * @param {Child} label
 * @param {(event: MouseEvent) => void} onclick
 * @param {Props} [props]
 */
export function button(label, onclick, props) {
  return el("button", { type: "button", ...props, onclick }, label);
}

/**
 * Creates a link to a place in this page, or to a download of this program.
 * @param {string} target
 * @param {Props | null} props
 * @param {...Child} children
 */
export function link(target, props, ...children) {
  const element = el("a", props, ...children);
  setTarget(element, target);
  return element;
}

/**
 * Sets where a link leads: to a place in this page, or to a download of this program.
 * @param {HTMLAnchorElement} element
 * @param {string} target
 */
export function setTarget(element, target) {
  if (!target.startsWith("#") && !target.startsWith("api/")) throw new TypeError("a link leads out of the page");
  element.href = target;
}

/**
 * Creates a link to the site of somebody else, which opens by itself and learns nothing of this page; null unless the
 * address is a web address.
 * @param {string} address
 */
export function outsideLink(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return null;
  const element = el("a", null, `Open ${url.host} in a new tab`);
  element.href = url.href;
  element.target = "_blank";
  element.rel = "noopener noreferrer";
  return element;
}

const SVG_ATTRIBUTES = new Set(["class", "viewBox", "width", "height", "x", "y", "x1", "y1", "x2", "y2", "d", "preserveAspectRatio", "role", "aria-label", "aria-hidden"]);

/**
 * Creates an element of SVG, for charts. Attributes are those in a fixed list.
 * @param {string} tag
 * @param {Record<string, string | number>} props
 * @param {...SVGElement} children
 * @returns {SVGElement}
 */
export function svg(tag, props, ...children) {
  if (!["svg", "g", "rect", "path", "line", "title"].includes(tag)) throw new TypeError(`the element ${tag} is not in the list`);
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) {
    if (!SVG_ATTRIBUTES.has(name)) throw new TypeError(`the attribute ${name} is not in the list`);
    element.setAttribute(name, visible(value));
  }
  element.append(...children);
  return element;
}

let lastSaid = "";

/**
 * Has a screen reader say a text, once the current one is finished.
 * @param {string} text
 */
export function say(text) {
  if (text === lastSaid) return;
  lastSaid = text;
  setText(byId("said"), text);
}

/**
 * Shows a short message at the bottom of the page, and has it said.
 * @param {string} text
 */
export function notice(text) {
  const box = byId("notice");
  setText(box, text);
  box.hidden = false;
  say(text);
  clearTimeout(Number(box.dataset.timer));
  box.dataset.timer = String(setTimeout(() => (box.hidden = true), 5000));
}

/**
 * Copies text to the clipboard, and says so.
 * @param {string} text
 * @param {string} what
 */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`Copied ${what}`);
  } catch {
    // Pages from a file have no clipboard in some browsers.
    const area = el("textarea", { class: "off-screen", readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    notice(done ? `Copied ${what}` : `The browser does not allow copying`);
  }
}

/**
 * Returns a choice that the user made earlier. Pages from a file may have no storage.
 * @param {string} name
 */
export function remembered(name) {
  try {
    return localStorage.getItem(`barewire-${name}`);
  } catch {
    return null;
  }
}

/**
 * Keeps a choice of the user for the next time.
 * @param {string} name
 * @param {string} value
 */
export function remember(name, value) {
  try {
    localStorage.setItem(`barewire-${name}`, value);
  } catch {
    // The choice holds until the page is closed.
  }
}
