// The page for every eye: axe-core finds nothing, in light and dark, and no width scrolls sideways.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { assert, fixtures, openPage, rowsAreThere, startView, test } from "./harness.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const captures = ["tour.wire", "faults.wire", "http.wire"].map((name) => join(fixtures, name));
const TABS = ["frames", "timeline", "statistics", "findings", "drive", "compare"];

/** Returns what axe-core finds. */
export async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  return found.violations.map((each) => `${each.id}: ${each.help}: ${each.nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
}

/** Waits until the tab has been filled. */
async function isFilled(page, tab) {
  await page.locator(`#panel-${tab}:not([hidden])`).waitFor();
  if (tab === "frames") await rowsAreThere(page);
  else await page.locator(`#panel-${tab} :is(table, details, .empty)`).first().waitFor();
}

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing, ${colorScheme}`, async () => {
    const view = await startView(captures);
    const opened = await openPage(view.url, { colorScheme, expected: [/status of 40[04]/] });
    const { page } = opened;
    const found = [];
    await rowsAreThere(page);
    for (const source of await page.locator("#conversations .source-link").all()) {
      await source.click();
      for (const tab of TABS) {
        await page.locator(`#tab-${tab}`).click();
        await isFilled(page, tab);
        if (tab === "frames") {
          await page.locator(".list-layer .row:not(.event)").nth(2).click();
          await page.locator("#detail .content").waitFor();
        }
        found.push(...(await violations(page)).map((each) => `${tab}: ${each}`));
      }
    }
    await page.keyboard.press("?");
    await page.locator("#help[open]").waitFor();
    found.push(...(await violations(page)).map((each) => `help: ${each}`));
    await opened.close();
    await view.stop();
    assert(found.length === 0, [...new Set(found)].join("\n"));
  });
}

test("no width scrolls sideways, also at 200 %", async () => {
  const view = await startView(captures);
  // 200 % of 1600 and of 1280 pixels are 800 and 640 pixels with a ratio of 2.
  for (const [width, height, deviceScaleFactor] of [[390, 844, 1], [800, 600, 1], [800, 450, 2], [640, 400, 2], [1600, 900, 1]]) {
    const opened = await openPage(`${view.url}&f=3`, { viewport: { width, height }, deviceScaleFactor, expected: [/status of 40[04]/] });
    const { page } = opened;
    await page.locator("#detail .content").waitFor();
    const check = async (what) => {
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert(wide <= 0, `${what} at ${width} pixels is ${wide} pixels too wide`);
    };
    await check("a frame");
    // On a phone the frame covers the tabs.
    await page.locator('#detail [aria-label="Close the frame"]').click();
    for (const tab of TABS) {
      await page.locator(`#tab-${tab}`).click();
      await isFilled(page, tab);
      await check(tab);
      const lost = await page.evaluate((name) => document.getElementById(`panel-${name}`).getBoundingClientRect().height, tab);
      assert(lost > 100, `${tab} at ${width}×${height} is ${lost} pixels high`);
    }
    await opened.close();
  }
  await view.stop();
});
