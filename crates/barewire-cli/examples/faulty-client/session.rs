//! The requests of the client, and its answers to those of the server.

use std::io::Write;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Settings;
use crate::reader::Reader;

pub(crate) struct Session<'a> {
    stdin: ChildStdin,
    reader: Reader,
    settings: &'a Settings,
    last_id: u64,
    /// Whether the server has announced that its tools have changed.
    has_changed: bool,
}

/// The revisions that the client knows.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

impl<'a> Session<'a> {
    pub(crate) fn new(stdin: ChildStdin, reader: Reader, settings: &'a Settings) -> Self {
        Self { stdin, reader, settings, last_id: 0, has_changed: false }
    }

    /// Runs the whole session. Returns `false` if the client gave up.
    pub(crate) fn run(&mut self) -> bool {
        self.try_run().is_some()
    }

    fn try_run(&mut self) -> Option<()> {
        if !self.settings.is_modern {
            self.handshake()?;
        }
        self.list()?;
        let until = Instant::now() + self.settings.stay;
        while Instant::now() < until {
            if let Some(message) = self.reader.next(Duration::from_millis(100)) {
                self.handle(&message);
            }
            self.list_again()?;
        }
        for tool in ["echo", "slow", "fail", "error", "ask"] {
            self.call(tool)?;
            self.list_again()?;
        }
        Some(())
    }

    /// Lists the tools again if they have changed.
    fn list_again(&mut self) -> Option<()> {
        let is_new = std::mem::take(&mut self.has_changed) && !self.settings.has("ignores-change");
        if is_new { self.list() } else { Some(()) }
    }

    fn handshake(&mut self) -> Option<()> {
        let capabilities = json!({"roots": {}, "elicitation": {}, "sampling": {}});
        let info = json!({"name": "faulty-client", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let response = self.request("initialize", params)?;
        let version = response["result"]["protocolVersion"].as_str()?.to_owned();
        if !REVISIONS.contains(&&*version) && !self.settings.has("ignores-version") {
            return None;
        }
        if !self.settings.has("no-initialized") {
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        Some(())
    }

    fn list(&mut self) -> Option<()> {
        let mut cursor: Option<String> = None;
        loop {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({"cursor": cursor}));
            let response = self.request("tools/list", params)?;
            let result = &response["result"];
            let next = result["nextCursor"].as_str().map(str::to_owned);
            let is_empty = result["tools"].as_array().is_none_or(Vec::is_empty);
            cursor = match next {
                None => return Some(()),
                Some(_) if self.settings.has("first-page-only") => return Some(()),
                Some(_) if is_empty && self.settings.has("stops-at-empty-page") => return Some(()),
                Some(next) if next.is_empty() && self.settings.has("stops-at-empty-cursor") => return Some(()),
                Some(next) if self.settings.has("trims-cursors") => Some(next.trim().to_owned()),
                Some(next) => Some(next),
            };
        }
    }

    fn call(&mut self, tool: &str) -> Option<()> {
        let meta = json!({"progressToken": tool});
        let mut params = json!({"name": tool, "arguments": {}, "_meta": meta});
        loop {
            let response = self.request("tools/call", params.clone())?;
            let result = &response["result"];
            if result["resultType"] != "input_required" {
                return Some(());
            }
            let settings = self.settings;
            let answer = |(name, request): (&String, &Value)| (name.clone(), answer(request["method"].as_str()));
            let requests = result["inputRequests"].as_object().cloned().unwrap_or_default();
            let mut responses: serde_json::Map<String, Value> = requests.iter().map(answer).collect();
            if settings.has("forgets-an-answer") {
                responses.remove("the roots");
            }
            let state = result["requestState"].as_str().unwrap_or_default();
            params["requestState"] = match settings.has("changes-state") {
                true => json!(state.trim()),
                false => json!(state),
            };
            match requests.is_empty() {
                true => params.as_object_mut()?.remove("inputResponses"),
                false => params.as_object_mut()?.insert("inputResponses".to_owned(), Value::Object(responses)),
            };
            if settings.has("repeats-the-id") {
                self.last_id -= 1;
            }
        }
    }

    fn request(&mut self, method: &str, mut params: Value) -> Option<Value> {
        self.last_id += 1;
        let id = self.last_id;
        if self.settings.is_modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({"roots": {}, "elicitation": {}, "sampling": {}});
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "faulty-client", "version": "1"});
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let until = Instant::now() + Duration::from_secs(15);
        loop {
            let message = self.reader.next(until.saturating_duration_since(Instant::now()))?;
            if message.get("method").is_none() && message["id"] == json!(id) {
                return Some(message);
            }
            self.handle(&message);
        }
    }

    /// Answers a request of the server, or notes a notification.
    fn handle(&mut self, message: &Value) {
        let Some(method) = message["method"].as_str() else { return };
        self.has_changed |= method == "notifications/tools/list_changed";
        let settings = self.settings;
        if method == "notifications/cancelled" && settings.has("answers-late") {
            std::thread::sleep(Duration::from_millis(2200));
            let id = &message["params"]["requestId"];
            self.send(&json!({"jsonrpc": "2.0", "id": id, "result": answer(Some("elicitation/create"))}));
        }
        let Some(id) = message.get("id") else { return };
        // A person takes longer to answer than the server to take the question back.
        if message["params"]["message"].as_str().is_some_and(|text| text.contains("takes this question back")) {
            return;
        }
        let id = if settings.has("changes-ids") && *id == json!(0) { json!("0") } else { id.clone() };
        let result = |result: Value| Some(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let error = |code: i64| {
            Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "an error of the client"}}))
        };
        let response = match method {
            "ping" if settings.has("ignores-pings") => None,
            "ping" if settings.has("refuses-pings") => error(-32601),
            "roots/list" if settings.has("ignores-roots") => None,
            "ping" | "roots/list" | "elicitation/create" | "sampling/createMessage" => result(answer(Some(method))),
            _ if settings.has("ignores-unknown-methods") => None,
            _ if settings.has("accepts-unknown-methods") => result(json!({})),
            _ => error(-32601),
        };
        if let Some(response) = response {
            self.send(&response);
        }
    }

    fn send(&mut self, message: &Value) {
        let line = match self.settings.has("wrong-jsonrpc") {
            true => message.to_string().replace("\"jsonrpc\":\"2.0\"", "\"jsonrpc\":\"1.0\""),
            false => message.to_string(),
        };
        // The server may have ended.
        let _ = self.stdin.write_all(format!("{line}\n").as_bytes());
    }
}

/// The result of a request of the server.
fn answer(method: Option<&str>) -> Value {
    match method {
        Some("roots/list") => json!({"roots": [{"uri": "file:///tmp/project", "name": "project"}]}),
        Some("elicitation/create") => json!({"action": "accept", "content": {"name": "Ada"}}),
        Some("sampling/createMessage") => {
            json!({"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "none"})
        }
        _ => json!({}),
    }
}
