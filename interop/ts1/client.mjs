// Runs the client of the TypeScript SDK 1.x through every case: client.mjs REVISION COMMAND...|URL. The SDK always
// requests 2025-11-25; REVISION is the expected response of the server.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CallToolResultSchema,
    CreateTaskResultSchema,
    ElicitRequestSchema,
    ResourceUpdatedNotificationSchema,
    ToolListChangedNotificationSchema
} from '@modelcontextprotocol/sdk/types.js';
import { run } from '../cases.mjs';

const [expected, command, ...args] = process.argv.slice(2);

function open() {
    if (!/^https?:/.test(command)) return new StdioClientTransport({ command, args, env: process.env });
    // The transport of 2024-11-05 has its own path here.
    const Transport = command.endsWith('/sse') ? SSEClientTransport : StreamableHTTPClientTransport;
    return new Transport(new URL(command));
}

/** The SDK's methods for tasks. Only a request of any method can start a task without following it. */
function tasksOf(client) {
    const { tasks } = client.experimental;
    return {
        stream: (name, given) => tasks.callToolStream({ name, arguments: given }),
        async start(name, given) {
            const call = { method: 'tools/call', params: { name, arguments: given } };
            return (await client.request(call, CreateTaskResultSchema, { task: { ttl: 60000 } })).task;
        },
        get: id => tasks.getTask(id),
        result: id => tasks.getTaskResult(id, CallToolResultSchema),
        list: () => tasks.listTasks(),
        cancel: id => tasks.cancelTask(id)
    };
}

await run(`ts1 ${expected}`, async () => {
    const client = new Client({ name: 'ts1', version: '1.0.0' }, { capabilities: { elicitation: {} } });
    const [updated, grown] = [[], []];
    let answer = { action: 'cancel' }, asked = [];
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => (asked.push(params), answer));
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void updated.push(params.uri));
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void grown.push(true));
    const transport = open();
    // The SDK passes the negotiated version only to the transport.
    let revision;
    const told = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = version => (told?.(version), (revision = version));
    await client.connect(transport);
    return {
        client, expected, revision, updated, grown,
        modern: false,
        notFound: -32002,
        call: (name, given, options) => client.callTool({ name, arguments: given }, undefined, options),
        // Tasks are experimental in 2025-11-25.
        tasks: revision === '2025-11-25' ? tasksOf(client) : undefined,
        // elicitation/create came with 2025-06-18.
        elicit: expected < '2025-06-18' ? undefined : next => ((answer = next), (asked = [])),
        async watch(uri) {
            await client.subscribeResource({ uri });
            return () => client.unsubscribeResource({ uri });
        },
        watchTools: async () => async () => {},
        async close() {
            await transport.terminateSession?.();
            await client.close();
        }
    };
});
