//! A client with one fault at a time, for the tests of `barewire check --host`.
//!
//! `faulty-client [--fault NAME] [--modern] [--stay SECONDS] SERVER ARGS…` starts the server, lists its tools, calls some
//! of them, and closes the server's stdin. Without a fault it does everything right.

#![allow(clippy::print_stdout, reason = "it lists its faults")]

mod reader;
mod session;

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use reader::Reader;
use session::Session;

/// The settings of a run.
struct Settings {
    fault: String,
    is_modern: bool,
    stay: Duration,
}

impl Settings {
    fn has(&self, fault: &str) -> bool {
        self.fault == fault
    }
}

/// The faults, each with the check that finds it.
const FAULTS: &[(&str, &str)] = &[
    ("no-initialized", "client-initialized"),
    ("ignores-version", "client-version"),
    ("first-page-only", "client-pages"),
    ("stops-at-empty-page", "client-pages"),
    ("trims-cursors", "client-cursor"),
    ("stops-at-empty-cursor", "client-cursor"),
    ("reads-chunks", "client-split-input"),
    ("strict-members", "client-unknown-members"),
    ("splits-at-separators", "client-line-separators"),
    ("short-lines", "client-large-result"),
    ("shallow", "client-deep-result"),
    ("ignores-change", "client-list-changed"),
    ("ignores-pings", "ping"),
    ("refuses-pings", "ping"),
    ("ignores-roots", "unanswered-request"),
    ("ignores-unknown-methods", "unknown-method"),
    ("accepts-unknown-methods", "unknown-method"),
    ("changes-ids", "id-fidelity"),
    ("changes-state", "client-input-round"),
    ("forgets-an-answer", "client-input-round"),
    ("repeats-the-id", "client-input-round"),
    ("answers-late", "late-answer"),
    ("signals", "client-shutdown"),
    ("wrong-jsonrpc", "jsonrpc-messages"),
];

fn main() -> ExitCode {
    let mut settings = Settings { fault: String::new(), is_modern: false, stay: Duration::ZERO };
    let mut words = std::env::args().skip(1).peekable();
    while let Some(option) = words.next_if(|word| word.starts_with("--")) {
        match option.as_str() {
            "--fault" => settings.fault = words.next().expect("the name of a fault"),
            "--faults" => {
                FAULTS.iter().for_each(|(fault, check)| println!("{fault} {check}"));
                return ExitCode::SUCCESS;
            }
            "--modern" => settings.is_modern = true,
            "--stay" => {
                let seconds = words.next().and_then(|seconds| seconds.parse().ok());
                settings.stay = Duration::from_secs_f64(seconds.expect("a number of seconds"));
            }
            other => panic!("unknown option {other}"),
        }
    }
    let program = words.next().expect("the server to start");
    let mut server = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let stdout = server.stdout.take().expect("it is piped");
    let stdin = server.stdin.take().expect("it is piped");
    let mut session = Session::new(stdin, Reader::start(stdout, &settings.fault), &settings);
    let is_done = session.run();
    if settings.has("signals") {
        let killed = Command::new("kill").arg(server.id().to_string()).status();
        assert!(killed.expect("kill is there").success());
        server.wait().expect("it ends");
        return ExitCode::SUCCESS;
    }
    drop(session);
    server.wait().expect("it ends");
    if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
