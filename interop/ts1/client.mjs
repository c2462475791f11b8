// The TypeScript SDK 1.x's client through every case: client.mjs REVISION COMMAND...
// It asks for 2025-11-25 always; REVISION is what the server is expected to answer.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
    ElicitRequestSchema,
    ResourceUpdatedNotificationSchema,
    ToolListChangedNotificationSchema
} from '@modelcontextprotocol/sdk/types.js';
import { run } from '../cases.mjs';

const [expected, command, ...args] = process.argv.slice(2);

await run(`ts1 ${expected}`, async () => {
    const client = new Client({ name: 'ts1', version: '1.0.0' }, { capabilities: { elicitation: {} } });
    const [updated, grown] = [[], []];
    let answer, asked;
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => (asked.push(params), answer));
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void updated.push(params.uri));
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void grown.push(true));
    const transport = new StdioClientTransport({ command, args, env: process.env });
    // The version that was agreed on is told to the transport, and to nobody else.
    let revision;
    transport.setProtocolVersion = version => (revision = version);
    await client.connect(transport);
    return {
        client, expected, revision, updated, grown,
        modern: false,
        notFound: -32002,
        call: (name, given, options) => client.callTool({ name, arguments: given }, undefined, options),
        // elicitation/create came with 2025-06-18.
        elicit: expected < '2025-06-18' ? undefined : next => ((answer = next), (asked = [])),
        async watch(uri) {
            await client.subscribeResource({ uri });
            return () => client.unsubscribeResource({ uri });
        },
        watchTools: async () => async () => {}
    };
});
