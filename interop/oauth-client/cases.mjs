// Runs the program with a real authorization server: signs in, renews, shares, and fails as it should.
//
//   node cases.mjs BAREWIRE     BAREWIRE is the program; run with NAME in ONLY to select cases
//
// Prints a line for each case. Exits with 1 if one fails.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const program = process.argv[2];
const here = import.meta.dirname;
const started = [];
const folder = mkdtempSync(join(tmpdir(), "barewire-oauth-"));
process.on("exit", () => {
  for (const child of started) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** Starts the authorization server and the MCP server. */
async function provider(variables = {}) {
  const child = spawn(process.execPath, [join(here, "provider.mjs")], {
    env: { ...process.env, NODE_ENV: "test", NODE_NO_WARNINGS: "1", ...variables },
    stdio: ["ignore", "pipe", "pipe"],
  });
  started.push(child);
  const log = [];
  createInterface(child.stderr).on("line", (line) => log.push(line));
  const [line] = await new Promise((resolve) => createInterface(child.stdout).once("line", (line) => resolve([line])));
  const urls = JSON.parse(line);
  const control = async (path) => (await fetch(urls.control + path)).json();
  return { ...urls, control, log };
}

/** A home of its own, with a browser that signs in by itself. */
function user(name) {
  const home = join(folder, name);
  const bin = join(home, "bin");
  mkdirSync(bin, { recursive: true });
  const pages = join(home, "pages");
  const browser = `#!/bin/sh\nexec '${process.execPath}' '${join(here, "browser.mjs")}' "$1" >>'${home}/browser.log' 2>&1\n`;
  writeFileSync(join(bin, "xdg-open"), browser);
  chmodSync(join(bin, "xdg-open"), 0o755);
  const env = { PATH: `${bin}:${process.env.PATH}`, HOME: home, DISPLAY: ":0", PAGES: pages };
  /** Runs the program; `onLine` sees each line of stderr. */
  const run = (args, { onLine, ...variables } = {}) =>
    new Promise((resolve) => {
      const child = spawn(program, args, { env: { ...env, ...variables }, stdio: ["ignore", "pipe", "pipe"] });
      let [stdout, stderr] = ["", ""];
      child.stdout.on("data", (text) => (stdout += text));
      child.stderr.on("data", (text) => {
        stderr += text;
        onLine?.(stderr, env);
      });
      child.on("close", (code) => resolve({ code, stdout, stderr }));
    });
  const opened = () => (existsSync(pages) ? readFileSync(pages, "utf8").trim().split("\n").length : 0);
  return { home, env, run, opened, accounts: join(home, ".local/state/barewire/accounts") };
}

const good = (result, what = "") => {
  assert.equal(result.code, 0, `${what} exited with ${result.code}: ${result.stdout}${result.stderr}`);
  return result;
};
const whoami = (url) => ["call", "whoami", "--url", url];
const record = (me) => {
  const name = readdirSync(me.accounts).find((file) => file.endsWith(".json"));
  return { path: join(me.accounts, name), ...JSON.parse(readFileSync(join(me.accounts, name), "utf8")) };
};
/** Asserts that `check` finds nothing wrong with the authorization, and that it has looked, also at `more`. */
function authorizationIsRight({ checks }, more) {
  const group = checks.filter(({ id }) => id.startsWith("auth-"));
  for (const it of group) assert.ok(["pass", "skip"].includes(it.status), JSON.stringify(it));
  for (const id of ["auth-challenge", "auth-resource-metadata", "auth-server-metadata", "auth-pkce", "auth-invalid-token", ...more]) {
    assert.equal(group.find((it) => it.id === id).status, "pass", id);
  }
}
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const cases = {
  async "a call without a sign-in says how to sign in"() {
    const [as, me] = [await provider(), user("none")];
    const result = await me.run(whoami(as.server));
    assert.equal(result.code, 2);
    assert.match(result.stderr, /401 Unauthorized/);
    assert.match(result.stderr, /barewire login/);
    assert.equal((await as.control("/stats")).registrations, 0);
  },

  async "login opens one page, stores privately, and shows no token"() {
    const [as, me] = [await provider(), user("login")];
    const result = good(await me.run(["login", as.server]));
    assert.equal(me.opened(), 1);
    const stats = await as.control("/stats");
    assert.deepEqual(stats.grants, { authorization_code: 1 });
    assert.equal(stats.registrations, 1);
    const stored = record(me);
    assert.equal(statSync(stored.path).mode & 0o777, 0o600);
    assert.equal(statSync(me.accounts).mode & 0o777, 0o700);
    const called = good(await me.run([...whoami(as.server)]));
    assert.match(called.stdout, /ada mcp:read/);
    const listed = good(await me.run(["login", "--list", "--json"]));
    assert.equal(JSON.parse(listed.stdout)[0].issuer, as.issuer);
    for (const { stdout, stderr } of [result, called, listed]) {
      for (const secret of [stored.access_token, stored.refresh_token]) assert.ok(!(stdout + stderr).includes(secret));
    }
    assert.match(good(await me.run(["logout", as.server])).stdout, /revoked/);
    assert.equal((await me.run(["logout", as.server])).code, 1);
    assert.equal((await me.run(whoami(as.server))).code, 2);
  },

  async "five processes with an expired token renew it once"() {
    const [as, me] = [await provider(), user("five")];
    // Tokens are renewed 30 seconds before they end.
    await as.control("/set?ttl=32");
    good(await me.run(["login", as.server]));
    const before = record(me);
    await sleep(3000);
    await as.control("/set?ttl=600&slow=300");
    const results = await Promise.all(Array.from({ length: 5 }, () => me.run(whoami(as.server))));
    for (const result of results) assert.match(good(result).stdout, /ada mcp:read/);
    const stats = await as.control("/stats");
    assert.deepEqual(stats.grants, { authorization_code: 1, refresh_token: 1 });
    assert.deepEqual(stats.refused, {});
    assert.notEqual(record(me).refresh_token, before.refresh_token, "the refresh token was rotated");
    assert.equal(me.opened(), 1);
  },

  async "five logins at once open one page"() {
    const [as, me] = [await provider(), user("tabs")];
    await as.control("/set?slow=100");
    const results = await Promise.all(Array.from({ length: 5 }, () => me.run(["login", as.server])));
    for (const result of results) good(result);
    assert.equal(me.opened(), 1);
    assert.deepEqual((await as.control("/stats")).grants, { authorization_code: 1 });
  },

  async "a revoked token is renewed at the refusal"() {
    const [as, me] = [await provider(), user("revoked")];
    good(await me.run(["login", as.server]));
    good(await me.run(whoami(as.server)));
    await as.control("/revoke");
    assert.match(good(await me.run(whoami(as.server))).stdout, /ada mcp:read/);
    assert.deepEqual((await as.control("/stats")).grants, { authorization_code: 1, refresh_token: 1 });
  },

  async "more scopes need the user, and login asks for them"() {
    const [as, me] = [await provider(), user("step-up")];
    good(await me.run(["login", as.server]));
    await as.control("/set?scope=mcp:write");
    const refused = await me.run(whoami(as.server));
    assert.equal(refused.code, 2);
    // The printed command is the one that helps.
    const [, scope, url] = refused.stderr.match(/run: barewire login --scope "([^"]+)" (\S+)/);
    assert.equal(url, as.server);
    good(await me.run(["login", "--scope", scope, url]));
    assert.match(good(await me.run(whoami(as.server))).stdout, /ada mcp:read mcp:write/);
  },

  async "an authorization server that is away is reported, and nothing is lost"() {
    const [as, me] = [await provider(), user("away")];
    await as.control("/set?ttl=32");
    good(await me.run(["login", as.server]));
    await as.control("/down");
    good(await me.run(whoami(as.server)), "a token that is still valid");
    await sleep(3000);
    const failed = await me.run(whoami(as.server));
    assert.equal(failed.code, 2, failed.stdout);
    assert.match(failed.stderr, /not available|503/);
    await as.control("/up");
    good(await me.run(whoami(as.server)));
    assert.equal(me.opened(), 1);
  },

  async "a user who does not agree is an answer, not a failure"() {
    const [as, me] = [await provider(), user("deny")];
    const result = await me.run(["login", as.server], { DENY: "1" });
    assert.equal(result.code, 1, result.stderr);
    assert.match(result.stderr, /refused/);
    assert.ok(!existsSync(me.accounts) || !readdirSync(me.accounts).some((file) => file.endsWith(".json")));
  },

  async "a code is entered on another device"() {
    const [as, me] = [await provider(), user("device")];
    let browser;
    const onLine = (text, env) => {
      const url = text.match(/http:\S+user_code=\S+/)?.[0];
      if (url) browser ??= spawn(process.execPath, [join(here, "browser.mjs"), url], { env, stdio: "inherit" });
    };
    good(await me.run(["login", as.server, "--device"], { onLine }));
    assert.match(good(await me.run(whoami(as.server))).stdout, /ada mcp:read/);
  },

  async "a client signs in for itself"() {
    const [as, me] = [await provider(), user("machine")];
    const login = ["login", as.server, "--client-id", "machine", "--client-secret-env", "SECRET", "--client-credentials"];
    good(await me.run(login, { SECRET: "the-secret-of-the-machine" }));
    assert.match(good(await me.run(whoami(as.server))).stdout, /machine mcp:read/);
    const wrong = await user("wrong").run(login, { SECRET: "another" });
    assert.equal(wrong.code, 2);
    assert.ok(!wrong.stderr.includes("another"));
  },

  async "tokens are bound to a key if the server wants that, also with nonces"() {
    for (const DPOP of ["on", "nonce"]) {
      const [as, me] = [await provider({ DPOP, SCHEME: "DPoP" }), user(`dpop-${DPOP}`)];
      await as.control("/set?ttl=32");
      good(await me.run(["login", as.server]));
      assert.equal(record(me).token_type, "DPoP");
      await sleep(3000);
      assert.match(good(await me.run(whoami(as.server))).stdout, /ada mcp:read/);
      assert.deepEqual((await as.control("/stats")).grants, { authorization_code: 1, refresh_token: 1 });
    }
  },

  async "check, tap and replay use the sign-in, also with tokens that are bound to a key"() {
    for (const DPOP of ["", "on", "nonce"]) {
      const variables = DPOP ? { DPOP, SCHEME: "DPoP" } : {};
      const [as, me] = [await provider(variables), user(`tools-${DPOP}`)];
      good(await me.run(["login", as.server]));
      const stored = record(me);
      // The server has its own faults; what counts is that it lets the checks in.
      const checked = await me.run(["check", "--url", as.server, "--json", "--quiet"]);
      const report = JSON.parse(checked.stdout);
      assert.match(report.subject.about, /^behind-oidc-provider 1.0.0; speaks 20/, checked.stdout);
      authorizationIsRight(report, DPOP ? ["auth-dpop"] : []);

      const capture = join(me.home, "tapped.wire");
      const tap = spawn(program, ["tap", "--http", "127.0.0.1:0", "--url", as.server, "--record", capture], { env: me.env });
      started.push(tap);
      let said = "";
      const tapped = await new Promise((resolve, reject) => {
        tap.on("exit", () => reject(new Error(`the tap ended: ${said}`)));
        tap.stderr.on("data", (text) => {
          said += text;
          const url = said.match(/ at (http:\S+), for/)?.[1];
          if (url && said.includes("--no-sign-in")) resolve(url);
        });
      });
      // This user has not signed in, and needs not. A nonce is learned from the refusal of the first request.
      const other = user(`other-${DPOP}`);
      if (DPOP === "nonce") await other.run(whoami(tapped));
      assert.match(good(await other.run(whoami(tapped))).stdout, /ada mcp:read/);
      // Credentials of the client are passed on as they are.
      const own = await other.run([...whoami(tapped), "--bearer-env", "TOKEN"], { TOKEN: "not-a-token" });
      assert.equal(own.code, 2, own.stdout);
      tap.removeAllListeners("exit");
      await new Promise((resolve) => {
        tap.on("exit", resolve);
        tap.kill("SIGTERM");
      });
      const text = readFileSync(capture, "utf8");
      assert.match(text, /whoami/);
      for (const secret of [stored.access_token, stored.refresh_token]) assert.ok(!text.includes(secret));

      // Requests that were refused in the capture (a wrong token, a proof without a nonce) get an error without an id now.
      const replayed = await me.run(["replay", capture, "--url", as.server, "--json"]);
      const lines = replayed.stdout.trim().split("\n").map((line) => JSON.parse(line));
      assert.equal(lines.pop().compared, 4, replayed.stdout + replayed.stderr);
      for (const { kind } of lines) assert.equal(kind, "answer-to-nobody", replayed.stdout);
      const refused = await user(`refused-${DPOP}`).run(["check", "--url", as.server, "--json", "--quiet"]);
      assert.match(JSON.parse(refused.stdout).subject.about, /speaks no known revision/);
      authorizationIsRight(JSON.parse(refused.stdout), ["auth-offline-access", "auth-response-iss"]);
    }
  },

  async "a file that others can read is refused"() {
    const [as, me] = [await provider(), user("open")];
    good(await me.run(["login", as.server]));
    chmodSync(record(me).path, 0o644);
    const result = await me.run(whoami(as.server));
    assert.equal(result.code, 2);
    assert.match(result.stderr, /other users can read it/);
  },
};

let failed = 0;
for (const [name, run] of Object.entries(cases)) {
  if (process.env.ONLY && !name.includes(process.env.ONLY)) continue;
  const since = Date.now();
  try {
    await run();
    console.log(`pass  ${name} (${((Date.now() - since) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.log(`FAIL  ${name}: ${error.message}`);
    if (process.env.VERBOSE) console.log(error.stack);
  }
  for (const child of started.splice(0)) child.kill("SIGKILL");
}
process.exit(failed ? 1 : 0);
