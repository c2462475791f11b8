// A server that is hard to show: long names, long texts, resources of one name, a question with many fields.
import { createInterface } from "node:readline";

const text = Array.from({ length: 60 }, (_, line) => `Line ${line} of a description that is longer than its place`).join("\n");
const long = "a_property_whose_name_is_so_long_that_it_does_not_fit_into_the_width_of_any_phone_at_all";
const nested = { type: "object", properties: { p: { type: "object", properties: { q: { type: "array", items: { type: "object", properties: { r: { type: "string" } } }, default: [{ r: "1" }] } } } } };
const fields = Object.fromEntries(Array.from({ length: 15 }, (_, index) => [`field${index}`, { type: "string", title: `Field ${index}` }]));
const results = {
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {}, resources: {} }, serverInfo: { name: "odd", version: "1" } },
  "tools/list": { tools: [{ name: "ask", description: text, inputSchema: { type: "object", properties: { [long]: { type: "string", description: text }, nested } } }] },
  "resources/list": { resources: [{ name: "same", uri: "a://1" }, { name: "same", uri: "a://2" }, { name: "other", uri: "a://3" }] },
  "resources/templates/list": { resourceTemplates: [] },
};
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
let call = null;

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params, result } = JSON.parse(line);
  if (method === "tools/call") {
    call = id;
    send({ id: "question", method: "elicitation/create", params: { message: text, requestedSchema: { type: "object", properties: fields, required: ["field0"] } } });
  } else if (method === "resources/read") send({ id, result: { contents: [{ uri: params.uri, text: `This is ${params.uri}` }] } });
  else if (method === undefined && id === "question") send({ id: call, result: { content: [{ type: "text", text: `answered: ${result?.action}` }] } });
  else if (id !== undefined) send(results[method] ? { id, result: results[method] } : { id, error: { code: -32601, message: "Method not found" } });
});
