//! `barewire check --url`: a server with one fault fails exactly the check for it, and one without faults fails none.
//! Captures show the violations of clients over HTTP.

#![cfg(unix)]

use crate::checked;
use crate::http_server;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

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
    /// Tokens of each kind, if the server requires authorization.
    tokens: Value,
}

impl Faulty {
    fn new(args: &[&str]) -> Self {
        Self::started(args, false)
    }

    /// A server that requires authorization.
    fn with_auth(args: &[&str]) -> Self {
        Self::started(args, true)
    }

    fn started(args: &[&str], has_auth: bool) -> Self {
        let mut process = Command::new(faulty_server()).args(args).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut line = || lines.next().expect("a line").expect("UTF-8");
        let url = line();
        let tokens = if has_auth { serde_json::from_str(&line()).expect("JSON") } else { Value::Null };
        Self { process, url, tokens }
    }

    /// Checks the server with the valid token and all wrong ones.
    fn check_with_tokens(&self, args: &[&str]) -> (Value, Output) {
        let mut command = Command::new(PROGRAM);
        command
            .args(["check", "--json", "--quiet", "--url", &self.url, "--bearer-env", "VALID", "--call", "time={}"])
            .args(args);
        for kind in ["other-audience", "expired", "other-issuer", "no-scope"] {
            let name = kind.to_uppercase().replace('-', "_");
            command.args(["--wrong-token-env", &format!("{kind}={name}")]);
            command.env(name, self.tokens[kind].as_str().expect("a token"));
        }
        reported(command.env("VALID", self.tokens["valid"].as_str().expect("a token")), args)
    }

    /// Signs in, so that the token is bound to a key, and checks the server.
    fn check_signed_in(&self, args: &[&str]) -> (Value, Output) {
        let home = Home::new();
        let run = |args: &[&str]| {
            let mut command = Command::new(PROGRAM);
            command.args(args).env("XDG_STATE_HOME", &home.0).env("SECRET", "open-sesame");
            command
        };
        let login =
            ["login", &self.url, "--client-id", "checker", "--client-secret-env", "SECRET", "--client-credentials"];
        let output = run(&login).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        reported(run(&["check", "--json", "--quiet", "--url", &self.url]).args(args), args)
    }
}

/// A folder for sign-ins, removed on drop.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("barewire-check-home-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn check(args: &[&str]) -> (Value, Output) {
    reported(Command::new(PROGRAM).args(["check", "--json", "--quiet"]).args(args).env(TOKEN, "sesame"), args)
}

fn reported(command: &mut Command, args: &[&str]) -> (Value, Output) {
    let output = command.output().expect("it runs");
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    (report, output)
}

#[test]
fn every_fault_is_found_by_its_check_and_by_no_other() {
    each_fault_is_found(faults(&faulty_server()), 4, |fault, expected| {
        if expected == "auth-dpop" {
            return Faulty::with_auth(&["--fault", fault]).check_signed_in(&[]);
        }
        if expected.starts_with("auth-") {
            return Faulty::with_auth(&["--fault", fault]).check_with_tokens(&[]);
        }
        let server = Faulty::new(&["--fault", fault]);
        // Patience is used up only where a response is missing.
        let patience = if expected == "mute-server" { "0.5" } else { "5" };
        check(&["--hostile", "--patience", patience, "--url", &server.url])
    });
}

/// Some twenty requests get no response, and each would cost the patience. They are waited for at once.
#[test]
fn a_server_that_never_answers_errors_costs_the_patience_a_few_times() {
    let timed = |flags: &[&str]| {
        let server = Faulty::new(flags);
        let began = Instant::now();
        let (report, _) = check(&["--patience", "3", "--url", &server.url]);
        (report, began.elapsed())
    };
    // What a busy machine needs for everything else.
    let (_, healthy) = timed(&[]);
    let (report, took) = timed(&["--no-errors"]);
    let failed = with_status(&report, "fail");
    for id in ["unknown-method", "invalid-params", "http-origin", "http-host", "http-header-mirroring"] {
        assert!(failed.contains(id), "{id}: {report}");
    }
    let most = healthy * 2 + Duration::from_secs(8 * 3);
    assert!(took < most, "{took:?} instead of {healthy:?}, with a patience of 3 s: {failed:?}");
}

#[test]
fn every_check_of_http_has_a_fault_that_it_finds() {
    let found: BTreeSet<String> = faults(&faulty_server()).into_iter().map(|(_, check)| check).collect();
    let mut count = 0;
    for check in catalogue() {
        let id = check["id"].as_str().expect("an id");
        let places = check["places"].as_array().expect("places");
        if (id.starts_with("http-") || id.starts_with("auth-")) && places.iter().any(|it| it == "live (HTTP)") {
            count += 1;
            assert!(found.contains(id), "no fault of the fixture is found by {id}");
        }
    }
    assert!(count >= 23, "{count} checks of HTTP are live");
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

/// A server with a fixed token has no metadata, so a client that has no token cannot get one.
#[test]
fn a_401_gives_the_hint_to_send_a_token() {
    let server = HttpServer::new(&["--bearer-env", TOKEN]);
    let (report, output) = check(&["--url", &server.url]);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert_eq!(with_status(&report, "fail"), BTreeSet::from(["auth-resource-metadata"]));
    assert_eq!(with_status(&report, "incomplete"), BTreeSet::from(["jsonrpc-messages"]));
    assert!(with_status(&report, "pass").is_superset(&BTreeSet::from(["http-unauthorized", "auth-challenge"])));
    assert!(report.to_string().contains("--bearer-env"), "{report}");
}

/// The checks that need no token.
const DISCOVERY: [&str; 8] = [
    "auth-challenge",
    "auth-resource-metadata",
    "auth-offline-access",
    "auth-server-metadata",
    "auth-pkce",
    "auth-response-iss",
    "auth-client-registration",
    "auth-invalid-token",
];
/// The checks of the tokens that the user gives.
const WRONG_TOKENS: [&str; 4] = ["auth-audience", "auth-expiry", "auth-issuer", "auth-scope"];

#[test]
fn the_way_to_a_token_is_checked_without_a_token() {
    let server = Faulty::with_auth(&["--auth"]);
    let (report, output) = check(&["--url", &server.url]);
    assert_eq!(output.status.code(), Some(3), "{report}");
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
    assert_eq!(with_status(&report, "incomplete"), BTreeSet::from(["jsonrpc-messages"]));
    assert!(with_status(&report, "pass").is_superset(&DISCOVERY.into()), "{report}");
    assert!(with_status(&report, "skip").is_superset(&WRONG_TOKENS.into()), "{report}");
    let text = report.to_string();
    assert!(text.contains("barewire login URL") && text.contains("--wrong-token-env"), "{text}");
    // Without a token, another status than 401 is found too, and is not taken for another kind of server.
    let server = Faulty::with_auth(&["--fault", "no-token-is-403"]);
    let (report, _) = check(&["--url", &server.url]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::from(["auth-challenge"]), "{report}");
}

#[test]
fn nothing_is_found_in_a_healthy_server_with_authorization() {
    for era in [&["--auth"][..], &["--auth", "--legacy"], &["--auth", "--modern"]] {
        let (report, output) = Faulty::with_auth(era).check_with_tokens(&[]);
        assert!(findings(&report).is_empty(), "{era:?}: {:?}", findings(&report));
        assert_eq!(output.status.code(), Some(0), "{era:?}");
        let passed = with_status(&report, "pass");
        let of_modern = ["auth-offline-access", "auth-response-iss"];
        let is_expected = |id: &&str| !era.contains(&"--legacy") || !of_modern.contains(id);
        for id in DISCOVERY.into_iter().chain(WRONG_TOKENS).filter(is_expected) {
            assert!(passed.contains(id), "{era:?}: {id} is not among {passed:?}");
        }
    }
    let (report, output) = Faulty::with_auth(&["--dpop"]).check_signed_in(&[]);
    assert!(findings(&report).is_empty(), "{:?}", findings(&report));
    assert_eq!(output.status.code(), Some(0));
    assert!(with_status(&report, "pass").contains("auth-dpop"), "{report}");
}

#[test]
fn a_server_without_authorization_is_not_judged() {
    let server = Faulty::new(&[]);
    let (report, _) = check(&["--url", &server.url]);
    let skipped = with_status(&report, "skip");
    for id in DISCOVERY.into_iter().chain(WRONG_TOKENS).chain(["auth-dpop"]) {
        assert!(skipped.contains(id), "{id}: {report}");
    }
}

/// A token that is given for a kind that it is not of is not judged: a correct server would be blamed.
#[test]
fn a_token_that_is_not_wrong_is_not_judged() {
    let server = Faulty::with_auth(&["--auth"]);
    let valid = server.tokens["valid"].as_str().expect("a token");
    let mut command = Command::new(PROGRAM);
    command.args(["check", "--json", "--quiet", "--url", &server.url, "--bearer-env", "VALID"]).env("VALID", valid);
    for kind in ["other-audience", "expired", "other-issuer"] {
        command.args(["--wrong-token-env", &format!("{kind}=VALID")]);
    }
    let (report, output) = reported(&mut command, &[]);
    assert_eq!(output.status.code(), Some(3), "{report}");
    assert_eq!(with_status(&report, "incomplete"), BTreeSet::from(["auth-audience", "auth-expiry", "auth-issuer"]));
}

#[test]
fn tokens_are_neither_in_reports_nor_in_captures() {
    for (fault, is_bound) in [("any-signature", false), ("any-audience", false), ("bound-token-as-bearer", true)] {
        let server = Faulty::with_auth(&["--fault", fault]);
        let file = File::new(&format!("check-http-tokens-{fault}"), "");
        let args = ["--record", file.name(), "--sarif=/dev/null"];
        let (report, output) = if is_bound { server.check_signed_in(&args) } else { server.check_with_tokens(&args) };
        assert_eq!(output.status.code(), Some(1), "{fault}: {report}");
        let capture = std::fs::read_to_string(&file.0).expect("the capture");
        assert!(capture.contains("head > authorization: Bearer <redacted-"), "{fault}: {capture}");
        let shown = format!("{capture}{report}{}", String::from_utf8_lossy(&output.stderr));
        for token in server.tokens.as_object().expect("an object").values().filter_map(Value::as_str) {
            // The claims, which changed copies of the token have too.
            let claims = token.split('.').nth(1).expect("a JWT");
            assert!(!shown.contains(token) && !shown.contains(claims), "{fault}: {shown}");
        }
    }
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
