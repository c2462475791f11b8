// How far the page is behind a tap with 5,000 frames a second, and what a viewer costs the tap: node rate.mjs [SECONDS]
//
// One tap is looked at by a page that follows it, the other announces itself to nobody. Both pass messages on to `cat`, and take
// turns, so that other load on the machine falls on both.
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { barewire, closeBrowser, folder, openPage, rowsAreThere, startView } from "./harness.mjs";

const SECONDS = Number(process.argv[2] ?? 5);
const ROUNDS = 4;
/** The messages of a burst, of which there are 100 in a second. Each comes back, and is two frames. */
const BURST = 25;
const PAUSE = 10;

const runtime = join(folder, "rate");
mkdirSync(runtime, { mode: 0o700 });
const env = { ...process.env, XDG_RUNTIME_DIR: runtime, XDG_STATE_HOME: join(runtime, "state") };

/** Starts a tap of `cat`. `burst` sends messages, and resolves to the time until the last one is back. */
function startTap(options) {
  const child = spawn(barewire, ["tap", ...options, "--", "cat"], { env, stdio: ["pipe", "pipe", "ignore"] });
  const lines = createInterface({ input: child.stdout });
  let left = 0;
  let done = () => {};
  lines.on("line", () => (left -= 1) === 0 && done());
  let next = 0;
  /** When each message was sent. */
  const sent = [];
  return {
    sent,
    burst: () =>
      new Promise((resolve) => {
        const begin = performance.now();
        let text = "";
        for (left = BURST; left > 0; left -= 1) {
          text += `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"number ${next}"}}\n`;
          sent[next] = begin;
          next += 1;
        }
        left = BURST;
        done = () => resolve(performance.now() - begin);
        child.stdin.write(text);
      }),
    end: () => child.stdin.end(),
  };
}

const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Sends bursts at the rate, and returns how long each took. */
async function run(tap) {
  const times = [];
  const begin = performance.now();
  for (let tick = 1; tick <= (SECONDS * 1000) / PAUSE; tick += 1) {
    times.push(await tap.burst());
    await sleep(Math.max(0, begin + tick * PAUSE - performance.now()));
  }
  const rate = (2 * BURST * times.length) / ((performance.now() - begin) / 1000);
  return { times, rate };
}

const at = (values, part) => [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) * part)];
const ms = (value) => `${value.toFixed(3)} ms`;

const silent = startTap(["--no-announce"]);
const viewed = startTap([]);
const view = await startView([], { env });
const { page, close } = await openPage(view.url);
await viewed.burst();
await rowsAreThere(page);
await page.keyboard.press("F");

/** How long ago the newest message that the page shows was sent, again and again while messages are sent. */
const behind = [];
let isSending = false;
async function look() {
  const shown = await page.evaluate(() => Math.max(...[...document.querySelectorAll(".list-layer .row:not([hidden]) .preview")].map((each) => Number(/number (\d+)/.exec(each.textContent)?.[1] ?? -1))));
  if (isSending && shown >= 0 && shown + 1 < viewed.sent.length) behind.push(performance.now() - viewed.sent[shown + 1]);
}

const times = { silent: [], viewed: [] };
const rates = [];
for (let round = 0; round < ROUNDS; round += 1) {
  times.silent.push(...(await run(silent)).times);
  isSending = true;
  const looking = (async () => {
    while (isSending) {
      await look();
      await sleep(100);
    }
  })();
  const { times: took, rate } = await run(viewed);
  isSending = false;
  await looking;
  times.viewed.push(...took);
  rates.push(rate);
}
const [without, withViewer] = [at(times.silent, 0.5), at(times.viewed, 0.5)];
console.log(`${Math.round(at(rates, 0.5))} frames a second; the page was behind by ${ms(at(behind, 0.5))} (median of ${behind.length}), at most ${ms(at(behind, 1))}`);
console.log(`${BURST} messages there and back, median: ${ms(without)} without a viewer, ${ms(withViewer)} with one: ${((100 * withViewer) / without - 100).toFixed(1)} % more; 90 %: ${ms(at(times.silent, 0.9))} and ${ms(at(times.viewed, 0.9))}`);
silent.end();
viewed.end();
await close();
await view.stop();
await closeBrowser();
