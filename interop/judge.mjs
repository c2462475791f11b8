// {revision, message, answers?} a line -> what the conformance suite's wire check has against it, an array a line.
//
// The suite carries the specification's JSON Schemas and a check per revision, but exports neither: it is one program. So
// its text is taken from the installed package, without the call that starts the program, and with the two exported.
// 2024-11-05 is not among its schemas; argv[2] names a file with that one.
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
// schema.ts has `number` where the JSON Schema made from it has "integer". The suite corrects NumberSchema alike.
for (const { $defs, definitions } of Object.values(schemas)) {
    const content = ($defs ?? definitions).ElicitResult?.properties.content.additionalProperties;
    const types = content?.type ?? content?.anyOf.find(({ type }) => Array.isArray(type)).type;
    types?.push('number');
}

for await (const line of createInterface({ input: process.stdin })) {
    const { revision, message, answers } = JSON.parse(line);
    const faults = check(revision, message, answers);
    // Up to 2025-06-18 the definition of a method says nothing of the envelope; that of an unknown method is nothing else.
    if (message?.method !== undefined) faults.push(...check(revision, { ...message, method: 'x' }));
    process.stdout.write(JSON.stringify(faults) + '\n');
}
