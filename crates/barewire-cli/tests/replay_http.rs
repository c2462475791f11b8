//! `barewire replay` over HTTP: captures of programs and of URLs, replayed to programs and to URLs.
#![cfg(unix)]

use crate::program_output;
use crate::tap_http::ends;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use ends::{Client, PROGRAM, Served, Tap, server};
use program_output::{NO_SERVER, ProgramOutput};

const TOKEN: &str = "BAREWIRE_TEST_TOKEN";
const SECRET: &str = "open-sesame-0815";

fn run(args: &[&str]) -> ProgramOutput {
    let mut command = Command::new(PROGRAM);
    ProgramOutput::of(command.args(args).env(TOKEN, SECRET).stdin(Stdio::null()).output().expect("it runs"))
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-http-{name}.wire"))
}

fn written(name: &str, text: &str) -> String {
    fs::write(file(name), text).expect("a file");
    file(name).to_str().expect("UTF-8").to_owned()
}

/// Records calls to our server on stdio with a tap.
fn on_stdio(name: &str, call: &[&str]) -> String {
    let path = file(name).to_str().expect("UTF-8").to_owned();
    let _ = fs::remove_file(&path);
    let said = run(&[&["call"], call, &["--", PROGRAM, "tap", "--record", &path, "--", PROGRAM, "serve"]].concat());
    assert_ne!(said.code, Some(2), "{}", said.stderr);
    path
}

/// Records calls over HTTP, each in a session of its own.
fn over_http(served: &Served, name: &str, calls: &[&[&str]]) -> String {
    let tap = Tap::with(&served.url, &format!("replay-{name}"), &[]);
    for call in calls {
        let said = run(&[&["call"], *call, &["--url", &tap.url]].concat());
        assert_ne!(said.code, Some(2), "{}", said.stderr);
    }
    let path = tap.record().to_str().expect("UTF-8").to_owned();
    tap.end();
    path
}

const SERVE: &[&str] = &["--", PROGRAM, "serve"];

#[test]
fn messages_are_replayed_on_any_transport() {
    let served = Served::new(&[]);
    for revision in ["2025-03-26", "2025-11-25", "2026-07-28"] {
        for (index, asked) in [
            &["echo", "text=hello"][..],
            &["sleep", "ms=20", "--quiet"],
            &["greet", "--answer", "name=Ada"],
            &["fail", "message=no"],
        ]
        .iter()
        .enumerate()
        {
            let asked = [asked, &["--revision", revision][..]].concat();
            let stdio = on_stdio(&format!("{revision}-{index}"), &asked);
            let http = over_http(&served, &format!("{revision}-{index}"), &[&asked]);
            for (capture, to) in
                [(&stdio, &["--url", &served.url][..]), (&http, &["--url", &served.url]), (&http, SERVE)]
            {
                let said = run(&[&["replay", capture, "--notifications"], to].concat());
                assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{asked:?} {to:?} {}", said.stderr);
                assert!(said.stderr.ends_with(" compared: no difference\n"), "{}", said.stderr);
                assert!(!said.stderr.contains(" 0 compared"), "{}", said.stderr);
            }
            // The same capture serves on stdio.
            let said = run(&[&["call"], &asked[..], &["--", PROGRAM, "replay", "--quiet", "--serve", &http]].concat());
            let direct = run(&[&["call"], &asked[..], SERVE].concat());
            assert_eq!((said.code, said.stdout), (direct.code, direct.stdout), "{asked:?} {}", said.stderr);
        }
    }
}

/// A capture as a server over HTTP, until it is ended.
struct FromCapture {
    process: Child,
    stderr: BufReader<ChildStderr>,
    url: String,
}

impl FromCapture {
    fn new(capture: &str, options: &[&str]) -> Self {
        let mut process = Command::new(PROGRAM)
            .args(["replay", "--serve", capture, "--http", "127.0.0.1:0"])
            .args(options)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut stderr = BufReader::new(process.stderr.take().expect("piped"));
        let mut first = String::new();
        stderr.read_line(&mut first).expect("text");
        let url = first.split([' ', ',']).find(|word| word.starts_with("http://")).expect("a URL").to_owned();
        Self { process, stderr, url }
    }

    /// Ends the server, and returns its exit code and stderr.
    fn end(&mut self) -> (Option<i32>, String) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::TERM).expect("it is there");
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).expect("text");
        (self.process.wait().expect("it ends").code(), said)
    }
}

impl Drop for FromCapture {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_capture_is_a_server_over_http() {
    let served = Served::new(&[]);
    for revision in ["2025-06-18", "2026-07-28"] {
        for (name, asked) in [("greet", &["greet", "--answer", "name=Ada"][..]), ("sleep", &["sleep", "ms=20"])] {
            let asked = [asked, &["--revision", revision][..]].concat();
            let stdio = on_stdio(&format!("serve-{name}-{revision}"), &asked);
            let http = over_http(&served, &format!("serve-{name}-{revision}"), &[&asked]);
            for capture in [stdio, http] {
                let mut server = FromCapture::new(&capture, &[]);
                // Several times, each in a session of its own.
                for _ in 0..2 {
                    let said = run(&[&["call"], &asked[..], &["--url", &server.url]].concat());
                    let direct = run(&[&["call"], &asked[..], &["--url", &served.url]].concat());
                    let told = (said.code, said.stdout, said.stderr);
                    assert_eq!(told, (direct.code, direct.stdout, direct.stderr), "{asked:?}");
                }
                let said = run(&["replay", &capture, "--notifications", "--url", &server.url]);
                assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{}", said.stderr);
                let (code, said) = server.end();
                assert_eq!(code, Some(0), "{said}");
                assert!(said.ends_with(" matched, 0 unmatched; 0 recorded requests unused\n"), "{said}");
            }
        }
    }
}

#[test]
fn a_capture_over_http_is_for_this_machine_and_refuses_bad_requests() {
    let capture = written(
        "refuses",
        "> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
    );
    let mut server = FromCapture::new(&capture, &[]);
    let at = server.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let asked = |head: &str, body: &str| {
        let mut client = Client::new(TcpStream::connect(&at).expect("connected"));
        let length = body.len();
        client.send(format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}"));
        String::from_utf8(client.rest()).expect("text")
    };
    let post = format!("POST /mcp HTTP/1.1\r\nhost: {at}");
    let a = "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"a\"}";
    let answer = asked(&post, a);
    assert!(answer.ends_with("\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}"), "{answer}");
    for (head, body, status) in [
        ("POST /mcp HTTP/1.1\r\nhost: evil.example", a, "403"),
        (&*format!("{post}\r\norigin: https://evil.example"), a, "403"),
        (&*format!("{post}\r\nmcp-session-id: none"), a, "404"),
        (&*format!("GET /mcp HTTP/1.1\r\nhost: {at}"), "", "405"),
        (&*format!("POST /other HTTP/1.1\r\nhost: {at}"), a, "404"),
        (&*format!("POST /mcp?a=b HTTP/1.1\r\nhost: {at}"), a, "200"),
        (&*post, "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}", "202"),
        (&*post, "nonsense", "400"),
        ("nonsense", "", "400"),
    ] {
        let answer = asked(head, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head} {body}: {answer}");
    }
    assert_eq!(server.end().0, Some(1));
    let said = run(&["replay", "--serve", &capture, "--http", "0.0.0.0:0"]);
    let told = "barewire: cannot serve at 0.0.0.0:0: other machines could connect\nhint: use 127.0.0.1:PORT\n";
    said.has(2, "", told);
}

#[test]
fn a_different_response_over_http_is_shown_with_its_place() {
    let served = Served::new(&["--bearer-env", TOKEN]);
    let capture = on_stdio("add", &["add", "a=19", "b=23", "--revision", "2025-06-18"]);
    let text = fs::read_to_string(&capture).expect("a capture").replace("\"text\":\"42\"", "\"text\":\"43\"");
    let capture = written("add-changed", &text);
    let said = run(&["replay", &capture, "--url", &served.url, "--bearer-env", TOKEN]);
    let diff = "tools/call add, id 3: the response differs (frames 6, 7)\n  /result/content/0/text\n    - \"43\"\n    + \"42\"\n";
    said.has(1, diff, "4 messages sent, 3 compared: 1 difference\n");
    // Without the token every request is refused, and reported at once.
    let said = run(&["replay", &capture, "--url", &served.url]);
    assert_eq!(said.code, Some(1));
    let told = "initialize, id 1: no response: HTTP/1.1 401 Unauthorized: authentication is required: send \
        Authorization: Bearer <token> (frames 1, 2)\n";
    assert!(said.stdout.starts_with(told), "{}", said.stdout);
    let said = run(&["replay", &capture, "--url", &served.url, "--header", "no header"]);
    said.has(2, "", "barewire: --header: expected \"Name: value\", found no colon\n");
}

/// A request whose connection the client closed may be answered or not; one that the server left open must not be.
#[test]
fn a_response_after_a_closed_connection_is_not_expected() {
    let given_up = r#"wire 1
@x1 head > POST /mcp HTTP/1.1
@x1 framing body
>x1(noeol) {"jsonrpc":"2.0","id":1,"method":"slow"}
@x1 eof >
@x1 closed > the client closed the connection
@x1 cut < the client closed the connection
@x1 eof <
@x2 head > POST /mcp HTTP/1.1
@x2 framing body
>x2(noeol) {"jsonrpc":"2.0","id":2,"method":"ping"}
@x2 eof >
@x2 head < HTTP/1.1 200 OK
<x2(noeol) {"jsonrpc":"2.0","id":2,"result":{}}
@x2 eof <
"#;
    let crashed = given_up
        .replace("@x1 closed > the client closed the connection\n", "")
        .replace("cut < the client closed", "cut < the server closed");
    let server = r#"read a; read b
        echo '{"jsonrpc":"2.0","id":1,"result":{}}'
        echo '{"jsonrpc":"2.0","id":2,"result":{}}'
        read end"#;
    let said = run(&["replay", &written("given-up", given_up), "--", "sh", "-c", server]);
    said.has(0, "", "2 messages sent, 1 compared: no difference\n");
    let said = run(&["replay", &written("not-given-up", &crashed), "--", "sh", "-c", server]);
    assert!(said.stdout.contains("slow, id 1: a response came, and the capture has none"), "{}", said.stdout);
    assert_eq!(said.code, Some(1));
}

#[test]
fn one_of_several_sessions_must_be_named() {
    let served = Served::new(&[]);
    let asked: &[&str] = &["echo", "text=hello", "--revision", "2025-06-18"];
    let capture = over_http(&served, "sessions", &[asked, asked]);
    let said = run(&["replay", &capture, "--url", &served.url]);
    assert_eq!(said.code, Some(2));
    let told = said.stderr.strip_prefix(&format!("barewire: cannot replay {capture}: it has 2 sessions over HTTP\n"));
    let names = told.and_then(|told| told.strip_prefix("hint: choose one with --channel NAME: "));
    let names: Vec<&str> = names.unwrap_or_else(|| panic!("{}", said.stderr)).trim_end().split(", ").collect();
    assert_eq!(names.len(), 2);
    for name in names {
        let said = run(&["replay", &capture, "--channel", name, "--url", &served.url]);
        said.has(0, "", "4 messages sent, 3 compared: no difference\n");
    }
}

#[test]
fn captures_of_check_can_be_replayed() {
    let served = Served::new(&[]);
    let capture = file("check").to_str().expect("UTF-8").to_owned();
    let _ = fs::remove_file(&capture);
    let said = run(&["check", "--quiet", "--only", "tool-names", "--url", &served.url, "--record", &capture]);
    assert_eq!(said.code, Some(0), "{}", said.stdout);
    for to in [&["--url", &served.url][..], SERVE] {
        let said = run(&[&["replay", &capture, "--channel", "x1"], to].concat());
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{}", said.stderr);
    }
}

#[test]
fn an_unreachable_url_is_reported() {
    let capture = written("nobody", "> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    let said = run(&["replay", &capture, "--url", &format!("http://{NO_SERVER}/mcp")]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""));
    let told = format!("barewire: cannot replay the capture to http://{NO_SERVER}: ");
    assert!(said.stderr.starts_with(&told), "{}", said.stderr);
    let said = run(&["replay", &capture, "--url", "no url"]);
    assert!(
        said.code == Some(2) && said.stderr.starts_with("barewire: cannot replay the capture: the URL "),
        "{}",
        said.stderr
    );
}

/// Reads an HTTP request: its head with names in lower case, and its body.
fn request(client: &mut Client) -> (String, String) {
    let head = client.head();
    let lower = head.to_ascii_lowercase();
    let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
    let body = length.map_or(String::new(), |length| client.exactly(length.parse().expect("a number")));
    (lower, body)
}

fn answer(client: &mut Client, headers: &str, kind: &str, body: &str) {
    let length = body.len();
    client.send(format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{headers}content-length: {length}\r\n\r\n{body}"));
}

/// A server with a session and an older version, which sends a request of its own on the GET stream, and ends a stream
/// before the response, which comes when the client resumes the stream.
#[test]
fn session_version_and_streams_are_those_of_this_server() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&log);
    let url = server(move |mut client| {
        let (head, body) = request(&mut client);
        let line = head.lines().next().unwrap_or_default().to_owned();
        let sent = |name: &str| {
            let value = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            value.unwrap_or("-").to_owned()
        };
        let method = body.split("\"method\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let what = method.unwrap_or(if body.is_empty() { "" } else { "answer" });
        let (session, version) = (sent("mcp-session-id"), sent("mcp-protocol-version"));
        let verb = line.split(' ').next().unwrap_or_default();
        seen.lock().expect("unpoisoned").push(format!("{verb} {what} {session} {version} {}", sent("x-trace")));
        match (verb, what) {
            ("post", "initialize") => answer(
                &mut client,
                "Mcp-Session-Id: of-today\r\n",
                "application/json",
                r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"t","version":"1"}}}"#,
            ),
            ("post", "slow") => {
                answer(&mut client, "", "text/event-stream", "id: 7\nretry: 10\ndata:\n\n");
            }
            ("get", _) if sent("last-event-id") == "7" => {
                let event = "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"slow\":true}}\n\n";
                answer(&mut client, "", "text/event-stream", event);
            }
            ("get", _) => {
                let event = "data: {\"jsonrpc\":\"2.0\",\"id\":\"theirs\",\"method\":\"roots/list\"}\n\n";
                client.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
                client.send(event);
                // The stream stays open until the client closes it.
                client.rest();
            }
            _ => client.send("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"),
        }
    });
    let capture = written(
        "scripted",
        r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"t","version":"1"}}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
< {"jsonrpc":"2.0","id":0,"method":"roots/list"}
> {"jsonrpc":"2.0","id":0,"result":{"roots":[]}}
> {"jsonrpc":"2.0","id":2,"method":"slow"}
< {"jsonrpc":"2.0","id":2,"result":{"slow":true}}
"#,
    );
    let said = run(&["replay", &capture, "--url", &url, "--header", "X-Trace: 5"]);
    said.has(0, "", "4 messages sent, 3 compared: no difference\n");
    let log = log.lock().expect("unpoisoned");
    let expected = [
        "post initialize - - 5",
        "post notifications/initialized of-today 2025-06-18 5",
        "get  of-today 2025-06-18 5",
        "post answer of-today 2025-06-18 5",
        "post slow of-today 2025-06-18 5",
        "get  of-today 2025-06-18 5",
        "delete  of-today 2025-06-18 5",
    ];
    assert_eq!(*log, expected);
}

/// A server that never answers a notification does not keep the rest of the capture from being sent.
#[test]
fn a_notification_that_is_not_accepted_does_not_end_the_replay() {
    let url = server(move |mut client| {
        let (_, body) = request(&mut client);
        match body.split("\"method\":\"").nth(1).and_then(|rest| rest.split('"').next()) {
            Some("first") => answer(&mut client, "", "application/json", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Some("second") => answer(&mut client, "", "application/json", r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
            // The client closes the connection.
            _ => drop(client.rest()),
        }
    });
    let capture = written(
        "not-accepted",
        r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"first"}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","method":"notifications/x"}
> {"jsonrpc":"2.0","id":2,"method":"second"}
< {"jsonrpc":"2.0","id":2,"result":{}}
"#,
    );
    let said = run(&["replay", &capture, "--url", &url, "--timeout", "2s"]);
    said.has(0, "", "3 messages sent, 2 compared: no difference\n");
}

#[test]
fn connections_to_a_capture_beyond_the_limit_wait_for_another_to_end() {
    // The program inherits the limit of its open files.
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).expect("no more than the maximum");
    let capture = written(
        "crowded",
        "> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
    );
    let server = FromCapture::new(&capture, &[]);
    let address = server.url.trim_start_matches("http://").split('/').next().expect("an address");
    let mut crowd: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let mut last = TcpStream::connect(address).expect("the system accepts it");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream";
    write!(last, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).expect("a socket");
    let mut first = [0; 12];
    last.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
    assert!(last.read(&mut first).is_err(), "the server does not read the request yet");
    drop(crowd.pop());
    last.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    last.read_exact(&mut first).expect("a response");
    assert_eq!(&first, b"HTTP/1.1 200");
}
