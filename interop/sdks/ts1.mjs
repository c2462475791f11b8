// The plain server on the TypeScript SDK 1.x: ts1.mjs PACKAGE [low]. PACKAGE is the SDK, under the name that it is
// installed by. With `low`, the server is a `Server` with request handlers of its own, else an `McpServer`. With PORT in
// the environment, it serves HTTP.
import { createServer } from 'node:http';
import { allowed, port, sessions } from './http.mjs';
import { plain } from './plain.mjs';

const [name, level] = process.argv.slice(2);
const info = { name: 'plain', version: '1.0.0' };

async function high() {
    const { McpServer } = await import(`${name}/server/mcp.js`);
    // A schema must come from the version of zod that the SDK has.
    const { z } = await import(plain.zod(name));
    const server = new McpServer(info);
    // Versions before 1.10 take no hints.
    const hints = plain.atLeast(name, 10) ? [plain.hints] : [];
    server.tool('plain-echo', 'Say it back', { text: z.string() }, ...hints, ({ text }) => plain.said(text));
    server.tool('plain-wait', 'Wait 300 ms', {}, ...hints, () => plain.waited());
    server.resource('plain-about', plain.uri, { mimeType: 'text/plain' }, () => plain.contents);
    server.prompt('plain-introduce', { name: z.string() }, ({ name }) => plain.messages(name));
    return server;
}

async function low() {
    const { Server } = await import(`${name}/server/index.js`);
    const types = await import(`${name}/types.js`);
    const server = new Server(info, { capabilities: { tools: {}, resources: {}, prompts: {} } });
    const refuse = why => {
        throw new types.McpError(types.ErrorCode.InvalidParams, why);
    };
    const schemas = {
        'tools/list': types.ListToolsRequestSchema,
        'tools/call': types.CallToolRequestSchema,
        'resources/list': types.ListResourcesRequestSchema,
        'resources/read': types.ReadResourceRequestSchema,
        'prompts/list': types.ListPromptsRequestSchema,
        'prompts/get': types.GetPromptRequestSchema
    };
    for (const [method, handle] of Object.entries(plain.handlers(refuse))) {
        server.setRequestHandler(schemas[method], ({ params }) => handle(params ?? {}));
    }
    return server;
}

const create = level === 'low' ? low : high;

/** Over HTTP, with the SDK's own protection against foreign hosts and origins. */
async function serveHttp() {
    const { StreamableHTTPServerTransport } = await import(`${name}/server/streamableHttp.js`);
    const protection = { enableDnsRebindingProtection: true, allowedHosts: allowed.hosts, allowedOrigins: allowed.origins };
    const session = sessions(async options => {
        const transport = new StreamableHTTPServerTransport({ ...options, ...protection });
        await (await create()).connect(transport);
        return transport;
    });
    createServer(async (request, response) => {
        const transport = await session(request.headers['mcp-session-id']);
        if (transport) await transport.handleRequest(request, response);
        else response.writeHead(404).end();
    }).listen(port, '127.0.0.1');
}

if (port) {
    await serveHttp();
} else {
    const { StdioServerTransport } = await import(`${name}/server/stdio.js`);
    await (await create()).connect(new StdioServerTransport());
}
