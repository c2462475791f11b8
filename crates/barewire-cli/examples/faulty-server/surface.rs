//! What the server offers in both eras: a few tools, a resource, a prompt.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Server;
use crate::wire::{Outcome, Reply, Wire, no};

/// A request.
pub(crate) struct Asked<'a> {
    pub(crate) id: &'a Value,
    pub(crate) method: &'a str,
    pub(crate) params: &'a Value,
    pub(crate) is_modern: bool,
}

pub(crate) fn info() -> Value {
    json!({"name": "faulty-server", "version": "1.0.0"})
}

impl Server {
    pub(crate) fn capabilities(&self, is_modern: bool) -> Value {
        let mut capabilities = json!({
            "tools": {"listChanged": true},
            "resources": {},
            "prompts": {},
            "completions": {},
            "logging": {},
        });
        let members = capabilities.as_object_mut().expect("an object");
        if self.has("undeclared-prompts") {
            members.remove("prompts");
        }
        if self.has("undeclared-log") && !is_modern {
            members.remove("logging");
        }
        capabilities
    }

    pub(crate) fn serve(&mut self, asked: &Asked<'_>) -> Reply {
        let params = asked.params;
        Reply::Now(match asked.method {
            "tools/list" => self.tools(params),
            "tools/call" => return self.call(asked),
            "resources/list" => self.page(params, json!({"resources": [{"uri": "fixture://about", "name": "about"}]})),
            "resources/read" if params["uri"] == json!("fixture://about") => {
                Ok(json!({"contents": [{"uri": "fixture://about", "text": "a fixture"}]}))
            }
            "resources/read" if self.has("missing-resource-is-empty") => Ok(json!({"contents": []})),
            "resources/read" => {
                let code = if asked.is_modern { -32602 } else { -32002 };
                Err((code, "Resource not found".to_owned(), Some(json!({"uri": params["uri"]}))))
            }
            "prompts/list" if self.has("prompt-without-name") => Ok(json!({"prompts": [{"title": "Nobody"}]})),
            "prompts/list" => {
                if self.has("modern-notification") && !asked.is_modern {
                    self.wire.notify("notifications/subscriptions/acknowledged", &json!({}));
                }
                self.page(params, json!({"prompts": [{"name": "greet"}]}))
            }
            "prompts/get" if params["name"] == json!("greet") => {
                Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}]}))
            }
            "prompts/get" => no(-32602, "unknown prompt"),
            "completion/complete" if self.has("declared-and-missing") => no(-32601, "Method not found"),
            "completion/complete" => Ok(json!({"completion": {"values": []}})),
            _ if self.has("serves-anything") => Ok(json!({})),
            _ if self.has("wrong-code-for-method") => no(-32603, "Internal error"),
            _ => no(-32601, "Method not found"),
        })
    }

    /// A list of one page.
    fn page(&self, params: &Value, page: Value) -> Outcome {
        if params.get("cursor").is_some() { no(-32602, "Invalid cursor") } else { Ok(page) }
    }

    /// Two pages.
    fn tools(&mut self, params: &Value) -> Outcome {
        if params.get("cursor").is_none() {
            self.lists += 1;
        }
        let mut tools = tools();
        if self.has("bad-schema") {
            tools[0]["inputSchema"]["properties"]["text"]["type"] = json!("strng");
        }
        if self.has("schema-of-an-array") {
            tools[0]["inputSchema"] = json!({"type": "array"});
        }
        if self.has("two-of-a-name") {
            tools[2]["name"] = json!("echo");
        }
        if self.has("name-with-spaces") {
            tools[2]["name"] = json!("slow and steady");
        }
        if self.has("shuffles") && self.lists.is_multiple_of(2) {
            tools.swap(0, 1);
        }
        let last = tools.split_off(2);
        match params.get("cursor").and_then(Value::as_str) {
            None => Ok(json!({"tools": tools, "nextCursor": "page-2"})),
            Some("page-2") if self.has("pages-for-ever") => Ok(json!({"tools": last, "nextCursor": "page-2"})),
            Some("page-2") if self.has("refuses-its-own-cursor") => no(-32602, "Invalid cursor"),
            Some("page-2") if self.has("cursor-is-null") => Ok(json!({"tools": last, "nextCursor": null})),
            Some("page-2") => Ok(json!({"tools": last})),
            Some(_) if self.has("takes-any-cursor") => Ok(json!({"tools": tools, "nextCursor": "page-2"})),
            Some(_) => no(-32602, "Invalid cursor"),
        }
    }

    fn call(&mut self, asked: &Asked<'_>) -> Reply {
        let arguments = &asked.params["arguments"];
        match asked.params["name"].as_str() {
            Some("echo") => Reply::Now(self.echo(asked, arguments)),
            Some("count") => Reply::Now(self.count(asked)),
            Some("slow") => self.slow(asked, arguments),
            Some("write") => Reply::Now(Ok(said("written"))),
            Some(name) if self.has("unknown-tool-is-a-result") => {
                Reply::Now(Ok(failed(&format!("unknown tool {name}"))))
            }
            Some(name) => Reply::Now(no(-32602, &format!("Unknown tool: {name}"))),
            None => Reply::Now(no(-32602, "name is missing")),
        }
    }

    fn echo(&self, asked: &Asked<'_>, arguments: &Value) -> Outcome {
        let text = match arguments.get("text").and_then(Value::as_str) {
            Some(text) => text,
            None if self.has("runs-without-arguments") => "",
            None if self.has("arguments-as-internal-error") => return no(-32603, "'text'"),
            None if self.has("arguments-as-protocol-error") => return no(-32602, "text is missing"),
            None if self.has("tool-fails-as-invalid-request") && !asked.is_modern => {
                return no(-32600, "text is missing");
            }
            None if self.has("undefined-code") => return no(-32300, "text is missing"),
            None => return Ok(failed("text is missing")),
        };
        let mut result = said(text);
        result["structuredContent"] = json!({"text": text});
        if self.has("other-output") {
            result["structuredContent"] = json!({"text": 7});
        }
        if self.has("no-output") {
            result.as_object_mut().expect("an object").remove("structuredContent");
        }
        Ok(result)
    }

    /// Counts, tells how far it has come, and does whatever else a tool should not.
    fn count(&self, asked: &Asked<'_>) -> Outcome {
        let wire = &self.wire;
        let tell = |token: &Value, progress: u64| {
            wire.notify("notifications/progress", &json!({"progressToken": token, "progress": progress}));
        };
        if self.has("tool-fails-as-internal-error") {
            return no(-32603, "the counter is out of order");
        }
        if let Some(token) = asked.params["_meta"].get("progressToken") {
            tell(token, 1);
            tell(token, if self.has("progress-goes-back") { 1 } else { 2 });
        }
        if self.has("progress-of-nobody") {
            tell(&json!("nobody"), 1);
        }
        if self.has("asks-for-sampling") && !asked.is_modern {
            let params = json!({"messages": [], "maxTokens": 1});
            wire.send(&json!({"jsonrpc": "2.0", "id": 900, "method": "sampling/createMessage", "params": params}));
        }
        if self.has("asks-a-modern-client") && asked.is_modern {
            wire.send(&json!({"jsonrpc": "2.0", "id": 900, "method": "roots/list"}));
        }
        if self.has("logs-unasked") && asked.is_modern || self.has("undeclared-log") && !asked.is_modern {
            wire.notify("notifications/message", &json!({"level": "info", "data": "counting"}));
        }
        if self.has("asks-what-is-not-declared") && asked.is_modern {
            let form = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
            let requests = json!({"who": {"method": "elicitation/create", "params": form}});
            return Ok(json!({"resultType": "input_required", "inputRequests": requests}));
        }
        Ok(match () {
            () if self.has("shows-a-key") => said(&format!("key: {}{}", "AKIA", "IOSFODNN7EXAMPL3")),
            () if self.has("shows-an-address") => said("ask ada.lovelace@analytical.org"),
            () if self.has("no-content") => json!({}),
            () => said("1, 2"),
        })
    }

    /// Answers later, unless it is cancelled before.
    fn slow(&self, asked: &Asked<'_>, arguments: &Value) -> Reply {
        let Some(ms) = arguments["ms"].as_u64().map(|ms| ms.min(60_000)) else {
            return Reply::Now(Ok(failed("ms is missing")));
        };
        let result = said("done");
        let outcome = if asked.is_modern { self.complete("tools/call", Ok(result)) } else { Ok(result) };
        if self.has("one-after-the-other") {
            std::thread::sleep(Duration::from_millis(ms));
            return Reply::Now(outcome);
        }
        let (wire, id) = (self.wire.clone(), asked.id.clone());
        let goes_on = self.has("goes-on-after-cancel");
        std::thread::spawn(move || wait(&wire, &id, ms, goes_on, outcome));
        Reply::Later
    }
}

fn wait(wire: &Wire, id: &Value, ms: u64, goes_on: bool, outcome: Outcome) {
    std::thread::sleep(Duration::from_millis(ms));
    let is_cancelled = wire.cancelled.lock().expect("nobody panics").contains(&id.to_string());
    if let (Ok(result), true) = (outcome, goes_on || !is_cancelled) {
        wire.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }
}

fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn failed(text: &str) -> Value {
    let mut result = said(text);
    result["isError"] = json!(true);
    result
}

fn tools() -> Vec<Value> {
    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let ms = json!({"type": "object", "properties": {"ms": {"type": "integer", "minimum": 0}}, "required": ["ms"]});
    vec![
        json!({
            "name": "echo",
            "description": "Says what it is told",
            "inputSchema": text,
            "outputSchema": text,
            "annotations": {"readOnlyHint": true},
        }),
        json!({
            "name": "count",
            "description": "Counts to two",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true},
        }),
        json!({
            "name": "slow",
            "description": "Takes its time",
            "inputSchema": ms,
            "annotations": {"readOnlyHint": true},
        }),
        json!({"name": "write", "description": "Changes something, for all that is known", "inputSchema": text}),
    ]
}
