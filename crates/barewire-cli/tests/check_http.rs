//! `barewire check --url`: a server with one fault fails exactly the check for it, and one without faults fails none.
//! Captures show the violations of clients over HTTP.

#![cfg(unix)]

use crate::checked;
use crate::http_server;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use checked::{catalogue, each_fault_is_found, faults, findings, fixture, with_status};
use http_server::{HttpServer, PROGRAM, TOKEN};
use serde_json::Value;

fn faulty_server() -> PathBuf {
    fixture("faulty-http-server")
}

/// The fixture, running until it is dropped.
struct Faulty {
    process: Child,
    url: String,
}

impl Faulty {
    fn new(args: &[&str]) -> Self {
        let mut process = Command::new(faulty_server()).args(args).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut url = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut url).expect("a line");
        Self { process, url: url.trim().to_owned() }
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn check(args: &[&str]) -> (Value, Output) {
    let mut command = Command::new(PROGRAM);
    let output = command.args(["check", "--json", "--quiet"]).args(args).env(TOKEN, "sesame").output();
    let output = output.expect("it runs");
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    (report, output)
}

#[test]
fn every_fault_is_found_by_its_check_and_by_no_other() {
    each_fault_is_found(faults(&faulty_server()), 4, |fault, expected| {
        let server = Faulty::new(&["--fault", fault]);
        // Patience is used up only where a response is missing.
        let patience = if expected == "mute-server" { "0.5" } else { "5" };
        check(&["--hostile", "--patience", patience, "--url", &server.url])
    });
}

#[test]
fn every_check_of_http_has_a_fault_that_it_finds() {
    let found: BTreeSet<String> = faults(&faulty_server()).into_iter().map(|(_, check)| check).collect();
    let mut count = 0;
    for check in catalogue() {
        let id = check["id"].as_str().expect("an id");
        let places = check["places"].as_array().expect("places");
        if id.starts_with("http-") && places.iter().any(|it| it == "live (HTTP)") {
            count += 1;
            assert!(found.contains(id), "no fault of the fixture is found by {id}");
        }
    }
    assert!(count >= 10, "{count} checks of HTTP are live");
}

#[test]
fn nothing_is_found_in_a_healthy_server() {
    for era in [&[][..], &["--legacy"], &["--modern"]] {
        let server = Faulty::new(era);
        let (report, output) = check(&["--hostile", "--url", &server.url]);
        assert!(findings(&report).is_empty(), "{era:?}: {:?}", findings(&report));
        assert_eq!(output.status.code(), Some(0), "{era:?}");
        let passed = with_status(&report, "pass");
        let http: Vec<&str> = if era.is_empty() {
            vec!["http-origin", "http-host", "http-session", "http-protocol-version", "http-header-mirroring"]
        } else {
            vec!["http-origin", "http-status", "http-content-type"]
        };
        for id in http.into_iter().chain(["unknown-method", "id-fidelity", "jsonrpc-messages"]) {
            assert!(passed.contains(id), "{era:?}: {id} is not among {passed:?}");
        }
    }
}

/// `barewire serve`, in all revisions and restricted to some.
#[test]
fn nothing_is_found_in_barewire_serve() {
    for options in
        [&[][..], &["--revision", "2026-07-28"], &["--revision", "2025-03-26,2025-06-18"], &["--bearer-env", TOKEN]]
    {
        let server = HttpServer::new(options);
        let mut args = vec!["--hostile", "--url", &server.url, "--call", r#"sleep={"ms":400}"#, "--call", "greet={}"];
        if options.contains(&TOKEN) {
            args.extend(["--bearer-env", TOKEN]);
        }
        let (report, output) = check(&args);
        assert!(findings(&report).is_empty(), "{options:?}: {:?}", findings(&report));
        assert_eq!(output.status.code(), Some(0), "{options:?}");
    }
}

/// A server on this machine gets the same input as a program.
#[test]
fn a_loopback_url_needs_no_permission_for_hostile_input() {
    let server = Faulty::new(&["--fault", "any-origin"]);
    let (report, output) = check(&["--url", &server.url]);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert_eq!(with_status(&report, "fail"), BTreeSet::from(["http-origin"]), "{report}");
    for id in ["parse-error-recovery", "large-message", "deep-nesting", "invalid-utf8", "http-host"] {
        assert!(with_status(&report, "pass").contains(id), "{id}: {report}");
    }
}

#[test]
fn a_401_gives_the_hint_to_send_a_token() {
    let server = HttpServer::new(&["--bearer-env", TOKEN]);
    let (report, output) = check(&["--url", &server.url]);
    assert_eq!(output.status.code(), Some(3), "{report}");
    assert_eq!(with_status(&report, "fail"), BTreeSet::new());
    assert_eq!(with_status(&report, "incomplete"), BTreeSet::from(["jsonrpc-messages"]));
    assert!(with_status(&report, "pass").contains("http-unauthorized"), "{report}");
    assert!(report.to_string().contains("--bearer-env"), "{report}");
}

#[test]
fn a_url_without_a_server_is_an_error() {
    let output = Command::new(PROGRAM).args(["check", "--url", "http://127.0.0.1:1/mcp"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no server responds at this URL"), "{text}");
}

/// A temporary file, removed on drop.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-{name}-{}.wire", std::process::id()));
        std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes())).expect("a file");
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_capture_has_no_token() {
    let server = HttpServer::new(&["--bearer-env", TOKEN]);
    let file = File::new("check-http-record", "");
    let (_, output) = check(&["--url", &server.url, "--bearer-env", TOKEN, "--record", file.name()]);
    assert_eq!(output.status.code(), Some(0));
    let text = std::fs::read_to_string(&file.0).expect("the capture");
    assert!(!text.contains("sesame") && text.contains("authorization: Bearer <redacted-1>"), "{text}");
    assert!(text.contains("head > POST /mcp HTTP/1.1") && text.contains("head < HTTP/1.1 200"), "{text}");
}

/// An exchange of a capture: the request's headers and body, and the response.
fn exchange(number: u32, headers: &[&str], body: &str, status: &str, answer: (&[&str], &str)) -> String {
    let mut text = format!("@x{number} head > POST /mcp HTTP/1.1\n");
    for header in headers {
        text += &format!("@x{number} head > {header}\n");
    }
    text += &format!("@x{number} framing body\n>x{number}(noeol) {body}\n@x{number} eof >\n");
    text += &format!("@x{number} head < HTTP/1.1 {status}\n");
    for header in answer.0 {
        text += &format!("@x{number} head < {header}\n");
    }
    if !answer.1.is_empty() {
        text += &format!("<x{number}(noeol) {}\n", answer.1);
    }
    text + &format!("@x{number} eof <\n")
}

const ACCEPT: &str = "accept: application/json, text/event-stream";
const JSON: &str = "content-type: application/json";
const SESSION: &str = "mcp-session-id: 0f8fad5bd9cb469fa16570867728950e";
const VERSION: &str = "mcp-protocol-version: 2025-11-25";

/// A handshake, and a list request with these headers.
fn legacy(headers: &[&str]) -> String {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let agreed = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let tools = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#;
    [
        "wire 1\n".to_owned(),
        exchange(1, &[ACCEPT, JSON], initialize, "200 OK", (&[JSON, SESSION], agreed)),
        exchange(2, &[ACCEPT, JSON, SESSION, VERSION], initialized, "202 Accepted", (&[], "")),
        exchange(3, headers, list, "200 OK", (&[JSON], tools)),
    ]
    .concat()
}

/// A modern list request with these headers.
fn modern(headers: &[&str]) -> String {
    let meta =
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let list = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
    let tools =
        r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"public"}}"#;
    let headers: Vec<&str> = [ACCEPT, JSON].iter().chain(headers).copied().collect();
    format!("wire 1\n{}", exchange(1, &headers, &list, "200 OK", (&[JSON], tools)))
}

#[test]
fn a_capture_shows_violations_of_the_client() {
    let cases = [
        ("healthy", legacy(&[ACCEPT, JSON, SESSION, VERSION]), None),
        ("no-accept", legacy(&[JSON, SESSION, VERSION]), Some("http-accept")),
        ("half-accept", legacy(&["accept: application/json", JSON, SESSION, VERSION]), Some("http-accept")),
        ("text", legacy(&[ACCEPT, "content-type: text/plain", SESSION, VERSION]), Some("http-content-type")),
        ("no-session", legacy(&[ACCEPT, JSON, VERSION]), Some("http-session")),
        ("no-version", legacy(&[ACCEPT, JSON, SESSION]), Some("http-protocol-version")),
        (
            "other-version",
            legacy(&[ACCEPT, JSON, SESSION, "mcp-protocol-version: 2025-06-18"]),
            Some("http-protocol-version"),
        ),
        ("modern", modern(&["mcp-protocol-version: 2026-07-28", "mcp-method: tools/list"]), None),
        (
            "other-method",
            modern(&["mcp-protocol-version: 2026-07-28", "mcp-method: tools/call"]),
            Some("http-header-mirroring"),
        ),
        ("no-method", modern(&["mcp-protocol-version: 2026-07-28"]), Some("http-header-mirroring")),
    ];
    for (name, text, expected) in cases {
        let file = File::new(&format!("check-http-{name}"), &text);
        let (report, _) = check(&[file.name()]);
        let expected: BTreeSet<&str> = expected.into_iter().collect();
        assert_eq!(with_status(&report, "fail"), expected, "{name}: {:?}\n{text}", findings(&report));
        for found in findings(&report) {
            assert_eq!(found["findings"][0]["party"], "client", "{name}: {found}");
        }
    }
}
