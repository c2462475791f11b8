// Takes the pictures of docs/view.md: node pictures.mjs
import { join } from "node:path";
import { closeBrowser, fixtures, openPage, root, startView } from "./harness.mjs";
import { busy } from "./captures.mjs";

const tour = "tour.wire";
const faults = "faults.wire";
const everything = join(root, "interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
const workshop = await busy();

/** A picture: its name, the captures or the server, the place in the page, the size, the colours, and the tool that is called. */
const PICTURES = [
  ["view", [faults, tour], "&f=9", 1440, 810, "light"],
  ["view-dark", [tour, faults], "&f=3", 1440, 810, "dark"],
  ["view-timeline", [workshop, tour], "&tab=timeline", 1280, 720, "dark"],
  ["view-statistics", [workshop, tour], "&tab=statistics", 1280, 720, "light"],
  ["view-findings", [faults, tour], "&tab=findings", 1280, 720, "light"],
  ["view-drive", ["--", process.execPath, everything, "stdio"], "&tab=drive", 1280, 720, "dark", "get-annotated-message"],
  ["view-narrow", [tour, faults], "&f=13", 800, 700, "light"],
  ["view-phone", [tour, faults], "", 390, 700, "dark"],
];

for (const [name, captures, hash, width, height, colorScheme, tool] of PICTURES) {
  const view = await startView(captures, { cwd: fixtures });
  const { page, context } = await openPage(view.url + hash, { viewport: { width, height }, colorScheme });
  await page.locator("#state", { hasText: /complete|live/ }).waitFor();
  if (tool) {
    await page.locator(`.entry:text-is("${tool}")`).click();
    await page.locator(".drive-form select").first().selectOption({ index: 2 });
    await page.locator(".drive-form button[type=submit]").click();
    await page.locator(".call .badge.done").waitFor();
  }
  if (hash.includes("f=")) await page.locator("#detail .content").waitFor();
  // Fonts and canvases are drawn one frame later.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  await page.waitForTimeout(800);
  await page.screenshot({ path: join(root, "docs", `${name}.png`) });
  await context.close();
  await view.stop();
}
await closeBrowser();
