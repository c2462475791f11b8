//! A small hand-written MCP server of both eras, with a switch for each fault that `barewire check` must find.
//!
//! Without `--fault` it has no fault, and no check fails. `--faults` lists the faults, each with the check that
//! finds it. `--legacy` and `--modern` serve only that era. `--no-errors` sends no error responses. `--tasks` adds a tool
//! that runs as a task; the faults of tasks do so too.
//!
//! `--starts-after`, `--answers-after`, `--loads-for` and `--blocks-for`, each with milliseconds, make the server slow.
//! `--changes` changes its list of tools, as healthy servers may, and `--endless-lists` gives each page of it a next one.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the messages on stdout are written by hand")]

mod definitions;
mod faults;
mod legacy;
mod modern;
mod slow;
mod surface;
mod tasks;
mod wire;

use std::io::Read;
use std::process::exit;
use std::time::Duration;

use faults::FAULTS;
use serde_json::{Value, json};
use wire::{Framing, Wire};

/// The server and its state.
pub(crate) struct Server {
    fault: String,
    has_legacy: bool,
    has_modern: bool,
    wire: Wire,
    state: legacy::HandshakeState,
    /// The number of `tools/list` requests so far.
    lists: u64,
    /// Whether `server/discover` was received.
    was_discovered: bool,
    /// Whether a modern `prompts/list` was received.
    has_listed_prompts: bool,
    /// Whether a legacy client has ended a subscription.
    has_unsubscribed: bool,
    slowness: slow::Slowness,
    /// Whether the second page of the tools is followed by itself, under other cursors.
    has_endless_lists: bool,
    /// The tasks; `None` if the server has none.
    tasks: Option<tasks::Tasks>,
    /// Responses that are held back until all requests of a read are handled.
    held: Option<Vec<Value>>,
}

impl Server {
    /// Whether this fault is switched on.
    pub(crate) fn has(&self, fault: &str) -> bool {
        debug_assert!(FAULTS.iter().any(|known| known.name == fault), "{fault} is not in the list of faults");
        self.fault == fault
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    if has("--faults") {
        for fault in FAULTS {
            println!("{} {}", fault.name, fault.check);
        }
        return;
    }
    let fault = args.iter().position(|arg| arg == "--fault").and_then(|at| args.get(at + 1)).cloned();
    let fault = fault.unwrap_or_else(|| "none".to_owned());
    if fault != "none" && !FAULTS.iter().any(|known| known.name == fault) {
        eprintln!("unknown fault {fault}");
        exit(2);
    }
    let is_task_fault = FAULTS.iter().any(|known| known.name == fault && known.check.starts_with("task-"));
    let mut server = Server {
        tasks: (has("--tasks") || is_task_fault).then(tasks::Tasks::default),
        has_legacy: !has("--modern"),
        has_modern: !has("--legacy"),
        wire: Wire { framing: framing(&fault), has_errors: !has("--no-errors"), ..Wire::default() },
        fault,
        state: legacy::HandshakeState::Fresh,
        lists: 0,
        was_discovered: false,
        has_listed_prompts: false,
        has_unsubscribed: false,
        slowness: slow::Slowness::of(&args),
        has_endless_lists: has("--endless-lists"),
        held: None,
    };
    server.slowness.start();
    server.start();
    server.read();
    server.end();
}

fn framing(fault: &str) -> Framing {
    match fault {
        "all-pretty" => Framing::Pretty,
        "speaks-content-length" => Framing::ContentLength,
        "speaks-utf-16" => Framing::Utf16,
        "ends-no-line" => Framing::Endless,
        "writes-raw-newlines" => Framing::RawNewlines,
        "writes-latin-1" => Framing::Latin1,
        _ => Framing::Lines,
    }
}

impl Server {
    fn start(&mut self) {
        if self.has("ends-at-once") {
            eprintln!("cannot find module 'left-pad'");
            exit(1);
        }
        if self.has("byte-order-mark") {
            print!("\u{feff}");
        }
        if self.has("banner") {
            println!("Weather server v1.0 listening on stdio");
        }
        if self.has("logs-as-json") {
            println!(r#"{{"level":30,"time":1763300000000,"pid":7,"msg":"ready"}}"#);
        }
        if self.has("content-length") {
            println!("Content-Length: 17");
        }
        if self.has("colours") {
            eprintln!("\x1b[32mready\x1b[0m");
        }
        if self.has("messages-on-stderr") {
            eprintln!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{}}}}"#);
        }
        if self.has("leaves-a-child") {
            let null = std::process::Stdio::null;
            let _ = std::process::Command::new("sleep").arg("30").stdin(null()).stdout(null()).stderr(null()).spawn();
        }
    }

    /// Reads stdin, and handles each line.
    fn read(&mut self) {
        let mut stdin = std::io::stdin().lock();
        let mut buffer: Vec<u8> = Vec::new();
        let mut chunk = vec![0; 256 * 1024];
        loop {
            let count = match stdin.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(count) => count,
            };
            if self.has("closes-stdout") {
                exit(0);
            }
            if self.has("says-nothing") {
                continue;
            }
            let read = &chunk[..count];
            if self.has("a-read-a-message") && !read.ends_with(b"\n") && buffer.is_empty() && count < 200 {
                continue;
            }
            buffer.extend_from_slice(read);
            if self.has("refuses-what-comes-at-once") && read.iter().filter(|b| **b == b'\n').count() > 8 {
                buffer.clear();
                let error = json!({"code": -32700, "message": "Parse error"});
                self.wire.send(&json!({"jsonrpc": "2.0", "id": null, "error": error}));
            }
            // A long line arrives in many reads, so only the new bytes are searched.
            let lines = if read.contains(&b'\n') { read.iter().filter(|b| **b == b'\n').count() } else { 0 };
            let is_held = self.has("swaps-answers") && lines >= 5 || self.drops_at_eof() && matches!(lines, 3 | 4);
            self.held = is_held.then(Vec::new);
            let mut handled = 0;
            while lines > 0
                && let Some(end) = buffer.iter().position(|b| *b == b'\n')
            {
                let line: Vec<u8> = buffer.drain(..=end).take(end).collect();
                handled += 1;
                let is_lost = self.has("loses-what-comes-at-once") && handled > 8
                    || self.has("loses-another-method")
                        && lines >= 4
                        && String::from_utf8_lossy(&line).contains("prompts/list");
                if !is_lost {
                    self.line(&line);
                }
            }
            if let Some(held) = self.held.take() {
                self.release(held);
            }
            if self.has("line-limit") && buffer.len() > 64 * 1024 {
                exit(1);
            }
        }
    }

    /// Sends the responses that were held back: under the ids of each other, or too late.
    fn release(&self, mut held: Vec<Value>) {
        if self.drops_at_eof() {
            let member = match () {
                () if self.has("drops-lists-at-eof") => Some("tools"),
                () if self.has("drops-calls-at-eof") => Some("content"),
                () => None,
            };
            if let Some(member) = member {
                let is_dropped = |response: &mut Value| response["result"].get(member).is_some();
                let dropped = held.extract_if(.., is_dropped).collect();
                held.iter().for_each(|response| self.wire.send(response));
                held = dropped;
            }
            let wire = self.wire.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                held.iter().for_each(|response| wire.send(response));
            });
            return;
        }
        for pair in held.chunks_exact_mut(2) {
            let [first, second] = pair else { continue };
            std::mem::swap(&mut first["id"], &mut second["id"]);
        }
        held.iter().for_each(|response| self.wire.send(response));
    }

    fn drops_at_eof(&self) -> bool {
        ["drops-at-eof", "drops-lists-at-eof", "drops-calls-at-eof"].iter().any(|fault| self.has(fault))
    }

    fn end(&mut self) {
        if self.has("stays-after-eof") {
            std::thread::sleep(Duration::from_secs(60));
        }
        exit(if self.has("exits-with-three") { 3 } else { 0 });
    }
}
