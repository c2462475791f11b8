// Our program signs in to servers on the SDKs, behind oidc-provider: node oauth/their-servers.mjs BAREWIRE. Prints a line for
// each case.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { issuerKey, startProvider } from './provider.mjs';

const [barewire, here] = [process.argv[2], import.meta.dirname];
const folder = mkdtempSync(join(tmpdir(), 'barewire-their-servers-'));
const started = [];
process.on('exit', () => {
  for (const child of started) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

async function freePort() {
  const server = createServer();
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}
const provider = await startProvider(await freePort(), [issuerKey('first')]);

/** Starts a server, and waits until it asks for a token. Returns its URL. */
async function start(command) {
  const port = await freePort();
  const child = spawn(command[0], [...command.slice(1), String(port), provider.issuer], { stdio: ['ignore', 'ignore', 'pipe'] });
  started.push(child);
  let log = '';
  child.stderr.on('data', (text) => { log += text; });
  const url = `http://127.0.0.1:${port}/mcp`;
  for (;;) {
    assert.equal(child.exitCode, null, `the server has ended: ${log}`);
    const answer = await fetch(url, { method: 'POST' }).catch(() => undefined);
    if (answer) return { url, status: answer.status, challenge: answer.headers.get('www-authenticate') ?? '' };
    await new Promise((later) => setTimeout(later, 50));
  }
}

/** A user with a home of its own, and a browser that signs in by itself. */
function user(name) {
  const home = join(folder, name);
  const [bin, pages] = [join(home, 'bin'), join(home, 'pages')];
  mkdirSync(bin, { recursive: true });
  const browser = join(here, '../oauth-client/browser.mjs');
  writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\nexec '${process.execPath}' '${browser}' "$1" >>'${home}/browser.log' 2>&1\n`);
  chmodSync(join(bin, 'xdg-open'), 0o755);
  const env = { PATH: `${bin}:${process.env.PATH}`, HOME: home, DISPLAY: ':0', PAGES: pages };
  const run = (args, variables = {}) => new Promise((resolve) => {
    const child = spawn(barewire, args, { env: { ...env, ...variables }, stdio: ['ignore', 'pipe', 'pipe'] });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (text) => { stdout += text; });
    child.stderr.on('data', (text) => { stderr += text; });
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
  return { run, pages: () => readFileSync(pages, 'utf8').trim().split('\n').length };
}

/** Gets a token for a client that acts for itself. */
async function robotToken(resource, scope) {
  const headers = { authorization: `Basic ${btoa('robot:robot-secret')}` };
  const body = new URLSearchParams({ grant_type: 'client_credentials', resource, scope });
  return (await (await fetch(`${provider.issuer}/token`, { method: 'POST', headers, body })).json()).access_token;
}

let failed = false;
async function test(name, run) {
  try {
    await run();
    console.log(`pass oauth: ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL oauth: ${name}: ${error.stack}`);
  }
}

const servers = {
  'the TypeScript SDK 1.x': [process.execPath, join(here, 'servers/ts1.mjs')],
  'the TypeScript SDK 2.x': [process.execPath, join(here, 'servers/ts2.mjs')],
  'the Python SDK': ['python', join(here, 'servers/python.py')],
};
for (const [sdk, command] of Object.entries(servers)) {
  await test(`our program signs in to a server on ${sdk}, and calls a tool`, async () => {
    const { url, status, challenge } = await start(command);
    assert.equal(status, 401);
    assert.match(challenge, /resource_metadata="/);
    const me = user(sdk.replace(/\W/g, '-'));
    const whoami = (...more) => ['call', 'whoami', '--url', url, ...more];
    const before = await me.run(whoami());
    assert.equal(before.code, 2, before.stdout);
    assert.match(before.stderr, /barewire login/);
    const login = await me.run(['login', url]);
    assert.equal(login.code, 0, login.stderr);
    assert.equal(me.pages(), 1);
    const called = await me.run(whoami());
    assert.equal(called.code, 0, called.stderr);
    assert.match(called.stdout, /ada mcp/);
    assert.equal(me.pages(), 1);
    // A token of the same issuer is good only with the right audience and scope.
    for (const [resource, scope, code, says] of [
      [url, 'mcp', 0, /robot mcp/],
      ['http://127.0.0.1:9/mcp', 'mcp', 2, /401/],
      [url, 'admin', 2, /403/],
    ]) {
      const robot = await me.run(whoami('--bearer-env', 'TOKEN'), { TOKEN: await robotToken(resource, scope) });
      assert.equal(robot.code, code, robot.stdout + robot.stderr);
      assert.match(robot.stdout + robot.stderr, says);
    }
  });
}
console.log('known oauth: our program signs in to a server on the Rust SDK: rmcp has neither a check of tokens nor the metadata of a resource');
await provider.stop();
process.exit(failed ? 1 : 0);
