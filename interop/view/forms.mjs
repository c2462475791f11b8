// Forms made from schemas that real servers have: variants, members of any name, tuples, schemas put together, exact numbers.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, equal, folder, test, withView } from "./harness.mjs";

const SCHEMA = `{"type":"object","required":["shape"],"properties":{
 "shape":{"oneOf":[
  {"type":"object","title":"Circle","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},
  {"type":"object","title":"Box","properties":{"kind":{"const":"box"},"w":{"type":"number"}},"required":["kind","w"]}]},
 "tags":{"type":"object","additionalProperties":{"type":"string"}},
 "pair":{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}]},
 "mixed":{"type":["string","integer"]},
 "big":{"type":"integer","default":9007199254740993},
 "scale":{"type":"number"},
 "both":{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"integer"}}}]}}}`;

/** A server with one tool that returns the text of its arguments. */
const SERVER = `
import { createInterface } from "node:readline";
const tools = '[{"name":"draw","inputSchema":${SCHEMA.replaceAll("\n", "")}}]';
const result = { initialize: '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"forms","version":"1"}}', "tools/list": \`{"tools":\${tools}}\` };
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line);
  if (id === undefined) continue;
  const called = method === "tools/call" ? JSON.stringify({ content: [{ type: "text", text: line }] }) : null;
  const body = result[method] ?? called;
  console.log(\`{"jsonrpc":"2.0","id":\${JSON.stringify(id)},\${body ? \`"result":\${body}\` : '"error":{"code":-32601,"message":"no"}'}}\`);
}
`;

/** Opens the form of the tool. */
async function withForm(use) {
  const path = join(folder, "forms.mjs");
  writeFileSync(path, SERVER);
  await withView(["--", process.execPath, path], {}, async (page) => {
    await page.locator("#tab-drive").click();
    await page.locator('#panel-drive .entry:text-is("draw")').click();
    await page.locator('.drive-form h2:text-is("draw")').waitFor();
    const area = page.locator(".json-side textarea");
    const json = async () => (await area.inputValue()).replace(/\s+/g, "");
    await use(page, area, json);
  });
}

const field = (page, name) => page.locator(".fields .field", { has: page.locator(`.field-name:text-is("${name}")`) }).locator("input, select");
const group = (page, name) => page.locator(".fields fieldset", { has: page.locator(`> legend:text-matches("^${name}( \\\\*)?$")`) });

test("a form has the variants of a value, and the fields of the one that is chosen", () =>
  withForm(async (page, area, json) => {
    equal(await page.locator(".fields textarea").count(), 0, "values that are only JSON");
    const shape = group(page, "shape");
    await field(page, "r").fill("2");
    assert((await json()).includes('"shape":{"kind":"circle","r":2}'), await json());
    await shape.locator("select.variant").selectOption({ label: "Box" });
    await field(page, "w").fill("3");
    assert((await json()).includes('"shape":{"kind":"box","w":3}'), await json());
    // The JSON chooses the variant, and keeps what no variant fits.
    await area.fill('{"shape": {"kind": "circle", "r": 7}}');
    equal(await field(page, "r").inputValue(), "7", "the field of the variant");
    await area.fill('{"shape": {"kind": "line"}, "mixed": 4}');
    await field(page, "scale").fill("1");
    assert((await json()).includes('"shape":{"kind":"line"}') && (await json()).includes('"mixed":4'), await json());
    await group(page, "mixed").locator("select.variant").selectOption({ label: "string" });
    await group(page, "mixed").locator("input").fill("4");
    assert((await json()).includes('"mixed":"4"'), await json());
  }));

test("a form has rows for members of any name, places of a tuple, and the members of allOf", () =>
  withForm(async (page, area, json) => {
    await field(page, "r").fill("1");
    const tags = group(page, "tags");
    await tags.locator("button", { hasText: "Add a member" }).click();
    await tags.locator(".member-name").fill("colour");
    await tags.locator(".member .field input").fill("red");
    assert((await json()).includes('"tags":{"colour":"red"}'), await json());
    await tags.locator("button", { hasText: "Add a member" }).click();
    await tags.locator(".member-name").nth(1).fill("colour");
    await page.locator(".problem", { hasText: 'two members are named "colour"' }).waitFor();
    await tags.locator(".member button").nth(1).click();
    await page.locator(".problem").waitFor({ state: "hidden" });
    await group(page, "pair").locator("input").nth(1).fill("b");
    await group(page, "pair").locator("input").nth(0).fill("1");
    assert((await json()).includes('"pair":[1,"b"]'), await json());
    await field(page, "a").fill("x");
    await field(page, "b").fill("2");
    assert((await json()).includes('"both":{"a":"x","b":2}'), await json());
    await area.fill('{"shape": {"kind": "circle", "r": 1}, "tags": {"p": "q"}, "pair": [5], "both": {"b": 3}}');
    equal(await tags.locator(".member-name").inputValue(), "p", "the name of a member");
    equal(await group(page, "pair").locator("input").nth(0).inputValue(), "5", "the first place");
    equal(await field(page, "b").inputValue(), "3", "a member of allOf");
  }));

test("a form keeps the text of numbers", () =>
  withForm(async (page, area, json) => {
    assert((await json()).includes('"big":9007199254740993'), `the default: ${await json()}`);
    await area.fill('{"shape": {"kind": "circle", "r": 1.0}, "big": 9007199254740995, "scale": 1e400, "other": [12345678901234567890]}');
    await field(page, "r").fill("1.50");
    const expected = '{"shape":{"kind":"circle","r":1.50},"big":9007199254740995,"scale":1e400,"other":[12345678901234567890]}';
    equal(await json(), expected, "the JSON after a change of a field");
    await page.locator(".drive-form button[type=submit]").click();
    const call = page.locator(".calls > li").first();
    await call.locator(".badge.done").waitFor();
    const text = (await call.textContent()).replace(/\s+/g, "");
    assert(text.includes("9007199254740995") && text.includes("1e400") && text.includes("12345678901234567890"), text);
  }));
