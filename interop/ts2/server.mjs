// The demo surface (surface.json) on the TypeScript SDK 2.x, in both eras: server.mjs [http PORT], or stdio.
import { randomUUID } from 'node:crypto';
import { serve } from '@hono/node-server';
import {
    McpServer,
    ResourceTemplate,
    WebStandardStreamableHTTPServerTransport,
    completable,
    createMcpHandler,
    inputRequired,
    inputResponse,
    isLegacyRequest
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { EventStore, names, png, resting, said, surface } from '../surface.mjs';

const [carrier, port] = process.argv.slice(2);
const grown = []; // Over HTTP there is a server a request in the modern era: what is to last is kept outside.
let modern;

function create({ era }) {
    const perRequest = carrier && era === 'modern';
    const server = new McpServer(
        { name: 'ts2', version: '1.0.0' },
        { capabilities: { resources: { subscribe: true, listChanged: true }, tools: { listChanged: true }, logging: {} } }
    );

    server.registerTool('echo', { description: 'Say it back', inputSchema: z.object({ text: z.string() }) }, ({ text }) =>
        said(text)
    );
    const numbers = z.object({ a: z.number(), b: z.number() });
    server.registerTool('add', { description: 'Add two numbers', inputSchema: numbers }, ({ a, b }) => said(String(a + b)));
    const message = z.object({ message: z.string() });
    server.registerTool('fail', { description: 'Fail as told', inputSchema: message }, ({ message }) => {
        throw new Error(message);
    });
    server.registerTool('dot', { description: 'One pixel' }, () => ({ content: [png] }));
    const header = (schema, argument) => schema.meta({ 'x-mcp-header': surface.mirror.headers[argument] });
    const mirrored = z.object({
        text: header(z.string(), 'text'),
        count: header(z.int(), 'count'),
        sure: header(z.boolean(), 'sure')
    });
    const described = { description: 'Tell what goes into headers too', inputSchema: mirrored };
    server.registerTool('mirror', described, ({ text, count, sure }) => said(`${text} ${count} ${sure}`));
    const duration = z.object({ ms: z.number() });
    server.registerTool('sleep', { description: 'Take a while', inputSchema: duration }, async ({ ms }, { mcpReq }) => {
        const progressToken = mcpReq._meta?.progressToken;
        await resting(ms, mcpReq.signal, async (progress, total) => {
            if (progressToken === undefined) return;
            await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total } });
        });
        return said(`slept ${ms} ms`);
    });
    // One handler for both eras: the SDK sends the same question to a legacy client as a request.
    server.registerTool('greet', { description: 'Ask for a name and greet' }, ({ mcpReq }) => {
        const answer = inputResponse(mcpReq.inputResponses, surface.greet.key);
        if (answer.kind === 'missing') {
            const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
            return inputRequired({
                inputRequests: { [surface.greet.key]: inputRequired.elicit({ message: 'Who are you?', requestedSchema }) },
                requestState: 'asked once'
            });
        }
        if (answer.kind !== 'elicit' || answer.action !== 'accept') throw new Error('nobody to greet');
        return said(`Hello, ${answer.content.name}!`);
    });
    const add = name => server.registerTool(name, { description: 'Was not there before' }, () => said('new'));
    server.registerTool('grow', { description: 'Add a tool' }, () => {
        const name = `grown-${Date.now()}`;
        if (perRequest) modern.notify.toolsChanged(grown.push(name));
        else add(name);
        return said('grown');
    });
    grown.forEach(add);

    server.registerResource('about', surface.about, { mimeType: 'text/plain' }, uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'A demo server on the TypeScript SDK 2.x' }]
    }));
    server.registerResource('clock', surface.clock.uri, { mimeType: 'text/plain' }, uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: new Date().toISOString() }]
    }));
    const template = new ResourceTemplate(surface.template.uri, { list: undefined, complete: { name: names } });
    server.registerResource('greeting', template, { mimeType: 'text/plain' }, (uri, { name }) => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: `Hello, ${name}!` }]
    }));
    const argsSchema = z.object({ name: completable(z.string(), names) });
    server.registerPrompt('introduce', { argsSchema }, ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Introduce yourself to ${name}.` } }]
    }));

    // The SDK stores modern subscriptions, and drops notifications without a listener. Legacy subscriptions are stored
    // here.
    const watched = new Set();
    server.server.setRequestHandler('resources/subscribe', ({ params }) => (watched.add(params.uri), {}));
    server.server.setRequestHandler('resources/unsubscribe', ({ params }) => (watched.delete(params.uri), {}));
    if (perRequest) return server;
    const ticking = setInterval(() => {
        if (era !== 'modern' && !watched.has(surface.clock.uri)) return;
        // Refused once the connection is closed. Unhandled, the refusal would end the process with code 1.
        server.server.sendResourceUpdated({ uri: surface.clock.uri }).catch(() => clearInterval(ticking));
    }, 300);
    ticking.unref();
    return server;
}

const sessions = new Map();

/** A session for each initialize, with a store of events to resume from. */
async function legacy(request) {
    const id = request.headers.get('mcp-session-id');
    if (id) return sessions.get(id)?.handleRequest(request) ?? new Response(null, { status: 404 });
    const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new EventStore(),
        onsessioninitialized: id => void sessions.set(id, transport),
        onsessionclosed: id => void sessions.delete(id)
    });
    await create({ era: 'legacy' }).connect(transport);
    return transport.handleRequest(request);
}

if (carrier) {
    modern = createMcpHandler(create, { legacy: 'reject' });
    setInterval(() => modern.notify.resourceUpdated(surface.clock.uri), 300).unref();
    const fetch = async request => ((await isLegacyRequest(request)) ? legacy(request) : modern.fetch(request));
    serve({ fetch, port: Number(port), hostname: '127.0.0.1' });
} else {
    serveStdio(create);
}
