//! The features that are the same in both eras: a few tools, a resource, a prompt.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Server;
use crate::wire::{Outcome, Reply, Wire, error};

/// A request of either era.
pub(crate) struct ServerRequest<'a> {
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
            "resources": {"subscribe": true},
            "prompts": {},
            "completions": {},
            "logging": {},
        });
        self.declare_tasks(&mut capabilities, is_modern);
        let members = capabilities.as_object_mut().expect("an object");
        if self.has("undeclared-prompts") {
            members.remove("prompts");
        }
        if self.has("undeclared-log") && !is_modern {
            members.remove("logging");
        }
        capabilities
    }

    pub(crate) fn serve(&mut self, request: &ServerRequest<'_>) -> Reply {
        let params = request.params;
        Reply::Now(match request.method {
            _ if self.is_about_tasks(request) => self.task_method(request),
            "tools/list" => self.tools(params, request.is_modern),
            "tools/call" => return self.call(request),
            "resources/list" => {
                let mut resources = vec![json!({"uri": "fixture://about", "name": "about"})];
                if self.has("resource-listed-twice") {
                    resources.push(json!({"uri": "fixture://about", "name": "about, again"}));
                }
                self.page(params, json!({"resources": resources}))
            }
            "resources/templates/list" if self.has("ignores-templates") => return Reply::Later,
            "resources/templates/list" => {
                let count = if self.has("template-listed-twice") { 2 } else { 0 };
                let templates = vec![json!({"uriTemplate": "fixture://about/{part}", "name": "part"}); count];
                self.page(params, json!({"resourceTemplates": templates}))
            }
            "resources/read" if params["uri"] == json!("fixture://about") && self.has("ignores-a-resource") => {
                return Reply::Later;
            }
            "resources/read" if params["uri"] == json!("fixture://about") && self.has("read-without-contents") => {
                Ok(json!({"text": "a fixture"}))
            }
            "resources/read" if params["uri"] == json!("fixture://about") => {
                Ok(json!({"contents": [{"uri": "fixture://about", "text": "a fixture"}]}))
            }
            "resources/read" if self.has("missing-resource-is-empty") => Ok(json!({"contents": []})),
            "resources/read" => {
                let code = if request.is_modern { -32602 } else { -32002 };
                Err((code, "Resource not found".to_owned(), Some(json!({"uri": params["uri"]}))))
            }
            "prompts/list" if self.has("prompt-without-name") => Ok(json!({"prompts": [{"title": "Nobody"}]})),
            "prompts/list" => {
                if self.has("log-level-of-its-own") && !request.is_modern {
                    self.wire.notify("notifications/message", &json!({"level": "warn", "data": "careful"}));
                }
                if self.has("modern-notification") && !request.is_modern {
                    self.wire.notify("notifications/subscriptions/acknowledged", &json!({}));
                }
                if self.has("updates-without-subscription") && !request.is_modern {
                    self.wire.notify("notifications/resources/updated", &json!({"uri": "fixture://about"}));
                }
                let mut prompts = json!([{"name": "greet"}]);
                self.change_prompts(&mut prompts);
                if self.has("prompt-listed-twice") {
                    prompts = json!([{"name": "greet"}, {"name": "greet", "title": "Greet again"}]);
                }
                self.page(params, json!({"prompts": prompts}))
            }
            "prompts/get" if params["name"] == json!("greet") && self.has("ignores-a-prompt") => return Reply::Later,
            "prompts/get" if params["name"] == json!("greet") && self.has("prompt-as-text") => {
                Ok(json!({"messages": [{"role": "user", "content": "Hello"}]}))
            }
            "prompts/get" if params["name"] == json!("greet") => {
                if self.has("updates-after-unsubscribe") && self.has_unsubscribed && !request.is_modern {
                    self.wire.notify("notifications/resources/updated", &json!({"uri": "fixture://about"}));
                }
                Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}]}))
            }
            "prompts/get" => error(-32602, "unknown prompt"),
            "completion/complete" if self.has("declared-and-missing") => error(-32601, "Method not found"),
            "completion/complete" => Ok(json!({"completion": {"values": []}})),
            _ if self.has("serves-anything") => Ok(json!({})),
            _ if self.has("wrong-code-for-method") => error(-32603, "Internal error"),
            _ => error(-32601, "Method not found"),
        })
    }

    /// Returns a list that has only one page, so every cursor is refused.
    fn page(&self, params: &Value, page: Value) -> Outcome {
        if params.get("cursor").is_some() { error(-32602, "Invalid cursor") } else { Ok(page) }
    }

    /// Lists the tools, in two pages.
    fn tools(&mut self, params: &Value, is_modern: bool) -> Outcome {
        if params.get("cursor").is_none() {
            self.lists += 1;
        }
        let mut tools = tools();
        tools.extend(self.task_tool(is_modern));
        if self.has("bad-schema") {
            tools[0]["inputSchema"]["properties"]["text"]["type"] = json!("strng");
        }
        if self.has("null-description") {
            tools[1]["description"] = Value::Null;
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
        if self.has("no-content-for-a-pattern") {
            let id = json!({"type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"});
            let schema = json!({"type": "object", "properties": {"id": id}, "required": ["id"]});
            let hints = json!({"readOnlyHint": true});
            tools.push(json!({"name": "find", "inputSchema": schema, "annotations": hints}));
        }
        self.change_tools(&mut tools, is_modern);
        if self.has("lists-by-history") && self.has_listed_prompts {
            tools.remove(1);
        }
        if self.has("shuffles") && self.lists.is_multiple_of(2) {
            tools.swap(0, 1);
        }
        self.remove_tools(&mut tools, is_modern);
        let mut last = tools.split_off(2);
        if params.get("cursor").is_some_and(|cursor| *cursor == json!("page-2")) {
            self.change_page(&tools, &mut last, is_modern)?;
        }
        if self.has("forgets-on-later-pages") && self.lists.is_multiple_of(2) {
            last.pop();
        }
        let cursor = params.get("cursor").and_then(Value::as_str);
        if let Some(page) = cursor.unwrap_or("page-1").strip_prefix("page-").filter(|_| self.has_endless_lists) {
            let next = format!("page-{}", page.parse::<u64>().unwrap_or_default() + 1);
            return Ok(json!({"tools": if cursor.is_none() { tools } else { last }, "nextCursor": next}));
        }
        match cursor {
            None => Ok(json!({"tools": tools, "nextCursor": "page-2"})),
            Some("page-2") if self.has("pages-for-ever") => Ok(json!({"tools": last, "nextCursor": "page-2"})),
            Some("page-2") if self.has("refuses-its-own-cursor") => error(-32602, "Invalid cursor"),
            Some("page-2") if self.has("cursor-is-null") => Ok(json!({"tools": last, "nextCursor": null})),
            Some("page-2") => Ok(json!({"tools": last})),
            Some(_) if self.has("takes-any-cursor") => Ok(json!({"tools": tools, "nextCursor": "page-2"})),
            Some(_) => error(-32602, "Invalid cursor"),
        }
    }

    fn call(&mut self, request: &ServerRequest<'_>) -> Reply {
        let arguments = &request.params["arguments"];
        match request.params["name"].as_str() {
            Some("echo") if self.has("ignores-a-tool") => Reply::Later,
            Some("echo" | "count" | "slow") if self.has("ignores-all-tools") => Reply::Later,
            Some("echo") => {
                self.slowness.block();
                match self.torn_echo(request, arguments) {
                    true => Reply::Later,
                    false => Reply::Now(self.echo(request, arguments)),
                }
            }
            Some("count") => {
                self.slowness.block();
                Reply::Now(self.count(request))
            }
            Some("slow") => self.slow(request, arguments),
            Some("job") if self.tasks.is_some() => Reply::Now(self.job(request)),
            Some("find") if self.has("no-content-for-a-pattern") => Reply::Now(match arguments["id"].as_str() {
                Some("AAA-0000") => Ok(json!({})),
                _ => Ok(error_result("there is no such id")),
            }),
            Some("write") => Reply::Now(Ok(text_result("written"))),
            Some(name) if self.has("unknown-tool-is-a-result") => {
                Reply::Now(Ok(error_result(&format!("unknown tool {name}"))))
            }
            Some(name) => Reply::Now(error(-32602, &format!("Unknown tool: {name}"))),
            None => Reply::Now(error(-32602, "name is missing")),
        }
    }

    /// Handles a text that is not ASCII as a server does that was tried with plain ones only. Returns whether there is
    /// nothing more to send.
    fn torn_echo(&self, request: &ServerRequest<'_>, arguments: &Value) -> bool {
        let text = arguments["text"].as_str().unwrap_or_default();
        if text.is_ascii() {
            return false;
        }
        if self.has("dies-of-texts") {
            std::process::exit(1);
        }
        let Ok(result) = self.echo(request, arguments) else { return false };
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": request.id, "result": result}));
        if self.has("echoes-without-escapes") {
            let escaped = json!(text).to_string();
            self.wire.bytes(line.replace(escaped.trim_matches('"'), text).as_bytes());
        } else if self.has("echoes-in-latin-1") {
            let bytes = line.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?'));
            self.wire.bytes(&bytes.collect::<Vec<u8>>());
        } else {
            return self.has("ignores-texts");
        }
        true
    }

    fn echo(&self, request: &ServerRequest<'_>, arguments: &Value) -> Outcome {
        let text = match arguments.get("text").and_then(Value::as_str) {
            Some(text) => text,
            None if self.has("runs-without-arguments") => "",
            None if self.has("arguments-as-internal-error") => return error(-32603, "'text'"),
            None if self.has("arguments-as-protocol-error") => return error(-32602, "text is missing"),
            None if self.has("tool-fails-as-invalid-request") && !request.is_modern => {
                return error(-32600, "text is missing");
            }
            None if self.has("undefined-code") => return error(-32300, "text is missing"),
            None => return Ok(error_result("text is missing")),
        };
        let mut result = text_result(text);
        result["structuredContent"] = json!({"text": text});
        if self.has("other-output") {
            result["structuredContent"] = json!({"text": 7});
        }
        if self.has("no-output") {
            result.as_object_mut().expect("an object").remove("structuredContent");
        }
        Ok(result)
    }

    /// Runs the tool `count`, which reports progress. Most faults of tools are here.
    fn count(&self, request: &ServerRequest<'_>) -> Outcome {
        let wire = &self.wire;
        let report = |token: &Value, progress: u64| {
            wire.notify("notifications/progress", &json!({"progressToken": token, "progress": progress}));
        };
        if self.has("tool-fails-as-internal-error") {
            return error(-32603, "the counter is out of order");
        }
        let has_arguments = request.params.get("arguments").is_some();
        if self.has("needs-the-member-arguments") && !has_arguments {
            return error(-32602, "arguments: expected object, received undefined");
        }
        if self.has("fails-without-the-member-arguments") && !has_arguments {
            return Ok(error_result("arguments: expected object, received undefined"));
        }
        if let Some(token) = request.params["_meta"].get("progressToken") {
            let token = match token {
                Value::Number(number) if self.has("tokens-as-strings") => &json!(number.to_string()),
                Value::String(_) if self.has("tokens-as-numbers") => &json!(0),
                token => token,
            };
            report(token, 1);
            report(token, if self.has("progress-goes-back") { 1 } else { 2 });
        }
        if self.has("progress-of-nobody") {
            report(&json!("nobody"), 1);
        }
        if self.has("asks-for-sampling") && !request.is_modern {
            let params = json!({"messages": [], "maxTokens": 1});
            wire.send(&json!({"jsonrpc": "2.0", "id": 900, "method": "sampling/createMessage", "params": params}));
        }
        if self.has("asks-a-modern-client") && request.is_modern {
            wire.send(&json!({"jsonrpc": "2.0", "id": 900, "method": "roots/list"}));
        }
        if self.has("logs-unasked") && request.is_modern || self.has("undeclared-log") && !request.is_modern {
            wire.notify("notifications/message", &json!({"level": "info", "data": "counting"}));
        }
        if !request.is_modern && !self.has("undeclared-log") {
            // The level that the client sets is `error`.
            let level = if self.has("logs-below-the-level") { "warning" } else { "error" };
            wire.notify("notifications/message", &json!({"level": level, "data": "counting"}));
        }
        if self.has("asks-what-is-not-declared") && request.is_modern {
            let form = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
            let requests = json!({"who": {"method": "elicitation/create", "params": form}});
            return Ok(json!({"resultType": "input_required", "inputRequests": requests}));
        }
        if self.has("odd-result-type") && request.is_modern {
            let mut result = text_result("1, 2");
            result["resultType"] = json!("finished");
            return Ok(result);
        }
        Ok(match () {
            () if self.has("shows-a-key") => text_result(&format!("key: {}{}", "AKIA", "IOSFODNN7EXAMPL3")),
            () if self.has("shows-an-address") => text_result("ask ada.lovelace@analytical.org"),
            () if self.has("no-content") => json!({}),
            () => text_result("1, 2"),
        })
    }

    /// Runs the tool `slow`, which answers after the given time, unless the call is cancelled.
    fn slow(&self, request: &ServerRequest<'_>, arguments: &Value) -> Reply {
        let Some(ms) = arguments["ms"].as_u64().map(|ms| ms.min(60_000)) else {
            return Reply::Now(Ok(error_result("ms is missing")));
        };
        let result = text_result("done");
        let outcome = if request.is_modern { self.complete("tools/call", Ok(result)) } else { Ok(result) };
        if self.has("one-after-the-other") {
            std::thread::sleep(Duration::from_millis(ms));
            return Reply::Now(outcome);
        }
        let token = request.params["_meta"].get("progressToken").cloned();
        let call = SlowCall {
            wire: self.wire.clone(),
            id: request.id.clone(),
            token: token.filter(|_| !self.has("answers-the-cancelled")),
            duration: Duration::from_millis(ms),
            goes_on: self.has("goes-on-after-cancel"),
            stops_with_others: self.has("cancels-all-calls"),
            reports_on: self.has("progress-after-cancel"),
        };
        self.wire.running.lock().expect("no thread panics").insert(request.id.to_string());
        std::thread::spawn(move || call.run(outcome));
        Reply::Later
    }
}

/// A call that reports progress and then answers. It stops soon after it is cancelled, as fast as most programs can.
struct SlowCall {
    wire: Wire,
    id: Value,
    token: Option<Value>,
    duration: Duration,
    /// Whether a cancellation is ignored.
    goes_on: bool,
    /// Whether the cancellation of another call stops this one too.
    stops_with_others: bool,
    /// Whether progress is reported after a cancellation.
    reports_on: bool,
}

impl SlowCall {
    fn run(&self, outcome: Outcome) {
        let since = Instant::now();
        let mut cancelled = None;
        while since.elapsed() < self.duration {
            std::thread::sleep(Duration::from_millis(10).min(self.duration.saturating_sub(since.elapsed())));
            if cancelled.is_none() && !self.goes_on && self.is_cancelled() {
                cancelled = Some(Instant::now());
            }
            let has_stopped = cancelled.is_some_and(|at| at.elapsed() >= Duration::from_millis(50));
            if has_stopped && !self.reports_on {
                break;
            }
            if let Some(token) = &self.token {
                let progress = since.elapsed().as_millis();
                let (progress, total) = (u64::try_from(progress), u64::try_from(self.duration.as_millis()));
                let (progress, total) = (progress.unwrap_or(0), total.unwrap_or(0));
                let params = json!({"progressToken": token, "progress": progress, "total": total});
                self.wire.notify("notifications/progress", &params);
            }
        }
        self.wire.running.lock().expect("no thread panics").remove(&self.id.to_string());
        if let (Ok(result), None) = (outcome, cancelled) {
            self.wire.send(&json!({"jsonrpc": "2.0", "id": self.id, "result": result}));
        }
    }

    fn is_cancelled(&self) -> bool {
        let cancelled = self.wire.cancelled.lock().expect("no thread panics");
        cancelled.contains(&self.id.to_string()) || self.stops_with_others && !cancelled.is_empty()
    }
}

pub(crate) fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn error_result(text: &str) -> Value {
    let mut result = text_result(text);
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
