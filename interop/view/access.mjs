// Who may ask: only the page that has the token, from its own origin.
import http from "node:http";
import { join } from "node:path";
import { assert, equal, fixtures, openPage, rowsAreThere, startView, test } from "./harness.mjs";

/** Sends a request with exactly these headers, and returns the status and the headers of the answer. */
function send(view, method, path, headers = {}, body = "") {
  const { hostname, port } = new URL(view.url);
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, method, path, headers }, (response) => {
      let text = "";
      response.on("data", (data) => (text += data));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

test("without the token, from elsewhere, with a wrong host: refused", async () => {
  const view = await startView([join(fixtures, "tour.wire")]);
  const token = new URLSearchParams(new URL(view.url).hash.slice(1)).get("token");
  const json = { "content-type": "application/json", origin: view.origin };
  const refused = (answer, what) => assert([401, 403, 421].includes(answer.status), `${what}: ${answer.status}`);
  refused(await send(view, "GET", "/api/sources"), "no cookie");
  refused(await send(view, "GET", "/api/events"), "no cookie, events");
  refused(await send(view, "GET", "/api/sources", { cookie: "barewire=00000000" }), "a wrong cookie");
  refused(await send(view, "POST", "/api/enter", json, JSON.stringify({ token: "0".repeat(token.length) })), "a wrong token");
  refused(await send(view, "POST", "/api/enter", { ...json, origin: "http://evil.example" }, JSON.stringify({ token })), "another origin");
  refused(await send(view, "GET", "/", { host: "evil.example" }), "another host");
  const entered = await send(view, "POST", "/api/enter", json, JSON.stringify({ token }));
  equal(entered.status, 204, "the right token");
  const [cookie] = entered.headers["set-cookie"];
  assert(/HttpOnly/i.test(cookie) && /SameSite=Strict/i.test(cookie), cookie);
  const value = cookie.split(";")[0];
  equal((await send(view, "GET", "/api/sources", { cookie: value })).status, 200, "the cookie");
  refused(await send(view, "GET", "/api/sources", { cookie: value, host: "evil.example" }), "the cookie with another host");
  const page = await send(view, "GET", "/");
  const policy = page.headers["content-security-policy"];
  for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"]) assert(policy.includes(part), policy);
  assert(!/unsafe|https?:/.test(policy), policy);
  await view.stop();
});

test("a link in another page opens the page, and a frame of another page does not", async () => {
  const view = await startView([join(fixtures, "tour.wire")]);
  // For a browser, localhost and 127.0.0.1 are different sites.
  const other = http.createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<a href="${view.url}">open</a><iframe src="${view.origin}/"></iframe>`);
  });
  await new Promise((resolve) => other.listen(0, "127.0.0.1", resolve));
  const refused = [];
  const opened = await openPage(`http://localhost:${other.address().port}/`, { expected: [/request to/, /status of (403|404)/, /frame/i, /ERR_BLOCKED/] });
  opened.page.on("response", (response) => response.status() === 403 && refused.push(response.url()));
  await opened.page.reload();
  equal(refused, [`${view.origin}/`], "the frame is refused");
  await opened.page.getByRole("link", { name: "open" }).click();
  await opened.page.locator("#state", { hasText: "complete" }).waitFor();
  await rowsAreThere(opened.page);
  await opened.close();
  other.close();
  await view.stop();
});

test("a stale token, and a program that has ended, are told", async () => {
  const view = await startView([join(fixtures, "tour.wire")]);
  const stale = await openPage(`${view.origin}/#token=stale`, { expected: [/status of 40[13]/] });
  await stale.page.locator("#connection", { hasText: "open the URL" }).waitFor();
  await stale.close();
  const opened = await openPage(view.url, { expected: [/ERR_|status of 40[13]/] });
  await opened.page.locator("#state", { hasText: "complete" }).waitFor();
  await view.stop();
  await opened.page.locator("#connection", { hasText: "does not answer" }).waitFor();
  // Another program on the same port has another token.
  const { port } = new URL(view.url);
  const next = await startView(["--port", port, join(fixtures, "tour.wire")]);
  await opened.page.locator("#connection", { hasText: "open the URL" }).waitFor();
  await opened.page.goto(next.url);
  await opened.page.reload();
  await opened.page.locator("#connection").waitFor({ state: "hidden" });
  await opened.close();
  await next.stop();
});
