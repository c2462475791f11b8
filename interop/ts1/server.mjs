// The demo surface (surface.json) on the TypeScript SDK 1.x, revisions up to 2025-11-25: server.mjs [http|sse PORT], or stdio.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { EventStore, names, png, resting, said, surface } from '../surface.mjs';

function create() {
    const server = new McpServer(
        { name: 'ts1', version: '1.0.0' },
        { capabilities: { resources: { subscribe: true, listChanged: true }, logging: {} } }
    );

    server.registerTool('echo', { description: 'Say it back', inputSchema: { text: z.string() } }, ({ text }) => said(text));
    server.registerTool('add', { description: 'Add two numbers', inputSchema: { a: z.number(), b: z.number() } }, ({ a, b }) =>
        said(String(a + b))
    );
    server.registerTool('fail', { description: 'Fail as told', inputSchema: { message: z.string() } }, ({ message }) => {
        throw new Error(message);
    });
    server.registerTool('dot', { description: 'One pixel' }, () => ({ content: [png] }));
    server.registerTool('sleep', { description: 'Take a while', inputSchema: { ms: z.number() } }, async ({ ms }, extra) => {
        const progressToken = extra._meta?.progressToken;
        await resting(ms, extra.signal, async (progress, total) => {
            if (progressToken === undefined) return;
            await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total } });
        });
        return said(`slept ${ms} ms`);
    });
    server.registerTool('greet', { description: 'Ask for a name and greet' }, async extra => {
        const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
        // Over HTTP the request goes on the response stream of the call, not on the GET stream.
        const options = { relatedRequestId: extra.requestId };
        const answer = await server.server.elicitInput({ message: 'Who are you?', requestedSchema }, options);
        if (answer.action !== 'accept') throw new Error(`nobody to greet: ${answer.action}`);
        return said(`Hello, ${answer.content.name}!`);
    });
    server.registerTool('grow', { description: 'Add a tool' }, () => {
        server.registerTool(`grown-${Date.now()}`, { description: 'Was not there before' }, () => said('new'));
        return said('grown');
    });

    server.registerResource('about', surface.about, { mimeType: 'text/plain' }, uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'A demo server on the TypeScript SDK 1.x' }]
    }));
    server.registerResource('clock', surface.clock.uri, { mimeType: 'text/plain' }, uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: new Date().toISOString() }]
    }));
    const template = new ResourceTemplate(surface.template.uri, { list: undefined, complete: { name: names } });
    server.registerResource('greeting', template, { mimeType: 'text/plain' }, (uri, { name }) => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: `Hello, ${name}!` }]
    }));
    server.registerPrompt('introduce', { argsSchema: { name: completable(z.string(), names) } }, ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Introduce yourself to ${name}.` } }]
    }));

    const watched = new Set();
    server.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => (watched.add(params.uri), {}));
    server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => (watched.delete(params.uri), {}));
    const ticking = setInterval(() => {
        if (!watched.has(surface.clock.uri)) return;
        // Refused once the connection is closed. Unhandled, the refusal would end the process with code 1.
        server.server.sendResourceUpdated({ uri: surface.clock.uri }).catch(() => clearInterval(ticking));
    }, 300);
    ticking.unref();
    return server;
}

const sessions = new Map();

/** A session for each initialize, with a store of events to resume from. */
async function streamable(request, response) {
    const id = request.headers['mcp-session-id'];
    if (id && !sessions.has(id)) return void response.writeHead(404).end();
    if (id) return sessions.get(id).handleRequest(request, response);
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new EventStore(),
        onsessioninitialized: id => void sessions.set(id, transport),
        onsessionclosed: id => void sessions.delete(id)
    });
    await create().connect(transport);
    await transport.handleRequest(request, response);
}

/** HTTP+SSE as it was in 2024-11-05: a GET opens the session, POSTs go to the URL that it tells. */
async function sse(request, response) {
    const { pathname, searchParams } = new URL(request.url, 'http://localhost');
    if (pathname === '/sse' && request.method !== 'GET') return void response.writeHead(405).end();
    const transport = pathname === '/sse' ? new SSEServerTransport('/messages', response) : sessions.get(searchParams.get('sessionId'));
    if (!transport) return void response.writeHead(404).end();
    if (pathname !== '/sse') return transport.handlePostMessage(request, response);
    sessions.set(transport.sessionId, transport);
    await create().connect(transport);
}

const [carrier, port] = process.argv.slice(2);
if (carrier) createServer(carrier === 'sse' ? sse : streamable).listen(Number(port), '127.0.0.1');
else await create().connect(new StdioServerTransport());
