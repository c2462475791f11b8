// Driving a server: forms made from schemas, questions, progress and cancellation, frames sent again.
import { join } from "node:path";
import { assert, barewire, equal, fixtures, root, test, withView } from "./harness.mjs";

const everything = ["--", process.execPath, join(root, "interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio"];
const serve = ["--", barewire, "serve"];

/** Opens the form of a tool. */
async function openTool(page, name) {
  await page.locator("#tab-drive").click();
  await page.locator(`#panel-drive .entry:text-is("${name}")`).click();
  await page.locator(`.drive-form h2:text-is("${name}")`).waitFor();
}

const call = (page) => page.locator(".drive-form button[type=submit]").click();
const lastCall = (page) => page.locator(".calls > li").first();

test("a tool is called with a form, in step with its JSON", () =>
  withView(serve, {}, async (page) => {
    await openTool(page, "add");
    await page.locator(".drive-form input").nth(0).fill("2");
    equal(JSON.parse(await page.locator(".json-side textarea").inputValue()).a, 2, "the JSON");
    await page.locator(".json-side textarea").fill('{"a": 2, "b": 40}');
    equal(await page.locator(".drive-form input").nth(1).inputValue(), "40", "the form");
    await call(page);
    await lastCall(page).locator(".badge.done").waitFor();
    assert((await lastCall(page).textContent()).includes("42"), await lastCall(page).textContent());
    await lastCall(page).locator("a", { hasText: "response" }).click();
    await page.locator("#detail .operation h3", { hasText: "tools/call add" }).waitFor();
  }));

test("a question of a server is answered in the page", () =>
  withView(serve, {}, async (page) => {
    await openTool(page, "greet");
    await call(page);
    const dialog = page.locator("#question[open]");
    await dialog.waitFor();
    await dialog.locator(".fields input").first().fill("Ada");
    await dialog.locator("button", { hasText: "Accept" }).click();
    await lastCall(page).locator(".badge.done").waitFor();
    assert((await lastCall(page).textContent()).includes("Ada"), await lastCall(page).textContent());
  }));

test("progress is shown, and a call is cancelled", () =>
  withView(serve, {}, async (page) => {
    await openTool(page, "sleep");
    await page.locator(".json-side textarea").fill('{"ms": 60000}');
    await call(page);
    await lastCall(page).locator("button", { hasText: "Cancel" }).click();
    await lastCall(page).locator(".badge.cancelled").waitFor();
    await page.locator("#tab-frames").click();
    await page.locator(".list-layer .row:not([hidden]) .method", { hasText: "notifications/cancelled" }).waitFor();
  }));

test("a frame is edited and sent again, also a broken one", () =>
  withView(serve, {}, async (page) => {
    await openTool(page, "echo");
    await page.locator(".json-side textarea").fill('{"text": "hello", "message": "hello"}');
    await call(page);
    await lastCall(page).locator("a", { hasText: "request" }).first().click();
    await page.locator("#detail button", { hasText: "Edit and send" }).click();
    const editor = page.locator(".drive-form textarea");
    assert((await editor.inputValue()).includes("hello"), "the frame is in the editor");
    await editor.fill('{"jsonrpc":"2.0","id":"mine","method":');
    await page.locator(".drive-form button[type=submit]").click();
    await page.locator("#tab-frames").click();
    await page.locator(".list-layer .row.kind-invalid:not([hidden])").first().waitFor();
  }));

test("tools, resources and prompts of server-everything", () =>
  withView(everything, {}, async (page) => {
    await openTool(page, "get-sum");
    await page.locator(".json-side textarea").fill('{"a": 1, "b": 2}');
    await call(page);
    await lastCall(page).locator(".badge.done").waitFor();
    assert((await lastCall(page).textContent()).includes("3"), await lastCall(page).textContent());
    await openTool(page, "trigger-long-running-operation");
    await page.locator(".json-side textarea").fill('{"duration": 3, "steps": 6}');
    await call(page);
    await lastCall(page).locator("progress").waitFor();
    await lastCall(page).locator(".badge.done").waitFor();
    await page.locator("#panel-drive [data-kind=prompts]").click();
    await page.locator("#panel-drive .entry").first().click();
    await call(page);
    await lastCall(page).locator(".badge.done, .badge.failed").waitFor();
    await page.locator("#panel-drive [data-kind=resources]").click();
    await page.locator("#panel-drive .entry").first().click();
    await call(page);
    await lastCall(page).locator(".badge.done").waitFor();
  }));

test("a capture is replayed against a server", () =>
  withView([join(fixtures, "session.wire"), ...serve], {}, async (page) => {
    await page.locator("#tab-drive").click();
    await page.locator("#panel-drive [data-kind=replay]").click();
    await page.locator(".drive-form button[type=submit]").click();
    await page.locator(".drive-form [role=status] b", { hasText: /^(?!running).+/ }).waitFor();
  }));
