// A capture as one HTML file: it opens from disk, without barewire and without a network.
import { execFileSync } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { assert, barewire, detailOf, equal, fixtures, folder, memberOf, openPage, rowOf, rowsAreThere, test, withView } from "./harness.mjs";
import { hostile } from "./captures.mjs";
import { violations } from "./looks.mjs";

/** Writes a capture as an HTML file, and returns its address. */
function exported(name, capture) {
  const path = join(folder, name);
  writeFileSync(path, execFileSync(barewire, ["read", "--html", capture], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));
  return pathToFileURL(path).href;
}

test("an exported file opens from disk", async () => {
  const opened = await openPage(exported("tour.html", join(fixtures, "tour.wire")), { offline: true });
  const { page } = opened;
  await rowsAreThere(page);
  await rowOf(page, 7).click();
  await detailOf(page, 7);
  await memberOf(page, "result").click();
  await page.fill("#filter", "tool:paint errors");
  await page.locator(".empty", { hasText: "No frame" }).waitFor();
  await page.fill("#filter", "tool:drill");
  await rowOf(page, 13).waitFor();
  equal(await rowOf(page, 3).count(), 0, "frames that do not match");
  const found = await violations(page);
  for (const tab of ["timeline", "statistics", "findings"]) {
    await page.locator(`#tab-${tab}`).click();
    await page.locator(`#panel-${tab} :is(table, .empty)`).first().waitFor();
    found.push(...(await violations(page)));
  }
  equal(await page.locator("#tab-drive, #tab-compare, #export:not([hidden])").count(), 0, "what a file cannot do");
  assert(found.length === 0, found.join("\n"));
  await opened.close();
});

/** A capture with a list of 60 tools, a text of 300,000 letters that ends with a word, and a long line of stderr. */
function longCapture() {
  const tools = Array.from({ length: 60 }, (_, index) => ({ name: `tool-${index}`, description: "x".repeat(500), inputSchema: { type: "object", properties: { wood: { type: "string", enum: ["oak", "ash"] } } } }));
  const message = (id, result) => JSON.stringify({ jsonrpc: "2.0", id, result });
  const path = join(folder, "long.wire");
  writeFileSync(path, `wire 1 started=2026-07-28T09:30:00Z
>(+0.1) {"jsonrpc":"2.0","id":1,"method":"tools/list"}
<(+0.2) ${message(1, { tools })}
>(+0.3) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool-1"}}
!(+0.4) ${"y".repeat(2000)} end-of-line
<(+0.5) ${message(2, { content: [{ type: "text", text: `${"ä".repeat(150_000)} needle` }] })}
`);
  return path;
}

test("an exported file has all of a long frame, and finds it", async () => {
  const opened = await openPage(exported("long.html", longCapture()), { offline: true });
  const { page } = opened;
  await rowsAreThere(page);
  await rowOf(page, 2).click();
  await detailOf(page, 2);
  for (const member of ["result", "tools", "59", "inputSchema", "properties"]) {
    const item = page.locator("#detail .tree-item", { has: page.locator(`:is(.key, .index):text-is("${member}")`) });
    await item.last().locator(".twist").click();
  }
  await memberOf(page, "wood").waitFor();
  await page.fill("#filter", "needle");
  await rowOf(page, 4).waitFor();
  await rowOf(page, 2).waitFor({ state: "detached" });
  await rowOf(page, 4).click();
  await detailOf(page, 4);
  await page.locator(".pager button", { hasText: "End" }).click();
  await page.locator(".raw", { hasText: "needle" }).waitFor();
  await page.fill("#filter", "end-of-line");
  await page.locator(".list-layer .row.event:not([hidden])").waitFor();
  await page.fill("#filter", "kind:foo");
  await page.locator("#filter-error", { hasText: "there is no kind `foo`. kinds are request, notification, result" }).waitFor();
  equal(await page.locator("#notes").textContent(), "", "notes");
  await opened.close();
});

test("the page exports what it shows, also as a file of itself", () =>
  withView([join(fixtures, "tour.wire")], { hash: "&q=tool:saw", acceptDownloads: true }, async (page) => {
    await rowOf(page, 3).waitFor();
    const saved = {};
    for (const format of ["wire", "har", "svg", "mermaid", "otlp", "html"]) {
      await page.keyboard.press("e");
      const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`#export-list a[href*="/export/${format}?"]`).click()]);
      saved[format] = join(folder, `saved-${download.suggestedFilename()}`);
      await download.saveAs(saved[format]);
      assert(statSync(saved[format]).size > 100, `${format} has ${statSync(saved[format]).size} bytes`);
      await page.keyboard.press("Escape");
    }
    assert(readFileSync(saved.wire, "utf8").startsWith("wire 1"), "a capture");
    JSON.parse(readFileSync(saved.har, "utf8"));
    JSON.parse(readFileSync(saved.otlp, "utf8").split("\n")[0]);
    const file = await openPage(pathToFileURL(saved.html).href, { offline: true });
    await rowOf(file.page, 3).click();
    await detailOf(file.page, 3);
    equal(await rowOf(file.page, 12).count(), 0, "frames that the filter hides");
    await file.close();
  }));

test("two captures are compared", () =>
  withView([join(fixtures, "tour.wire"), join(fixtures, "session.wire")], { hash: "&tab=compare" }, async (page) => {
    await page.locator("#panel-compare tbody tr").first().waitFor();
    await page.locator("#panel-compare tbody a").first().click();
    await page.locator("#detail h2").waitFor();
    await page.goBack();
    await page.locator("#panel-compare select").nth(1).selectOption({ index: 0 });
    await page.locator("#panel-compare select").nth(0).selectOption({ index: 0 });
    await page.locator("#panel-compare .empty", { hasText: "Nothing differs" }).waitFor();
  }));

test("markup in an exported file is text", async () => {
  const opened = await openPage(exported("hostile.html", await hostile()), { offline: true });
  const { page } = opened;
  await rowsAreThere(page);
  for (const frame of [1, 3, 4, 5, 6, 7]) {
    await rowOf(page, frame).click();
    await detailOf(page, frame);
  }
  equal(await page.evaluate(() => document.querySelectorAll("img, iframe, base, #layout script, #layout style").length), 0, "elements of peers");
  await opened.close();
});
