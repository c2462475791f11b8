// Runs the client of the TypeScript SDK 2.x through every case: client.mjs REVISION|auto COMMAND...|URL
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { run } from '../cases.mjs';

const MODERN = '2026-07-28';
const [wanted, command, ...args] = process.argv.slice(2);
// With a server of one era, `auto` ends up in that era; EXPECT names the revision.
const expected = wanted === 'auto' ? (process.env.EXPECT ?? MODERN) : wanted;
const modern = expected === MODERN;

await run(`ts2 ${wanted}`, async () => {
    const client = new Client(
        { name: 'ts2', version: '1.0.0' },
        {
            capabilities: { elicitation: { form: {} } },
            ...(wanted === 'auto' || modern ? {} : { supportedProtocolVersions: [wanted] }),
            versionNegotiation: { mode: wanted === 'auto' ? 'auto' : modern ? { pin: MODERN } : 'legacy' }
        }
    );
    const [updated, grown] = [[], []];
    let answer = { action: 'cancel' }, asked = [];
    client.setRequestHandler('elicitation/create', ({ params }) => (asked.push(params), answer));
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updated.push(params.uri));
    client.setNotificationHandler('notifications/tools/list_changed', () => void grown.push(true));
    const transport = /^https?:/.test(command)
        ? new StreamableHTTPClientTransport(new URL(command))
        : new StdioClientTransport({ command, args, env: process.env });
    await client.connect(transport);
    const listen = async filter => {
        const subscription = await client.listen(filter);
        return () => subscription.close();
    };
    return {
        client, expected, updated, grown, modern,
        // The SDK maps the -32002 of a legacy server to the code that replaced it.
        notFound: -32602,
        revision: client.getNegotiatedProtocolVersion(),
        call: (name, given, options) => client.callTool({ name, arguments: given }, options),
        // elicitation/create came with 2025-06-18.
        elicit: expected < '2025-06-18' ? undefined : next => ((answer = next), (asked = [])),
        async watch(uri) {
            if (modern) return listen({ resourceSubscriptions: [uri] });
            await client.subscribeResource({ uri });
            return () => client.unsubscribeResource({ uri });
        },
        watchTools: async () => (modern ? listen({ toolsListChanged: true }) : async () => {}),
        async close() {
            await transport.terminateSession?.();
            await client.close();
        }
    };
});
