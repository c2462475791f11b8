// A capture of many frames: how soon the first rows are there, how smoothly it scrolls, how much memory the page takes.
import { readFileSync } from "node:fs";
import { assert, browser, detailOf, openPage, rowsAreThere, startView, test } from "./harness.mjs";
import { large } from "./captures.mjs";

const mebibytes = (bytes) => `${(bytes / 1048576).toFixed(1)} MiB`;

/** The memory of the processes of the pages, and of all processes of the browser; what they share is divided among them. */
async function memory() {
  const session = await (await browser()).newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  const sizes = processInfo.flatMap(({ id, type }) => {
    try {
      const line = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, "utf8"));
      return line ? [{ type, size: Number(line[1]) * 1024 }] : [];
    } catch (error) {
      if (error.code === "ENOENT" || error.code === "ESRCH") return []; // It has ended meanwhile.
      throw error;
    }
  });
  const sum = (some) => some.reduce((total, { size }) => total + size, 0);
  return { renderers: sum(sizes.filter(({ type }) => type === "renderer")), all: sum(sizes) };
}

const FRAMES = Number(process.env.FRAMES ?? 100_000);

/** The marks of docs/view.md, in milliseconds: for a gap between two pictures, and until the first rows are there. */
const GAP = 50;
const FIRST_ROWS = 2000;
/** How much more than the same on an empty page, or for a capture of three frames, a slow or busy machine may take. */
const GAP_FACTOR = 3;
const FIRST_ROWS_FACTOR = 4;
const ROUNDS = 3;

/** Returns the longest gaps between 300 pictures of a page, while its list is scrolled or not, the longest first. */
const gapsOf = (page, isScrolling) =>
  page.evaluate(async (isScrolling) => {
    const grid = document.querySelector(".grid");
    const drawn = () => new Promise(requestAnimationFrame);
    const gaps = [];
    let last = await drawn();
    // Steps of the wheel, then jumps of the scroll bar, each drawn frame by frame.
    for (let step = 0; step < 300; step += 1) {
      if (isScrolling && step < 200) grid.scrollTop += 180;
      else if (isScrolling) grid.scrollTop = (grid.scrollHeight * ((step * 37) % 100)) / 100;
      const now = await drawn();
      gaps.push(now - last);
      last = now;
    }
    return gaps.sort((a, b) => b - a);
  }, isScrolling);

/** Opens a capture, and returns the time from the command to its first rows. */
async function firstRows(capture) {
  const view = await startView([capture]);
  const opened = await openPage(view.url);
  await rowsAreThere(opened.page);
  return { view, opened, first: performance.now() - view.begin };
}

test(`${FRAMES} frames`, async () => {
  const [small, capture] = [await large(3), await large(FRAMES)];
  await browser();
  // What the machine can do at this time: the same with almost nothing to show.
  const least = await firstRows(small);
  await least.opened.close();
  await least.view.stop();
  const { view, opened, first } = await firstRows(capture);
  const { page } = opened;
  await page.locator("#state", { hasText: "complete" }).waitFor({ timeout: 120_000 });
  const complete = performance.now() - view.begin;
  await page.waitForFunction((count) => Number(document.querySelector(".grid").getAttribute("aria-rowcount")) > count, FRAMES - 10);
  // Other load on the machine makes gaps too, so an empty page is measured next to each round, and the best round counts.
  const empty = await opened.context.newPage();
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await empty.bringToFront();
    const still = await gapsOf(empty, false);
    await page.bringToFront();
    const gaps = await gapsOf(page, true);
    rounds.push({ still, gaps, isSmooth: gaps[3] <= Math.max(GAP, GAP_FACTOR * still[3]) });
    if (rounds.at(-1).isSmooth) break;
  }
  await empty.close();
  const { still, gaps, isSmooth } = rounds.at(-1);
  // The ends of a list that is higher than a browser allows can be reached, and every row has its place.
  await page.locator(".grid").focus();
  await page.keyboard.press("End");
  await detailOf(page, FRAMES - ((FRAMES - 3) % 2));
  await page.keyboard.press("Home");
  await page.locator('.grid[aria-activedescendant="frame-row-0"]').waitFor();
  const middle = Math.floor(FRAMES / 2);
  await page.evaluate((frame) => (location.hash = location.hash.replace(/f=\w+/, `f=${frame}`)), middle);
  await detailOf(page, middle);
  await page.locator(".list-layer .row.selected").waitFor();
  const session = await opened.context.newCDPSession(page);
  await session.send("HeapProfiler.enable");
  await session.send("HeapProfiler.collectGarbage");
  const heap = await page.evaluate(() => performance.memory.usedJSHeapSize);
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  const { renderers, all } = await memory();
  await opened.close();
  await view.stop();
  const words = `first rows after ${Math.round(first)} ms (of 3 frames ${Math.round(least.first)} ms), all after ${Math.round(complete)} ms, longest gap ${gaps[0].toFixed(1)} ms (99 % under ${gaps[3].toFixed(1)} ms; an empty page ${still[0].toFixed(1)} and ${still[3].toFixed(1)} ms), heap ${mebibytes(heap)}, page ${mebibytes(renderers)}, whole browser ${mebibytes(all)}, ${nodes} elements`;
  const isSoon = first <= Math.max(FIRST_ROWS, FIRST_ROWS_FACTOR * least.first);
  assert(isSmooth && isSoon && heap < 300 << 20 && renderers < 300 << 20 && nodes < 4000, words);
  return words;
});
