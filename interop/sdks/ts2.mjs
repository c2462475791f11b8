// The plain server on the TypeScript SDK 2.x: ts2.mjs PACKAGE [low]. With PORT in the environment, it serves HTTP.
import { serve } from '@hono/node-server';
import { z } from 'zod';
import { port, sessions } from './http.mjs';
import { plain } from './plain.mjs';

const [name, level] = process.argv.slice(2);
const sdk = await import(name);
const { McpServer, ProtocolError, Server } = sdk;
const info = { name: 'plain', version: '1.0.0' };

function high() {
    const server = new McpServer(info);
    const tool = { description: 'Say it back', inputSchema: z.object({ text: z.string() }), annotations: plain.hints };
    server.registerTool('plain-echo', tool, ({ text }) => plain.said(text));
    const wait = { description: 'Wait 300 ms', annotations: plain.hints };
    server.registerTool('plain-wait', wait, () => plain.waited());
    server.registerResource('plain-about', plain.uri, { mimeType: 'text/plain' }, () => plain.contents);
    const prompt = { argsSchema: z.object({ name: z.string() }) };
    server.registerPrompt('plain-introduce', prompt, ({ name }) => plain.messages(name));
    return server;
}

function low() {
    const server = new Server(info, { capabilities: { tools: {}, resources: {}, prompts: {} } });
    const refuse = why => {
        throw new ProtocolError(-32602, why);
    };
    for (const [method, handle] of Object.entries(plain.handlers(refuse))) {
        server.setRequestHandler(method, ({ params }) => handle(params ?? {}));
    }
    return server;
}

const create = level === 'low' ? low : high;

/** Over HTTP: requests of the modern era alone, all others in sessions, with the SDK's checks of hosts and origins. */
function serveHttp() {
    const modern = sdk.createMcpHandler(create, { legacy: 'reject' });
    const session = sessions(async options => {
        const transport = new sdk.WebStandardStreamableHTTPServerTransport(options);
        await create().connect(transport);
        return transport;
    });
    const fetch = async request => {
        const refused =
            sdk.hostHeaderValidationResponse(request, sdk.localhostAllowedHostnames()) ??
            sdk.originValidationResponse(request, sdk.localhostAllowedOrigins());
        if (refused) return refused;
        if (!(await sdk.isLegacyRequest(request))) return modern.fetch(request);
        const transport = await session(request.headers.get('mcp-session-id'));
        return transport?.handleRequest(request) ?? new Response(null, { status: 404 });
    };
    serve({ fetch, port, hostname: '127.0.0.1' });
}

if (port) {
    serveHttp();
} else {
    const { serveStdio } = await import(`${name}/stdio`);
    serveStdio(create);
}
