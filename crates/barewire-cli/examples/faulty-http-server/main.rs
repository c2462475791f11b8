//! A small hand-written MCP server over HTTP, of both eras, with a switch for each fault that `barewire check --url`
//! must find.
//!
//! The server prints its URL as the first line of stdout. Without `--fault` it has no fault, and no check fails.
//! `--faults` lists the faults, each with the check that finds it. `--legacy` and `--modern` serve only that era.
//! `--no-errors` never answers a request with an error.
//!
//! With `--auth`, and with each fault of authorization, the server requires access tokens, and is its own authorization
//! server. Then the second line of stdout is a JSON object with a token of each kind. With `--dpop`, and with each fault
//! of proofs, it issues tokens that are bound to a key, to the client `checker` with the secret `open-sesame`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the URL goes to stdout, and errors go to stderr")]

mod authorization;
mod message;
mod wire;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::exit;
use std::sync::{Arc, Mutex};

use message::{Era, Outcome};
use serde_json::{Value, json};
use wire::{Request, Response};

/// The value of `--fault` for each fault, with the id of the only check that must fail.
#[rustfmt::skip]
const FAULTS: &[(&str, &str)] = &[
    ("any-origin", "http-origin"),
    ("origin-is-400", "http-origin"),
    ("any-host", "http-host"),
    ("any-request-type", "http-request-type"),
    ("answers-as-text", "http-content-type"),
    ("get-is-json", "http-content-type"),
    ("notification-is-200", "http-status"),
    ("unknown-method-is-200", "http-status"),
    ("get-is-404", "http-status"),
    ("hangs-on-get", "http-status"),
    ("answers-in-the-stream", "http-get-stream"),
    ("hangs-on-notifications", "http-status"),
    ("session-is-optional", "http-session"),
    ("session-never-ends", "http-session"),
    ("one-session-for-all", "http-session"),
    ("session-with-spaces", "http-session"),
    ("delete-is-500", "http-session"),
    ("sessions-count", "http-session-entropy"),
    ("any-version", "http-protocol-version"),
    ("version-is-404", "http-protocol-version"),
    ("any-method-header", "http-header-mirroring"),
    ("any-name-header", "http-header-mirroring"),
    ("mismatch-is-32602", "http-header-mirroring"),
    ("bare-401", "http-unauthorized"),
    ("basic-401", "http-unauthorized"),
    ("breaks-in-a-call", "http-status"),
    ("ends-a-list-without-it", "http-status"),
    ("says-nothing", "mute-server"),
    ("hangs-in-a-tool", "unanswered-request"),
    ("needs-params", "omitted-params"),
    ("refuses-a-client-title", "initialize-members"),
    ("stumbles-over-junk", "parse-error-recovery"),
    ("wrong-code-for-method", "unknown-method"),
    ("no-result-type", "result-type"),
    ("serves-what-is-gone", "modern-removed-methods"),
    ("echoes-version", "version-negotiation"),
    ("no-token-is-403", "auth-challenge"),
    ("no-token-is-302", "auth-challenge"),
    ("no-token-is-served", "auth-challenge"),
    ("no-resource-metadata", "auth-resource-metadata"),
    ("challenge-leads-nowhere", "auth-resource-metadata"),
    ("resource-metadata-is-html", "auth-resource-metadata"),
    ("resource-metadata-is-text", "auth-resource-metadata"),
    ("other-resource", "auth-resource-metadata"),
    ("resource-is-origin", "auth-resource-metadata"),
    ("no-authorization-servers", "auth-resource-metadata"),
    ("plain-http-issuer", "auth-resource-metadata"),
    ("two-resource-metadata", "auth-resource-metadata"),
    ("challenge-with-offline-access", "auth-offline-access"),
    ("metadata-with-offline-access", "auth-offline-access"),
    ("no-server-metadata", "auth-server-metadata"),
    ("other-issuer-in-metadata", "auth-server-metadata"),
    ("plain-http-token-endpoint", "auth-server-metadata"),
    ("no-token-endpoint", "auth-server-metadata"),
    ("no-pkce", "auth-pkce"),
    ("plain-pkce", "auth-pkce"),
    ("no-response-iss", "auth-response-iss"),
    ("no-registration", "auth-client-registration"),
    ("any-opaque-token", "auth-invalid-token"),
    ("invalid-token-is-403", "auth-invalid-token"),
    ("any-signature", "auth-invalid-token"),
    ("unsigned-tokens", "auth-invalid-token"),
    ("any-audience", "auth-audience"),
    ("any-expiry", "auth-expiry"),
    ("any-issuer", "auth-issuer"),
    ("any-scope", "auth-scope"),
    ("scope-is-401", "auth-scope"),
    ("scope-without-name", "auth-scope"),
    ("bound-token-as-bearer", "auth-dpop"),
    ("proof-for-any-method", "auth-dpop"),
    ("proof-for-any-url", "auth-dpop"),
    ("proof-as-often-as-you-like", "auth-dpop"),
];

struct Server {
    fault: String,
    has_legacy: bool,
    has_modern: bool,
    has_errors: bool,
    /// Whether access tokens are required.
    has_auth: bool,
    /// Whether tokens are bound to a key.
    has_dpop: bool,
    port: u16,
    state: Mutex<ServerState>,
}

#[derive(Default)]
struct ServerState {
    /// The id of each session, with the negotiated revision.
    sessions: HashMap<String, String>,
    sessions_given: u64,
    /// The open stream of the GET of each session, by the id of the session.
    streams: HashMap<String, TcpStream>,
    /// Whether the next POST request gets status 500.
    fails_next: bool,
    /// The ids of the proofs so far.
    proofs: HashSet<String>,
}

impl Server {
    fn has(&self, fault: &str) -> bool {
        debug_assert!(FAULTS.iter().any(|(name, _)| *name == fault), "{fault} is not in the list of faults");
        self.fault == fault
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    if has("--faults") {
        for (name, check) in FAULTS {
            println!("{name} {check}");
        }
        return;
    }
    let fault = args.iter().position(|arg| arg == "--fault").and_then(|at| args.get(at + 1)).cloned();
    let fault = fault.unwrap_or_else(|| "none".to_owned());
    if fault != "none" && !FAULTS.iter().any(|(name, _)| *name == fault) {
        eprintln!("unknown fault {fault}");
        exit(2);
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    println!("http://127.0.0.1:{port}/mcp");
    let (has_legacy, has_modern, has_errors) = (!has("--modern"), !has("--legacy"), !has("--no-errors"));
    let check = FAULTS.iter().find(|(name, _)| *name == fault).map_or("", |(_, check)| *check);
    let has_dpop = has("--dpop") || check == "auth-dpop";
    let has_auth = has("--auth") || has_dpop || check.starts_with("auth-");
    let state = Mutex::default();
    let server = Server { fault, has_legacy, has_modern, has_errors, has_auth, has_dpop, port, state };
    if has_auth {
        println!("{}", server.tokens());
    }
    let server = Arc::new(server);
    for stream in listener.incoming().flatten() {
        let server = Arc::clone(&server);
        std::thread::spawn(move || server.serve(stream));
    }
}

impl Server {
    fn serve(&self, mut stream: TcpStream) {
        let Some(request) = Request::read(&mut stream) else { return };
        let is_notification = || {
            let message: Option<Value> = serde_json::from_slice(&request.body).ok();
            message.is_some_and(|it| it.get("method").is_some() && it.get("id").is_none())
        };
        let is_echo = || {
            let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            message["method"] == json!("tools/call") && message["params"]["name"] == json!("echo")
        };
        if self.has("says-nothing")
            || self.has("hangs-in-a-tool") && is_echo()
            || self.has("hangs-on-get") && request.verb == "GET"
            || self.has("hangs-on-notifications") && is_notification()
        {
            std::thread::sleep(std::time::Duration::from_secs(120));
            return;
        }
        if self.has("answers-in-the-stream") && self.is_streamed(&request, &stream) {
            return;
        }
        let response = self.answer(&request);
        if response.is_error() && !self.has_errors {
            std::thread::sleep(std::time::Duration::from_secs(120));
            return;
        }
        response.write(&mut stream);
    }

    /// Opens the stream of a session, or answers a ping in the stream and not in its own exchange. Returns whether the
    /// request was such a request.
    fn is_streamed(&self, request: &Request, stream: &TcpStream) -> bool {
        let mut state = self.state.lock().expect("no thread panics");
        let Some(session) = request.header("mcp-session-id").filter(|id| state.sessions.contains_key(*id)) else {
            return false;
        };
        let mut stream = stream.try_clone().expect("a second handle");
        if request.verb == "GET" {
            let head = "HTTP/1.1 200 Said\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            state.streams.insert(session.to_owned(), stream);
            return true;
        }
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        // Requests with a wrong version are refused.
        let is_known = request.header("mcp-protocol-version").is_none_or(|it| message::REVISIONS.contains(&it));
        if message["method"] != json!("ping") || !is_known {
            return false;
        }
        let Some(open) = state.streams.get_mut(session) else { return false };
        let _ = write!(open, "data: {}\n\n", message::response(&message["id"], Ok(json!({}))));
        Response::new(200).header("Content-Type", "text/event-stream").write(&mut stream);
        true
    }

    fn answer(&self, request: &Request) -> Response {
        if let Some(document) = self.document(request) {
            return document;
        }
        if let Some(refused) = self.admit(request).or_else(|| self.authorize(request)) {
            return refused;
        }
        match request.verb.as_str() {
            "POST" => self.post(request),
            "GET" if self.has("get-is-404") => Response::new(404),
            "GET" if self.has("get-is-json") => Response::new(200).json(&json!({})),
            "DELETE" if self.has_legacy => self.delete(request),
            _ => Response::new(405),
        }
    }

    /// Returns a refusal if the host or origin is foreign, or if a fault requires authorization.
    fn admit(&self, request: &Request) -> Option<Response> {
        let hosts = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let is_ours = |host: &str| hosts.iter().any(|it| it == host);
        if !request.header("host").is_some_and(is_ours) && !self.has("any-host") {
            return Some(Response::new(403));
        }
        if let Some(origin) = request.header("origin")
            && !origin.strip_prefix("http://").is_some_and(is_ours)
            && !self.has("any-origin")
        {
            return Some(Response::new(if self.has("origin-is-400") { 400 } else { 403 }));
        }
        if self.has("bare-401") {
            return Some(Response::new(401));
        }
        self.has("basic-401").then(|| Response::new(401).header("WWW-Authenticate", "Basic realm=\"x\""))
    }

    fn post(&self, request: &Request) -> Response {
        let is_json = request.header("content-type") == Some("application/json");
        if !is_json && !self.has("any-request-type") {
            return Response::new(415);
        }
        if std::mem::take(&mut self.state.lock().expect("no thread panics").fails_next) {
            return Response::new(500);
        }
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
            let is_deep = request.body.len() > 1000;
            self.state.lock().expect("no thread panics").fails_next =
                self.has("stumbles-over-junk") && !is_deep && request.body.is_ascii();
            let error = json!({"code": -32700, "message": "Parse error"});
            return Response::new(400).json(&json!({"jsonrpc": "2.0", "id": null, "error": error}));
        };
        let has_arguments = message["params"]["arguments"].as_object().is_some_and(|it| !it.is_empty());
        if self.has("breaks-in-a-call") && message["method"] == json!("tools/call") && has_arguments {
            return Response::new(500);
        }
        let has_cursor = message["params"].get("cursor").is_some();
        if self.has("ends-a-list-without-it") && message["method"] == json!("tools/list") && !has_cursor {
            return Response::new(200).header("Content-Type", "text/event-stream");
        }
        let meta = message["params"]["_meta"].get(message::VERSION_KEY);
        let is_modern = meta.is_some() || request.header("mcp-protocol-version") == Some("2026-07-28");
        if is_modern && self.has_modern {
            return self.modern(request, &message);
        }
        if self.has_legacy { self.legacy(request, &message) } else { self.no_handshake(&message) }
    }

    fn no_handshake(&self, message: &Value) -> Response {
        let data = json!({"supported": ["2026-07-28"]});
        let error = json!({"code": -32602, "message": "there is no handshake", "data": data});
        Response::new(400).json(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
    }

    fn modern(&self, request: &Request, message: &Value) -> Response {
        let Some(method) = message["method"].as_str().filter(|_| message.get("id").is_some()) else {
            return self.accepted();
        };
        let mismatch = self.header_mismatch(request, message, method);
        let is_mismatch = mismatch.is_some();
        let outcome = match mismatch {
            Some(what) => Err((if self.has("mismatch-is-32602") { -32602 } else { -32020 }, what, None)),
            None => message::modern(&|fault| self.has(fault), method, &message["params"]),
        };
        let status = match &outcome {
            Err((-32601, ..)) if self.has("unknown-method-is-200") => 200,
            Err((-32601, ..)) => 404,
            Err(_) if is_mismatch => 400,
            Err((-32022..=-32020, ..)) => 400,
            _ => 200,
        };
        self.respond(status, &message["id"], outcome)
    }

    /// Returns an error message that names the header that contradicts the body, if there is one.
    fn header_mismatch(&self, request: &Request, message: &Value, method: &str) -> Option<String> {
        let version = message["params"]["_meta"][message::VERSION_KEY].as_str();
        if version.is_some() && request.header("mcp-protocol-version") != version {
            return Some("Header mismatch: MCP-Protocol-Version".to_owned());
        }
        if request.header("mcp-method") != Some(method) && !self.has("any-method-header") {
            return Some("Header mismatch: Mcp-Method".to_owned());
        }
        let name = match method {
            "tools/call" | "prompts/get" => message["params"]["name"].as_str(),
            "resources/read" => message["params"]["uri"].as_str(),
            _ => None,
        };
        let differs = name.is_some() && request.header("mcp-name") != name;
        (differs && !self.has("any-name-header")).then(|| "Header mismatch: Mcp-Name".to_owned())
    }

    fn legacy(&self, request: &Request, message: &Value) -> Response {
        if message["method"] == "initialize" {
            return self.initialize(message);
        }
        let session = request.header("mcp-session-id");
        let agreed = session.and_then(|id| self.state.lock().expect("no thread panics").sessions.get(id).cloned());
        let agreed = match (session, agreed) {
            (_, Some(agreed)) => agreed,
            (None, None) if self.has("session-is-optional") => "2025-11-25".to_owned(),
            (None, None) => return Response::new(400),
            (Some(_), None) => return Response::new(404),
        };
        let version = request.header("mcp-protocol-version");
        if version.is_some_and(|it| !message::REVISIONS.contains(&it)) && !self.has("any-version") {
            return Response::new(if self.has("version-is-404") { 404 } else { 400 });
        }
        if let Some(all) = message.as_array() {
            return self.batch(all, &agreed);
        }
        let Some(method) = message["method"].as_str().filter(|_| message.get("id").is_some()) else {
            return self.accepted();
        };
        if self.has("needs-params") && method == "tools/list" && message.get("params").is_none() {
            let missing = Err((-32603, "Cannot read properties of undefined".to_owned(), None));
            return self.respond(200, &message["id"], missing);
        }
        let outcome = message::serve(&|fault| self.has(fault), method, &message["params"], Era::Legacy);
        self.respond(200, &message["id"], outcome)
    }

    /// Serves a batch, or refuses it if the negotiated revision has no batches.
    fn batch(&self, all: &[Value], agreed: &str) -> Response {
        if agreed != "2025-03-26" {
            let error = json!({"code": -32600, "message": "no arrays"});
            return Response::new(400).json(&json!({"jsonrpc": "2.0", "id": null, "error": error}));
        }
        let answer = |message: &Value| {
            let method = message["method"].as_str().unwrap_or_default();
            message::response(
                &message["id"],
                message::serve(&|fault| self.has(fault), method, &message["params"], Era::Legacy),
            )
        };
        Response::new(200).json(&all.iter().map(answer).collect())
    }

    fn initialize(&self, message: &Value) -> Response {
        let requested = message["params"]["protocolVersion"].as_str().unwrap_or_default();
        let known = message::REVISIONS.iter().find(|it| **it == requested);
        let agreed = known.copied().unwrap_or("2025-11-25");
        if self.has("refuses-a-client-title") && message["params"]["clientInfo"].get("title").is_some() {
            return self.respond(200, &message["id"], Err((-32602, "unrecognized keys".to_owned(), None)));
        }
        let session = self.session(agreed);
        let version = if self.has("echoes-version") { requested } else { agreed };
        let result = json!({
            "protocolVersion": version,
            "capabilities": message::capabilities(),
            "serverInfo": message::info(),
        });
        self.respond(200, &message["id"], Ok(result)).header("Mcp-Session-Id", &session)
    }

    fn session(&self, agreed: &str) -> String {
        let mut state = self.state.lock().expect("no thread panics");
        state.sessions_given += 1;
        let number = state.sessions_given;
        let id = match () {
            () if self.has("one-session-for-all") => "5d2b8f6f4e1c4a0c9d7e3b1a2f6c8e90".to_owned(),
            () if self.has("sessions-count") => format!("session-{number:016}"),
            () if self.has("session-with-spaces") => format!("{} {}", random(), random()),
            () => random(),
        };
        state.sessions.insert(id.clone(), agreed.to_owned());
        id
    }

    fn delete(&self, request: &Request) -> Response {
        let Some(id) = request.header("mcp-session-id") else { return Response::new(400) };
        if self.has("delete-is-500") {
            return Response::new(500);
        }
        if self.has("session-never-ends") {
            return Response::new(200);
        }
        let was_there = self.state.lock().expect("no thread panics").sessions.remove(id).is_some();
        Response::new(if was_there { 200 } else { 404 })
    }

    fn accepted(&self) -> Response {
        Response::new(if self.has("notification-is-200") { 200 } else { 202 })
    }

    fn respond(&self, status: u16, id: &Value, outcome: Outcome) -> Response {
        let message = message::response(id, outcome);
        if self.has("answers-as-text") && status == 200 {
            return Response::new(status).json(&message).header("Content-Type", "text/plain");
        }
        // Requests with an even id get an event stream, so that both types of response are used.
        match id.as_u64() {
            Some(id) if id % 2 == 0 && status == 200 => Response::new(status).events(&message),
            _ => Response::new(status).json(&message),
        }
    }
}

/// Returns 128 random bits in hex. They come from the random seed of the standard library's hasher.
fn random() -> String {
    use std::hash::{BuildHasher, RandomState};
    let part = || RandomState::new().hash_one(std::time::Instant::now());
    format!("{:016x}{:016x}", part(), part())
}
