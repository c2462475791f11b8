// The rows, members, texts and sums of an exported file, compared with those of the program: for captures of the project, with
// many filters, folded and unfolded.
import { cpSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { assert, fixtures, folder, root, startView, test } from "./harness.mjs";

const FILTERS = [
  "", "errors", "unanswered", "kind:request", "kind:error,invalid", "kind:batch", "kind:batch,request", "kind:cut", "kind:notification direction:<",
  "direction:>", "direction:to-client", "direction:to-server errors", "method:tools/*", "method:notifications/*", "method:tools/c?ll", "method:*", "method:**l*l",
  'method:"tools/call"', "tool:paint", "tool:s*", "tool:*", "id:3", 'id:"3"', "id:3.0", "id:30e-1", "id:a", 'id:"a"', "id:-0", 'id:"\\u0061"',
  "slower-than:1ms", "slower-than:0.1", "slower-than:.1", "slower-than:1.", "slower-than:1m", "slower-than:2min", "slower-than:1h", "slower-than:250µs", "slower-than:0",
  "colour", 'text:"a b"', '"two words"', "ÄRGER", "ärger", "POST", "progress", '"errors"', '""', "text:x", "https://x", "\\", '"\\""', '"\\\\"', "ς", "STRASSE",
  "  errors\t tool:*  ", "\u0085errors", "\ufefferrors", "errors unanswered", "tools/call kind:request", "kind:request,result tool:s* saw",
  // Errors, which both say in the same words.
  "slower-than:soon", "slower-than:", "slower-than:1..2", "slower-than:9999h", "slower-than:1e3ms", "kind:foo", "kind:request,", "kind:", "direction:up", "direction:", "tol:x", "metod:x",
  "unheardof:x", "-:x", '"unclosed', 'ä text:"unclosed', '"a"b', 'text:"a"ü', "tool:a tool:b", "id:1 id:1", "method: x", "x id:",
];
/** An ordinary run compares one of so many captures of testdata; ALL_CAPTURES=1 compares all, which takes minutes. */
const PART_OF_ALL = 10;
const CONVERSATION_FILTERS = ["", "errors", "tools", "kind:request", "direction:>"];

/** The functions of the page that answer from the data of a file. */
async function fileApiOf() {
  const assets = join(folder, "assets");
  cpSync(join(root, "crates/barewire-workbench/assets/view"), assets, { recursive: true });
  writeFileSync(join(assets, "package.json"), '{"type":"module"}');
  return (await import(pathToFileURL(join(assets, "api-file.js")).href)).fileApi;
}

/** All files below a folder that can be captures. */
function captures(path) {
  return readdirSync(path, { recursive: true, withFileTypes: true }).filter((each) => each.isFile() && /\.(wire|ndjson|har|log)$/.test(each.name)).map((each) => join(each.parentPath ?? each.path, each.name)).sort();
}

/** Starts a program with captures, and returns a function that asks it. */
async function program(files) {
  const view = await startView(files);
  const token = new URLSearchParams(new URL(view.url).hash.slice(1)).get("token");
  const entered = await fetch(`${view.origin}/api/enter`, { method: "POST", headers: { "content-type": "application/json", origin: view.origin }, body: JSON.stringify({ token }) });
  const cookie = entered.headers.get("set-cookie").split(";")[0];
  const ask = async (path) => {
    const response = await fetch(`${view.origin}/api/${path}`, { headers: { cookie } });
    const text = await response.text();
    return { ok: response.ok, text, json: () => JSON.parse(text) };
  };
  for (;;) {
    const { sources } = (await ask("sources")).json();
    if (sources.every((each) => each.state !== "reading")) return { view, ask, sources };
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const shape = (row) => `${row.key}${row.depth ? "+" : ""}${row.children ? `▸${row.children}` : ""}`;

/** What both say to one question: rows, or an error. */
async function answers(ask, api, source, query) {
  const parameters = new URLSearchParams({ filter: query.filter, conversation: query.conversation, fold: query.fold ? "1" : "0", expand: query.expand, count: "500" });
  const answer = await ask(`s/${source}/rows?${parameters}`);
  const theirs = answer.ok ? answer.json().rows.map(shape).join(" ") : answer.text;
  const ours = await api.rows("", query, 0, 500).then(
    ({ rows }) => rows.map(shape).join(" "),
    (error) => JSON.stringify({ error: error.message, hint: error.hint, at: error.at }),
  );
  return [ours, answer.ok ? theirs : JSON.stringify((({ error, hint, at }) => ({ error, hint, at }))(JSON.parse(theirs)))];
}

/** Sums differ in the last digits only. */
const rounded = (value) => sorted(JSON.parse(JSON.stringify(value, (_, each) => (typeof each === "number" ? Number(each.toPrecision(9)) : each))));

/** The same value with its members in the order of their names. */
function sorted(value) {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(sorted);
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]));
}

/** Fails where two values differ first. */
function same(got, expected, what) {
  const [one, two] = [JSON.stringify(sorted(got)), JSON.stringify(sorted(expected))];
  if (one === two) return;
  let at = 0;
  while (one?.[at] === two?.[at]) at += 1;
  const around = (text) => text?.slice(Math.max(0, at - 150), at + 150);
  throw new Error(`${what}: …${around(one)} instead of …${around(two)}`);
}

async function compare(ask, fileApi, source, conversations) {
  const page = await ask(`s/${source}/export/html`);
  assert(page.ok, page.text);
  const data = JSON.parse(page.text.split('id="barewire-data">')[1].split("</script>")[0]);
  const api = fileApi(data);
  const expanded = [...new Set(data.rows.flatMap((row) => (row.children > 0 && row.op !== null ? [row.op] : [])))].slice(0, 20).join(",");
  let compared = 0;
  const check = async (query) => {
    const [ours, theirs] = await answers(ask, api, source, query);
    same(ours, theirs, JSON.stringify(query));
    compared += 1;
  };
  for (const filter of FILTERS) {
    for (const [fold, expand] of [[false, ""], [true, ""], [true, expanded]]) await check({ filter, conversation: "", fold, expand });
  }
  for (const conversation of conversations.slice(0, 5)) {
    for (const filter of CONVERSATION_FILTERS) {
      await check({ filter, conversation, fold: true, expand: "" });
      const parameters = new URLSearchParams({ filter, conversation });
      for (const what of ["stats", "findings", "timeline"]) {
        const theirs = (await ask(`s/${source}/${what}?${parameters}`)).json();
        const ours = what === "timeline" ? await api.timeline("", { from: null, to: null, conversation, filter, width: 1000 }) : await api[what]("", { filter, conversation, fold: false, expand: "" });
        same(rounded(ours), rounded(theirs), `${what} of ${JSON.stringify([filter, conversation])}`);
        compared += 1;
      }
    }
  }
  for (const event of Object.keys(data.frames).filter((each) => each.startsWith("e"))) {
    const [ours, theirs] = [await api.frame("", event), (await ask(`s/${source}/event/${event.slice(1)}`)).json()];
    for (const name of ["text", "text_complete", "lossy", "length"]) same(ours[name], theirs[name], `${name} of event ${event}`);
    compared += 1;
  }
  for (const frame of Object.keys(data.frames).filter((each) => !each.startsWith("e"))) {
    const theirs = (await ask(`s/${source}/frame/${frame}`)).json();
    const ours = await api.frame("", Number(frame));
    for (const name of ["text", "text_complete", "lossy", "length", "copy", "tree"]) same(ours[name], theirs[name], `${name} of frame ${frame}`);
    const open = theirs.tree.filter((node) => node.count > 0).map((node) => node.at);
    while (open.length) {
      const at = open.pop();
      const [mine, other] = [await api.tree("", Number(frame), at, 0, 500), (await ask(`s/${source}/frame/${frame}/tree?at=${at}&count=500`)).json()];
      // Characters that cannot be seen are escaped in another way.
      const plain = ({ nodes, total }) => ({ total, nodes: nodes.map((node) => (/[^ -~]|\\x/.test(node.preview + node.key) ? { at: node.at, length: node.length, count: node.count } : node)) });
      const [a, b] = [plain(mine), plain(other)];
      b.nodes.forEach((node, index) => node.preview === undefined && (a.nodes[index] = { at: a.nodes[index]?.at, length: a.nodes[index]?.length, count: a.nodes[index]?.count }));
      same(a, b, `members at ${at} of frame ${frame}`);
      open.push(...other.nodes.filter((node) => node.count > 0).map((node) => node.at));
    }
  }
  return compared;
}

test("an exported file answers as the program does", async () => {
  const fileApi = await fileApiOf();
  const others = captures(join(root, "testdata"));
  const files = [...captures(fixtures), ...others.filter((_, index) => process.env.ALL_CAPTURES || index % PART_OF_ALL === 0)];
  const [wrong, skipped] = [[], []];
  let compared = 0;
  const PART = 16;
  for (let from = 0; from < files.length; from += PART) {
    const part = files.slice(from, from + PART);
    const { view, ask, sources } = await program(part);
    try {
      for (const [index, source] of sources.entries()) {
        if (source.state === "failed") {
          skipped.push(part[index]);
          continue;
        }
        try {
          compared += await compare(ask, fileApi, source.id, source.conversations.map(({ name }) => name));
        } catch (error) {
          wrong.push(`${part[index].slice(root.length)}: ${error.message.slice(0, 600)}`);
        }
      }
    } finally {
      await view.stop();
    }
  }
  assert(wrong.length === 0, wrong.join("\n"));
  assert(skipped.length < files.length / 2, `captures that cannot be read: ${skipped.join(", ")}`);
  return `${compared} answers of ${files.length - skipped.length} captures`;
});
