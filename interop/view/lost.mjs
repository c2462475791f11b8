// What is lost, and comes back: a tap that is killed, and the connection to barewire.
import http from "node:http";
import { once } from "node:events";
import { connect, environment } from "./live.mjs";
import { assert, openPage, rowsAreThere, startView, test, withView } from "./harness.mjs";

const banner = "#connection:not([hidden])";

test("a killed tap is lost, and the next one is shown", async () => {
  const env = environment("killed");
  await withView([], { view: { env } }, async (page) => {
    const client = await connect(env);
    await rowsAreThere(page);
    await page.locator("#state", { hasText: "live" }).waitFor();
    process.kill(client.transport.pid, "SIGKILL");
    await page.locator("#state", { hasText: "lost" }).waitFor();
    await page.locator(banner, { hasText: "The tap is lost" }).waitFor();
    // Nothing tries to reach a tap that was killed.
    assert((await page.locator("#conversations .state").textContent()).startsWith("lost ·"), "the state in the list");
    // What was seen stays.
    await rowsAreThere(page);
    const next = await connect(env);
    await page.waitForFunction(() => document.querySelectorAll("#conversations .source-link").length === 2);
    await page.locator("#conversations .source-link").last().click();
    await page.locator("#state", { hasText: "live" }).waitFor();
    await page.locator("#connection").waitFor({ state: "hidden" });
    await rowsAreThere(page);
    await next.close();
    await client.close();
  });
});

/** A way to a program that can be cut while both ends live. */
async function way(origin) {
  const { host } = new URL(origin);
  const sockets = new Set();
  let isCut = false;
  const server = http.createServer((request, response) => {
    const headers = { ...request.headers, host, ...(request.headers.origin && { origin }) };
    const passed = http.request(`${origin}${request.url}`, { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      response.flushHeaders();
      answer.on("error", () => response.destroy());
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  server.on("connection", (socket) => {
    if (isCut) socket.destroy();
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => {
    isCut = true;
    for (const socket of sockets) socket.destroy();
  };
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    cut,
    join: () => (isCut = false),
    close() {
      cut();
      server.close();
    },
  };
}

test("a connection that was cut comes back by itself, and what came meanwhile is shown", async () => {
  const env = environment("cut");
  const view = await startView([], { env });
  const between = await way(view.origin);
  try {
    const opened = await openPage(view.url.replace(view.origin, between.origin), { expected: [/ERR_/] });
    const { page } = opened;
    const client = await connect(env);
    await rowsAreThere(page);
    await page.keyboard.press("F");
    between.cut();
    await page.locator(banner, { hasText: "Trying again" }).waitFor();
    await client.callTool({ name: "echo", arguments: { message: "while it was cut" } });
    assert((await page.locator(".preview", { hasText: "while it was cut" }).count()) === 0, "the connection is not cut");
    between.join();
    await page.locator("#connection").waitFor({ state: "hidden" });
    await page.locator('.list-layer .row:not([hidden]) .preview', { hasText: "Echo: while it was cut" }).waitFor();
    // New frames come over the new connection.
    await client.callTool({ name: "echo", arguments: { message: "afterwards" } });
    await page.locator('.list-layer .row:not([hidden]) .preview', { hasText: "Echo: afterwards" }).waitFor();
    await client.close();
    await opened.close();
  } finally {
    between.close();
    await view.stop();
  }
});
