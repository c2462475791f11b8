// The interop cases of the JavaScript clients, for a server with the surface of surface.json. Prints a line for each
// case.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { surface } from './surface.mjs';

const shown = text => JSON.stringify(text);
const said = result => result.content.map(block => block.text ?? '').join('\n');
const lastNumber = text => Number(/(-?\d+(?:\.\d+)?)\.?$/.exec(text)?.[1]);

/** Fails unless the promise is rejected with a JSON-RPC error of this code. */
async function refused(promise, code) {
    const error = await promise.then(value => assert.fail(`answered ${shown(value)}`), error => error);
    assert.ok(error.code === code, `error ${error.code} (${error.message}) instead of ${code}`);
}

/** Waits until `found()` holds. */
async function until(found, ms, what) {
    for (const end = Date.now() + ms; !found(); await pause(20)) assert.ok(Date.now() < end, `no ${what} in ${ms} ms`);
}

/** Whether the server has the tools that run as tasks. The client also learns from the list which tools those are. */
async function hasTasks(client) {
    return (await client.listTools()).tools.some(({ name }) => name === surface.task?.tool);
}

/** name -> what is done with the client under test. A case that does not apply returns 'not here'. */
const cases = {
    async 'connect'({ client, revision, expected }) {
        assert.equal(revision, expected);
        assert.ok(client.getServerVersion()?.name, 'the server has no name');
        assert.ok(client.getServerCapabilities().tools, 'no tools declared');
    },
    async 'ping'({ client, modern }) {
        if (modern) return 'not here';
        await client.ping();
    },
    async 'tools/list'({ client }) {
        const { tools } = await client.listTools();
        const missing = surface.tools.filter(name => !tools.some(tool => tool.name === name));
        assert.deepEqual(missing, []);
        for (const tool of tools) assert.equal(tool.inputSchema.type, 'object', tool.name);
    },
    async 'echo'({ call }) {
        const result = await call(surface.echo.tool, surface.echo.arguments);
        assert.ok(!result.isError);
        assert.equal(said(result), surface.echo.text);
    },
    async 'add'({ call }) {
        assert.equal(lastNumber(said(await call(surface.add.tool, surface.add.arguments))), surface.add.sum);
    },
    async 'twenty at once'({ call }) {
        const numbers = Array.from({ length: 20 }, (_, b) => b);
        const sums = await Promise.all(numbers.map(b => call(surface.add.tool, { a: 1000, b })));
        assert.deepEqual(sums.map(result => lastNumber(said(result))), numbers.map(b => 1000 + b));
    },
    async 'a tool that fails'({ call }) {
        const result = await call(surface.fail.tool, surface.fail.arguments);
        assert.equal(result.isError, true);
        assert.ok(said(result).includes(surface.fail.contains), said(result));
    },
    async 'an image'({ call }) {
        const image = (await call(surface.image.tool, {})).content.find(block => block.type === 'image');
        assert.equal(image?.mimeType, surface.image.mimeType);
        assert.equal(Buffer.from(image.data, 'base64').toString('latin1', 1, 4), 'PNG');
    },
    async 'an unknown tool'({ call }) {
        await refused(call('no-such-tool', {}), -32602);
    },
    async 'bad arguments'({ call }) {
        // A protocol error up to 2025-06-18, a tool error since. Both mean that the call was not carried out.
        const outcome = await call(surface.add.tool, surface.add.bad).catch(error => error);
        assert.ok(outcome.isError === true || outcome.code === -32602, shown(outcome));
    },
    async 'progress'({ call }) {
        const seen = [];
        await call(surface.sleep.tool, surface.sleep.short, { onprogress: ({ progress }) => seen.push(progress) });
        assert.ok(seen.length >= 2, `${seen.length} notifications`);
        assert.ok(seen.every((value, at) => at === 0 || value > seen[at - 1]), `not increasing: ${seen}`);
    },
    async 'cancellation'({ call }) {
        const abort = new AbortController();
        const started = Date.now();
        const long = call(surface.sleep.tool, surface.sleep.long, { signal: abort.signal, onprogress() {} });
        setTimeout(() => abort.abort('changed my mind'), 200);
        await assert.rejects(long);
        assert.ok(Date.now() - started < 2000);
        assert.equal(said(await call(surface.echo.tool, surface.echo.arguments)), surface.echo.text);
    },
    async 'elicitation, accepted'({ call, elicit }) {
        if (!elicit) return 'not here';
        const asked = elicit({ action: 'accept', content: surface.greet.answer });
        assert.ok(said(await call(surface.greet.tool, {})).includes(surface.greet.contains));
        assert.equal(asked.length, 1);
        assert.equal(asked[0].requestedSchema.properties[surface.greet.field].type, 'string');
    },
    async 'elicitation, declined'({ call, elicit }) {
        if (!elicit) return 'not here';
        elicit({ action: 'decline' });
        assert.equal((await call(surface.greet.tool, {})).isError, true);
    },
    async 'elicitation, cancelled'({ call, elicit }) {
        if (!elicit) return 'not here';
        elicit({ action: 'cancel' });
        assert.equal((await call(surface.greet.tool, {})).isError, true);
    },
    async 'elicitation, before there was one'({ call, elicit }) {
        if (elicit) return 'not here';
        assert.equal((await call(surface.greet.tool, {})).isError, true);
    },
    async 'resources/list'({ client }) {
        const uris = (await client.listResources()).resources.map(resource => resource.uri);
        for (const uri of surface.clock.toggle ? [surface.about] : [surface.about, surface.clock.uri]) assert.ok(uris.includes(uri), `${uri} not in ${uris}`);
    },
    async 'resources/templates/list'({ client }) {
        const templates = (await client.listResourceTemplates()).resourceTemplates.map(one => one.uriTemplate);
        assert.ok(templates.includes(surface.template.uri), shown(templates));
    },
    async 'resources/read'({ client }) {
        const about = (await client.readResource({ uri: surface.about })).contents[0];
        assert.equal(about.uri, surface.about);
        assert.ok(about.text);
        const { expanded, contains } = surface.template;
        const greeting = (await client.readResource({ uri: expanded })).contents[0];
        assert.equal(greeting.uri, expanded);
        assert.ok(greeting.text.includes(contains), greeting.text);
    },
    async 'an unknown resource'({ client, notFound }) {
        await refused(client.readResource({ uri: surface.nowhere }), notFound);
    },
    async 'a ticking resource'({ call, client, updated, watch }) {
        const { uri, toggle } = surface.clock;
        const before = updated.length;
        const stop = await watch(uri);
        if (toggle) await call(toggle, {});
        await until(() => updated.length > before, 5000, 'notifications/resources/updated');
        assert.equal(updated.at(-1), uri);
        assert.ok((await client.readResource({ uri })).contents[0].text);
        await stop();
        if (toggle) await call(toggle, {});
        await pause(200); // For notifications that were on the way.
        const after = updated.length;
        await pause(1300);
        assert.equal(updated.length, after, 'updates go on after the end of the subscription');
    },
    async 'list_changed'({ call, client, grown, watchTools }) {
        if (!(await client.listTools()).tools.some(tool => tool.name === 'grow')) return 'not here';
        const stop = await watchTools();
        await call('grow', {});
        await until(() => grown.length > 0, 2000, 'notifications/tools/list_changed');
        await stop();
    },
    async 'mirrored arguments'({ call, client }) {
        // The list tells a client which arguments to repeat in headers.
        const { tool, arguments: given, text } = surface.mirror ?? {};
        if (!(await client.listTools()).tools.some(({ name }) => name === tool)) return 'not here';
        assert.equal(said(await call(tool, given)), text);
    },
    async 'a tool that can run as a task, without one'({ call, client }) {
        if (!(await hasTasks(client))) return 'not here';
        assert.equal(said(await call(surface.task.tool, surface.task.short)), surface.task.text);
    },
    async 'a task, followed to its result'({ client, tasks }) {
        if (!tasks || !(await hasTasks(client))) return 'not here';
        const seen = [];
        for await (const message of tasks.stream(surface.task.tool, surface.task.short)) seen.push(message);
        assert.equal(seen[0].type, 'taskCreated');
        assert.equal(seen[0].task.status, 'working');
        assert.ok(seen.some(message => message.type === 'taskStatus'), shown(seen));
        assert.equal(said(seen.at(-1).result), surface.task.text);
    },
    async 'a task, its result fetched later'({ client, tasks }) {
        if (!tasks || !(await hasTasks(client))) return 'not here';
        const task = await tasks.start(surface.task.tool, surface.task.short);
        assert.ok((await tasks.list()).tasks.some(({ taskId }) => taskId === task.taskId), 'the task is not listed');
        for (const end = Date.now() + 5000; (await tasks.get(task.taskId)).status !== 'completed'; await pause(100)) {
            assert.ok(Date.now() < end, 'the task does not end');
        }
        const result = await tasks.result(task.taskId);
        assert.equal(said(result), surface.task.text);
        assert.equal(result._meta['io.modelcontextprotocol/related-task'].taskId, task.taskId);
        await refused(tasks.cancel(task.taskId), -32602);
    },
    async 'a task that is cancelled'({ client, tasks }) {
        if (!tasks || !(await hasTasks(client))) return 'not here';
        const { taskId } = await tasks.start(surface.task.tool, surface.task.long);
        assert.equal((await tasks.cancel(taskId)).status, 'cancelled');
        assert.equal((await tasks.get(taskId)).status, 'cancelled');
    },
    async 'a task that asks'({ client, elicit, tasks }) {
        if (!tasks || !(await hasTasks(client))) return 'not here';
        const { tool, answer, text } = surface.task.asks;
        const asked = elicit({ action: 'accept', content: answer });
        const { taskId } = await tasks.start(tool, {});
        assert.equal(said(await tasks.result(taskId)), text);
        assert.equal(asked.length, 1);
        assert.equal(asked[0]._meta['io.modelcontextprotocol/related-task'].taskId, taskId);
    },
    async 'an unknown task'({ client, tasks }) {
        if (!tasks || !(await hasTasks(client))) return 'not here';
        await refused(tasks.get('no-such-task'), -32602);
    },
    async 'prompts/list'({ client }) {
        const prompt = (await client.listPrompts()).prompts.find(prompt => prompt.name === surface.prompt.name);
        const names = prompt?.arguments.map(argument => argument.name);
        for (const name in surface.prompt.arguments) assert.ok(names?.includes(name), shown(prompt));
    },
    async 'prompts/get'({ client }) {
        const { name, arguments: given, contains } = surface.prompt;
        const { messages } = await client.getPrompt({ name, arguments: given });
        assert.ok(messages[0].content.text.includes(contains), shown(messages));
    },
    async 'an unknown prompt'({ client }) {
        await refused(client.getPrompt({ name: 'no-such-prompt' }), -32602);
    },
    async 'completion'({ client }) {
        const ref = { type: 'ref/prompt', name: surface.completion.prompt };
        const complete = async value => {
            const argument = { name: surface.completion.argument, value };
            return (await client.complete({ ref, argument })).completion.values;
        };
        const all = await complete('');
        assert.ok(all.length > 0, 'nothing to complete with');
        assert.ok((await complete(all[0].slice(0, 1))).includes(all[0]), shown(all));
    },
    async 'logging'({ client, modern }) {
        if (modern || !client.getServerCapabilities().logging) return 'not here';
        await client.setLoggingLevel('debug');
    }
};

/** Connects with `open`, runs every case, prints one line each, and ends the process. */
export async function run(label, open) {
    const known = (process.env.EXCEPT ?? '').split(';');
    const only = process.env.ONLY?.split(';');
    let failed = 0;
    const report = (verdict, name, why) => console.log(`${verdict} ${label}: ${name}${why ? `: ${why}` : ''}`);
    const attempt = async (name, work) => {
        try {
            const outcome = await Promise.race([work(), pause(15000).then(() => assert.fail('no end after 15 s'))]);
            report(outcome === 'not here' ? 'skip' : 'pass', name);
            return true;
        } catch (error) {
            const verdict = known.includes(name) ? 'known' : 'FAIL';
            if (verdict === 'FAIL') failed += 1;
            report(verdict, name, String(error.message ?? error).split('\n').join(' | '));
        }
    };
    let session;
    if (await attempt('open', async () => void (session = await open()))) {
        for (const [name, work] of Object.entries(cases)) {
            if (only?.includes(name) ?? true) await attempt(name, () => work(session));
        }
        await attempt('close', () => session.close());
    }
    process.exit(failed ? 1 : 0);
}
