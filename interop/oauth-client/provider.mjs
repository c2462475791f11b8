// A real authorization server (oidc-provider) and an MCP server of the official SDK behind it, both on loopback.
//
//   node provider.mjs     prints one line of JSON: { server, issuer, control }
//
// The control URL takes GET /stats (how often each grant was used), /set?ttl=SECONDS&scope=NAME (the lifetime of access
// tokens, the scope that a tool call needs), /revoke (revokes all access tokens) and /down, /up (the authorization
// server answers with 503).
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import Provider from "oidc-provider";

const settings = { ttl: 600, scope: "mcp:read", down: false, slow: 0, generation: 0 };
const stats = { grants: {}, refused: {}, registrations: 0, pages: 0 };
const listen = (handler) =>
  new Promise((resolve) => {
    const server = createServer(handler).listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${server.address().port}`));
  });

let authorizationServer = (_, response) => response.writeHead(503).end();
const issuer = await listen((request, response) => {
  if (settings.down) return response.writeHead(503).end();
  setTimeout(() => authorizationServer(request, response), settings.slow);
});
const server = `${await listen((request, response) => mcp(request, response))}/mcp`;

const provider = new Provider(issuer, {
  cookies: { keys: ["a key of this test"] },
  clients: [
    {
      client_id: "machine",
      client_secret: "the-secret-of-the-machine",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
  ],
  clientDefaults: { grant_types: ["authorization_code", "refresh_token"] },
  scopes: ["openid", "offline_access", "mcp:read", "mcp:write"],
  pkce: { required: () => true },
  ttl: { AccessToken: () => settings.ttl, ClientCredentials: () => settings.ttl, RefreshToken: 3600 },
  rotateRefreshToken: true,
  issueRefreshToken: async (_, client) => client.grantTypeAllowed("refresh_token"),
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => process.env.DPOP === "nonce" },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => {
        if (resource !== server) throw new Error(`unknown resource ${resource}`);
        return { scope: "mcp:read mcp:write", audience: server, accessTokenTTL: settings.ttl, accessTokenFormat: "opaque" };
      },
    },
  },
});
provider.on("grant.success", (context) => {
  const grant = context.oidc.params.grant_type;
  stats.grants[grant] = (stats.grants[grant] ?? 0) + 1;
});
provider.on("grant.error", (context, error) => {
  const grant = context.oidc?.params?.grant_type;
  // A device that polls is not refused.
  if (["authorization_pending", "slow_down", "use_dpop_nonce"].includes(error.error)) return;
  stats.refused[grant] = (stats.refused[grant] ?? 0) + 1;
  console.error("refused:", grant, error.error, error.error_detail ?? error.error_description);
});
provider.on("registration_create.success", () => stats.registrations++);
provider.on("interaction.started", () => stats.pages++);
provider.on("server_error", (_, error) => console.error("server_error:", error));
authorizationServer = provider.callback();

// The scheme that the MCP server names in its challenges: Bearer, or DPoP for tokens that are bound to a key.
const scheme = process.env.SCHEME ?? "Bearer";
const metadata = new URL(server).origin + "/.well-known/oauth-protected-resource/mcp";
const issued = new Map();
const proofs = new Set();
const NONCE = "a-nonce-of-the-mcp-server";

/** The token that a request has, if it may be used here. */
async function tokenOf(request) {
  const [scheme, value] = (request.headers.authorization ?? "").split(" ");
  if (!value) return undefined;
  const token = (await provider.AccessToken.find(value)) ?? (await provider.ClientCredentials.find(value));
  if (!token || token.isExpired || token.aud !== server) return undefined;
  if (!issued.has(value)) issued.set(value, settings.generation);
  if (issued.get(value) !== settings.generation) return undefined;
  // The scheme must be the one of the token.
  if ((scheme === "DPoP") !== Boolean(token.jkt)) return undefined;
  if (token.jkt) {
    // The signature of a proof is the business of other tests; here the proof must be for this request, with our nonce.
    const payload = (request.headers.dpop ?? "").split(".")[1] ?? "";
    const proof = JSON.parse(Buffer.from(payload, "base64url").toString() || "{}");
    if (proof.htm !== request.method || proof.htu !== server || proofs.has(proof.jti)) return undefined;
    if (process.env.DPOP === "nonce" && proof.nonce !== NONCE) return "use_dpop_nonce";
    proofs.add(proof.jti);
  }
  return token;
}

async function mcp(request, response) {
  const refuse = (status, challenge) =>
    response.writeHead(status, { "WWW-Authenticate": `${scheme} ${challenge}, resource_metadata="${metadata}"` }).end();
  if (request.url === new URL(metadata).pathname) {
    response.writeHead(200, { "Content-Type": "application/json" });
    const document = { resource: server, authorization_servers: [issuer], scopes_supported: ["mcp:read"] };
    return response.end(JSON.stringify(document));
  }
  if (request.url !== "/mcp") return response.writeHead(404).end();
  const token = await tokenOf(request);
  if (token === "use_dpop_nonce") {
    response.setHeader("DPoP-Nonce", NONCE);
    return refuse(401, `error="use_dpop_nonce"`);
  }
  if (!token) return refuse(401, `error="invalid_token", scope="mcp:read"`);
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  let body;
  try {
    body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
  } catch {
    return response.writeHead(400).end();
  }
  if (body?.method === "tools/call" && !token.scope.split(" ").includes(settings.scope)) {
    return refuse(403, `error="insufficient_scope", scope="${settings.scope}"`);
  }
  const sdk = new McpServer({ name: "behind-oidc-provider", version: "1.0.0" });
  sdk.registerTool("whoami", { description: "Says who calls" }, () => ({
    content: [{ type: "text", text: `${token.accountId ?? token.clientId} ${token.scope}` }],
  }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  await sdk.connect(transport);
  await transport.handleRequest(request, response, body);
}

const control = await listen((request, response) => {
  const url = new URL(request.url, "http://control");
  const number = (name) => url.searchParams.has(name) && (settings[name] = Number(url.searchParams.get(name)));
  if (url.pathname === "/set") {
    number("ttl");
    number("slow");
    if (url.searchParams.has("scope")) settings.scope = url.searchParams.get("scope");
  }
  if (url.pathname === "/revoke") settings.generation++;
  if (url.pathname === "/down") settings.down = true;
  if (url.pathname === "/up") settings.down = false;
  response.end(JSON.stringify(stats));
});

console.log(JSON.stringify({ server, issuer, control }));
