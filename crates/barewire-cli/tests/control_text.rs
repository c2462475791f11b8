//! Every command with a server, a client, a capture or a configuration whose every text contains characters that
//! control a terminal: none of them reaches stdout or stderr.

#![cfg(unix)]

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::checked::fixture;

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire");

/// The characters that the server, and the files below, put into every text. The tests look for any of their kind.
const CONTROL: &str = "\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{7}\r\u{2028}\u{feff}";

fn is_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The streams of a command that are results for another program, so that they are unchanged in a pipe.
#[derive(Clone, Copy, PartialEq)]
enum Unchanged {
    Nothing,
    Stdout,
}

/// A temporary folder, and the number of commands that were run and that showed the escaped form of a character.
struct Place {
    path: PathBuf,
    commands: Cell<usize>,
    escaped: Cell<usize>,
}

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-control-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self { path, commands: Cell::new(0), escaped: Cell::new(0) }
    }

    fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(&self.path).env("HOME", &self.path).env("NO_COLOR", "1").env_remove("COLUMNS");
        command
    }

    /// Runs a command with pipes, and then at a terminal.
    fn check(&self, args: &[&str], input: &str, unchanged: Unchanged) {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        // The command may end before it has read everything.
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("it ends");
        let stdout = if unchanged == Unchanged::Nothing { &output.stdout[..] } else { b"" };
        let text = [stdout, &output.stderr].concat();
        assert!(!text.is_empty() || unchanged == Unchanged::Stdout, "{args:?} says nothing");
        self.no_control(args, "in a pipe", &text);
        self.check_at_a_terminal(args, input);
    }

    fn check_at_a_terminal(&self, args: &[&str], input: &str) {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("a terminal");
        let name = ptsname(&screen, Vec::new()).expect("its name").into_string().expect("UTF-8");
        let open = || File::options().read(true).write(true).open(&name).expect("its other side");
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(open()).stderr(open()).spawn().expect("it runs");
        drop(command);
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        let (mut screen, mut seen, mut bytes) = (File::from(screen), Vec::new(), [0; 4096]);
        // Reading fails once the program has closed the terminal.
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            seen.extend_from_slice(&bytes[..count]);
        }
        child.wait().expect("it ends");
        // The status line is erased, and the terminal turns a line break into two characters.
        let seen = String::from_utf8_lossy(&seen).replace("\r\u{1b}[K", "").replace("\r\n", "\n");
        self.no_control(args, "at a terminal", seen.as_bytes());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Without this, a server that does not start would pass all tests.
        let (commands, escaped) = (self.commands.get(), self.escaped.get());
        assert!(thread::panicking() || 2 * escaped > commands, "only {escaped} of {commands} commands show such text");
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Place {
    #[track_caller]
    fn no_control(&self, args: &[&str], at: &str, text: &[u8]) {
        let text = std::str::from_utf8(text).unwrap_or_else(|error| panic!("{args:?} {at}: {error}"));
        if let Some((offset, c)) = text.char_indices().find(|(_, c)| is_control(*c)) {
            let near: String = text[..offset].chars().rev().take(120).collect::<Vec<_>>().into_iter().rev().collect();
            panic!("{args:?} {at}: U+{:04X} after {near:?}", u32::from(c));
        }
        let is_escaped = ["\\xc2\\x9b", "\\u009b", "\\x1b", "\u{fffd}"].iter().any(|form| text.contains(form));
        self.commands.set(self.commands.get() + 1);
        self.escaped.set(self.escaped.get() + usize::from(is_escaped));
    }
}

fn server() -> String {
    fixture("control-text-server").to_str().expect("UTF-8").to_owned()
}

/// The name of everything that the server has.
fn name(prefix: &str) -> String {
    format!("{prefix}x{CONTROL}y")
}

/// Messages of a client, for a server on stdin.
fn client_messages() -> String {
    let text = name("");
    let request = |id: Value, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let info = json!({"name": text, "version": text, "title": text});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let call = json!({"name": text, "arguments": {&text: text}, "_meta": {"progressToken": text}});
    [
        request(json!(1), "initialize", hello),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        request(json!(2), "tools/list", json!({})),
        request(json!(text), "tools/call", call.clone()),
        request(json!(4), "tools/call", call),
        request(json!(5), &format!("unknown/{text}"), json!({&text: text})),
        format!("not JSON: {text}").replace('\r', " "),
        "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"a\u{9b}\",\"\u{202e}\":\"\u{9b}\",}".to_owned(),
        format!("[\"{}\"]", "\u{9b}\u{202e}".repeat(50)),
        request(json!(7), "resources/read", json!({"uri": text})),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": text, "reason": text}})
            .to_string(),
        json!({"jsonrpc": "2.0", "id": text, "result": {&text: text}}).to_string(),
    ]
    .map(|line| line + "\n")
    .concat()
}

/// Records a session with the server.
fn recorded(place: &Place, file: &str, server: &[&str]) -> String {
    let path = place.file(file);
    let mut command = place.command(&["tap", "--record", &path, "--"]);
    command.args(server).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    child.stdin.take().expect("piped").write_all(client_messages().as_bytes()).expect("it reads");
    child.wait().expect("it ends");
    assert!(fs::read_to_string(&path).expect("a capture").contains("unknown/"), "everything is recorded");
    path
}

#[test]
fn call() {
    let place = Place::new("call");
    let (server, text) = (server(), name(""));
    let target = ["--timeout", "5s", "--", &server, "--quiet"];
    for what in [
        &["tools"][..],
        &["resources"],
        &["templates"],
        &["prompts"],
        &["initialize"],
        &["server/discover"],
        &["tools", "--json"],
        &["tools", "--pretty"],
        &["plain", "--json"],
        &["tools/list", "--raw", "--json"],
        &["unknown/method", "--method"],
        &["unknown/method", "--method", "--json"],
        &["missing-tool"],
        &[&text],
        &["prompt", "missing"],
        &["resources", "--revision", "2026-07-28"],
    ] {
        place.check(&[&["call"], what, &target].concat(), "", Unchanged::Nothing);
    }
    let argument = format!("{text}={text}");
    for what in [
        &["plain"][..],
        &["plain", "--tool", "--log-level", "debug"],
        &[&text, "--tool", &argument],
        &["read", &text],
        &["prompt", &text, &argument],
        &["tools/list", "--raw"],
        &["tools/call", "--raw"],
        &["unknown", "--raw"],
    ] {
        place.check(&[&["call"], what, &target].concat(), "", Unchanged::Stdout);
    }
    // At a terminal, the stderr of the server is escaped too.
    place.check_at_a_terminal(&["call", "plain", "--timeout", "5s", "--", &server], "");
    place.check_at_a_terminal(&["call", "tools/list", "--raw", "--timeout", "5s", "--", &server], "");
    place.check(&["call", "tools", "--", &server, "--quiet", "--garbage"], "", Unchanged::Nothing);
    place.check_at_a_terminal(&["call", "tools", "--", &server, "--garbage"], "");
}

#[test]
fn check_and_bench() {
    let place = Place::new("check");
    let server = server();
    let target = ["--", &server, "--quiet"];
    for options in [&[][..], &["-v"], &["--json"], &["--junit"], &["--sarif"]] {
        let args = [&["check", "--patience", "1s", "--quiet", "--allow-calls"], options, &target].concat();
        place.check(&args, "", Unchanged::Nothing);
    }
    place.check_at_a_terminal(&["check", "--patience", "1s", "--", &server], "");
    place.check(&["check", "--", &server, "--garbage"], "", Unchanged::Nothing);
    let capture = recorded(&place, "c.wire", &[&server]);
    for options in [&[][..], &["--json"], &["--junit"], &["--sarif"]] {
        place.check(&[&["check", "--no-redact"], options, &[&capture]].concat(), "", Unchanged::Nothing);
    }
    for options in [&["plain"][..], &["plain", "--json"], &["unknown/method", "--method"]] {
        let args = [&["bench", "--count", "3", "--timeout", "2s"], options, &target].concat();
        place.check(&args, "", Unchanged::Nothing);
    }
    let against = format!("{}={server}", name("").replace(' ', ""));
    place.check(
        &[&["bench", "--count", "3", "plain", "--against", &against], &target[..]].concat(),
        "",
        Unchanged::Nothing,
    );
}

#[test]
fn read_tap_and_replay() {
    let place = Place::new("read");
    let server = server();
    let capture = recorded(&place, "one.wire", &[&server, "one"]);
    for options in [
        &[][..],
        &["--json"],
        &["--summary"],
        &["--summary", "--json"],
        &["--diagram", "text"],
        &["--diagram", "svg"],
        &["--diagram", "mermaid"],
        &["--events"],
        &["--events", "--json"],
        &["--errors"],
        &["--unanswered"],
        &["--id", &name("")],
        &["--tool", &name("")],
        &["--text", &name("")],
    ] {
        place.check(&[&["read", &capture], options].concat(), "", Unchanged::Nothing);
    }
    for frame in 1..20 {
        for options in [&[][..], &["--json"]] {
            let frame = frame.to_string();
            place.check(&[&["read", "--frame", &frame, &capture], options].concat(), "", Unchanged::Nothing);
        }
    }
    // A log, and captures with lines that are none.
    place.check(&["read", "-"], &client_messages(), Unchanged::Nothing);
    place.check(
        &["read", "--format", "sse", "-"],
        &format!("event: {0}\nid: {0}\ndata: {0}\n\n", name("")),
        Unchanged::Nothing,
    );
    place.check(
        &["read", "--format", "content-length", "-"],
        &format!("A{}: 1\r\n\r\n{{}}", name("")),
        Unchanged::Nothing,
    );
    let text = fs::read_to_string(&capture).expect("UTF-8").replace('x', &name("").replace('\r', ""));
    for broken in [format!("{text}\u{9b}{}\n", name("")), text, "wire 1\n@ \u{9b} \u{202e}\n? \u{9b}\n".to_owned()] {
        fs::write(place.file("broken.wire"), broken).expect("written");
        place.check(&["read", "broken.wire"], "", Unchanged::Nothing);
        place.check(&["check", "broken.wire"], "", Unchanged::Nothing);
        place.check(&["replay", "broken.wire", "--", &server, "--quiet"], "", Unchanged::Nothing);
    }
    let name_of_file = format!("{}.wire", name("f").replace('/', ""));
    fs::copy(&capture, place.file(&name_of_file)).expect("copied");
    for verb in ["read", "check"] {
        place.check(&[verb, &name_of_file], "", Unchanged::Nothing);
        place.check(&[verb, &format!("no-{name_of_file}")], "", Unchanged::Nothing);
    }
    let replayed = place.command(&["replay", &capture, "--", &server, "--quiet", "two"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&replayed.stderr).into_owned();
    assert!(said.contains("note: the server's version is \"twox\\u001b[2J\\xc2\\x9b2J\\xe2\\x80\\xae"), "{said}");
    for options in [&[][..], &["--json"], &["--notifications"]] {
        let replay = ["replay", &capture, "--timeout", "2s"];
        place.check(&[&replay[..], options, &["--", &server, "--quiet"]].concat(), "", Unchanged::Nothing);
        place.check(&[&replay[..], options, &["--", &server, "--quiet", "two"]].concat(), "", Unchanged::Nothing);
    }
    place.check(
        &["replay", &capture, "--timeout", "2s", "--", &server, "--garbage", "--quiet"],
        "",
        Unchanged::Nothing,
    );
    place.check_at_a_terminal(&["replay", &capture, "--timeout", "2s", "--", &server], "");
    place.check_stderr(&["replay", "--serve", &capture]);
    for log in ["stderr", &place.file("log.txt")] {
        place.check_stderr(&["tap", "--log", log, "--", &server, "--quiet"]);
    }
    place.no_control(&["tap", "--log", "log.txt"], "in the log", &fs::read(place.file("log.txt")).expect("a log"));
    place.check_stderr(&["tap", "--record", "/nowhere/\u{9b}.wire", "--", &server, "--quiet"]);
    place.check_stderr(&["tap", "--", "/no/such/\u{9b}program"]);
}

impl Place {
    /// Runs a command whose stdout is for messages, so that only its stderr is for people.
    fn check_stderr(&self, args: &[&str]) {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        let _ = child.stdin.take().expect("piped").write_all(client_messages().as_bytes());
        self.no_control(args, "on stderr", &child.wait_with_output().expect("it ends").stderr);
    }
}

#[test]
fn serve_and_explain() {
    let place = Place::new("serve");
    // The answers to the client are messages.
    let args = ["serve"];
    let mut command = place.command(&args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("piped").write_all(client_messages().as_bytes()).expect("it reads");
    let said = child.wait_with_output().expect("it ends").stderr;
    assert!(!said.is_empty(), "invalid frames are reported");
    place.no_control(&args, "on stderr", &said);
    place.check(&["explain", &name("")], "", Unchanged::Nothing);
    place.check(&["check", "--explain", &name("")], "", Unchanged::Nothing);
}

#[test]
fn attach_and_detach() {
    let place = Place::new("attach");
    let text = name("");
    let folder = format!("{}", place.path.display());
    let entry = |command: &str| json!({"command": command, "args": [text], "env": {&text: text}});
    let config = json!({
        "mcpServers": {&text: entry(&text), "url": {"url": format!("http://{text}/?{text}")}, "odd": {"command": 1}},
        "servers": {&text: entry("b")},
        "projects": {folder: {"mcpServers": {&text: entry("c")}}, &text: {"mcpServers": {"other": entry("d")}}},
    });
    let file = format!("{}.json", name("c"));
    for (name, content) in [
        ("c.json", config.to_string()),
        (&file, config.to_string()),
        ("broken.json", "{\"mcpServers\": {\"\u{9b}\u{202e}\" \u{9b}".to_owned()),
        ("control.json", format!("{{\"{text}\": 1}}")),
    ] {
        fs::write(place.path.join(name), content).expect("written");
    }
    for config in ["c.json", &file, "broken.json", "control.json", "missing\u{9b}.json"] {
        place.check(&["attach", config], "", Unchanged::Nothing);
        for server in [&*text, "url", "odd", "other", &format!("{text}z"), "missing"] {
            place.check(&["attach", config, server, "--dry-run"], "", Unchanged::Stdout);
            place.check(&["attach", config, server], "", Unchanged::Nothing);
            place.check(&["attach", config], "", Unchanged::Nothing);
            place.check(&["detach", config, server], "", Unchanged::Nothing);
        }
    }
    place.check(&["attach", "c.json", &text, "--", &format!("--{text}")], "", Unchanged::Nothing);
    place.check(&["attach", "c.json", &text, "--record", &format!("/nowhere/{text}/a")], "", Unchanged::Nothing);
}

#[test]
fn over_http() {
    let place = Place::new("http");
    let (_server, url) = http_server();
    for path in ["/mcp", "/unauthorized", "/redirect", "/failed"] {
        let url = format!("{url}{path}");
        for what in [&["tools"][..], &["tools", "--json"], &["missing"]] {
            place.check(&[&["call", "--timeout", "5s", "--url", &url], what].concat(), "", Unchanged::Nothing);
        }
        place.check(&["call", "plain", "--timeout", "5s", "--url", &url], "", Unchanged::Stdout);
        for options in [&[][..], &["--json"]] {
            let args = [&["check", "--patience", "1s", "--quiet", "--url", &url], options].concat();
            place.check(&args, "", Unchanged::Nothing);
        }
        place.check(&["bench", "plain", "--count", "3", "--timeout", "2s", "--url", &url], "", Unchanged::Nothing);
    }
    // A tap between a client and the server: its log, and the capture that it writes.
    let mut command = place.command(&["tap", "--http", "127.0.0.1:0", "--to", &url, "--log", "stderr"]);
    command.args(["--record", "tap.wire"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut tap = command.spawn().expect("it runs");
    let mut stderr = BufReader::new(tap.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("Ctrl-C stops it") {
        assert!(stderr.read_line(&mut said).expect("it says where it is") > 0, "{said}");
    }
    let at = said.split([' ', ',']).rfind(|word| word.starts_with("http://")).expect("a URL").to_owned();
    let rest = thread::spawn(move || {
        let mut rest = Vec::new();
        stderr.read_to_end(&mut rest).map(|_| rest).expect("readable")
    });
    for path in ["/mcp", "/unauthorized", "/failed"] {
        let at = format!("{}{path}", at.trim_end_matches('/'));
        place.check(&["call", "tools", "--timeout", "5s", "--url", &at], "", Unchanged::Nothing);
    }
    let id = i32::try_from(tap.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("sent");
    tap.wait().expect("it ends");
    let log = [said.into_bytes(), rest.join().expect("it ends")].concat();
    place.no_control(&["tap", "--http"], "on stderr", &log);
    assert!(Path::new(&place.file("tap.wire")).exists());
    for options in [&[][..], &["--json"], &["--events"], &["--summary"], &["--diagram", "text"]] {
        place.check(&[&["read", "tap.wire"], options].concat(), "", Unchanged::Nothing);
    }
    place.check(&["check", "tap.wire"], "", Unchanged::Nothing);
    place.check(&["replay", "tap.wire", "--timeout", "2s", "--url", &format!("{url}/mcp")], "", Unchanged::Nothing);
}

/// A server that ends when this is dropped.
struct RunningServer(Child);

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn http_server() -> (RunningServer, String) {
    let mut process = Command::new(server()).arg("--http").stdout(Stdio::piped()).spawn().expect("it runs");
    let mut url = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut url).expect("a line");
    (RunningServer(process), url.trim_end().to_owned())
}
