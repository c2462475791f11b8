// Questions of the page -> requests to the program, and its answers.

import { parseExact } from "./exact.js";

/**
 * @typedef {import("./types").Api} Api
 * @typedef {import("./types").RowQuery} RowQuery
 */

/** An answer that says no: the reason, and what to do about it. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{error?: string, hint?: string | null, at?: number | null}} body
   */
  constructor(status, body) {
    super(body.error ?? `the program answered with ${status}`);
    this.status = status;
    this.hint = body.hint ?? null;
    this.at = body.at ?? null;
  }
}

/**
 * Whether an error only says that the page no longer wants the answer.
 * @param {unknown} error
 */
export function isAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * Returns the words of an error for the user.
 * @param {unknown} error
 */
export function wordsOf(error) {
  if (error instanceof ApiError) return error.hint ? `${error.message}. ${error.hint}` : error.message;
  if (error instanceof TypeError) return "the program does not answer";
  return error instanceof Error ? error.message : String(error);
}

/**
 * @param {string} path
 * @param {RequestInit} [init]
 * @param {(text: string) => unknown} [parse]
 * @returns {Promise<any>}
 */
async function ask(path, init, parse) {
  const response = await fetch(`api/${path}`, { cache: "no-store", credentials: "same-origin", ...init });
  if (response.status === 204) return null;
  if (response.ok) return parse ? parse(await response.text()) : response.json();
  const text = await response.text();
  let body = { error: text || response.statusText };
  try {
    body = JSON.parse(text);
  } catch {
    // The body is plain text.
  }
  throw new ApiError(response.status, body);
}

/**
 * @param {string} path
 * @param {unknown} body
 */
function post(path, body) {
  return ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** @param {Record<string, string | number | null | undefined>} values */
function parameters(values) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== "" && value !== null && value !== undefined) params.set(name, String(value));
  return params.toString();
}

/**
 * @param {RowQuery} query
 * @param {Record<string, string | number | null>} more
 */
function rowParameters(query, more) {
  return parameters({ filter: query.filter, conversation: query.conversation, fold: query.fold ? 1 : null, expand: query.fold ? query.expand : null, ...more });
}

/** How long to wait before the program is asked again, in milliseconds. */
const RETRY = 1500;

/**
 * Follows the list of sources over server-sent events. The connection is closed while nobody looks at the page, and comes back
 * by itself when it was lost.
 * @param {(sources: import("./types").Sources) => void} changed
 * @param {(state: import("./types").Connection) => void} connected
 */
function followSources(changed, connected) {
  /** @type {EventSource | null} */
  let stream = null;
  let timer = 0;
  const close = () => {
    stream?.close();
    stream = null;
    clearTimeout(timer);
  };
  const open = () => {
    close();
    const opened = new EventSource("api/events");
    stream = opened;
    opened.addEventListener("open", () => connected("connected"));
    opened.addEventListener("sources", (event) => changed(JSON.parse(event.data)));
    opened.addEventListener("error", async () => {
      if (stream !== opened) return;
      close();
      // An event stream does not say why it failed; a request does.
      try {
        changed(await ask("sources"));
      } catch (error) {
        connected(error instanceof ApiError && (error.status === 401 || error.status === 403) ? "refused" : "lost");
      }
      // The page was hidden and shown again in the meantime.
      if (stream) return;
      // A page that nobody looks at asks again when it is shown.
      timer = setTimeout(() => document.hidden || open(), RETRY);
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (!stream) open();
  });
  open();
}

/**
 * Returns the answers of the program.
 * @returns {Api}
 */
export function programApi() {
  /** @param {string} source */
  const at = (source) => `s/${encodeURIComponent(source)}`;
  /** @param {import("./types").RowPlace} place */
  const pathOf = (place) => (typeof place === "string" ? `event/${place.slice(1)}` : `frame/${place}`);
  return {
    live: true,
    notes: [],
    enter: (token) => post("enter", { token }),
    follow: followSources,
    rows: (source, query, from, count, signal) => ask(`${at(source)}/rows?${rowParameters(query, { from, count })}`, { signal }),
    find: (source, query, place, signal) => ask(`${at(source)}/find?${rowParameters(query, typeof place === "string" ? { event: place.slice(1) } : { frame: place })}`, { signal }),
    near: async (source, query, time) => (await ask(`${at(source)}/near?${rowParameters(query, { time })}`)).index,
    frame: (source, place, signal) => ask(`${at(source)}/${pathOf(place)}`, { signal }),
    tree: (source, frame, offset, from, count) => ask(`${at(source)}/frame/${frame}/tree?${parameters({ at: offset, from, count })}`),
    text: (source, place, from, count) => ask(`${at(source)}/${pathOf(place)}/text?${parameters({ from, count })}`),
    timeline: (source, range, signal) => ask(`${at(source)}/timeline?${parameters({ ...range, width: Math.round(range.width) })}`, { signal }),
    stats: (source, query) => ask(`${at(source)}/stats?${rowParameters({ ...query, fold: false }, {})}`),
    findings: (source, query) => ask(`${at(source)}/findings?${rowParameters({ ...query, fold: false }, {})}`),
    explain: async (word) => {
      try {
        return (await ask(`explain?${parameters({ word })}`)).text;
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null;
        throw error;
      }
    },
    exportAddress: (source, format, query) => `api/${at(source)}/export/${format}?${rowParameters({ ...query, fold: false }, {})}`,
    compare: (a, b) => ask(`compare?${parameters({ a, b })}`),
    // The numbers of a schema that a form sends are kept as they are.
    catalog: (source, refresh) => ask(`${at(source)}/catalog${refresh ? "?refresh=1" : ""}`, {}, (text) => parseExact(text, (name) => name === "default" || name === "const")),
    call: async (source, method, params) => String((await post(`${at(source)}/call`, { method, params })).call),
    callState: (source, call) => ask(`${at(source)}/call/${encodeURIComponent(call)}`),
    cancel: (source, call) => post(`${at(source)}/call/${encodeURIComponent(call)}/cancel`, {}),
    questions: async (source) => (await ask(`${at(source)}/questions`)).questions,
    answer: (source, question, answer) => post(`${at(source)}/questions/${encodeURIComponent(question)}`, answer),
    complete: async (source, what) => (await post(`${at(source)}/complete`, what)).values,
    send: (source, text) => post(`${at(source)}/send`, { text }),
    replay: async (source, recorded) => String((await post(`${at(source)}/replay`, { source: recorded })).run),
    replayState: (source, run) => ask(`${at(source)}/replay/${encodeURIComponent(run)}`),
  };
}
