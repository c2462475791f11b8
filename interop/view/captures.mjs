// Captures that are too large, or too hostile, to be kept as files.
import { createWriteStream } from "node:fs";
import { once } from "node:events";
import { join } from "node:path";
import { folder } from "./harness.mjs";

/** Writes a capture line by line, and returns its path. */
async function write(name, lines) {
  const path = join(folder, name);
  const file = createWriteStream(path);
  let text = "wire 1 started=2026-07-28T09:30:00Z\n@(+0.000000) open\n";
  for (const line of lines) {
    text += line;
    if (text.length > 1 << 20) {
      if (!file.write(text)) await once(file, "drain");
      text = "";
    }
  }
  file.end(text);
  await once(file, "finish");
  return path;
}

const HELLO = [
  '>(+0.001000) {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"desk","version":"1"}}}\n',
  '<(+0.002000) {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"workshop","version":"2"}}}\n',
  '>(+0.003000) {"jsonrpc":"2.0","method":"notifications/initialized"}\n',
];

/** Calls of tools, with `frames` frames in all. */
export function large(frames) {
  function* lines() {
    yield* HELLO;
    /** Slow responses that are still to come, the next one first. */
    const slow = [];
    for (let call = 1; call <= (frames - 3) / 2; call += 1) {
      const time = 0.01 + call * 0.001;
      while (slow.length && slow[0].time < time) yield slow.shift().line;
      const latency = call % 997 === 0 ? 0.9 : 0.0001 + (call % 7) * 0.0001;
      const tool = ["saw", "paint", "drill", "glue"][call % 4];
      yield `>(+${time.toFixed(6)}) {"jsonrpc":"2.0","id":${call},"method":"tools/call","params":{"name":"${tool}","arguments":{"planks":${call}}}}\n`;
      const text = call % 500 === 0 ? `"error":{"code":-32601,"message":"Method not found"}` : `"result":{"content":[{"type":"text","text":"cut ${call}"}]}`;
      const line = `<(+${(time + latency).toFixed(6)}) {"jsonrpc":"2.0","id":${call},${text}}\n`;
      if (latency > 0.001) slow.push({ time: time + latency, line });
      else yield line;
    }
    for (const { line } of slow) yield line;
  }
  return write(`large-${frames}.wire`, lines());
}

const MARKUP = [
  `<img src=x onerror=alert(1)>`,
  `<script>alert(2)</script>`,
  `</script><script>alert(3)</script>`,
  `\\"><svg onload=alert(4)>`,
  `javascript:alert(5)`,
  `{{constructor.constructor('alert(6)')()}}`,
  `<iframe srcdoc='<script>alert(7)</script>'></iframe>`,
  `<style>*{display:none}</style>`,
  `<a href=javascript:alert(8)>click</a>`,
  `<!-- <base href=//evil.example> -->`,
];

/** Markup, scripts and characters that are invisible or turn text around, in every place that is shown. */
export function hostile() {
  function* lines() {
    const bidi = "\u202Egnirts\u2066 \u200Bzero\u00A0 \uFEFF \u{E0041}";
    const name = `${MARKUP[0]}${bidi}`;
    yield `>(+0.001000) {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"${name}","version":"${MARKUP[1]}"}}}\n`;
    yield `<(+0.002000) {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"${MARKUP[2]}","version":"${bidi}"}}}\n`;
    let id = 0;
    for (const text of [...MARKUP, bidi]) {
      id += 1;
      const time = (0.01 * id).toFixed(6);
      yield `>(+${time}) {"jsonrpc":"2.0","id":"${text}${id}","method":"${text}","params":{"name":"${text}","arguments":{"${text}":"${text}"}}}\n`;
      yield `<(+${time}) {"jsonrpc":"2.0","id":"${text}${id}","error":{"code":-32000,"message":"${text}","data":"${text}"}}\n`;
      yield `>(+${time}) {"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${text}","arguments":{}}}\n`;
      yield `<(+${time}) {"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"${text}"}],"${text}":{"__proto__":{"${text}":1},"constructor":[]}}}\n`;
      yield `<(+${time}) ${text} is not JSON\n`;
      yield `!(+${time}) ${text}\n`;
    }
  }
  return write("hostile.wire", lines());
}

/** A frame that is `levels` deep. */
export function deep(levels) {
  function* lines() {
    yield* HELLO;
    yield `>(+0.010000) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deep","arguments":${'{"a":'.repeat(levels)}1${"}".repeat(levels)}}}\n`;
    yield `>(+0.011000) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list","arguments":${"[".repeat(levels)}${"]".repeat(levels)}}}\n`;
  }
  return write(`deep-${levels}.wire`, lines());
}

/** A frame of `bytes` bytes: one string, then many members. */
export function long(bytes) {
  function* lines() {
    yield* HELLO;
    yield `>(+0.010000) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"long","arguments":{"text":"${"x".repeat(bytes)}"}}}\n`;
    const members = Array.from({ length: 50_000 }, (_, index) => `"m${index}":${index}`);
    yield `>(+0.011000) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wide","arguments":{${members.join(",")}}}}\n`;
  }
  return write(`long-${bytes}.wire`, lines());
}

/** A call of a tool. */
export function calling(tool) {
  return write("calling.wire", [...HELLO, `>(+0.010000) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}","arguments":{}}}\n`]);
}

/** A line of stderr of about `bytes` bytes. */
export function stderr(bytes) {
  return write("stderr.wire", [...HELLO, `!(+0.010000) The beginning ${"and more ".repeat(bytes / 9)}the end\n`]);
}

/** A GET request that is refused, so that its exchange has no message. */
export function unauthorized() {
  const heads = ["> GET /mcp HTTP/1.1", "> accept: text/event-stream", "< HTTP/1.1 401 Unauthorized"];
  heads.push(`< www-authenticate: Bearer scope="${"word ".repeat(300)}the last word"`);
  return write("unauthorized.wire", [...heads.map((line) => `@x1(+0.001000) head ${line}\n`), "@x1(+0.002000) eof <\n"]);
}

/** Calls at the same time, some slow, some that fail, and one that asks a question: for the picture of the timeline. */
export function busy() {
  const events = [];
  const add = (time, line) => events.push({ time, line });
  const tools = ["saw", "paint", "drill", "glue", "sand"];
  for (let call = 1; call <= 70; call += 1) {
    const begin = 0.05 + call * 0.031 + (call % 7) * 0.011;
    const latency = call % 19 === 0 ? 0.75 : 0.02 + ((call * 37) % 23) * 0.009;
    const outcome = call % 13 === 0 ? `"error":{"code":-32602,"message":"no such plank"}` : `"result":{"content":[{"type":"text","text":"done"}]}`;
    add(begin, `>(+TIME) {"jsonrpc":"2.0","id":${call},"method":"tools/call","params":{"name":"${tools[call % 5]}","arguments":{"planks":${call}}}}\n`);
    if (call === 38) {
      add(begin + 0.15, `<(+TIME) {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"Which colour?","requestedSchema":{"type":"object","properties":{}}}}\n`);
      add(begin + 0.55, `>(+TIME) {"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{}}}\n`);
    }
    add(begin + latency, `<(+TIME) {"jsonrpc":"2.0","id":${call},${outcome}}\n`);
  }
  events.sort((a, b) => a.time - b.time);
  return write("workshop.wire", [...HELLO, ...events.map(({ time, line }) => line.replace("TIME", time.toFixed(6)))]);
}
