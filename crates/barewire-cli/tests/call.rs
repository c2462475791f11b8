//! `barewire call` with real programs and sockets: its output, and the processes it leaves behind.
#![cfg(unix)]

use crate::eventually;
use crate::program_output;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use eventually::eventually;
use program_output::{NO_SERVER, ProgramOutput};

const ANSWER: &str = r#"read -r request; echo '{"jsonrpc":"2.0","id":1,"result":{"ok":true, "n":1.0}}'"#;

/// A server that returns the whole request as its result.
const MIRROR: &str = r#"read -r request; printf '{"jsonrpc":"2.0","id":1,"result":%s}\n' "$request""#;

fn call(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.args(["call", "--raw"]).args(options).stdin(Stdio::null());
    command
}

/// Calls a server that is a line of shell.
fn call_script(options: &[&str], script: &str) -> ProgramOutput {
    ProgramOutput::of(call(options).args(["--", "sh", "-c", script]).output().expect("it runs"))
}

impl ProgramOutput {
    /// Asserts that there is no answer, with this message.
    #[track_caller]
    fn failed(&self, stderr: &str) {
        self.has(2, "", stderr);
    }
}

#[test]
fn the_result_is_printed_byte_for_byte() {
    call_script(&["ping"], ANSWER).has(0, "{\"ok\":true, \"n\":1.0}\n", "");
}

/// A server of 2025-11-25 that copies messages after the handshake to stderr.
const LEGACY: &str = r#"read -r line
    echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}'
    read -r line; read -r line; printf '%s\n' "$line" >&2"#;

#[test]
fn meta_is_sent_with_notifications_too_or_refused() {
    let mcp = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        command.args(["call", "--method"]).args(options).args(["--revision", "2025-11-25", "--", "sh", "-c", LEGACY]);
        ProgramOutput::of(command.stdin(Stdio::null()).output().expect("it runs"))
    };
    let printed = mcp(&["notifications/own", r#"{"n":1.0,"_meta":{"a":1}}"#, "--meta", "a=2", "--meta", "b=2"]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let sent = r#"{"jsonrpc":"2.0","method":"notifications/own","params":{"_meta":{"a":1,"b":2},"n":1.0}}"#;
    assert!(printed.stderr.contains(sent), "{}", printed.stderr);

    let printed = mcp(&["notifications/own", "--meta", "b=2"]);
    assert!(printed.stderr.contains(r#""params":{"_meta":{"b":2}}"#), "{}", printed.stderr);

    let printed = mcp(&["subscriptions/listen", "--meta", "b=2"]);
    printed.failed(
        "barewire: --meta: the _meta of subscriptions/listen cannot be extended\nhint: --raw sends any params\n",
    );
}

#[test]
fn a_pretty_result_is_the_same_value() {
    call_script(&["--pretty", "ping"], ANSWER).has(0, "{\n  \"ok\": true,\n  \"n\": 1.0\n}\n", "");
}

#[test]
fn the_request_is_one_line_with_the_params_as_they_were_written() {
    for (params, sent) in [
        (None, r#"{"jsonrpc":"2.0","id":1,"method":"m\"\n"}"#),
        (
            Some(r#" {"a": 1.0, "a": "\u00e9" } "#),
            r#"{"jsonrpc":"2.0","id":1,"method":"m\"\n","params":{"a": 1.0, "a": "\u00e9" }}"#,
        ),
        (Some("[\n1e400]"), r#"{"jsonrpc":"2.0","id":1,"method":"m\"\n","params":[ 1e400]}"#),
    ] {
        let options: Vec<&str> = ["m\"\n"].into_iter().chain(params).collect();
        call_script(&options, MIRROR).has(0, &format!("{sent}\n"), "");
    }
}

#[test]
fn an_error_is_exit_1_with_the_error_on_stdout() {
    let script = r#"read -r request; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no\u001b[2J","data":[1.0]}}'"#;
    let printed = call_script(&["ping"], script);
    assert_eq!(printed.code, Some(1));
    assert_eq!(printed.stdout, "{\"code\":-32601,\"message\":\"no\\u001b[2J\",\"data\":[1.0]}\n");
    let expected = "barewire: the response is an error: no\\x1b[2J (-32601)\nhint: barewire explain -32601\n";
    assert_eq!(printed.stderr, expected);
}

#[test]
fn json_is_one_object_for_every_outcome() {
    let json = |printed: &ProgramOutput| -> serde_json::Value {
        assert_eq!(printed.stdout.lines().count(), 1, "{}", printed.stdout);
        serde_json::from_str(&printed.stdout).expect("JSON")
    };
    let printed = call_script(&["--json", "ping"], ANSWER);
    assert!(printed.stdout.ends_with(",\"result\":{\"ok\":true, \"n\":1.0}}\n"), "{}", printed.stdout);
    assert!(json(&printed)["elapsed"].is_f64());
    assert_eq!((printed.code, &json(&printed)["kind"]), (Some(0), &"result".into()));

    let printed = call_script(
        &["--json", "ping"],
        r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}'"#,
    );
    assert_eq!((printed.code, &json(&printed)["kind"]), (Some(1), &"error".into()));
    assert_eq!(json(&printed)["error"]["code"], 1);

    for (reason, options, script) in [
        ("closed", &["--json", "ping"][..], "echo 'no \"luck\"' >&2; echo twice >&2; exit 3"),
        ("content-length", &["--json", "ping"], r"printf 'Content-Length: 2\r\n\r\n{}'; cat"),
        ("timed-out", &["--json", "ping", "--timeout", "0.1"], "cat >/dev/null"),
        ("bad-answer", &["--json", "ping"], r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"result":1,"error":2}'; cat"#),
    ] {
        let printed = call_script(options, script);
        assert_eq!((printed.code, &json(&printed)["kind"]), (Some(2), &"failed".into()), "{reason}");
        assert_eq!(json(&printed)["reason"], reason);
        let detail = json(&printed)["detail"].as_str().expect("a sentence").to_owned();
        assert!(printed.stderr.contains(&format!("barewire: {detail}\n")), "{}", printed.stderr);
    }
    let printed = ProgramOutput::of(call(&["--json", "ping", "--", "no-such-program"]).output().expect("it runs"));
    assert_eq!((printed.code, &json(&printed)["reason"]), (Some(2), &"not-started".into()));
    let printed = ProgramOutput::of(call(&["--json", "ping", "--connect", "unix:/no/such"]).output().expect("it runs"));
    assert_eq!((printed.code, &json(&printed)["reason"]), (Some(2), &"not-connected".into()));
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let dir = TempDir::new("start");
    let script = dir.file("server.py", "print()");
    let orphan = dir.file("orphan", "#!/no/such/interpreter\n");
    let runnable = Command::new("chmod").arg("+x").arg(&orphan).status().expect("chmod");
    assert!(runnable.success());
    for (program, expected) in [
        ("no-such-program", "no such program in PATH\nhint: is it installed?"),
        ("./no-such-program", "no such file\nhint: check the path"),
        ("my-server --stdio", "no such program in PATH\nhint: do not quote the program and its arguments"),
        (&script, "not an executable file\nhint: make it executable with chmod +x"),
        (&orphan, "the interpreter in its first line is missing\nhint: install it"),
    ] {
        let printed = ProgramOutput::of(call(&["ping", "--", program]).output().expect("it runs"));
        assert_eq!((printed.code, &*printed.stdout), (Some(2), ""));
        let expected = format!("barewire: cannot start {program}: {expected}");
        assert!(printed.stderr.starts_with(&expected), "{}", printed.stderr);
    }
}

#[test]
fn the_exit_code_and_stderr_of_a_program_are_reported() {
    call_script(&["ping"], "echo no config >&2; exit 3")
        .failed("no config\nbarewire: sh exited with code 3; its stderr ends with: no config\n");
    call_script(&["ping"], "kill -9 $$").failed("barewire: sh was ended by signal 9\n");
}

#[test]
fn a_banner_on_stdout_is_reported_and_skipped() {
    let noise = "barewire: frame at byte 0: refused, syntax: expected a value at byte 0 (-32700): Ready!\n";
    call_script(&["ping"], &format!("echo 'Ready!'; {ANSWER}")).has(0, "{\"ok\":true, \"n\":1.0}\n", noise);
    call_script(&["ping"], "echo 'Ready!'; read -r request; exit 0").failed(&format!(
        "{noise}barewire: sh exited with code 0; its output at byte 0 is not a message: Ready!\n\
         hint: the program must write only messages to stdout, and logs to stderr\n"
    ));
}

#[test]
fn the_other_framing_is_recognised_and_spoken() {
    let script =
        r#"read -r request; printf 'Content-Length: 36\r\n\r\n{"jsonrpc":"2.0","id":1,"result":{}}'; cat >/dev/null"#;
    let printed = call_script(&["ping"], script);
    assert_eq!((printed.code, &*printed.stdout), (Some(2), ""));
    let expected = "barewire: the peer sends Content-Length headers, as language servers do; expected one message per line\n\
                hint: try --framing content-length\n";
    assert!(printed.stderr.ends_with(expected), "{}", printed.stderr);
    call_script(&["ping", "--framing", "content-length"], script).has(0, "{}\n", "");
}

#[test]
fn a_timeout_cancels_the_request() {
    let printed = call_script(&["ping", "--timeout", "0.2"], "while read -r line; do echo $line >&2; done");
    assert_eq!((printed.code, &*printed.stdout), (Some(2), ""));
    for line in [
        "barewire: no response within 200ms\nhint: use --timeout to wait longer; a language server needs --framing content-length",
        r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#,
    ] {
        assert!(printed.stderr.contains(&format!("{line}\n")), "{}", printed.stderr);
    }
}

#[test]
fn notifications_and_requests_meanwhile_go_to_stderr() {
    let script = r#"read -r request
        echo '{"jsonrpc":"2.0","method":"progress","params":{"done":0.50}}'
        echo '{"jsonrpc":"2.0","method":"m\u001b"}'
        echo '{"jsonrpc":"2.0","id":"a","method":"roots/list"}'
        read -r refusal
        echo "$refusal" >&2
        echo '{"jsonrpc":"2.0","id":1,"result":null}'"#;
    let refusal = r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"Method not found","data":{"method":"roots/list"}}}"#;
    let printed = call_script(&["ping"], script);
    assert_eq!((printed.code, &*printed.stdout), (Some(0), "null\n"));
    for line in [r#"notification progress {"done":0.50}"#, r"notification m\x1b", "refused request roots/list", refusal]
    {
        assert!(printed.stderr.lines().any(|printed| printed == line), "{line}\n{}", printed.stderr);
    }
    call_script(&["ping", "--quiet"], script).has(0, "null\n", &format!("{refusal}\n"));
}

/// In a file or a pipe, colours of the program are kept.
#[test]
fn stderr_of_the_program_is_unchanged_without_a_terminal() {
    let printed =
        call_script(&["ping"], &format!("printf '\\033[31mred\\033[0m\\n\\tindented\\nno end' >&2; {ANSWER}"));
    printed.has(0, "{\"ok\":true, \"n\":1.0}\n", "\x1b[31mred\x1b[0m\n\tindented\nno end\n");
}

#[test]
fn params_come_from_a_file_or_stdin() {
    let dir = TempDir::new("params");
    let params = "{\n  \"a\": [1.0]\n}\n";
    let sent = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{   \"a\": [1.0] }}\n";
    let file = format!("@{}", dir.file("params.json", params));
    call_script(&["m", &file], MIRROR).has(0, sent, "");

    let mut child = call(&["m", "-", "--", "sh", "-c", MIRROR]);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(params.as_bytes()).expect("it reads");
    ProgramOutput::of(child.wait_with_output().expect("it ends")).has(0, sent, "");
}

#[test]
fn bad_params_are_reported_before_a_program_is_started() {
    let dir = TempDir::new("bad-params");
    let started = dir.path.join("started");
    let script = format!("touch {}; {ANSWER}", started.display());
    let file = dir.file("params.json", "{\n  \"a\": [1,]\n}\n");
    let quoted = "hint: params are JSON; in a shell, quoted: '{\"name\":\"value\"}'\n";
    call_script(&["m", &format!("@{file}")], &script)
        .failed(&format!("barewire: {file}: expected a value at byte 12\n    \"a\": [1,]\n            ^\n{quoted}"));
    call_script(&["m", "{a: 1}"], &script).failed(&format!(
        "barewire: the params: expected a member name in double quotes at byte 1\n  {{a: 1}}\n   ^\n{quoted}"
    ));
    call_script(&["m", " 1"], &script).failed(
        "barewire: the params: expected an object or an array, not a number, at byte 1\n   1\n   ^\n\
         hint: leave the params out if there are none\n",
    );
    call_script(&["m", "\"\u{1b}"], &script).failed(&format!(
        "barewire: the params: a control character inside a string must be escaped at byte 1\n  \"\\x1b\n   ^\n{quoted}"
    ));
    call_script(&["m", "@/no/such/file"], &script).failed(
        "barewire: cannot read /no/such/file: No such file or directory (os error 2)\n\
         hint: @ takes the path of a file\n",
    );
    assert!(!started.exists());
}

#[test]
fn a_listener_can_be_called() {
    let dir = TempDir::new("sockets");
    let path = dir.path.join("s");
    let unix = UnixListener::bind(&path).expect("a socket");
    let server = answer_once(move || unix.accept().expect("a connection").0);
    let printed =
        ProgramOutput::of(call(&["ping", "--connect", &format!("unix:{}", path.display())]).output().expect("it runs"));
    printed.has(0, "[1]\n", "");
    assert_eq!(server.join().expect("it answers"), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");

    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp:{}", tcp.local_addr().expect("an address"));
    let server = answer_once(move || tcp.accept().expect("a connection").0);
    ProgramOutput::of(call(&["ping", "--connect", &address]).output().expect("it runs")).has(0, "[1]\n", "");
    server.join().expect("it answers");

    let printed =
        ProgramOutput::of(call(&["ping", "--connect", &format!("tcp:{NO_SERVER}")]).output().expect("it runs"));
    assert_eq!((printed.code, &*printed.stdout), (Some(2), ""));
    let expected = format!("barewire: cannot connect to tcp:{NO_SERVER}: Connection refused");
    assert!(printed.stderr.starts_with(&expected), "{}", printed.stderr);
    assert!(printed.stderr.ends_with("\nhint: is the server running?\n"), "{}", printed.stderr);
}

/// Accepts a connection and answers one request. Returns all that the client sent until it closed the connection.
fn answer_once<S: Read + Write>(accept: impl FnOnce() -> S + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut stream = BufReader::new(accept());
        let mut sent = String::new();
        stream.read_line(&mut sent).expect("a request");
        stream.get_mut().write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}\n").expect("it reads");
        stream.read_to_string(&mut sent).expect("the end");
        sent
    })
}

#[test]
fn an_http_server_is_recognised() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp:{}", tcp.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        let mut stream = BufReader::new(tcp.accept().expect("a connection").0);
        stream.read_line(&mut String::new()).expect("a request");
        stream.get_mut().write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").expect("it reads");
    });
    let printed = ProgramOutput::of(call(&["ping", "--connect", &address]).output().expect("it runs"));
    assert_eq!(printed.code, Some(2));
    assert!(printed.stderr.ends_with("hint: it is an HTTP server: use --url http://…\n"), "{}", printed.stderr);
    server.join().expect("it answers");
}

#[test]
fn a_call_has_exactly_one_target() {
    let printed = |options: &[&str]| ProgramOutput::of(call(options).output().expect("it runs"));
    printed(&["ping"]).failed(
        "barewire: no target: expected a program, --connect or --url\n\
         hint: barewire call --raw METHOD [PARAMS] -- PROGRAM ARGS…\n",
    );
    printed(&["ping", "--connect", "tcp:localhost:1", "--", "cat"])
        .failed("barewire: a program and --connect are two targets\nhint: leave one of them out\n");
    for address in ["localhost:1", "tcp:localhost", "tcp::1", "tcp:localhost:http", "unix:", "http://localhost"] {
        let printed = printed(&["ping", "--connect", address]);
        assert_eq!((printed.code, &*printed.stdout), (Some(2), ""), "{address}");
        assert!(printed.stderr.contains("expected"), "{}", printed.stderr);
    }
}

#[test]
fn a_closed_stdout_is_not_an_error_and_leaves_no_process_behind() {
    let mut child = call(&["ping", "--", "sh", "-c", &format!("echo $$ >&2; sleep 0.3; {ANSWER}; exec sleep 60")]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let (pid, mut stderr) = first_line(&mut child);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("UTF-8");
    assert_eq!((child.wait().expect("it ends").code(), &*rest), (Some(0), ""));
    assert!(!is_there(&pid));
}

#[test]
fn the_result_is_printed_before_a_slow_program_has_ended() {
    let script = format!("trap '' TERM; echo $$ >&2; {ANSWER}; while :; do sleep 0.1; done");
    let mut child = call(&["ping", "--", "sh", "-c", &script]);
    let start = Instant::now();
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (pid, _stderr) = first_line(&mut child);
    let mut answer = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut answer).expect("UTF-8");
    assert_eq!(answer, "{\"ok\":true, \"n\":1.0}\n");
    // It stays for four more seconds.
    assert!(is_there(&pid));
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    // Two seconds after the end of its stdin, and two after SIGTERM.
    assert!(start.elapsed() >= Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(!is_there(&pid));
}

#[test]
fn a_signal_cancels_the_call_and_leaves_no_process_behind() {
    for (signal, name) in [("-INT", "SIGINT"), ("-TERM", "SIGTERM")] {
        let script = "echo $$ >&2; while read -r line; do echo $line >&2; done; exec sleep 60";
        let mut child = call(&["ping", "--", "sh", "-c", script]);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (pid, mut stderr) = first_line(&mut child);
        let mut request = String::new();
        stderr.read_line(&mut request).expect("UTF-8");
        send(signal, &child);
        let mut text = String::new();
        stderr.read_to_string(&mut text).expect("UTF-8");
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let cancelled = format!("barewire: cancelled by {name}");
        assert_eq!(lines, [&*cancelled, r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#]);
        assert_eq!(child.wait().expect("it ends").code(), Some(2));
        assert!(!is_there(&pid));
    }
}

#[test]
fn a_second_signal_ends_the_call_at_once_and_the_program_too() {
    // Ending the program step by step would take four seconds every time.
    let quickest = (0..5).map(|_| ended_by_two_signals()).find(|took| *took < Duration::from_millis(3500));
    assert!(quickest.is_some());
}

/// Sends two signals to a call of a program that ignores SIGTERM. Returns the time from the first signal to the end.
fn ended_by_two_signals() -> Duration {
    let script = "trap '' TERM; echo $$ >&2; while :; do sleep 0.1; done";
    let mut child = call(&["ping", "--", "sh", "-c", script]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (pid, mut stderr) = first_line(&mut child);
    let start = Instant::now();
    send("-INT", &child);
    let mut text = String::new();
    stderr.read_line(&mut text).expect("UTF-8");
    assert_eq!(text, "barewire: cancelled by SIGINT\n");
    send("-INT", &child);
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
    let took = start.elapsed();
    eventually("the server is gone", || !is_there(&pid));
    took
}

#[test]
fn waiting_for_a_listener_can_be_cancelled_too() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp:{}", tcp.local_addr().expect("an address"));
    let mut child = call(&["ping", "--timeout", "0", "--connect", &address]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stream = BufReader::new(tcp.accept().expect("a connection").0);
    let mut sent = String::new();
    stream.read_line(&mut sent).expect("a request");
    send("-INT", &child);
    sent.clear();
    stream.read_to_string(&mut sent).expect("the end");
    assert_eq!(sent, "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":1}}\n");
    ProgramOutput::of(child.wait_with_output().expect("it ends")).failed("barewire: cancelled by SIGINT\n");
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Returns the first line of a program's stderr, which is its process id, and a reader of the rest.
fn first_line(child: &mut Child) -> (String, impl BufRead + use<>) {
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("UTF-8");
    (line.trim().to_owned(), stderr)
}

/// Whether a process runs. A zombie does not.
fn is_there(pid: &str) -> bool {
    let ps = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().expect("ps");
    let state = String::from_utf8_lossy(&ps.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

/// A directory that is removed when dropped.
struct TempDir {
    path: PathBuf,
}

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self { path }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path.join(name);
        fs::write(&path, text).expect("a file");
        Path::to_str(&path).expect("UTF-8").to_owned()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
