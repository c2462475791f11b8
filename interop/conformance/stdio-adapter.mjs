// Connects the conformance suite, which only speaks HTTP, to a server on stdio: HTTP at /mcp on one side, a process on
// the other. For tests only. It passes messages on and maps errors to HTTP statuses; it checks nothing that the server
// should check.
//
//   node stdio-adapter.mjs COMMAND [ARGUMENT]...      prints its URL and serves until it is killed
//
// Each legacy session has its own process. All modern exchanges share one, as they would share a server over HTTP: the
// adapter makes ids and progress tokens unique on the way in, and restores them on the way out.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const command = process.argv.slice(2);
const VERSION = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";

/** A server process: messages in, messages out. */
class Child {
  constructor(receive) {
    this.process = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    this.process.stdin.on("error", () => {});
    createInterface({ input: this.process.stdout }).on("line", (line) => receive(JSON.parse(line)));
    this.process.on("exit", () => this.ended?.());
  }
  send(message) {
    this.process.stdin.write(JSON.stringify(message) + "\n");
  }
  end() {
    this.process.stdin.end();
  }
}

/** The answer to one POST: JSON if the result is all there is, or else a stream. */
class Exchange {
  constructor(response, headers = {}) {
    Object.assign(this, { response, headers });
  }
  tell(message) {
    if (!this.response.headersSent) {
      this.response.writeHead(200, { ...this.headers, "content-type": "text/event-stream" });
    }
    this.response.write(`data: ${JSON.stringify(message)}\n\n`);
  }
  finish(message, status = 200) {
    if (this.response.headersSent) {
      this.tell(message);
      this.response.end();
    } else {
      this.response.writeHead(status, { ...this.headers, "content-type": "application/json" });
      this.response.end(JSON.stringify(message));
    }
  }
}

function refuse(response, status, what) {
  new Exchange(response).finish({ jsonrpc: "2.0", error: { code: -32600, message: what } }, status);
}

const isRequest = (message) => message.method !== undefined && message.id !== undefined;
const isResponse = (message) => message.method === undefined;

// --- The modern era -------------------------------------------------------------------------------------------------------

const modern = { child: undefined, exchanges: new Map(), next: 1 };

function modernChild() {
  modern.child ??= new Child((message) => {
    if (isResponse(message)) {
      const exchange = modern.exchanges.get(message.id);
      modern.exchanges.delete(message.id);
      const status = { [-32601]: 404, [-32602]: 400, [-32020]: 400, [-32021]: 400, [-32022]: 400 }[message.error?.code];
      return exchange?.finish({ ...message, id: exchange.id }, status);
    }
    const { _meta, progressToken, ...rest } = message.params ?? {};
    const listen = modern.exchanges.get(_meta?.[SUBSCRIPTION]);
    if (listen) {
      const params = { ...rest, _meta: { ..._meta, [SUBSCRIPTION]: listen.id } };
      return listen.tell({ ...message, params });
    }
    const asked = modern.exchanges.get(progressToken);
    if (asked) {
      return asked.tell({ ...message, params: { ...message.params, progressToken: asked.token } });
    }
    // A log message, or a message that should not be sent: stdio does not say which call it belongs to, so every call
    // gets it.
    for (const exchange of modern.exchanges.values()) exchange.tell(message);
  });
  return modern.child;
}

function modernPost(message, response) {
  const id = `${modern.next++}:${message.id}`;
  if (!isRequest(message)) {
    modernChild().send(message);
    return response.writeHead(202).end();
  }
  const exchange = new Exchange(response);
  const meta = message.params?._meta;
  Object.assign(exchange, { id: message.id, token: meta?.progressToken });
  modern.exchanges.set(id, exchange);
  // MCP 2026-07-28, basic/transports/streamable-http: closing the response cancels the request.
  response.on("close", () => {
    if (modern.exchanges.delete(id)) {
      modern.child.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
    }
  });
  let { params } = message;
  if (meta?.progressToken !== undefined) params = { ...params, _meta: { ...meta, progressToken: id } };
  modernChild().send({ ...message, id, ...(params !== undefined && { params }) });
}

// --- The legacy era -------------------------------------------------------------------------------------------------------

const sessions = new Map();

class Session {
  id = randomUUID();
  exchanges = new Map();
  get = undefined;
  child = new Child((message) => {
    if (isResponse(message)) {
      const exchange = this.exchanges.get(message.id);
      this.exchanges.delete(message.id);
      return exchange?.finish(message);
    }
    const token = message.params?.progressToken;
    const open = [...this.exchanges.values()];
    const asked = open.find((exchange) => token !== undefined && exchange.token === token);
    (asked ?? open.at(-1) ?? this.get)?.tell(message);
  });
  end() {
    sessions.delete(this.id);
    this.child.end();
    this.get?.response.end();
  }
}

function legacyPost(message, request, response) {
  const named = request.headers["mcp-session-id"];
  let session = sessions.get(named);
  if (message.method === "initialize" && named === undefined) {
    session = new Session();
    sessions.set(session.id, session);
  }
  if (!session) return refuse(response, named === undefined ? 400 : 404, "no such session");
  if (!isRequest(message)) {
    session.child.send(message);
    return response.writeHead(202).end();
  }
  const headers = message.method === "initialize" ? { "mcp-session-id": session.id } : {};
  const exchange = new Exchange(response, headers);
  exchange.token = message.params?._meta?.progressToken;
  session.exchanges.set(message.id, exchange);
  session.child.send(message);
}

// --- HTTP -----------------------------------------------------------------------------------------------------------------

const server = createServer(async (request, response) => {
  if (request.url !== "/mcp") return refuse(response, 404, "there is only /mcp");
  const session = sessions.get(request.headers["mcp-session-id"]);
  if (request.method === "POST") {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const message = JSON.parse(body);
    const version = message.params?._meta?.[VERSION] ?? request.headers["mcp-protocol-version"];
    const isModern = message.params?._meta?.[VERSION] !== undefined || version === "2026-07-28";
    return isModern ? modernPost(message, response) : legacyPost(message, request, response);
  }
  if (!session) return refuse(response, request.headers["mcp-session-id"] ? 404 : 405, "no such session");
  if (request.method === "DELETE") {
    session.end();
    return response.writeHead(200).end();
  }
  response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
  session.get = new Exchange(response);
});

server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
