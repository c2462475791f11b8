//! Lines -> requests, and responses -> lines; with the faults of the JSON-RPC envelope.

use std::collections::HashSet;
use std::io::Write;
use std::process::exit;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::Server;

/// The output, shared with the threads of slow calls.
#[derive(Clone, Default)]
pub(crate) struct Wire {
    /// The ids of cancelled requests.
    pub(crate) cancelled: Arc<Mutex<HashSet<String>>>,
    /// The ids of slow calls that are running.
    pub(crate) running: Arc<Mutex<HashSet<String>>>,
    pub(crate) framing: Framing,
    /// Whether errors are sent.
    pub(crate) has_errors: bool,
}

/// The form in which messages are written to stdout.
#[derive(Clone, Copy, Default)]
pub(crate) enum Framing {
    #[default]
    Lines,
    Pretty,
    ContentLength,
    Utf16,
    /// Without a line break after a message.
    Endless,
    /// Line breaks in strings are not escaped.
    RawNewlines,
    /// In the encoding Latin-1.
    Latin1,
}

impl Wire {
    pub(crate) fn send(&self, message: &Value) {
        if message.get("error").is_some() && !self.has_errors {
            return;
        }
        match self.framing {
            Framing::Lines => self.text(&message.to_string()),
            Framing::Endless => self.bytes(message.to_string().as_bytes()),
            Framing::Pretty => self.text(&serde_json::to_string_pretty(message).expect("JSON")),
            Framing::ContentLength => {
                let text = message.to_string();
                self.bytes(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
            }
            Framing::RawNewlines => self.text(&message.to_string().replace("\\n", "\n")),
            Framing::Latin1 => {
                let text = format!("{message}\n");
                self.bytes(&text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect::<Vec<u8>>());
            }
            Framing::Utf16 => {
                let units = format!("\u{feff}{message}\n");
                self.bytes(&units.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
            }
        }
    }

    pub(crate) fn text(&self, text: &str) {
        self.bytes(format!("{text}\n").as_bytes());
    }

    pub(crate) fn bytes(&self, bytes: &[u8]) {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(bytes);
        let _ = stdout.flush();
    }

    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
}

/// A result, or an error with its code, message and data.
pub(crate) type Outcome = Result<Value, (i64, String, Option<Value>)>;

/// The reply to a request.
pub(crate) enum Reply {
    Now(Outcome),
    /// Another thread answers, or there is no response.
    Later,
}

pub(crate) fn error<T>(code: i64, message: &str) -> Result<T, (i64, String, Option<Value>)> {
    Err((code, message.to_owned(), None))
}

impl Server {
    pub(crate) fn line(&mut self, line: &[u8]) {
        self.slowness.before_answer();
        let has_crlf = line.ends_with(b"\r");
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            if self.has("answers-blank-lines") {
                self.refuse(&Value::Null, -32700, "Parse error");
            }
            return;
        }
        if has_crlf && self.has("no-crlf") {
            return self.refuse(&Value::Null, -32700, "Parse error");
        }
        let Ok(text) = std::str::from_utf8(line) else {
            if self.has("dies-of-bytes") {
                exit(1);
            }
            return self.refuse(&Value::Null, -32700, "Parse error");
        };
        let is_torn = self.has("splits-at-u2028") && text.contains('\u{2028}')
            || self.has("splits-at-u0085") && text.contains('\u{85}');
        if is_torn {
            return self.refuse(&Value::Null, -32700, "Parse error");
        }
        if depth(text) > 100 {
            if self.has("dies-of-depth") {
                std::process::abort();
            }
            return self.refuse(&Value::Null, -32600, "too deep");
        }
        match serde_json::from_str::<Value>(text) {
            Err(_) if self.has("dies-of-junk") => exit(1),
            Err(_) if self.has("silent-on-junk") => {}
            Err(_) if self.has("wrong-code-for-junk") => self.refuse(&Value::Null, -32603, "Internal error"),
            Err(_) => self.refuse(&Value::Null, -32700, "Parse error"),
            Ok(Value::Array(elements)) => self.batch(&elements),
            Ok(message) => {
                let response = self.message(&message);
                match (response, &mut self.held) {
                    (Some(response), Some(held)) => held.push(response),
                    (Some(response), None) => self.wire.send(&response),
                    (None, _) => {}
                }
            }
        }
    }

    fn refuse(&self, id: &Value, code: i64, message: &str) {
        let response = self.response(id, error(code, message));
        self.wire.send(&response);
    }

    fn batch(&mut self, elements: &[Value]) {
        if elements.is_empty() {
            match () {
                () if self.has("dies-of-an-empty-array") => exit(1),
                () if self.has("answers-an-empty-array") => self.wire.send(&json!([])),
                () => self.refuse(&Value::Null, -32600, "an array without messages"),
            }
            return;
        }
        let has_them = self.state.revision() == Some("2025-03-26") && !self.has("refuses-batches");
        if !has_them && !self.has("serves-batches") {
            return self.refuse(&Value::Null, -32600, "batches are not allowed");
        }
        let responses: Vec<Value> = elements.iter().filter_map(|element| self.message(element)).collect();
        self.wire.send(&Value::Array(responses));
    }

    /// Handles a message, and returns its response, if it has one.
    fn message(&mut self, message: &Value) -> Option<Value> {
        let id = message.get("id").filter(|id| id.is_string() || id.is_i64() || id.is_u64());
        let is_outcome = message.get("result").is_some() || message.get("error").is_some();
        if message.get("method").is_none() && is_outcome {
            return None;
        }
        let is_lenient = self.has("serves-without-jsonrpc") && message.get("jsonrpc").is_none();
        let method = message.get("method").and_then(Value::as_str);
        let has_params = message.get("params").is_some();
        let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
        let is_whole = message["jsonrpc"] == json!("2.0") || is_lenient;
        let (true, Some(method), true) = (is_whole, method, params.is_object()) else {
            let code = if self.has("wrong-envelope-code") { -32000 } else { -32600 };
            return Some(self.response(id.unwrap_or(&Value::Null), error(code, "Invalid Request")));
        };
        let is_mistaken = self.has("takes-requests-for-notifications") && method.starts_with("notifications/");
        if !has_params && method == "notifications/initialized" && self.has("initialized-needs-params") {
            exit(1);
        }
        if message.get("id").is_none() || is_mistaken {
            self.notification(method, &params);
            return None;
        }
        let Some(id) = id else {
            return Some(self.response(&Value::Null, error(-32600, "Invalid Request")));
        };
        if !has_params && method.ends_with("/list") {
            if self.has("dies-without-params") {
                exit(1);
            }
            if self.has("needs-params") {
                return Some(self.response(id, error(-32603, "Cannot read properties of undefined")));
            }
        }
        match self.request(id, method, &params) {
            Reply::Now(outcome) => self.faulty_response(id, method, outcome),
            Reply::Later => None,
        }
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) -> Reply {
        if self.has("refuses-initialize") {
            return Reply::Now(error(-32603, "the database is down"));
        }
        let meta = &params["_meta"];
        let is_modern = meta.get(modern_key("protocolVersion")).is_some()
            || meta.get(modern_key("clientCapabilities")).is_some()
            || matches!(method, "server/discover" | "subscriptions/listen");
        if is_modern && self.has_modern { self.modern(id, method, params) } else { self.legacy(id, method, params) }
    }

    fn notification(&mut self, method: &str, params: &Value) {
        if method == "notifications/cancelled" {
            if self.has("dies-of-cancel") && params["requestId"] == json!(987_654) {
                exit(1);
            }
            if let Some(id) = params.get("requestId") {
                self.wire.cancelled.lock().expect("no thread panics").insert(id.to_string());
                let is_running = self.wire.running.lock().expect("no thread panics").contains(&id.to_string());
                if is_running && self.has("answers-the-cancelled") {
                    self.refuse(id, 0, "Request cancelled");
                }
            }
        }
        // As some servers do. A client that sends this notification has roots.
        if method == "notifications/roots/list_changed" {
            self.wire.send(&json!({"jsonrpc": "2.0", "id": 901, "method": "roots/list"}));
        }
        if method == "notifications/initialized" {
            self.state = self.state.ready();
        }
        if method == "notifications/barewire/no-such" && self.has("answers-notifications") {
            self.refuse(&Value::Null, -32601, "Method not found");
        }
    }

    /// Builds the response to a request, with the faults of this method; `None` if nothing more is to be sent.
    fn faulty_response(&self, id: &Value, method: &str, outcome: Outcome) -> Option<Value> {
        let mut response = self.response(id, outcome);
        if method == "prompts/list" {
            if self.has("no-jsonrpc") {
                response.as_object_mut().expect("an object").remove("jsonrpc");
            }
            if self.has("result-and-error") {
                response["error"] = Value::Null;
            }
            if self.has("answers-twice") {
                self.wire.send(&response);
            }
            if self.has("forgets-a-request") {
                return None;
            }
            if self.has("pretty") {
                self.wire.text(&serde_json::to_string_pretty(&response).expect("JSON"));
                return None;
            }
        }
        if method == "tools/call" && response.get("result").is_some() && self.has("cuts-results-of-tools") {
            let text = response.to_string();
            self.wire.text(&text[..text.len() - 2]);
            return None;
        }
        if method == "tools/call" && self.has("cuts-long-results") && response.to_string().len() > 64 * 1024 {
            self.wire.text(&response.to_string()[..64 * 1024]);
            return None;
        }
        Some(response)
    }

    fn response(&self, id: &Value, outcome: Outcome) -> Value {
        let mut id = id.clone();
        if self.has("rounds-ids") && id.as_u64().is_some_and(|id| id > 1 << 53) {
            id = json!(id.as_u64().expect("it is one") & !1);
        }
        if self.has("ids-as-strings") && id == json!(0) {
            id = json!("0");
        }
        if self.has("all-ids-as-strings") && id.is_number() {
            id = json!(id.to_string());
        }
        if self.has("all-ids-as-floats")
            && let Some(float) = id.as_i64().filter(|id| id.abs() < 1 << 53).and(id.as_f64())
        {
            id = json!(float);
        }
        match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message, data)) => {
                let mut object = json!({"code": code, "message": message});
                if let Some(data) = data {
                    object["data"] = data;
                }
                if code == -32601 && self.has("empty-error-message") {
                    object["message"] = json!("");
                }
                if code == -32601 && self.has("stack-trace") {
                    object["message"] = json!("Error: no\n    at Server.handle (server.js:7:1)\n    at main");
                }
                if code == -32602 && self.has("no-error-message") {
                    object.as_object_mut().expect("an object").remove("message");
                }
                if self.has("codes-as-strings") {
                    object["code"] = json!(code.to_string());
                }
                let mut response = json!({"jsonrpc": "2.0", "id": id, "error": object});
                if code == -32602 && self.has("errors-with-id-null") {
                    response["id"] = Value::Null;
                }
                if code == -32602 && self.has("errors-without-id") {
                    response.as_object_mut().expect("an object").remove("id");
                }
                response
            }
        }
    }
}

pub(crate) fn modern_key(name: &str) -> String {
    format!("io.modelcontextprotocol/{name}")
}

/// Returns the nesting depth of a JSON text.
fn depth(text: &str) -> usize {
    let (mut depth, mut most, mut in_string, mut escaped) = (0usize, 0, false, false);
    for b in text.bytes() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                most = most.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}
