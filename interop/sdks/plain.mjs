// What each plain server has: a tool, a resource and a prompt, without anything that a check could object to.
import { createRequire } from 'node:module';
import { setTimeout } from 'node:timers/promises';

const uri = 'plain://about';
const prompt = { name: 'plain-introduce', arguments: [{ name: 'name', description: 'A name', required: true }] };
const tool = (name, description, inputSchema) => ({ name, description, inputSchema, annotations: { readOnlyHint: true } });
const tools = [
    tool('plain-echo', 'Say it back', { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }),
    tool('plain-wait', 'Wait 300 ms', { type: 'object' })
];

export const plain = {
    uri,
    hints: { readOnlyHint: true },
    contents: { contents: [{ uri, mimeType: 'text/plain', text: 'A plain server' }] },
    said: text => ({ content: [{ type: 'text', text }] }),
    waited: async () => (await setTimeout(300), plain.said('waited')),
    messages: name => ({ messages: [{ role: 'user', content: { type: 'text', text: `Introduce ${name}` } }] }),
    /** The handlers of a server that handles requests itself. `refuse` throws an error with code -32602. */
    handlers: refuse => {
        const listed = (name, items) => params => (params.cursor ? refuse('unknown cursor') : { [name]: items });
        return {
            'tools/list': listed('tools', tools),
            'tools/call': ({ name, arguments: given }) => {
                if (name === 'plain-wait') return plain.waited();
                if (name !== 'plain-echo') return refuse('unknown tool');
                if (typeof given?.text !== 'string') return { ...plain.said('text is missing'), isError: true };
                return plain.said(given.text);
            },
            'resources/list': listed('resources', [{ name: 'plain-about', uri, mimeType: 'text/plain' }]),
            'resources/read': params => (params.uri === uri ? plain.contents : refuse('unknown resource')),
            'prompts/list': listed('prompts', [prompt]),
            'prompts/get': params =>
                params.name === prompt.name ? plain.messages(params.arguments?.name) : refuse('unknown prompt')
        };
    },
    /** Whether an installed SDK 1.x has at least this minor version. */
    atLeast: (sdk, minor) => Number(/-1[.](\d+)$/.exec(sdk)[1]) >= minor,
    /** The version of zod that an SDK resolves to. */
    zod: sdk => createRequire(createRequire(import.meta.url).resolve(`${sdk}/server/mcp.js`)).resolve('zod')
};
