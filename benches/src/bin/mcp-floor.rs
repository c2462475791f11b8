//! The floor of MCP: a careful hand-written loop with `serde_json` for a server with this one tool, in both eras.
//!
//! It reads what a server must read of each message: the method, the arguments as their type, and in a modern request
//! the `_meta` with the revision and the client's capabilities. An invalid line ends the program. All that a library
//! does beyond this is its cost.

use std::io;

use barewire_benches::{Arguments, Content, lines};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Message<'a> {
    jsonrpc: &'a str,
    /// `None` for a notification.
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallToolParams<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
    name: &'a str,
    arguments: Arguments,
}

/// The members of `_meta` that every modern request has and the server must check.
#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    protocol_version: Option<&'a str>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    client_capabilities: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OtherParams<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Serialize)]
struct Response<'a, R> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: R,
}

/// The result of a tool call, in either era.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallToolResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawValue>,
    content: [Content; 1],
}

/// The era of a request, which decides the form of its answer.
enum Era {
    Legacy,
    Modern,
}

struct Server {
    initialized: bool,
    /// The `_meta` of every modern result. It is constant, so it is written once.
    meta: Box<RawValue>,
}

fn main() -> io::Result<()> {
    let mut server = Server { initialized: false, meta: to_raw_value(&meta())? };
    lines::serve(|line, output| server.answer(line, output))
}

impl Server {
    fn answer(&mut self, line: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        let Message { jsonrpc, id, method, params } = serde_json::from_slice(line)?;
        if jsonrpc != "2.0" {
            return Err(io::Error::other("not JSON-RPC 2.0"));
        }
        let Some(id) = id else { return Ok(()) };
        let params = params.map_or("{}", RawValue::get);
        match method {
            "tools/call" => write(output, id, self.call_tool(params)?),
            _ => write(output, id, self.other(method, params)?),
        }
    }

    fn call_tool(&self, params: &str) -> io::Result<CallToolResult<'_>> {
        let CallToolParams { meta, name, arguments } = serde_json::from_str(params)?;
        if name != "echo" {
            return Err(io::Error::other("no such tool"));
        }
        let (result_type, meta) = match era(meta.as_ref(), self.initialized)? {
            Era::Legacy => (None, None),
            Era::Modern => (Some("complete"), Some(&*self.meta)),
        };
        let content = [Content::Text { text: arguments.text }];
        Ok(CallToolResult { result_type, meta, content })
    }

    fn other(&mut self, method: &str, params: &str) -> io::Result<Value> {
        let OtherParams { meta } = serde_json::from_str(params)?;
        self.initialized |= method == "initialize";
        Ok(match (method, era(meta.as_ref(), self.initialized)?) {
            ("initialize", Era::Legacy) => initialize(),
            ("ping", Era::Legacy) => json!({}),
            ("tools/list", Era::Legacy) => json!({ "tools": tools() }),
            ("tools/list", Era::Modern) => complete(json!({ "tools": tools() })),
            ("server/discover", Era::Modern) => {
                complete(json!({ "supportedVersions": [MODERN], "capabilities": { "tools": {} } }))
            }
            _ => return Err(io::Error::other("no such method")),
        })
    }
}

/// A request is modern if it has a revision, and legacy if not. A legacy request needs an `initialize` before it.
fn era(meta: Option<&Meta<'_>>, initialized: bool) -> io::Result<Era> {
    match meta {
        Some(Meta { protocol_version: Some(MODERN), client_capabilities: Some(_) }) => Ok(Era::Modern),
        Some(Meta { protocol_version: Some(_), .. }) => Err(io::Error::other("no such revision")),
        _ if initialized => Ok(Era::Legacy),
        _ => Err(io::Error::other("not initialized")),
    }
}

fn write(output: &mut Vec<u8>, id: &RawValue, result: impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *output, &Response { jsonrpc: "2.0", id, result })?;
    output.push(b'\n');
    Ok(())
}

fn initialize() -> Value {
    json!({ "protocolVersion": LEGACY, "capabilities": { "tools": {} }, "serverInfo": server_info() })
}

fn tools() -> Value {
    let text = json!({ "type": "string" });
    let schema = json!({ "type": "object", "properties": { "text": text }, "required": ["text"] });
    json!([{ "name": "echo", "description": "Say it back", "inputSchema": schema }])
}

/// A modern result that must not be cached.
fn complete(mut result: Value) -> Value {
    result["resultType"] = json!("complete");
    result["ttlMs"] = json!(0);
    result["cacheScope"] = json!("private");
    result["_meta"] = meta();
    result
}

fn meta() -> Value {
    json!({ "io.modelcontextprotocol/serverInfo": server_info() })
}

fn server_info() -> Value {
    json!({ "name": "echo", "version": "1.0.0" })
}

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
