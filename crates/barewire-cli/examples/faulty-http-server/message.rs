//! A method and its params -> a result or an error, in both eras, for a server with two tools.

use serde_json::{Value, json};

pub(crate) const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

pub(crate) type Outcome = Result<Value, (i64, String, Option<Value>)>;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

pub(crate) fn info() -> Value {
    json!({"name": "faulty-http-server", "version": "1.0.0"})
}

pub(crate) fn capabilities() -> Value {
    json!({"tools": {}})
}

fn error<T>(code: i64, message: &str) -> Result<T, (i64, String, Option<Value>)> {
    Err((code, message.to_owned(), None))
}

/// Builds the response message.
pub(crate) fn response(id: &Value, outcome: Outcome) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message, data)) => {
            let mut object = json!({"code": code, "message": message});
            if let Some(data) = data {
                object["data"] = data;
            }
            json!({"jsonrpc": "2.0", "id": id, "error": object})
        }
    }
}

pub(crate) fn modern(has: &dyn Fn(&str) -> bool, method: &str, params: &Value) -> Outcome {
    let meta = &params["_meta"];
    let Some(version) = meta[VERSION_KEY].as_str() else { return error(-32602, "_meta lacks protocolVersion") };
    if version != "2026-07-28" {
        let data = json!({"supported": ["2026-07-28"], "requested": version});
        return Err((-32022, "Unsupported protocol version".to_owned(), Some(data)));
    }
    if meta.get(CAPABILITIES_KEY).is_none() {
        return error(-32602, "_meta lacks clientCapabilities");
    }
    let mut result = match method {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities()}),
        "ping" if has("serves-what-is-gone") => json!({}),
        "ping" | "initialize" | "logging/setLevel" | "resources/subscribe" => {
            return error(-32601, "Method not found");
        }
        _ => serve(has, method, params, Era::Modern)?,
    };
    if !(has("no-result-type") && method == "tools/call") {
        result["resultType"] = json!("complete");
    }
    if matches!(method, "server/discover" | "tools/list") {
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": info()});
    Ok(result)
}

pub(crate) fn serve(has: &dyn Fn(&str) -> bool, method: &str, params: &Value, era: Era) -> Outcome {
    match method {
        "ping" if era == Era::Legacy => Ok(json!({})),
        "tools/list" if params.get("cursor").is_some() => error(-32602, "Invalid cursor"),
        "tools/list" => Ok(json!({"tools": tools()})),
        "tools/call" => call(params),
        _ if has("wrong-code-for-method") => error(-32603, "Internal error"),
        _ => error(-32601, "Method not found"),
    }
}

fn call(params: &Value) -> Outcome {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    match params["name"].as_str() {
        Some("echo") => Ok(match params["arguments"]["text"].as_str() {
            Some(words) => text(words),
            None => json!({"content": [{"type": "text", "text": "text is missing"}], "isError": true}),
        }),
        Some("time") => Ok(text("noon")),
        Some(name) => error(-32602, &format!("Unknown tool: {name}")),
        None => error(-32602, "name is missing"),
    }
}

fn tools() -> Value {
    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    json!([
        {
            "name": "echo",
            "description": "Says what it is told",
            "inputSchema": text,
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "time",
            "description": "Says what time it is",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true},
        },
    ])
}
