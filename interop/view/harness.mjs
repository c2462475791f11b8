// A running `barewire view`, a real Chromium with its page, and tests that print a line each.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const root = fileURLToPath(new URL("../../", import.meta.url));
export const barewire = process.env.BAREWIRE ?? join(root, "target/debug/barewire");
export const fixtures = join(root, "crates/barewire-cli/tests/cmd/files");

/** A folder for the captures of this run. */
export const folder = mkdtempSync(join(tmpdir(), "barewire-view-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
const FLAGS = ["--no-sandbox", "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"];

let shared = null;

/** The browser of all tests. */
export async function browser() {
  shared ??= await chromium.launch({ executablePath: process.env.CHROMIUM ?? CHROMIUM[0], args: FLAGS });
  return shared;
}

export async function closeBrowser() {
  await shared?.close();
}

/** Starts `barewire view`, and returns its URL as soon as it is printed. */
export async function startView(args, options = {}) {
  const begin = performance.now();
  const child = spawn(barewire, ["view", "--no-open", ...args], { stdio: ["ignore", "pipe", "pipe"], ...options });
  let errors = "";
  child.stderr.on("data", (data) => (errors += data));
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise((resolve, reject) => {
    lines.once("line", resolve);
    child.once("exit", (code) => reject(new Error(`barewire view ended with ${code}: ${errors}`)));
    child.once("error", reject);
  });
  return {
    url,
    origin: new URL(url).origin,
    begin,
    child,
    errors: () => errors,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}

/** Replaces the files of the page by those in the folder ASSETS, to work on the page without building the program. */
async function fromDisk(context) {
  await context.route(/\/([\w-]+\.(js|css|svg))?$/, async (route) => {
    const name = new URL(route.request().url()).pathname.slice(1) || "index.html";
    // A test that has failed ends the program while the page still asks for files.
    const response = await route.fetch().catch(() => null);
    // The program does not know new files.
    const known = response?.ok() ? { response } : { contentType: "text/javascript" };
    await (response ? route.fulfill({ ...known, body: readFileSync(join(process.env.ASSETS, name)) }) : route.abort());
  });
}

/** Opens a page that fails the test by any error, dialog, or request to elsewhere. */
export async function openPage(url, options = {}) {
  const { viewport = { width: 1400, height: 850 }, colorScheme = "light", expected = [], ...more } = options;
  const context = await (await browser()).newContext({ viewport, colorScheme, reducedMotion: "reduce", ...more });
  const page = await context.newPage();
  const problems = [];
  const unexpected = (text) => !expected.some((pattern) => pattern.test(text)) && problems.push(text);
  page.on("pageerror", (error) => unexpected(`error: ${error.stack ?? error.message}`));
  page.on("console", (message) => message.type() === "error" && unexpected(`console: ${message.text()} ${message.location().url}`));
  page.on("dialog", (dialog) => {
    unexpected(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => {});
  });
  const own = new URL(url).origin;
  page.on("request", (request) => !request.url().startsWith(own) && !request.url().startsWith("file:") && unexpected(`request to ${request.url()}`));
  if (process.env.ASSETS) await fromDisk(context);
  await page.goto(url);
  return {
    page,
    context,
    problems,
    async close() {
      await context.close();
      assert(problems.length === 0, problems.join("\n"));
    },
  };
}

/** Opens a view and a page with it, runs `use`, and ends both. */
export async function withView(args, options, use) {
  const view = await startView(args, options.view);
  try {
    const opened = await openPage(view.url + (options.hash ?? ""), options);
    await use(opened.page, view, opened);
    await opened.close();
  } finally {
    await view.stop();
  }
}

/** Waits until the list of frames has rows. */
export async function rowsAreThere(page) {
  await page.locator(".list-layer .row:not(.loading) .cell.frame:not(:empty)").first().waitFor();
}

/** The row of a frame in the list. */
export function rowOf(page, frame) {
  return page.locator(".list-layer .row:not([hidden])", { has: page.locator(`.cell.frame:text-is("${frame}")`) });
}

/** The member of a frame with this name, in the tree. */
export function memberOf(page, name) {
  return page.locator("#detail .tree-item", { has: page.locator(`.key:text-is("${name}")`) });
}

/** Waits until the detail of a frame is shown. */
export async function detailOf(page, frame) {
  await page.locator(`#detail h2:text-is("Frame ${frame}")`).waitFor();
}

export function assert(condition, message) {
  if (!condition) throw new Error(message);
}

export function equal(got, expected, what) {
  const [one, two] = [JSON.stringify(got), JSON.stringify(expected)];
  assert(one === two, `${what}: ${one} instead of ${two}`);
}

const tests = [];

/** Adds a test; the words after the program's name choose those whose name contains one of them. */
export function test(name, run) {
  tests.push({ name, run });
}

/** Runs the tests, one after the other, and prints a line for each. */
export async function runTests(wanted) {
  let failed = 0;
  for (const { name, run } of tests) {
    if (wanted.length && !wanted.some((word) => name.includes(word))) continue;
    const begin = performance.now();
    try {
      const words = await run();
      console.log(`pass view ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)${words ? ` ${words}` : ""}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL view ${name}: ${error.message}`);
      console.error(error.stack);
    }
  }
  await closeBrowser();
  return failed;
}
