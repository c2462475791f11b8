// Taps that run: the page shows them as they come, follows their frames, and says when they are gone.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { assert, barewire, folder, root, rowsAreThere, test, withView } from "./harness.mjs";

const server = [process.execPath, join(root, "interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio"];

/** An environment whose folders for taps are this run's own, so that only its taps are seen. */
export function environment(name) {
  const runtime = join(folder, name);
  mkdirSync(runtime, { mode: 0o700 });
  return { ...process.env, XDG_RUNTIME_DIR: runtime, XDG_STATE_HOME: join(runtime, "state") };
}

/** Starts a client of the official SDK, with a tap before its server. */
export async function connect(env) {
  const client = new Client({ name: "desk", version: "1" });
  await client.connect(new StdioClientTransport({ command: barewire, args: ["tap", "--", ...server], env, stderr: "ignore" }));
  return client;
}

test("a running tap is shown live, and its end", async () => {
  const env = environment("live");
  await withView([], { view: { env } }, async (page) => {
    await page.locator("#conversations .empty", { hasText: "No tap" }).waitFor();
    const client = await connect(env);
    await page.locator("#conversations .source-link").waitFor();
    await rowsAreThere(page);
    await page.locator("#state", { hasText: "live" }).waitFor();
    await page.keyboard.press("F");
    for (let call = 0; call < 60; call += 1) await client.callTool({ name: "echo", arguments: { message: `number ${call}` } });
    // The newest frame is visible without a step of the user.
    await page.locator('.list-layer .row:not([hidden]) .preview', { hasText: "number 59" }).last().waitFor();
    await page.locator("#conversations .who", { hasText: "desk 1" }).waitFor();
    await client.close();
    await page.locator("#state", { hasText: /ended|lost/ }).waitFor();
    const second = await connect(env);
    await page.waitForFunction(() => document.querySelectorAll("#conversations .source-link").length === 2);
    await second.close();
  });
});

test("a hidden page costs nothing, and catches up", async () => {
  const env = environment("hidden");
  await withView([], { view: { env } }, async (page) => {
    const client = await connect(env);
    await rowsAreThere(page);
    const requests = [];
    page.on("request", (request) => requests.push(request.url()));
    // Chromium without a window never hides a page by itself.
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    for (let call = 0; call < 20; call += 1) await client.callTool({ name: "echo", arguments: { message: `hidden ${call}` } });
    assert(requests.length === 0, `a hidden page asked for ${requests.join(" ")}`);
    await page.evaluate(() => {
      delete document.hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await page.locator("#tab-frames .tab-count", { hasText: /^4[0-9]|^[5-9][0-9]/ }).waitFor();
    await client.close();
  });
});

test("a banner names the tap that does not redact secrets", async () => {
  const env = environment("unredacted");
  await withView([], { view: { env } }, async (page) => {
    const tap = (...options) => {
      const child = spawn(barewire, ["tap", ...options, "--", "cat"], { env, stdio: ["pipe", "ignore", "ignore"] });
      child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"password":"correct-horse-battery"}}\n');
      return child;
    };
    const redacted = tap();
    await rowsAreThere(page);
    assert(await page.locator("#not-redacted").isHidden(), "there is a banner without a reason");
    const open = tap("--no-redact");
    await page.locator("#not-redacted", { hasText: `Secrets of cat (${open.pid}) are not redacted` }).waitFor();
    await page.locator("#conversations .source-link", { hasText: String(open.pid) }).click();
    await page.locator(".list-layer .row:not([hidden]) .preview", { hasText: "battery" }).first().waitFor();
    for (const child of [redacted, open]) {
      child.stdin.end();
      await once(child, "exit");
    }
  });
});
