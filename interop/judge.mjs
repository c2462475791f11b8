// Lines of {revision, message, answers?} -> for each line, an array of the faults that the conformance suite's wire
// check finds.
//
// The suite contains the specification's JSON Schemas and a check for each revision, but exports neither, because it is
// one program. So this script loads the program's text from the installed package, without the call that starts it, and
// exports the two. 2024-11-05 is not among its schemas; argv[2] names a file with that schema.
import { readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const suite = new URL('node_modules/@modelcontextprotocol/conformance/dist/', import.meta.url);
const program = readFileSync(new URL('index.js', suite), 'utf8');
const found = pattern => pattern.exec(program)?.[1] ?? fail(`the conformance suite is not as it was: no ${pattern}`);
const fail = why => {
    throw new Error(why);
};
const checkName = found(/function (\w+)\(e,t,n\)\{let r=\w+\(e\),i=\(e,t\)=>/);
const schemasName = found(/const (\w+)=\{"2025-03-26":/);
const start = found(/(,\w+\.parse\(\);export\{\};\s*)$/);
const library = new URL(`wire-check-${process.pid}.js`, suite);
writeFileSync(library, program.slice(0, -start.length) + `;export{${checkName} as check,${schemasName} as schemas};`);
const { check, schemas } = await import(library).finally(() => unlinkSync(library));
schemas['2024-11-05'] = JSON.parse(readFileSync(process.argv[2], 'utf8'));
// schema.ts has `number` where the generated JSON Schema has "integer". The suite corrects NumberSchema in the same
// way.
for (const { $defs, definitions } of Object.values(schemas)) {
    const content = ($defs ?? definitions).ElicitResult?.properties.content.additionalProperties;
    const types = content?.type ?? content?.anyOf.find(({ type }) => Array.isArray(type)).type;
    types?.push('number');
}
// A call that asks for a task is answered with one. The suite knows one result for each method.
const { $defs: types } = schemas['2025-11-25'];
types.DirectCallToolResult = types.CallToolResult;
types.CallToolResult = { anyOf: ['DirectCallToolResult', 'CreateTaskResult'].map(name => ({ $ref: `#/$defs/${name}` })) };

for await (const line of createInterface({ input: process.stdin })) {
    const { revision, message, answers } = JSON.parse(line);
    const faults = check(revision, message, answers);
    // Up to 2025-06-18 the schema of a method does not cover the envelope; for an unknown method the envelope is all
    // that can be checked.
    if (message?.method !== undefined) faults.push(...check(revision, { ...message, method: 'x' }));
    process.stdout.write(JSON.stringify(faults) + '\n');
}
