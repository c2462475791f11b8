// The suite's results of a run -> a line for each scenario, and whether the run is good.
//
//   node judge.mjs RUN NAME RESULTS SCENARIOS [BASELINE]
//
// RUN is server, cluster, client or stdio: the entries of left-out.txt to use. RESULTS is the folder that the suite wrote to,
// and SCENARIOS a file with the names of the scenarios to run, one on each line. BASELINE lists scenarios that must
// fail: one that passes or is not run counts as a failure.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const [run, name, results, scenariosFile, baselineFile] = process.argv.slice(2);
const lines = (file) =>
  readFileSync(file, "utf8").split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));

const scenarios = [...new Set(lines(scenariosFile))];
const baseline = new Set(baselineFile && existsSync(baselineFile) ? lines(baselineFile) : []);
const leftOut = lines(join(import.meta.dirname, "left-out.txt"))
  .map((line) => line.match(/^(\S+) (\S+) (.*)$/).slice(1))
  .filter(([of]) => of === run || (["cluster", "stdio"].includes(run) && of === "server"))
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
    // The suite writes nothing for a scenario that is not in the revision, which only happens when it is requested by
    // name.
    if (process.env.SCENARIO) say("none", scenario, ["not in this revision"]);
    else say("FAIL", scenario, ["no result: the scenario did not finish"]);
    continue;
  }
  const checks = JSON.parse(readFileSync(file, "utf8"));
  const of = (status) => checks.filter((check) => check.status === status);
  const failures = of("FAILURE").filter((check) => why || !whyLeftOut(`${scenario}:${check.id}`));
  const excused = of("FAILURE").filter((check) => !failures.includes(check));
  const remarks = [...of("WARNING"), ...of("SKIPPED")].map(said);
  remarks.push(...excused.map((check) => `left out: ${check.id}: ${whyLeftOut(`${scenario}:${check.id}`)}`));
  // Our client prints this when it fails, and then it has not completed the scenario. Some authorization scenarios
  // expect a failure.
  const stderr = join(folder, "stderr.txt");
  const gaveUp = existsSync(stderr) && !scenario.startsWith("auth/") ? lines(stderr).filter((line) => line.startsWith("Error: ")) : [];
  const bad = [...failures.map(said), ...gaveUp];
  if (!bad.length && !of("SUCCESS").length) bad.push("no check passed: nothing was tested");
  if (why) {
    say("out", scenario, [`left out: ${why}`, ...(failures.length ? [`${failures.length} checks fail`] : [])]);
  } else if (baseline.has(scenario)) {
    if (failures.length) say("known", scenario, [`${failures.length} checks fail`]);
    else say("FAIL", scenario, ["passes, but is in the baseline: remove it there"]);
  } else if (bad.length) {
    say("FAIL", scenario, [...bad, ...remarks]);
  } else {
    checksPassed += of("SUCCESS").length;
    say(of("WARNING").length ? "warn" : "pass", scenario, remarks);
  }
}
if (!process.env.SCENARIO) {
  for (const entry of baseline) {
    if (!scenarios.includes(entry)) say("FAIL", entry, ["is in the baseline, but was not run: remove it there"]);
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
