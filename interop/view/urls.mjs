// The URL: no fragment freezes or empties the page, "back" undoes what was chosen, and links keep it.
import { join } from "node:path";
import { assert, detailOf, equal, fixtures, rowOf, rowsAreThere, test, withView } from "./harness.mjs";

const tour = join(fixtures, "tour.wire");
const faults = join(fixtures, "faults.wire");
const http = join(fixtures, "http.wire");

const ODD = [
  "t=5~5.000000000000001", "t=0~0", "t=1~0", "t=~", "t=1~", "t=NaN~Infinity", "t=-1e308~1e308", "t=1e300~2e300", "t=0x1~0x2",
  "t=0~99999999999999999999", `t=-${"9".repeat(300)}~${"9".repeat(300)}`, "t=0~1~2", "t=%00~%ff", "t=0.0000001~0.0000002",
  "tab=foo", "tab=", "tab=__proto__", "tab=constructor", "s=99", "s=", "s=__proto__", "s=1/../2", "s=%2e%2e", "f=-1", "f=1e99",
  "f=e0", "f=e99999999999", "f=4294967297", "f=x", "c=nobody", "q=tol:x", "q=%22", `q=${"a%20".repeat(3000)}`, `x=${"1,".repeat(5000)}`,
  "x=-1,x,99999999999999999999", "a=7&b=8&tab=compare", "fold=x", "%", "%%%=%", "=&=", "&&&", "token=x", "#", "?", "s=1&s=2&tab=timeline&tab=drive",
];

test("no fragment freezes or empties the page", () =>
  withView([tour, http], { expected: [/status of 4\d\d/] }, async (page) => {
    await rowsAreThere(page);
    for (const tab of ["frames", "timeline", "compare"]) {
      for (const odd of ODD) {
        await page.evaluate(([fragment]) => (location.hash = fragment), [`s=2&tab=${tab}&${odd}`]);
        await page.evaluate(([fragment]) => (location.hash = fragment), [`${odd}&s=1&tab=${tab}`]);
        // Two pictures are drawn after the change.
        await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
        const shown = await page.locator(".panel:not([hidden])").count();
        equal(shown, 1, `panels that are shown for ${odd.slice(0, 60)}`);
      }
    }
    for (const odd of ["s=99&tab=foo", "tab=foo", "s=99"]) {
      await page.evaluate((fragment) => (location.hash = fragment), odd);
      await rowsAreThere(page);
      assert(!page.url().includes("foo") && !page.url().includes("s=99"), page.url());
    }
  }));

test("a range of the timeline that is too short or nowhere is shown as the nearest one", () =>
  withView([tour], { hash: "&tab=timeline&t=5~5.000000000000001" }, async (page) => {
    await page.locator("#panel-timeline table").waitFor();
    await page.evaluate(() => (location.hash = "s=1&tab=timeline&t=900~901"));
    await page.locator("#panel-timeline .status", { hasText: "operation" }).waitFor();
    await page.evaluate(() => (location.hash = "s=1&tab=timeline&t=x~y"));
    await page.locator("#panel-timeline tbody tr").first().waitFor();
  }));

test("links keep what was chosen after they were drawn", () =>
  withView([tour, faults], { hash: "&s=1" }, async (page) => {
    await rowOf(page, 3).click();
    await detailOf(page, 3);
    await page.fill("#filter", "errors");
    await page.waitForFunction(() => location.hash.includes("q=errors"));
    await page.locator("#tab-timeline").click();
    // A link is right for those who copy it or open it in a tab.
    const link = page.locator("#detail .operation a", { hasText: /^7$/ });
    await link.focus();
    assert((await link.getAttribute("href")).includes("tab=timeline"), await link.getAttribute("href"));
    await link.click();
    await detailOf(page, 7);
    assert(page.url().includes("tab=timeline") && page.url().includes("q=errors"), page.url());
    await page.locator("#conversations .source-link").nth(1).click();
    await page.waitForFunction(() => location.hash.includes("s=2"));
    assert(page.url().includes("tab=timeline") && page.url().includes("q=errors"), page.url());
    await page.locator("#tab-findings").click();
    const place = page.locator("#panel-findings .places a").first();
    await page.locator("#panel-findings details").first().waitFor();
    await page.locator("#tab-frames").click();
    await page.fill("#filter", "kind:invalid");
    await page.waitForFunction(() => location.hash.includes("q=kind"));
    await page.locator("#tab-findings").click();
    await place.click();
    await page.waitForFunction(() => location.hash.includes("f="));
    assert(page.url().includes("q=kind"), page.url());
  }));

test("a URL with a source and a frame opens at once", () =>
  withView([faults, tour], { hash: "&s=2&f=3" }, async (page) => {
    await page.locator("#detail .operation a", { hasText: /^7$/ }).waitFor();
  }));

test("back undoes a filter that was typed, not its letters", () =>
  withView([tour], {}, async (page) => {
    await rowsAreThere(page);
    const isFilter = (text) => page.waitForFunction((q) => (new URLSearchParams(location.hash.slice(1)).get("q") ?? "") === q && document.querySelector("#filter").value === q, text);
    await page.focus("#filter");
    for (const letter of "errors") {
      await page.keyboard.type(letter);
      await page.waitForFunction(() => new URLSearchParams(location.hash.slice(1)).get("q") === document.querySelector("#filter").value);
    }
    await page.keyboard.press("Enter");
    await page.focus("#filter");
    await page.fill("#filter", "tool:saw");
    await isFilter("tool:saw");
    // The focus stays in the filter.
    await page.goBack();
    await isFilter("errors");
    await page.goBack();
    await isFilter("");
    await page.goForward();
    await isFilter("errors");
  }));
