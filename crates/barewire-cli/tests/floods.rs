//! Servers that never stop sending, or never read: every verb ends in time and in bounded memory.
//!
//! `examples/flooding-server` has the floods. Each case runs the program with a short timeout.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::eventually::eventually;

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire");

/// The options of each verb, with a timeout of a second or less, and the exit codes of a flood.
const VERBS: &[(&str, &[&str], &[i32])] = &[
    // A check fails, or there is no server that speaks MCP.
    ("check", &["check", "--timeout", "1s", "--patience", "200ms"], &[1, 3]),
    ("replay", &["replay", "CAPTURE", "--notifications", "--timeout", "300ms"], &[1]),
    // With many requests at once, and time for each to become long.
    ("replay many", &["replay", "MANY", "--timeout", "5s"], &[1]),
    ("call", &["call", "echo", "x=1", "--timeout", "1s", "--quiet"], &[2]),
    ("raw", &["call", "--raw", "ping", "--timeout", "1s"], &[2]),
    ("bench", &["bench", "echo", "--duration", "300ms", "--warm-up", "100ms", "--timeout", "1s"], &[1, 2]),
];

/// The floods on stdio. The number is the number of requests that the server answers before the flood.
#[rustfmt::skip] // a verb is a line
const STDIO: &[(&str, &[(&str, usize)])] = &[
    ("check", &[("text", 0), ("zeros", 0), ("blank", 2), ("pings", 0), ("pings", 2), ("batches", 2), ("deaf-requests", 0), ("stderr", 0), ("pages", 0)]),
    ("replay", &[("text", 0), ("line", 1), ("notifications", 0), ("logs", 2), ("pings", 1), ("requests", 0), ("batches", 2), ("deaf", 1), ("deaf-pings", 0), ("stderr-line", 0)]),
    ("call", &[("line", 0), ("blank", 3), ("notifications", 0), ("progress", 3), ("pings", 3), ("elicitations", 3), ("responses", 3), ("deaf-requests", 3), ("pages", 0)]),
    ("raw", &[("zeros", 0), ("batches", 0), ("pings", 0), ("cancels", 0)]),
    ("bench", &[("pings", 0), ("batches", 3), ("requests", 4), ("responses", 4), ("deaf-notifications", 4), ("pages", 0)]),
];

/// The floods over HTTP. With `-later`, only what follows the handshake is a flood.
#[rustfmt::skip] // a verb is a line
const HTTP: &[(&str, &[&str])] = &[
    ("check", &["deaf", "chunks", "until-close", "informational", "pings", "events-later", "requests-later"]),
    ("replay", &["drip", "chunks-later", "until-close", "comments", "events", "requests-later", "responses-later", "resumed"]),
    ("replay many", &["until-close-later", "event-later"]),
    ("call", &["deaf", "event-later", "comments-later", "progress-later", "pings", "resumed-later"]),
    ("bench", &["blank", "chunks-later", "requests", "trailers-later"]),
];

/// The requests of `call` and `bench`, as a capture.
const CAPTURE: &str = r#"wire 1
> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
< {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"flooding-server","version":"1"}}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{},"_meta":{"progressToken":7}}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"echo"}]}}
"#;

/// The maximum time of a run: three timeouts in a row and the end of the server take a few seconds, and a busy machine
/// has other work. Without a limit, the program runs for ever.
const MAX_TIME: Duration = Duration::from_secs(120);

/// The maximum memory of a run. Most floods cost almost nothing; a frame of the maximum length, 64 MiB, is kept, and
/// copied when it is reported.
const MAX_MEMORY_KIB: u64 = 256 * 1024;

/// The number of sent bytes after which a process skips what it reads: more than the maximum length of a frame.
const MAX_SKIPPED: usize = 72 << 20;

/// The number of runs at once: most of them wait for a timeout.
const RUNS_AT_ONCE: usize = 3;

#[test]
fn every_verb_ends_in_time_and_in_bounded_memory() {
    let capture = TemporaryFile::new("floods.wire", CAPTURE);
    let call = |id| {
        format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\"}}}}\n")
    };
    let response = |id| format!("< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[]}}}}\n");
    let many: String = (10..22).map(call).chain((10..22).map(response)).collect();
    let many = TemporaryFile::new("many.wire", &format!("{CAPTURE}{many}"));
    let captures = [("CAPTURE", capture.path()), ("MANY", many.path())];
    let stdio =
        STDIO.iter().flat_map(|(verb, floods)| floods.iter().map(move |(flood, after)| (verb, flood, Some(after))));
    let http = HTTP.iter().flat_map(|(verb, floods)| floods.iter().map(move |flood| (verb, flood, None)));
    let cases = Mutex::new(stdio.chain(http).collect::<Vec<_>>());
    let next = || cases.lock().expect("no panic").pop();
    let worker = || {
        let mut failures = Vec::new();
        while let Some((verb, flood, after)) = next() {
            let failure = match after {
                Some(after) => run(verb, &captures, &["--", &flooding_server(), flood, "--after", &after.to_string()]),
                None => {
                    let server = HttpFlood::start(flood);
                    run(verb, &captures, &["--url", &server.url])
                }
            };
            failures.extend(failure.map(|failure| format!("{verb}, {flood}, after {after:?}: {failure}")));
        }
        failures
    };
    let failures: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..RUNS_AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The program, and with it the flood, with a low priority: a flood takes all the time that it gets. The lowest would
/// get no time at all on a busy machine.
fn barewire() -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "5", PROGRAM]);
    command
}

/// Runs a verb with a server. Returns the reason if it does not end as it should.
fn run(verb: &str, captures: &[(&str, &str)], target: &[&str]) -> Option<String> {
    let (_, options, codes) = VERBS.iter().find(|(name, ..)| *name == verb).expect("a verb");
    let path = |option| captures.iter().find(|(name, _)| *name == option).map_or(option, |(_, path)| *path);
    let options = options.iter().map(|option| path(*option));
    let mut command = barewire();
    // Like a shell, the output goes to a file, which never blocks the program.
    let said = TemporaryFile::new(&format!("{verb}-{:?}.txt", thread::current().id()), "");
    let file = || fs::File::options().append(true).open(&said.0).expect("it was made");
    command.args(options).args(target).stdin(Stdio::null()).stdout(file()).stderr(file());
    let start = Instant::now();
    let mut child = Ended(command.spawn().expect("it starts"));
    let mut peak = 0;
    let status = loop {
        peak = peak.max(peak_memory(&child.0).unwrap_or(0));
        if let Some(status) = child.0.try_wait().expect("it is our child") {
            break status;
        }
        if start.elapsed() > MAX_TIME || peak > 4 * MAX_MEMORY_KIB {
            return Some(format!("still running after {:?}, with {} MiB", start.elapsed(), peak / 1024));
        }
        thread::sleep(Duration::from_millis(10));
    };
    let mut text = Vec::new();
    fs::File::open(&said.0).expect("it was made").take(2000).read_to_end(&mut text).expect("a file");
    let text = String::from_utf8_lossy(&text);
    if peak > MAX_MEMORY_KIB {
        return Some(format!("{} MiB: {text}", peak / 1024));
    }
    let is_expected = status.code().is_some_and(|code| codes.contains(&code)) && !text.is_empty();
    (!is_expected).then(|| format!("{status}: {text}"))
}

/// A tap has no timeout: it passes everything on, in bounded memory, and ends when its host does.
#[test]
fn a_tap_ends_with_its_host() {
    for flood in ["text", "line", "pings", "stderr", "deaf-notifications"] {
        // An empty file is written to; a second tap would choose another name.
        let record = TemporaryFile::new(&format!("{flood}.wire"), "");
        let mut command = barewire();
        command.args(["tap", "--record", record.path(), "--log", "/dev/null", "--", &flooding_server(), flood]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Ended(command.spawn().expect("it starts"));
        let mut output: Box<dyn Read> = match flood {
            "stderr" => Box::new(child.0.stderr.take().expect("piped")),
            _ => Box::new(child.0.stdout.take().expect("piped")),
        };
        let read = std::io::copy(&mut output.by_ref().take(32 << 20), &mut std::io::sink()).expect("it can be read");
        assert_eq!(read, 32 << 20, "{flood}");
        let peak = peak_memory(&child.0).expect("it runs");
        assert!(peak < MAX_MEMORY_KIB, "{flood}: {} MiB", peak / 1024);
        drop((output, child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take()));
        eventually("the tap ends", || child.0.try_wait().expect("it is our child").is_some());
    }
}

/// Clients that never stop sending, and read nothing.
#[test]
fn a_replayed_server_reads_no_more_than_it_can_answer() {
    // Answers that are much longer than their requests.
    let long = "x".repeat(256 * 1024);
    let text = CAPTURE.replace("\"name\":\"echo\",\"inputSchema\"", &format!("\"name\":\"{long}\",\"inputSchema\""));
    let capture = TemporaryFile::new("served.wire", &text);
    for flood in ["{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n", "\0\0\0\0"] {
        let mut command = barewire();
        command.args(["replay", "--serve", "--quiet", capture.path()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Ended(command.spawn().expect("it starts"));
        let (mut stdin, stdout) = (child.0.stdin.take().expect("piped"), child.0.stdout.take().expect("piped"));
        let flood = flood.repeat(10_000);
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let sender = thread::spawn(move || {
            while let Ok(count) = stdin.write(flood.as_bytes()) {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        });
        let peak = settled_peak(&child.0, &sent);
        assert!(peak < MAX_MEMORY_KIB, "{} MiB", peak / 1024);
        drop(stdout);
        child.0.kill().expect("it is our child");
        sender.join().expect("no panic");
    }
}

/// Waits until a process has read nothing for a second and its peak memory has not grown, and returns the peak. A
/// process that skips what it reads is not waited for.
fn settled_peak(child: &Child, sent: &AtomicUsize) -> u64 {
    let (start, mut last, mut since) = (Instant::now(), (0, 0), Instant::now());
    while last.0 <= MAX_MEMORY_KIB && last.1 <= MAX_SKIPPED && since.elapsed() < Duration::from_secs(1) {
        let now = (peak_memory(child).expect("it runs"), sent.load(Ordering::Relaxed));
        if now != last {
            (last, since) = (now, Instant::now());
        }
        assert!(start.elapsed() < MAX_TIME, "it reads on after {} bytes, with {} KiB", last.1, last.0);
        thread::sleep(Duration::from_millis(10));
    }
    last.0
}

/// The peak memory of a process in KiB, while it runs.
fn peak_memory(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().trim_end_matches(" kB").parse().ok()
}

fn flooding_server() -> String {
    let folder = PathBuf::from(PROGRAM).parent().expect("a folder").join("examples");
    folder.join("flooding-server").to_str().expect("UTF-8").to_owned()
}

/// A flood over HTTP, until it is dropped.
struct HttpFlood {
    _server: Ended,
    url: String,
}

impl HttpFlood {
    fn start(flood: &str) -> Self {
        let mut command = Command::new("nice");
        command.args(["-n", "5", &flooding_server()]);
        let mut server = Ended(command.args([flood, "--http"]).stdout(Stdio::piped()).spawn().expect("it starts"));
        let mut url = String::new();
        let stdout = server.0.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut url).expect("it prints its URL");
        Self { _server: server, url: url.trim().to_owned() }
    }
}

/// A process that is killed when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file that is removed when it is dropped.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-floods-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("it can be written");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
