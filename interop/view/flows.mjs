// What people do with the page: open, filter, follow a pair, zoom, explain a finding; with the mouse and with keys alone.
import { join } from "node:path";
import { assert, detailOf, equal, fixtures, memberOf, rowOf, rowsAreThere, test, withView } from "./harness.mjs";
import { calling, stderr, unauthorized } from "./captures.mjs";

const tour = join(fixtures, "tour.wire");
const faults = join(fixtures, "faults.wire");
const http = join(fixtures, "http.wire");

test("a capture opens, and the token leaves the URL", () =>
  withView([tour], {}, async (page) => {
    await rowsAreThere(page);
    assert(!page.url().includes("token"), page.url());
    assert((await page.locator("#conversations").textContent()).includes("desk 0.9.1 → workshop 2.3.0"), "the conversation has names");
    await rowOf(page, 7).click();
    await detailOf(page, 7);
    assert(page.url().includes("f=7"), page.url());
    assert((await rowOf(page, 3).getAttribute("class")).includes("pair"), "the request is highlighted with its response");
    await page.reload();
    await detailOf(page, 7);
    await page.locator(".list-layer .row.selected").waitFor();
  }));

test("filters, and what is wrong with one", () =>
  withView([tour], { expected: [/status of 400/] }, async (page) => {
    await rowsAreThere(page);
    await page.fill("#filter", "tool:paint");
    await page.locator("#frames-status", { hasText: /^[1-4] rows?$/ }).waitFor();
    await page.locator(".fold", { hasText: "▸" }).first().click();
    await page.locator("#frames-status", { hasText: "4 rows" }).waitFor();
    await page.fill("#filter", "tol:paint");
    await page.locator("#filter-error", { hasText: "tool:" }).waitFor();
    equal(await page.getAttribute("#filter", "aria-invalid"), "true", "aria-invalid");
    await page.fill("#filter", "errors");
    await page.locator("#filter-error").waitFor({ state: "hidden" });
    await rowOf(page, 17).waitFor();
    equal(await rowOf(page, 1).count(), 0, "frames that do not match");
  }));

test("from a request to its response, and back with the browser", () =>
  withView([tour], {}, async (page) => {
    await rowsAreThere(page);
    await rowOf(page, 3).click();
    await detailOf(page, 3);
    await page.keyboard.press("p");
    await detailOf(page, 7);
    await page.keyboard.press("p");
    await detailOf(page, 3);
    await page.goBack();
    await detailOf(page, 7);
    await page.locator("#detail .operation a", { hasText: /^3$/ }).click();
    await detailOf(page, 3);
  }));

test("a link to a frame that is folded away unfolds it", () =>
  withView([tour], { hash: "&f=10" }, async (page) => {
    await detailOf(page, 10);
    await rowOf(page, 10).waitFor();
    assert((await rowOf(page, 10).getAttribute("class")).includes("selected"), "the row is selected");
    assert(page.url().includes("x="), page.url());
  }));

test("members are opened one by one, and marked in the text", () =>
  withView([tour], { hash: "&f=3" }, async (page) => {
    await detailOf(page, 3);
    await memberOf(page, "params").click();
    await memberOf(page, "arguments").click();
    await memberOf(page, "planks").click();
    const marked = await page.evaluate(() => [...CSS.highlights.get("member")].map(String).join());
    equal(marked, "3", "the marked text");
  }));

test("the name of a tool is shown where there is no room for its method", async () => {
  const path = await calling("sharpen_saws");
  await withView([path], {}, async (page) => {
    await rowsAreThere(page);
    for (const width of [1400, 1000, 800, 390]) {
      await page.setViewportSize({ width, height: 700 });
      const name = rowOf(page, 4).locator(".name");
      await name.waitFor();
      const hidden = await name.evaluate((each) => each.scrollWidth - each.clientWidth);
      assert(hidden <= 1, `${hidden} pixels of the name are hidden at ${width}`);
      const end = await name.evaluate((each) => each.getBoundingClientRect().right - each.parentElement.getBoundingClientRect().right);
      assert(end <= 0, `the name ends ${end} pixels outside at ${width}`);
    }
  });
});

test("copied commands say that secrets were replaced in them", () =>
  withView([http], {}, async (page) => {
    await rowsAreThere(page);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await rowOf(page, 3).click();
    await page.locator("#detail button", { hasText: "Copy as curl" }).click();
    await page.locator("#notice", { hasText: "stands for secrets" }).waitFor();
    assert((await page.evaluate(() => navigator.clipboard.readText())).includes("mcp-session-id: <redacted-1>"), "the command");
  }));

test("a finding leads to its frame, with its fix", () =>
  withView([faults], {}, async (page) => {
    await rowsAreThere(page);
    await page.keyboard.press("4");
    const finding = page.locator("#panel-findings details").first();
    await finding.waitFor();
    if (!(await finding.evaluate((each) => each.open))) await finding.locator("summary").click();
    await finding.locator(".places a").first().click();
    await page.locator("#detail .box h3", { hasText: "finding" }).waitFor();
    assert((await page.locator("#detail .fix").count()) > 0, "the detail has the fix");
    const first = page.url();
    await page.keyboard.press("n");
    await page.waitForFunction((url) => location.href !== url, first);
  }));

test("the timeline zooms and pans", () =>
  withView([tour], { hash: "&tab=timeline" }, async (page) => {
    const table = page.locator("#panel-timeline tbody tr");
    await table.first().waitFor();
    const all = await table.count();
    const canvas = page.locator("canvas.bars");
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + 20, box.y + 60);
    for (let step = 0; step < 5; step += 1) await page.mouse.wheel(0, -600);
    await page.waitForFunction((count) => document.querySelectorAll("#panel-timeline tbody tr").length < count, all);
    assert(page.url().includes("t="), page.url());
    await canvas.focus();
    await page.keyboard.press("0");
    await page.waitForFunction((count) => document.querySelectorAll("#panel-timeline tbody tr").length === count, all);
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.locator("#detail h2").waitFor();
  }));

/** The picture of the strip above the timeline. */
const strip = (page) => page.evaluate(() => document.querySelector("canvas.overview").toDataURL());

test("the strip above the timeline is there after a filter was cleared in another tab", () =>
  withView([tour], { hash: "&tab=timeline" }, async (page) => {
    await page.locator("#panel-timeline tbody tr").first().waitFor();
    await page.waitForFunction(() => {
      const map = document.querySelector("canvas.overview");
      const { data } = map.getContext("2d").getImageData(0, map.height - 6, map.width, 1);
      return new Set(new Uint32Array(data.buffer)).size > 2;
    });
    const before = await strip(page);
    await page.locator("#tab-frames").click();
    await page.fill("#filter", "errors");
    await page.waitForFunction(() => location.hash.includes("q=errors"));
    await page.fill("#filter", "");
    await page.waitForFunction(() => !location.hash.includes("q="));
    await page.locator("#tab-timeline").click();
    await page.waitForFunction((picture) => document.querySelector("canvas.overview").toDataURL() === picture, before);
  }));

test("two fingers zoom the timeline, and one pans it", () =>
  withView([tour], { hash: "&tab=timeline", hasTouch: true }, async (page) => {
    await page.locator("#panel-timeline tbody tr").first().waitFor();
    const box = await page.locator("canvas.bars").boundingBox();
    const touch = await page.context().newCDPSession(page);
    const points = (...places) => places.map((x, id) => ({ x: box.x + x, y: box.y + 60, id }));
    const send = (type, ...places) => touch.send("Input.dispatchTouchEvent", { type, touchPoints: points(...places) });
    // The page writes the range into the URL a tenth of a second after the last move.
    const range = () => page.evaluate(async () => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      return new URLSearchParams(location.hash.slice(1)).get("t").split("~").map(Number);
    });
    const middle = box.width / 2;
    await send("touchStart", middle - 20);
    await send("touchStart", middle - 20, middle + 20);
    for (let far = 30; far <= 100; far += 10) await send("touchMove", middle - far, middle + far);
    const [from, to] = await range();
    const whole = await page.evaluate(() => fetch("api/sources").then((answer) => answer.json()).then(({ sources }) => sources[0].last - sources[0].first));
    assert(to - from < whole / 2, `the range is ${to - from} of ${whole}`);
    await send("touchEnd");
    await send("touchStart", middle - 100);
    for (let x = middle - 100; x >= middle - 200; x -= 20) await send("touchMove", x);
    const [left, right] = await range();
    await send("touchEnd");
    assert(left > from && Math.abs(right - left - (to - from)) < 0.001, `${left} to ${right} after ${from} to ${to}`);
  }));

test("an event is opened, with all of its text", async () => {
  const path = await stderr(100_000);
  await withView([path], {}, async (page) => {
    await rowsAreThere(page);
    await page.locator(".list-layer .row.event:not([hidden])", { hasText: "stderr" }).click();
    await page.locator('#detail h2:text-is("Event")').waitFor();
    const raw = page.locator("#detail .raw");
    assert((await raw.textContent()).startsWith("The beginning"), "the text of the event");
    await page.locator("#detail .pager button", { hasText: "End" }).click();
    await page.waitForFunction(() => document.querySelector("#detail .raw").textContent.endsWith("the end"));
    const place = new URLSearchParams(new URL(page.url()).hash.slice(1)).get("f");
    assert(/^e\d+$/.test(place), page.url());
    await page.reload();
    await page.locator('#detail h2:text-is("Event")').waitFor();
    await page.locator(".list-layer .row.event.selected").waitFor();
    // The keys of the list open events too.
    await page.locator("#panel-frames .grid").focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Home");
    await page.waitForFunction((first) => !location.hash.includes(first), place);
  });
});

test("an exchange without a message shows its heads", async () => {
  const path = await unauthorized();
  await withView([path], {}, async (page) => {
    await page.locator(".list-layer .row.event:not([hidden])", { hasText: "GET /mcp" }).first().click();
    await page.locator("#detail h3", { hasText: "GET /mcp" }).waitFor();
    await page.locator("#detail h3", { hasText: "401 Unauthorized" }).waitFor();
    const heads = await page.locator("#detail .headers").allTextContents();
    assert(heads.some((each) => each.endsWith("the last word\"")), `all of the challenge: ${heads}`);
    equal(await page.locator("#detail .raw").count(), 0, "the text, which says the same");
  });
});

test("statistics lead to the frames of a method", () =>
  withView([tour], { hash: "&tab=statistics" }, async (page) => {
    await page.locator("#panel-statistics th a", { hasText: "tools/weld" }).click();
    await rowOf(page, 16).waitFor();
    equal(await page.inputValue("#filter"), "method:tools/weld", "the filter");
  }));

test("the filter and the chosen conversation select statistics and findings", () =>
  withView([faults], { hash: "&tab=statistics", expected: [/status of 400/] }, async (page) => {
    const methods = page.locator("#panel-statistics tbody th");
    await methods.nth(1).waitFor();
    await page.fill("#filter", "method:tools/list");
    await page.locator("#panel-statistics .facts", { hasText: "filter" }).waitFor();
    equal(await methods.allTextContents(), ["tools/list"], "the methods");
    await page.locator("#tab-findings").click();
    await page.fill("#filter", "kind:invalid");
    await page.locator("#panel-findings .facts", { hasText: "filter" }).first().waitFor();
    const some = await page.locator("#panel-findings .places li").count();
    await page.fill("#filter", "");
    await page.waitForFunction((count) => document.querySelectorAll("#panel-findings .places li").length > count, some);
    await page.fill("#filter", "id:none");
    await page.locator("#panel-findings .empty", { hasText: "No findings in the frames" }).waitFor();
    await page.fill("#filter", "tol:x");
    await page.locator("#panel-findings .empty", { hasText: "tool:" }).waitFor();
  }));

test("everything with keys alone", () =>
  withView([tour], {}, async (page) => {
    await rowsAreThere(page);
    await page.keyboard.press("?");
    await page.locator("#help[open]").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#help[open]").waitFor({ state: "hidden" });
    await page.keyboard.press("/");
    await page.keyboard.type("tool:saw");
    await page.keyboard.press("Enter");
    await page.locator("#frames-status", { hasText: /^\d+ rows?$/ }).waitFor();
    await page.waitForFunction(() => document.activeElement?.getAttribute("role") === "treegrid");
    await page.keyboard.press("j");
    await detailOf(page, 3);
    await page.keyboard.press("Enter");
    equal(await page.evaluate(() => document.activeElement.id), "detail", "Enter goes to the detail");
    await page.keyboard.press("Escape");
    equal(await page.evaluate(() => document.activeElement.getAttribute("role")), "treegrid", "Esc goes back");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !location.hash.includes("f="));
    for (const [key, tab] of [["2", "timeline"], ["3", "statistics"], ["4", "findings"], ["1", "frames"]]) {
      await page.keyboard.press(key);
      await page.locator(`#panel-${tab}:not([hidden])`).waitFor();
    }
    // Tab reaches every part, and never stays.
    const parts = new Set();
    for (let step = 0; step < 40; step += 1) {
      await page.keyboard.press("Tab");
      parts.add(await page.evaluate(() => document.activeElement.closest("[id]")?.id ?? ""));
    }
    for (const part of ["filter", "help-button", "tab-frames", "export"]) assert(parts.has(part), `Tab does not reach ${part}: ${[...parts]}`);
  }));
