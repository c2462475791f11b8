// Our server with tokens of a real authorization server: node oauth/server.mjs BAREWIRE. Prints a line for each case.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { createHash, createPrivateKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import * as sdk2 from '@modelcontextprotocol/client';
import { signIn } from './browser.mjs';
import { issuerKey, startProvider } from './provider.mjs';

const barewire = process.argv[2];
const home = mkdtempSync(join(tmpdir(), 'barewire-oauth-server-'));
process.on('exit', () => rmSync(home, { recursive: true, force: true }));

async function freePort() {
  const server = createServer();
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

const [issuerPort, port] = [await freePort(), await freePort()];
const resource = `http://127.0.0.1:${port}/mcp`;
let keys = [issuerKey('first')];
let provider = await startProvider(issuerPort, keys);
const { issuer } = provider;

const args = ['serve', '--http', `127.0.0.1:${port}`, '--issuer', issuer, '--audience', resource, '--scope', 'mcp'];
const server = spawn(barewire, args, { stdio: ['ignore', 'ignore', 'pipe'] });
let log = '';
server.stderr.setEncoding('utf8');
await new Promise((started, failed) => {
  server.on('exit', () => failed(new Error(`the server has ended: ${log}`)));
  server.stderr.on('data', (text) => { log += text; if (log.includes('serving')) started(); });
});

const base64url = (bytes) => Buffer.from(bytes).toString('base64url');
const sha256 = (text) => createHash('sha256').update(text).digest('base64url');

/** A key of a client, which makes DPoP proofs. */
function holder() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { kty, crv, x, y } = publicKey.export({ format: 'jwk' });
  return (htm, htu, token) => {
    const claims = { jti: randomUUID(), htm, htu, iat: Math.floor(Date.now() / 1000), ath: token && sha256(token) };
    const header = { typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } };
    const text = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`;
    const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });
    return `${text}.${base64url(signature)}`;
  };
}

/** Makes the token that the issuer would have issued an hour ago: its key signs it. */
function expired() {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: issuer, aud: resource, sub: 'robot', client_id: 'robot', scope: 'mcp', iat: now - 3600, exp: now - 3300 };
  const header = { typ: 'at+jwt', alg: 'ES256', kid: keys[0].kid };
  const text = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify({ jti: randomUUID(), ...claims }))}`;
  const key = createPrivateKey({ key: keys[0], format: 'jwk' });
  return `${text}.${base64url(sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }))}`;
}

/** Gets a token for a client that acts for itself. */
async function getToken({ audience = resource, scope = 'mcp', prove, from = issuer } = {}) {
  const endpoint = `${from}/token`;
  const headers = { authorization: `Basic ${btoa('robot:robot-secret')}` };
  if (prove) headers.dpop = prove('POST', endpoint);
  const body = new URLSearchParams({ grant_type: 'client_credentials', resource: audience, scope });
  const answer = await (await fetch(endpoint, { method: 'POST', headers, body })).json();
  assert.ok(answer.access_token, JSON.stringify(answer));
  assert.equal(answer.token_type, prove ? 'DPoP' : 'Bearer');
  return answer.access_token;
}

/** Calls a tool, and returns the status, the challenges and the body. */
async function call(headers) {
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
  const params = { name: 'echo', arguments: { text: 'hello' }, _meta: meta };
  const response = await fetch(resource, {
    method: 'POST',
    headers: {
      'content-type': 'application/json', accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'echo', ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  });
  const challenge = response.headers.get('www-authenticate') ?? '';
  return { status: response.status, challenge, body: await response.text() };
}
const bearer = (token) => ({ authorization: `Bearer ${token}` });
const bound = (token, proof) => ({ authorization: `DPoP ${token}`, dpop: proof });

let failed = false;
async function test(name, run) {
  try {
    await run();
    console.log(`pass oauth: ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL oauth: ${name}: ${error.stack}\n${log.slice(-2000)}`);
  }
}

await test('a client finds its way from the challenge to a token', async () => {
  const first = await call({});
  assert.equal(first.status, 401);
  const url = first.challenge.match(/^Bearer resource_metadata="([^"]+)", scope="mcp"/)[1];
  const metadata = await (await fetch(url)).json();
  assert.equal(metadata.resource, resource);
  assert.deepEqual([metadata.authorization_servers, metadata.scopes_supported], [[issuer], ['mcp']]);
  const found = await fetch(`${metadata.authorization_servers[0]}/.well-known/openid-configuration`);
  assert.equal((await found.json()).issuer, issuer);
  const answer = await call(bearer(await getToken()));
  assert.equal(answer.status, 200, answer.body);
  assert.match(answer.body, /hello/);
});
await test('a token for another resource is refused', async () => {
  const answer = await call(bearer(await getToken({ audience: 'https://other.example/mcp' })));
  assert.equal(answer.status, 401);
  assert.match(answer.challenge, /invalid_token.*issued for another server/);
});
await test('a token without the scope is refused with the scope', async () => {
  const answer = await call(bearer(await getToken({ scope: 'admin' })));
  assert.equal(answer.status, 403);
  assert.match(answer.challenge, /insufficient_scope.*scope="mcp"/);
});
await test('an opaque token is refused', async () => {
  const answer = await call(bearer(await getToken({ audience: `${resource}?opaque` })));
  assert.equal(answer.status, 401);
  assert.match(answer.challenge, /not a signed JWT/);
});
await test('a token that is bound to a key needs a proof of the key, once', async () => {
  const prove = holder();
  const token = await getToken({ prove });
  const proof = prove('POST', resource, token);
  assert.equal((await call(bound(token, proof))).status, 200);
  for (const [headers, why] of [
    [bound(token, proof), /used before/],
    [bearer(token), /bound to a key/],
    [{ authorization: `DPoP ${token}` }, /DPoP header/],
    [bound(token, holder()('POST', resource, token)), /another key/],
    [bound(token, prove('GET', resource, token)), /another HTTP method/],
    [bound(token, prove('POST', `${issuer}/mcp`, token)), /another URL/],
  ]) {
    const answer = await call(headers);
    assert.equal(answer.status, 401, String(why));
    assert.match(answer.challenge, why);
  }
  assert.equal((await call(bound(token, prove('POST', resource, token)))).status, 200);
});
/** Checks the server with the program, and returns the report. The home has the sign-ins. */
async function check(home, environment, ...options) {
  const command = ['check', '--url', resource, '--json', '--quiet', '--call', 'echo={"text":"checked"}', ...options];
  const env = { PATH: process.env.PATH, HOME: home, ...environment };
  const run = promisify(execFile)(barewire, command, { env, timeout: 120_000, maxBuffer: 64 << 20 });
  const { stdout, stderr } = await run.catch((failure) => failure);
  assert.ok(!/eyJ/.test(stdout + stderr), 'a token is in the report');
  const checks = JSON.parse(stdout).checks.filter(({ id }) => id.startsWith('auth-') || id === 'http-unauthorized');
  const status = Object.fromEntries(checks.map(({ id, status }) => [id, status]));
  for (const it of checks) assert.ok(['pass', 'skip'].includes(it.status), JSON.stringify(it));
  return status;
}
const discovery = [
  'http-unauthorized', 'auth-challenge', 'auth-resource-metadata', 'auth-offline-access', 'auth-server-metadata', 'auth-pkce',
  'auth-response-iss', 'auth-client-registration', 'auth-invalid-token',
];
const kinds = { 'other-audience': 'auth-audience', expired: 'auth-expiry', 'other-issuer': 'auth-issuer', 'no-scope': 'auth-scope' };

await test('check finds the way to a token without a token', async () => {
  const status = await check(home, {});
  for (const id of discovery) assert.equal(status[id], 'pass', id);
  for (const id of [...Object.values(kinds), 'auth-dpop']) assert.equal(status[id], 'skip', id);
});
await test('check finds that wrong tokens are refused', async () => {
  const other = await startProvider(await freePort(), [issuerKey('other')]);
  try {
    const environment = {
      VALID: await getToken(),
      OTHER_AUDIENCE: await getToken({ audience: 'https://other.example/mcp' }),
      EXPIRED: expired(),
      OTHER_ISSUER: await getToken({ from: other.issuer }),
      NO_SCOPE: await getToken({ scope: 'admin' }),
    };
    const given = Object.keys(kinds).flatMap((kind) => ['--wrong-token-env', `${kind}=${kind.toUpperCase().replace('-', '_')}`]);
    const status = await check(home, environment, '--bearer-env', 'VALID', ...given);
    for (const id of [...discovery, ...Object.values(kinds)]) assert.equal(status[id], 'pass', id);
    assert.equal(status['auth-dpop'], 'skip');
  } finally {
    await other.stop();
  }
});
await test('check finds that a token which is bound to a key needs a new proof for each request', async () => {
  const env = { PATH: process.env.PATH, HOME: home, SECRET: 'robot-secret' };
  const login = ['login', resource, '--client-id', 'robot', '--client-secret-env', 'SECRET', '--client-credentials'];
  await promisify(execFile)(barewire, login, { env, timeout: 60_000 });
  const status = await check(home, {});
  for (const id of [...discovery, 'auth-dpop']) assert.equal(status[id], 'pass', id);
});
/** Signs a client of the TypeScript SDK in, and calls a tool. `finish` passes the callback on to the transport. */
async function signTypeScriptIn({ Client, StreamableHTTPClientTransport, UnauthorizedError }, finish) {
  const redirectUrl = 'http://127.0.0.1:9/callback';
  const kept = {};
  const authProvider = {
    redirectUrl,
    clientMetadata: {
      redirect_uris: [redirectUrl], client_name: 'interop', token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code'], response_types: ['code'], application_type: 'native',
    },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => { kept.client = client; },
    tokens: () => kept.tokens,
    saveTokens: (tokens) => { kept.tokens = tokens; },
    redirectToAuthorization: (url) => { kept.url = url; },
    saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
    codeVerifier: () => kept.verifier,
    saveDiscoveryState: (state) => { kept.discovery = state; },
    discoveryState: () => kept.discovery,
  };
  const transport = () => new StreamableHTTPClientTransport(new URL(resource), { authProvider });
  const client = new Client({ name: 'interop', version: '1.0.0' });
  const first = transport();
  await assert.rejects(client.connect(first), UnauthorizedError);
  assert.equal(kept.url.searchParams.get('resource'), resource);
  assert.equal(kept.url.searchParams.get('scope'), 'mcp');
  const callback = await signIn(kept.url, 'ada');
  assert.ok(callback.searchParams.get('code'), String(callback));
  await finish(first, callback.searchParams);
  const signedIn = new Client({ name: 'interop', version: '1.0.0' });
  await signedIn.connect(transport());
  const result = await signedIn.callTool({ name: 'echo', arguments: { text: 'signed in' } });
  assert.equal(result.content[0].text, 'signed in');
  await signedIn.close();
}
await test('the TypeScript SDK 1.x signs in through a browser, and calls a tool', async () => {
  const sdk1 = { Client, StreamableHTTPClientTransport, UnauthorizedError };
  await signTypeScriptIn(sdk1, (transport, callback) => transport.finishAuth(callback.get('code')));
});
await test('the TypeScript SDK 2.x signs in through a browser, and calls a tool', async () => {
  await signTypeScriptIn(sdk2, (transport, callback) => transport.finishAuth(callback));
});
await test('the Python SDK signs in through a browser, and calls a tool', async () => {
  const client = fileURLToPath(new URL('client.py', import.meta.url));
  await promisify(execFile)('python', [client, resource], { timeout: 60_000 });
});
await test('the Rust SDK signs in through a browser, and calls a tool', async () => {
  const [client, browser] = ['../rmcp/target/debug/sign-in', 'browser.mjs'].map((path) => fileURLToPath(new URL(path, import.meta.url)));
  await promisify(execFile)(client, [resource, process.execPath, browser], { timeout: 60_000 });
});
await test('the issuer changes its keys, and is away, while the server serves', async () => {
  const before = await getToken();
  assert.equal((await call(bearer(before))).status, 200);
  await provider.stop();
  const unseen = log.length;
  assert.equal((await call(bearer(before))).status, 200, 'a token that is known needs no issuer');
  keys = [issuerKey('second')];
  provider = await startProvider(issuerPort, keys);
  const after = await getToken();
  // The keys are fetched again some seconds after the last time.
  let status;
  for (let attempt = 0; attempt < 40 && status !== 200; attempt += 1) {
    status = (await call(bearer(after))).status;
    await new Promise((later) => setTimeout(later, 250));
  }
  assert.equal(status, 200, log.slice(unseen));
  assert.equal((await call(bearer(before))).status, 401, 'its key is gone');
});
await test('no token is in the log', async () => {
  assert.ok(!/eyJ/.test(log), log);
});

server.removeAllListeners('exit');
server.kill();
await provider.stop();
process.exit(failed ? 1 : 0);
