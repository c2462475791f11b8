//! The floods on stdio.

use std::io::{self, BufRead, Read, Write};
use std::process::exit;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A flood: a piece that is repeated without end.
pub(crate) struct Flood {
    pub(crate) name: &'static str,
    /// The bytes before the first piece.
    start: &'static str,
    /// The repeated bytes, in which `ID` and `TOKEN` are replaced by the last request's id and progress token.
    piece: &'static str,
    to_stderr: bool,
    /// Whether the server reads its stdin during the flood, and exits when stdin ends.
    is_reading: bool,
}

const fn flood(name: &'static str, piece: &'static str) -> Flood {
    Flood { name, start: "", piece, to_stderr: false, is_reading: true }
}

/// All floods, apart from `pages`, a list of tools without an end. Those named `deaf` never read stdin; `deaf` itself
/// sends nothing.
#[rustfmt::skip] // a flood is a line
pub(crate) const FLOODS: &[Flood] = &[
    flood("text", "y\n"),
    flood("zeros", "\0\0\0\0\0\0\0\0"),
    Flood { start: "{\"jsonrpc\":\"2.0\",\"method\":\"", ..flood("line", "aaaaaaaaaaaaaaaa") },
    Flood { start: "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":", ..flood("nesting", "[[[[[[[[") },
    flood("blank", "\n"),
    flood("notifications", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n"),
    flood("logs", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n"),
    flood("progress", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":TOKEN,\"progress\":1}}\n"),
    flood("pings", "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n"),
    flood("requests", "{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"roots/list\"}\n"),
    flood("elicitations", "{\"jsonrpc\":\"2.0\",\"id\":\"e\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}}\n"),
    flood("responses", "{\"jsonrpc\":\"2.0\",\"id\":999999999,\"result\":{}}\n"),
    flood("errors", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}\n"),
    flood("invalid", "{\"jsonrpc\":\"2.0\",\"id\":[1]}\n"),
    flood("batches", "[{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"method\":\"n\"},1]\n"),
    flood("cancels", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":ID}}\n"),
    Flood { to_stderr: true, ..flood("stderr", "one more line of a log that is too long\n") },
    Flood { to_stderr: true, ..flood("stderr-line", "aaaaaaaaaaaaaaaa") },
    Flood { is_reading: false, ..flood("deaf", "") },
    Flood { is_reading: false, ..flood("deaf-pings", "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n") },
    Flood { is_reading: false, ..flood("deaf-requests", "{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"sampling/createMessage\",\"params\":{}}\n") },
    Flood { is_reading: false, ..flood("deaf-notifications", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n") },
];

/// Floods stdout or stderr until its reader closes it. Returns false if there is no flood with this name.
pub(crate) fn serve(name: &str, after: usize) -> bool {
    if name == "pages" {
        answer(usize::MAX, PAGE_TIME);
        return true;
    }
    let Some(flood) = FLOODS.iter().find(|flood| flood.name == name) else { return false };
    let last = answer(after, Duration::ZERO);
    let last = Arc::new(Mutex::new(last));
    if flood.is_reading {
        let shared = Arc::clone(&last);
        let is_about_request = flood.piece.contains("TOKEN") || flood.piece.contains("ID");
        thread::spawn(move || {
            for line in io::stdin().lines().map_while(Result::ok).filter(|_| is_about_request) {
                if let Some(request) = request(&line) {
                    *shared.lock().unwrap_or_else(PoisonError::into_inner) = request;
                }
            }
            exit(0);
        });
    }
    if flood.piece.is_empty() {
        loop {
            thread::park();
        }
    }
    let mut out: Box<dyn Write> = if flood.to_stderr { Box::new(io::stderr()) } else { Box::new(io::stdout().lock()) };
    let mut is_open = out.write_all(flood.start.as_bytes()).is_ok();
    while is_open {
        let request = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let token = &request["params"]["_meta"]["progressToken"];
        let piece = flood.piece.replace("TOKEN", &token.to_string()).replace("ID", &request["id"].to_string());
        is_open = out.write_all(piece.repeat(PIECES_PER_WRITE).as_bytes()).and_then(|()| out.flush()).is_ok();
    }
    true
}

/// Answers this many requests, each after some time, and returns the last one.
fn answer(count: usize, time: Duration) -> Value {
    let (mut last, mut answered) = (Value::Null, 0);
    // Bytes are read one by one, so that none is lost when the flood reads on.
    let mut input = io::BufReader::with_capacity(1, io::stdin());
    while answered < count {
        let mut line = Vec::new();
        let is_end = input.by_ref().read_until(b'\n', &mut line).unwrap_or(0) == 0;
        if is_end {
            break;
        }
        let Some(request) = request(&String::from_utf8_lossy(&line)) else { continue };
        answered += 1;
        let mut response = response(&request);
        if !time.is_zero() && request["method"] == "tools/list" {
            response["result"]["nextCursor"] = answered.to_string().into();
            thread::sleep(time);
        }
        println!("{response}");
        last = request;
    }
    last
}

fn request(line: &str) -> Option<Value> {
    let message: Value = serde_json::from_str(line).ok()?;
    (message.get("id").is_some() && message.get("method").is_some()).then_some(message)
}

/// The response of a legacy server with one tool, `echo`.
pub(crate) fn response(request: &Value) -> Value {
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "flooding-server", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "echo"}]}),
        "ping" => json!({}),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

/// The pieces of one write: enough that the flood is not slowed down by system calls.
const PIECES_PER_WRITE: usize = 1000;

/// The time that each page of an endless list takes: shorter than any timeout.
const PAGE_TIME: Duration = Duration::from_millis(100);
