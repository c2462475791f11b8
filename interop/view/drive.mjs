// Driving a server: forms made from schemas, questions, progress and cancellation, frames sent again.
import { join } from "node:path";
import { assert, barewire, equal, fixtures, root, rowsAreThere, test, withView } from "./harness.mjs";

const everything = ["--", process.execPath, join(root, "interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio"];
const serve = ["--", barewire, "serve"];
const odd = ["--", process.execPath, join(root, "interop/view/odd-server.mjs")];

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
    // The text is loaded first. Until then, the form of the tool is there, which has the arguments only.
    await page.waitForFunction(() => document.querySelector(".drive-form textarea")?.value.includes('"jsonrpc"'));
    assert((await editor.inputValue()).includes("hello"), "the frame is in the editor");
    await editor.fill('{"jsonrpc":"2.0","id":"mine","method":');
    await page.locator(".drive-form button[type=submit]").click();
    await page.locator("#tab-frames").click();
    await page.locator(".list-layer .row.kind-invalid:not([hidden])").first().waitFor();
  }));

test("a long frame is edited whole, and one that is too long is not", () =>
  withView(serve, {}, async (page) => {
    // Before the token is exchanged for a cookie, nothing can be asked for.
    await rowsAreThere(page);
    /** Sends a frame as it is, and opens it. */
    const send = async (text) => {
      const body = JSON.stringify({ text });
      const status = await page.evaluate((body) => fetch("api/s/1/send", { method: "POST", headers: { "content-type": "application/json" }, body }).then((answer) => answer.status), body);
      assert(status < 300, `send answers ${status}`);
      // The page sends requests of its own, so the number of frames says nothing.
      const find = () => page.evaluate((id) => fetch(`api/s/1/rows?filter=id:${id}&count=1`).then((answer) => answer.json()).then(({ rows }) => rows[0]?.frame), JSON.parse(text).id);
      let sent = await find();
      for (let tries = 0; !sent && tries < 600; tries += 1) {
        await page.waitForTimeout(50);
        sent = await find();
      }
      await page.evaluate((frame) => (location.hash = `s=1&f=${frame}`), sent);
      await page.locator(`#detail h2:text-is("Frame ${sent}")`).waitFor();
    };
    const frame = (id, params) => JSON.stringify({ jsonrpc: "2.0", id, method: "ping", params });
    const long = frame(901, { text: "ü".repeat(100_000), password: "correct-horse-battery" });
    await send(long);
    await page.locator("#detail button", { hasText: "Edit and send" }).click();
    const editor = page.locator(".drive-form textarea");
    await page.waitForFunction(() => document.querySelector(".drive-form textarea")?.value.includes('"jsonrpc"'));
    equal((await editor.inputValue()).replace("<redacted-1>", "correct-horse-battery") === long, true, "the editor has the frame");
    await page.locator(".drive-form .problem", { hasText: "Secrets of the frame were replaced" }).waitFor();
    // A server can send a frame that is longer than what the page may send.
    await send(frame(902, { text: "short" }));
    await page.route(/frame\/\d+$/, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), length: 5 << 20 } });
    });
    await page.reload();
    await page.locator("#detail button", { hasText: "Edit and send" }).click();
    await page.locator("#notice", { hasText: "too long to be edited" }).waitFor();
    assert(page.url().includes("f=") && !page.url().includes("tab=drive"), page.url());
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

test("resources of one name are told apart", () =>
  withView(odd, { hash: "&tab=drive" }, async (page) => {
    await page.locator("#panel-drive [data-kind=resources]").click();
    const entries = page.locator("#panel-drive .entry");
    await entries.nth(2).waitFor();
    equal(await entries.allTextContents(), ["samea://1", "samea://2", "other"], "the resources");
    await entries.nth(1).click();
    equal(await page.locator("#panel-drive .entry[aria-current=true]").allTextContents(), ["samea://2"], "the chosen one");
    await call(page);
    await lastCall(page).locator("pre", { hasText: "This is a://2" }).first().waitFor();
  }));

test("a capture is replayed against a server", () =>
  withView([join(fixtures, "session.wire"), ...serve], {}, async (page) => {
    await page.locator("#tab-drive").click();
    await page.locator("#panel-drive [data-kind=replay]").click();
    await page.locator(".drive-form button[type=submit]").click();
    await page.locator(".drive-form [role=status] b", { hasText: /^(?!running).+/ }).waitFor();
  }));
