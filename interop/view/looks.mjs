// The page for every eye: axe-core finds nothing, in light and dark, and no width scrolls sideways.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { assert, equal, fixtures, openPage, root, rowsAreThere, startView, test } from "./harness.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const captures = ["tour.wire", "faults.wire", "http.wire"].map((name) => join(fixtures, name));
const odd = ["--", process.execPath, join(root, "interop/view/odd-server.mjs")];
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

/** Returns the parts of the page that scroll sideways, although nobody expects it of them: lists of members and tables may. */
function sideways(page) {
  return page.evaluate(() => {
    const wide = [...document.querySelectorAll("body *")].filter((each) => {
      const { overflowX } = getComputedStyle(each);
      const mayScroll = each.closest(".table-box, .raw, .tree, .excerpt, .json, #tabs, textarea, select, input");
      return !mayScroll && ["auto", "scroll"].includes(overflowX) && each.clientWidth > 0 && each.scrollWidth > each.clientWidth + 1;
    });
    return wide.map((each) => `${each.tagName} ${each.id} ${each.className} by ${each.scrollWidth - each.clientWidth} pixels`);
  });
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
      const parts = await sideways(page);
      assert(parts.length === 0, `${what} at ${width} pixels scrolls sideways: ${parts}`);
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

for (const [width, height, colorScheme] of [[1400, 850, "dark"], [800, 600, "light"], [390, 844, "dark"]]) {
  test(`axe finds nothing in a driven server and in narrow pages, ${width} pixels, ${colorScheme}`, async () => {
    const view = await startView([...captures.slice(0, 1), ...odd]);
    const opened = await openPage(`${view.url}&tab=drive`, { viewport: { width, height }, colorScheme, expected: [/status of 40[04]/] });
    const { page } = opened;
    const found = [];
    const look = async (what) => {
      found.push(...(await violations(page)).map((each) => `${what}: ${each}`), ...(await sideways(page)).map((each) => `${what} scrolls sideways: ${each}`));
    };
    const entry = page.locator("#panel-drive .entry");
    await entry.first().waitFor();
    await entry.first().click();
    await page.locator(".drive-form .fields").waitFor();
    await look("a tool");
    await page.locator(".drive-form button[type=submit]").click();
    const question = page.locator("#question[open]");
    await question.waitFor();
    await look("a question");
    const columns = await question.locator(".schema-form").evaluate((form) => getComputedStyle(form).gridTemplateColumns.split(" ").length);
    equal(columns, width < 700 ? 1 : 2, "columns of the question");
    await question.locator(".fields input").first().fill("x");
    await question.locator("button", { hasText: "Accept" }).click();
    await page.locator(".call .badge.done").waitFor();
    await look("a call");
    for (const kind of ["resources", "templates", "prompts", "any", "raw", "replay"]) {
      await page.locator(`#panel-drive [data-kind=${kind}]`).click();
      await look(kind);
    }
    await page.locator(".call a", { hasText: "response" }).first().click();
    await page.locator("#detail .content").waitFor();
    await look("a frame");
    await page.locator('#detail [aria-label="Close the frame"]').click();
    for (const tab of TABS) {
      await page.locator(`#tab-${tab}`).click();
      await isFilled(page, tab);
      await look(tab);
    }
    await page.keyboard.press("e");
    await page.locator("#export[open] a").first().waitFor();
    await look("export");
    await page.keyboard.press("Escape");
    if (width < 1100) {
      await page.keyboard.press("b");
      await look("conversations");
    }
    await opened.close();
    await view.stop();
    assert(found.length === 0, [...new Set(found)].join("\n"));
  });
}
