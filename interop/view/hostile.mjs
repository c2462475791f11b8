// Captures that want to do harm: nothing in them is executed, and the page stays quick.
import { assert, detailOf, equal, memberOf, rowOf, rowsAreThere, test, withView } from "./harness.mjs";
import { deep, hostile, long } from "./captures.mjs";

/** The time until the page draws again, in milliseconds. */
function answerTime(page) {
  return page.evaluate(() => new Promise((resolve) => {
    const begin = performance.now();
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - begin)));
  }));
}

test("markup, scripts and turned text are text", async () => {
  const capture = await hostile();
  await withView([capture, capture], { expected: [/status of 40[04]/] }, async (page) => {
    await rowsAreThere(page);
    const frames = await page.locator(".list-layer .row:not(.event) .cell.frame").allTextContents();
    for (const frame of frames.filter(Boolean).slice(0, 40)) {
      await rowOf(page, frame).click();
      await detailOf(page, frame);
    }
    for (const tab of ["timeline", "statistics", "findings", "compare"]) {
      await page.locator(`#tab-${tab}`).click();
      await page.locator(`#panel-${tab} :is(table, details, .empty)`).first().waitFor();
    }
    await page.locator("#tab-frames").click();
    const foreign = await page.evaluate(() => document.querySelectorAll("img, iframe, object, embed, base, #layout script, #layout style, #layout svg [onload]").length);
    equal(foreign, 0, "elements of peers");
    const hidden = await page.evaluate(() => /[\u202a-\u202e\u2066-\u2069\u200b\ufeff]/u.test(document.body.innerText));
    assert(!hidden, "hidden characters are in the page");
    assert((await page.locator(".escape").count()) > 0, "hidden characters are shown as escapes");
    equal(await page.evaluate(() => Object.prototype.hasOwnProperty("polluted")), false, "prototypes");
  });
});

test("a frame of 100,000 levels", async () => {
  const capture = await deep(100_000);
  await withView([capture], { hash: "&f=4" }, async (page) => {
    await detailOf(page, 4);
    await page.keyboard.press("w");
    for (const frame of [4, 5]) {
      await rowOf(page, frame).click();
      await detailOf(page, frame);
      const first = page.locator("#detail .tree-item[aria-expanded=false]");
      for (let level = 0; level < 30 && (await first.count()) > 0; level += 1) {
        const before = await page.locator("#detail .tree-item").count();
        await first.last().click();
        await page.waitForFunction((count) => document.querySelectorAll("#detail .tree-item").length > count, before);
      }
      const time = await answerTime(page);
      assert(time < 500, `the page needed ${time} ms`);
    }
  });
});

test("a frame of 64 MiB, and one with 50,000 members", async () => {
  const capture = await long(64 << 20);
  await withView([capture], {}, async (page) => {
    await rowOf(page, 4).waitFor({ timeout: 60_000 });
    const begin = performance.now();
    await rowOf(page, 4).click();
    await detailOf(page, 4);
    const opened = performance.now() - begin;
    assert(opened < 3000, `the frame needed ${opened} ms`);
    const length = await page.evaluate(() => document.querySelector("#detail .raw").textContent.length);
    assert(length <= 70_000, `${length} characters are in the page`);
    const last = page.locator("#detail .pager button", { hasText: "End" });
    if (await last.isVisible()) {
      await last.click();
      await page.waitForFunction(() => !document.querySelector("#detail .pager .facts").textContent.startsWith("bytes 0 "));
    }
    await rowOf(page, 5).click();
    await detailOf(page, 5);
    await memberOf(page, "params").click();
    await memberOf(page, "arguments").click();
    await page.locator("#detail .tree-item.more").click();
    await page.waitForFunction(() => document.querySelectorAll("#detail .tree-item").length > 400);
    const time = await answerTime(page);
    assert(time < 500, `the page needed ${time} ms`);
    return `the long frame was shown after ${Math.round(opened)} ms`;
  });
});
