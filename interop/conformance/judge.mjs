// What the suite wrote down about a run -> a line for each scenario, and whether the run is good.
//
//   node judge.mjs RUN NAME RESULTS SCENARIOS [BASELINE]
//
// RUN is server, client or stdio: whose entries of left-out.txt count. RESULTS is the folder that the suite wrote to, and
// SCENARIOS a file with the names that it had to run, one a line. BASELINE lists scenarios that must fail: one that passes,
// or is not run, is as bad as another that fails.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const [run, name, results, scenariosFile, baselineFile] = process.argv.slice(2);
const lines = (file) =>
  readFileSync(file, "utf8").split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));

const scenarios = [...new Set(lines(scenariosFile))];
const baseline = new Set(baselineFile && existsSync(baselineFile) ? lines(baselineFile) : []);
const leftOut = lines(join(import.meta.dirname, "left-out.txt"))
  .map((line) => line.match(/^(\S+) (\S+) (.*)$/).slice(1))
  .filter(([of]) => of === run || (run === "stdio" && of === "server"))
  .map(([, what, why]) => ({ what, why }));

const matches = (pattern, text) => (pattern.endsWith("*") ? text.startsWith(pattern.slice(0, -1)) : text === pattern);
const whyLeftOut = (what) => leftOut.find((entry) => matches(entry.what, what))?.why;

/** The folder of a scenario's latest result: its name and the time are in the folder's name. */
function resultOf(scenario) {
  const path = join(results, run === "client" ? scenario : `server-${scenario}`);
  if (!existsSync(dirname(path))) return undefined;
  const isOne = (entry) =>
    entry.startsWith(basename(path)) && /^-\d{4}-\d\d-\d\dT[\d-]+Z$/.test(entry.slice(basename(path).length));
  const latest = readdirSync(dirname(path)).filter(isOne).sort().at(-1);
  return latest && join(dirname(path), latest);
}

const counts = { pass: 0, warn: 0, known: 0, out: 0, none: 0, FAIL: 0 };
let checksPassed = 0;
function say(verdict, scenario, details = []) {
  counts[verdict]++;
  console.log(`${verdict.padEnd(5)} ${name} ${scenario}`);
  for (const detail of details) console.log(`        ${detail}`);
}

const said = (check) => `${check.status} ${check.id}: ${check.errorMessage ?? check.details?.message ?? check.description}`;

for (const scenario of scenarios) {
  const folder = resultOf(scenario);
  const file = folder && join(folder, "checks.json");
  const why = whyLeftOut(scenario);
  if (!file || !existsSync(file)) {
    // The suite writes nothing for what is not in a revision, and that is only asked of it by name.
    if (process.env.SCENARIO) say("none", scenario, ["not in this revision"]);
    else say("FAIL", scenario, ["there is no result: the scenario did not come to its end"]);
    continue;
  }
  const checks = JSON.parse(readFileSync(file, "utf8"));
  const of = (status) => checks.filter((check) => check.status === status);
  const failures = of("FAILURE").filter((check) => why || !whyLeftOut(`${scenario}:${check.id}`));
  const excused = of("FAILURE").filter((check) => !failures.includes(check));
  const remarks = [...of("WARNING"), ...of("SKIPPED")].map(said);
  remarks.push(...excused.map((check) => `left out: ${check.id}: ${whyLeftOut(`${scenario}:${check.id}`)}`));
  // Our client prints this when it gives up, and then it has not done what the scenario asked for. To give up is what some
  // scenarios of authorization want.
  const stderr = join(folder, "stderr.txt");
  const gaveUp = existsSync(stderr) && !scenario.startsWith("auth/") ? lines(stderr).filter((line) => line.startsWith("Error: ")) : [];
  const bad = [...failures.map(said), ...gaveUp];
  if (!bad.length && !of("SUCCESS").length) bad.push("no check has passed: nothing was tested");
  if (why) {
    say("out", scenario, [`left out: ${why}`, ...(failures.length ? [`${failures.length} checks fail`] : [])]);
  } else if (baseline.has(scenario)) {
    if (failures.length) say("known", scenario, [`${failures.length} checks fail`]);
    else say("FAIL", scenario, ["passes, and is in the baseline: take it out"]);
  } else if (bad.length) {
    say("FAIL", scenario, [...bad, ...remarks]);
  } else {
    checksPassed += of("SUCCESS").length;
    say(of("WARNING").length ? "warn" : "pass", scenario, remarks);
  }
}
if (!process.env.SCENARIO) {
  for (const entry of baseline) {
    if (!scenarios.includes(entry)) say("FAIL", entry, ["is in the baseline, and not in the run: take it out"]);
  }
}

const parts = [`${counts.pass + counts.warn} passed (${checksPassed} checks)`];
if (counts.warn) parts.push(`${counts.warn} of them with warnings`);
if (counts.known) parts.push(`${counts.known} known to fail`);
if (counts.out) parts.push(`${counts.out} left out`);
if (counts.none) parts.push(`${counts.none} not in this revision`);
parts.push(`${counts.FAIL} failed`);
writeFileSync(join(results, "summary"), `${counts.FAIL ? "FAIL" : "ok  "} ${name.padEnd(18)} ${parts.join(", ")}\n`);
process.exit(counts.FAIL ? 1 : 0);
