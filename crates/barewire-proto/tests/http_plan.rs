//! The decisions of an HTTP server, row by row: method, headers and body -> the plan, or the status, code and rule of
//! the rejection.

use barewire_proto::http::{Access, Plan, Rejection, Verb, admit, plan};
use barewire_proto::mcp::{ParsedMessage, Revision};
use barewire_proto::rpc::DEFAULT_DEPTH;

type Row<'a> = &'a [(&'a str, &'a str)];

const DUAL: &[Revision] = &Revision::ALL;
const MODERN: &[Revision] = &[Revision::V2026_07_28];
const LEGACY: &[Revision] = &[Revision::V2025_03_26, Revision::V2025_11_25];

/// Returns `status code rule`, and checks that the body matches.
fn refused(rejection: &Rejection) -> String {
    let mut body = Vec::new();
    rejection.body(&mut body);
    let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["jsonrpc"], "2.0");
    assert_eq!(body["error"]["code"], rejection.error.code.get());
    assert_eq!(body.get("id").is_some(), rejection.id.is_some(), "without an id there is no such member");
    let message = body["error"]["message"].as_str().expect("a message");
    assert!(!message.is_empty() && !message.contains(['\r', '\n', '\0']), "{message:?}");
    assert_eq!(rejection.status() == 405, rejection.allow.is_some(), "Allow stands in a 405");
    format!("{} {} {}", rejection.status(), rejection.error.code, rejection.rule.name())
}

fn admitted(method: &str, headers: Row<'_>, supported: &[Revision]) -> String {
    match admit(method, None, headers, &Access::loopback(), supported) {
        Ok(Verb::Post) => "post".to_owned(),
        Ok(Verb::Get { session, last_event_id }) => {
            let last = last_event_id.map(|id| id.escape_ascii().to_string());
            format!("get {session} {}", last.as_deref().unwrap_or("-"))
        }
        Ok(Verb::Delete { session }) => format!("delete {session}"),
        Err(rejection) => {
            assert!(rejection.id.is_none(), "no body has been read");
            refused(&rejection)
        }
    }
}

fn planned(headers: Row<'_>, body: &str, supported: &[Revision]) -> String {
    match plan(headers, &ParsedMessage::read(body, DEFAULT_DEPTH), supported) {
        Ok(Plan::Modern(revision)) => format!("modern {revision}"),
        Ok(Plan::Initialize) => "initialize".to_owned(),
        Ok(Plan::Session { id, revision }) => {
            format!("session {id} {}", revision.map_or("-", Revision::as_str))
        }
        Ok(Plan::Accepted) => "accepted".to_owned(),
        Err(rejection) => refused(&rejection),
    }
}

const HOST: (&str, &str) = ("Host", "localhost:8080");
const TYPE: (&str, &str) = ("Content-Type", "application/json");
const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");
const EVENTS: (&str, &str) = ("Accept", "text/event-stream");
const SESSION: (&str, &str) = ("Mcp-Session-Id", "abc");
const V2026: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");
const V2025: (&str, &str) = ("MCP-Protocol-Version", "2025-11-25");
const V999: (&str, &str) = ("MCP-Protocol-Version", "v999.0.0");

#[test]
#[rustfmt::skip] // one row per line
fn methods_and_media_types() {
    for (method, headers, expected) in [
        ("POST", &[HOST, TYPE, BOTH][..], "post"),
        ("POST", &[HOST, TYPE], "post"),
        ("POST", &[HOST, ("content-type", "APPLICATION/JSON; charset=UTF-8"), ("ACCEPT", "*/*")], "post"),
        ("POST", &[HOST, BOTH], "415 -32600 content-type"),
        ("POST", &[HOST, ("content-type", "text/plain"), BOTH], "415 -32600 content-type"),
        ("POST", &[HOST, ("content-type", "application/x-www-form-urlencoded"), BOTH], "415 -32600 content-type"),
        ("POST", &[HOST, ("content-type", "application/json; charset=utf-16"), BOTH], "415 -32600 content-type"),
        ("POST", &[HOST, TYPE, TYPE, BOTH], "415 -32600 content-type"),
        ("POST", &[HOST, ("content-type", "application/json\r\nX: y"), BOTH], "415 -32600 content-type"),
        ("POST", &[HOST, TYPE, ("accept", "application/json")], "406 -32600 accept"),
        ("POST", &[HOST, TYPE, EVENTS], "406 -32600 accept"),
        ("POST", &[HOST, TYPE, ("accept", "application/json"), EVENTS], "post"),
        ("POST", &[HOST, TYPE, ("accept", "*/*, text/event-stream;q=0")], "406 -32600 accept"),
        // The order of the checks: host and origin, method, media types.
        ("POST", &[("host", "evil.com")], "403 -32600 host"),
        ("PUT", &[("host", "evil.com")], "403 -32600 host"),
        ("PUT", &[HOST, ("content-type", "text/plain")], "405 -32600 method"),
        ("POST", &[HOST, ("content-type", "text/plain"), ("accept", "text/html")], "415 -32600 content-type"),
        // The revision in the header is checked together with the body.
        ("POST", &[HOST, TYPE, BOTH, V999], "post"),
        ("OPTIONS", &[HOST], "405 -32600 method"),
        ("HEAD", &[HOST], "405 -32600 method"),
        ("post", &[HOST, TYPE, BOTH], "405 -32600 method"),
        ("GET\r\nX: y", &[HOST], "405 -32600 method"),
        ("GET", &[HOST, EVENTS, SESSION], "get abc -"),
        ("GET", &[HOST, SESSION], "get abc -"),
        ("GET", &[HOST, EVENTS, SESSION, V2025], "get abc -"),
        ("GET", &[HOST, EVENTS, SESSION, ("last-event-id", "3-14")], "get abc 3-14"),
        ("GET", &[HOST, EVENTS, SESSION, ("last-event-id", "")], "get abc -"),
        ("GET", &[HOST, EVENTS, SESSION, ("last-event-id", "1-1"), ("last-event-id", "1-1")], "400 -32600 repeated-header"),
        ("GET", &[HOST, ("accept", "application/json"), SESSION], "406 -32600 accept"),
        ("GET", &[HOST, ("accept", "text/html")], "406 -32600 accept"),
        ("GET", &[HOST, EVENTS], "400 -32600 no-session"),
        ("GET", &[HOST, EVENTS, ("mcp-session-id", "")], "400 -32600 bad-session"),
        ("GET", &[HOST, EVENTS, ("mcp-session-id", "a b")], "400 -32600 bad-session"),
        ("GET", &[HOST, EVENTS, ("mcp-session-id", "a\0")], "400 -32600 bad-session"),
        ("GET", &[HOST, EVENTS, ("mcp-session-id", "a\r\nb: c")], "400 -32600 bad-session"),
        ("GET", &[HOST, EVENTS, ("mcp-session-id", "é")], "400 -32600 bad-session"),
        ("GET", &[HOST, EVENTS, SESSION, SESSION], "400 -32600 repeated-header"),
        ("GET", &[HOST, EVENTS, SESSION, V999], "400 -32022 unsupported-version"),
        ("GET", &[HOST, EVENTS, SESSION, V2026], "405 -32600 method"),
        ("GET", &[HOST, EVENTS, SESSION, V2025, V2025], "400 -32020 bad-header"),
        ("DELETE", &[HOST, SESSION], "delete abc"),
        ("DELETE", &[HOST, SESSION, V2025], "delete abc"),
        ("DELETE", &[HOST], "400 -32600 no-session"),
        ("DELETE", &[HOST, ("mcp-session-id", "\x7f")], "400 -32600 bad-session"),
        ("DELETE", &[HOST, SESSION, ("mcp-protocol-version", "2025-99-99")], "400 -32022 unsupported-version"),
        ("DELETE", &[HOST, SESSION, V2026], "405 -32600 method"),
    ] {
        assert_eq!(admitted(method, headers, DUAL), expected, "{method} {headers:?}");
    }
}

#[test]
#[rustfmt::skip] // one row per line
fn a_server_of_one_era() {
    for (method, headers, supported, expected) in [
        ("POST", &[HOST, TYPE, BOTH][..], MODERN, "post"),
        ("GET", &[HOST, EVENTS, SESSION], MODERN, "405 -32600 method"),
        ("DELETE", &[HOST, SESSION], MODERN, "405 -32600 method"),
        ("GET", &[HOST, EVENTS, SESSION], LEGACY, "get abc -"),
        ("GET", &[HOST, EVENTS, SESSION, V2026], LEGACY, "400 -32600 unknown-version"),
        ("GET", &[HOST, EVENTS, SESSION, ("mcp-protocol-version", "2025-06-18")], LEGACY, "400 -32600 unknown-version"),
        ("DELETE", &[HOST, SESSION, V2025, V2025], LEGACY, "400 -32600 repeated-header"),
    ] {
        assert_eq!(admitted(method, headers, supported), expected, "{method} {headers:?}");
    }
    let allow = |method, supported| {
        let rejected =
            admit(method, None, &[HOST][..], &Access::loopback(), supported).expect_err("not allowed");
        rejected.allow.expect("a 405 lists the allowed methods")
    };
    assert_eq!(allow("OPTIONS", DUAL), "GET, POST, DELETE");
    assert_eq!(allow("OPTIONS", LEGACY), "GET, POST, DELETE");
    assert_eq!(allow("GET", MODERN), "POST");
}

#[test]
#[rustfmt::skip] // one row per line
fn hosts_and_origins_of_this_machine() {
    for (host, lets_in) in [
        ("localhost", true),
        ("localhost:8080", true),
        ("LOCALHOST", true),
        ("LocalHost:1", true),
        ("127.0.0.1", true),
        ("127.0.0.1:65535", true),
        ("[::1]", true),
        ("[::1]:8080", true),
        ("[0:0::1]:8080", true),
        (" localhost ", true),
        ("localhost.", false),
        ("localhost.localdomain", false),
        ("127.0.0.1.evil.com", false),
        ("127.0.0.1.nip.io", false),
        ("localhost.evil.com", false),
        ("evil.com", false),
        ("evil-localhost", false),
        ("evil.com#localhost", false),
        ("evil.com/localhost", false),
        ("user@localhost", false),
        ("localhost@evil.com", false),
        ("localhost:80@evil.com", false),
        ("0x7f.1", false),
        ("0x7f000001", false),
        ("2130706433", false),
        ("0177.0.0.1", false),
        ("127.1", false),
        ("127.0.0.2", false),
        ("0.0.0.0", false),
        ("[::]", false),
        ("[::ffff:127.0.0.1]", false),
        ("[::1%25lo]", false),
        ("::1", false),
        ("localhost:", false),
        ("localhost:0x50", false),
        ("localhost:99999", false),
        ("localhost,evil.com", false),
        ("localhost evil.com", false),
        ("localhost\0.evil.com", false),
        ("localhost\r\nHost: evil.com", false),
        ("ｌocalhost", false),
        ("*", false),
        ("", false),
    ] {
        let expected = if lets_in { "post" } else { "403 -32600 host" };
        assert_eq!(admitted("POST", &[("Host", host), TYPE, BOTH], DUAL), expected, "{host:?}");
    }
    for (origin, lets_in) in [
        ("http://localhost", true),
        ("http://localhost:5173", true),
        ("https://localhost:1", true),
        ("HTTP://LOCALHOST:3000", true),
        ("http://127.0.0.1:6274", true),
        ("https://[::1]", true),
        ("null", false),
        ("NULL", false),
        ("", false),
        ("http://localhost.evil.com", false),
        ("http://evil.com", false),
        ("http://evil.com:80#http://localhost", false),
        ("http://localhost@evil.com", false),
        ("http://evil-localhost", false),
        ("http://127.0.0.1.evil.com", false),
        ("http://0x7f.1", false),
        ("file://", false),
        ("file:///home", false),
        ("chrome-extension://abcdef", false),
        ("ftp://localhost", false),
        ("localhost", false),
        ("http://localhost/", false),
        ("http://localhost http://evil.com", false),
        ("http://localhost, http://evil.com", false),
        ("http://localhost\r\nX: y", false),
        ("http://localhost\0", false),
        ("*", false),
    ] {
        let expected = if lets_in { "post" } else { "403 -32600 origin" };
        let headers = [HOST, TYPE, BOTH, ("Origin", origin)];
        assert_eq!(admitted("POST", &headers, DUAL), expected, "{origin:?}");
        assert_eq!(admitted("GET", &headers, DUAL).starts_with("403"), !lets_in, "{origin:?}");
    }
    let twice = [HOST, TYPE, BOTH, ("origin", "http://localhost"), ("origin", "http://localhost")];
    assert_eq!(admitted("POST", &twice, DUAL), "403 -32600 origin");
    assert_eq!(admitted("POST", &[HOST, HOST, TYPE, BOTH], DUAL), "403 -32600 host");
    assert_eq!(admitted("POST", &[TYPE, BOTH], DUAL), "403 -32600 host");
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const INITIALIZE_2026: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const FAILED: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#;
const ORPHAN: &str = r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"no"}}"#;
const BATCH: &str = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","method":"a"}]"#;

/// A request with a `_meta` of a revision.
fn with_meta(method: &str, params: &str, version: &str) -> String {
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
    );
    let comma = if params.is_empty() { "" } else { "," };
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{comma}{meta}}}}}"#)
}

/// A request with just this `_meta`.
fn with_only(method: &str, meta: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{{meta}}}}}}}"#)
}

const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
const CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;

#[test]
#[rustfmt::skip] // one row per line
fn eras() {
    let list = ("Mcp-Method", "tools/list");
    let meta = |version| with_meta("tools/list", "", version);
    let only = |meta| with_only("tools/list", meta);
    let number =
        r#""io.modelcontextprotocol/protocolVersion":7,"io.modelcontextprotocol/clientCapabilities":{}"#;
    let modern_note = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    for (headers, body, dual, modern, legacy) in [
        // Modern header.
        (&[V2026, list][..], meta("2026-07-28"), "modern 2026-07-28", "modern 2026-07-28", "400 -32600 unknown-version"),
        (&[V2026, list, SESSION], meta("2026-07-28"), "modern 2026-07-28", "modern 2026-07-28", "400 -32600 unknown-version"),
        (&[V2026, list, SESSION, SESSION], meta("2026-07-28"), "modern 2026-07-28", "modern 2026-07-28", "400 -32600 unknown-version"),
        (&[V2026, ("mcp-method", "initialize")], with_meta("initialize", "", "2026-07-28"), "modern 2026-07-28", "modern 2026-07-28", "400 -32600 unknown-version"),
        (&[V2026, ("mcp-method", "ping")], with_meta("ping", "", "2026-07-28"), "modern 2026-07-28", "modern 2026-07-28", "400 -32600 unknown-version"),
        (&[V2026, ("mcp-method", "nonsense")], with_meta("nonsense", "", "2026-07-28"), "modern 2026-07-28", "modern 2026-07-28", "400 -32600 unknown-version"),
        (&[V2026, list], LIST.to_owned(), "400 -32602 meta", "400 -32602 meta", "400 -32600 unknown-version"),
        (&[V2026, list], only(""), "400 -32602 meta", "400 -32602 meta", "400 -32600 unknown-version"),
        (&[V2026, list], only(CAPABILITIES), "400 -32602 meta", "400 -32602 meta", "400 -32600 unknown-version"),
        (&[V2026, list], only(VERSION), "400 -32602 meta", "400 -32602 meta", "400 -32600 unknown-version"),
        (&[V2026, list], only(number), "400 -32602 meta", "400 -32602 meta", "400 -32600 unknown-version"),
        (&[V2026, ("mcp-method", "server/discover")], with_only("server/discover", ""), "400 -32602 meta", "400 -32602 meta", "400 -32600 unknown-version"),
        (&[V2026, ("mcp-method", "initialize")], INITIALIZE.to_owned(), "400 -32602 meta", "400 -32602 meta", "400 -32600 unknown-version"),
        (&[V2026, list], meta("v999.0.0"), "400 -32020 header-mismatch", "400 -32020 header-mismatch", "400 -32600 unknown-version"),
        (&[V2026, list], meta("2025-11-25"), "400 -32020 header-mismatch", "400 -32020 header-mismatch", "400 -32600 unknown-version"),
        (&[V2026], INITIALIZED.to_owned(), "accepted", "accepted", "400 -32600 unknown-version"),
        (&[V2026, SESSION], INITIALIZED.to_owned(), "accepted", "accepted", "400 -32600 unknown-version"),
        (&[V2026], modern_note.to_owned(), "accepted", "accepted", "400 -32600 unknown-version"),
        (&[V2026], RESPONSE.to_owned(), "400 -32600 response", "400 -32600 response", "400 -32600 unknown-version"),
        (&[V2026, SESSION], FAILED.to_owned(), "400 -32600 response", "400 -32600 response", "400 -32600 unknown-version"),
        (&[V2026], ORPHAN.to_owned(), "400 -32600 response", "400 -32600 response", "400 -32600 unknown-version"),
        (&[V2026, SESSION], BATCH.to_owned(), "400 -32600 batch", "400 -32600 batch", "400 -32600 unknown-version"),
        // No header.
        (&[], INITIALIZE.to_owned(), "initialize", "400 -32020 missing-header", "initialize"),
        (&[], INITIALIZE_2026.to_owned(), "initialize", "400 -32020 missing-header", "initialize"),
        (&[SESSION], INITIALIZE.to_owned(), "initialize", "400 -32020 missing-header", "initialize"),
        (&[], with_meta("initialize", "", "2026-07-28"), "400 -32020 missing-header", "400 -32020 missing-header", "initialize"),
        (&[list], meta("2026-07-28"), "400 -32020 missing-header", "400 -32020 missing-header", "400 -32600 no-session"),
        (&[list], meta("v999.0.0"), "400 -32020 missing-header", "400 -32020 missing-header", "400 -32600 no-session"),
        (&[SESSION], meta("2026-07-28"), "400 -32020 missing-header", "400 -32020 missing-header", "session abc -"),
        (&[SESSION], only(CAPABILITIES), "400 -32020 missing-header", "400 -32020 missing-header", "session abc -"),
        (&[SESSION], modern_note.to_owned(), "400 -32020 missing-header", "400 -32020 missing-header", "session abc -"),
        (&[SESSION], LIST.to_owned(), "session abc -", "400 -32020 missing-header", "session abc -"),
        (&[SESSION], only(r#""progressToken":1"#), "session abc -", "400 -32020 missing-header", "session abc -"),
        (&[], LIST.to_owned(), "400 -32600 no-session", "400 -32020 missing-header", "400 -32600 no-session"),
        (&[], INITIALIZED.to_owned(), "400 -32600 no-session", "400 -32020 missing-header", "400 -32600 no-session"),
        (&[SESSION], INITIALIZED.to_owned(), "session abc -", "400 -32020 missing-header", "session abc -"),
        (&[SESSION], RESPONSE.to_owned(), "session abc -", "400 -32600 response", "session abc -"),
        (&[SESSION], ORPHAN.to_owned(), "session abc -", "400 -32600 response", "session abc -"),
        (&[], RESPONSE.to_owned(), "400 -32600 no-session", "400 -32600 response", "400 -32600 no-session"),
        (&[SESSION], BATCH.to_owned(), "session abc -", "400 -32600 batch", "session abc -"),
        (&[], BATCH.to_owned(), "400 -32600 batch", "400 -32600 batch", "400 -32600 batch"),
        (&[SESSION], format!("[{INITIALIZE}]"), "400 -32600 batch", "400 -32600 batch", "400 -32600 batch"),
        (&[], format!("[{INITIALIZE}]"), "400 -32600 batch", "400 -32600 batch", "400 -32600 batch"),
        (&[SESSION], format!("[{LIST},{}]", meta("2026-07-28")), "400 -32600 batch", "400 -32600 batch", "session abc -"),
        (&[SESSION], format!("[{LIST},7]"), "session abc -", "400 -32600 batch", "session abc -"),
        (&[("mcp-session-id", "a b")], LIST.to_owned(), "400 -32600 bad-session", "400 -32020 missing-header", "400 -32600 bad-session"),
        (&[("mcp-session-id", "a\r\nb: c")], LIST.to_owned(), "400 -32600 bad-session", "400 -32020 missing-header", "400 -32600 bad-session"),
        (&[SESSION, SESSION], LIST.to_owned(), "400 -32600 repeated-header", "400 -32020 missing-header", "400 -32600 repeated-header"),
        (&[SESSION, ("mcp-session-id", "x")], BATCH.to_owned(), "400 -32600 repeated-header", "400 -32600 batch", "400 -32600 repeated-header"),
        // Legacy header.
        (&[V2025, SESSION], LIST.to_owned(), "session abc 2025-11-25", "400 -32022 unsupported-version", "session abc 2025-11-25"),
        (&[V2025, SESSION, ("mcp-method", "other")], LIST.to_owned(), "session abc 2025-11-25", "400 -32022 unsupported-version", "session abc 2025-11-25"),
        (&[V2025], LIST.to_owned(), "400 -32600 no-session", "400 -32022 unsupported-version", "400 -32600 no-session"),
        (&[V2025], INITIALIZE.to_owned(), "initialize", "400 -32022 unsupported-version", "initialize"),
        (&[V2025, SESSION], RESPONSE.to_owned(), "session abc 2025-11-25", "400 -32022 unsupported-version", "session abc 2025-11-25"),
        (&[V2025, SESSION], BATCH.to_owned(), "session abc 2025-11-25", "400 -32022 unsupported-version", "session abc 2025-11-25"),
        (&[("mcp-protocol-version", "2025-06-18"), SESSION], LIST.to_owned(), "session abc 2025-06-18", "400 -32022 unsupported-version", "400 -32600 unknown-version"),
        (&[V2025, SESSION], meta("2026-07-28"), "400 -32020 header-mismatch", "400 -32020 header-mismatch", "session abc 2025-11-25"),
        (&[V2025, SESSION], meta("2025-11-25"), "400 -32022 unsupported-version", "400 -32022 unsupported-version", "session abc 2025-11-25"),
        (&[V2025, SESSION], only(CAPABILITIES), "400 -32602 meta", "400 -32022 unsupported-version", "session abc 2025-11-25"),
        (&[V2025, SESSION], only(number), "400 -32602 meta", "400 -32022 unsupported-version", "session abc 2025-11-25"),
        // A header with an unsupported revision.
        (&[V999, list], meta("v999.0.0"), "400 -32022 unsupported-version", "400 -32022 unsupported-version", "400 -32600 unknown-version"),
        (&[V999, list], LIST.to_owned(), "400 -32022 unsupported-version", "400 -32022 unsupported-version", "400 -32600 unknown-version"),
        (&[V999, SESSION], LIST.to_owned(), "400 -32022 unsupported-version", "400 -32022 unsupported-version", "400 -32600 unknown-version"),
        (&[V999], INITIALIZE.to_owned(), "400 -32022 unsupported-version", "400 -32022 unsupported-version", "400 -32600 unknown-version"),
        (&[V999], INITIALIZED.to_owned(), "400 -32022 unsupported-version", "400 -32022 unsupported-version", "400 -32600 unknown-version"),
        (&[V999, SESSION], RESPONSE.to_owned(), "400 -32022 unsupported-version", "400 -32022 unsupported-version", "400 -32600 unknown-version"),
        (&[V999, SESSION], BATCH.to_owned(), "400 -32022 unsupported-version", "400 -32022 unsupported-version", "400 -32600 unknown-version"),
        (&[V999, list], meta("2026-07-28"), "400 -32020 header-mismatch", "400 -32020 header-mismatch", "400 -32600 unknown-version"),
        (&[("mcp-protocol-version", ""), SESSION], LIST.to_owned(), "400 -32022 unsupported-version", "400 -32022 unsupported-version", "400 -32600 unknown-version"),
        // An invalid header.
        (&[V2026, V2026, list], meta("2026-07-28"), "400 -32020 bad-header", "400 -32020 bad-header", "400 -32600 repeated-header"),
        (&[V2025, V2026, list], meta("2026-07-28"), "400 -32020 bad-header", "400 -32020 bad-header", "400 -32600 repeated-header"),
        (&[V2025, V2025, SESSION], LIST.to_owned(), "400 -32020 bad-header", "400 -32020 bad-header", "400 -32600 repeated-header"),
        (&[("mcp-protocol-version", "2026-07-28\r\nX: y"), list], meta("2026-07-28"), "400 -32020 bad-header", "400 -32020 bad-header", "400 -32600 unknown-version"),
        (&[("mcp-protocol-version", "2026-07-28\0"), list], meta("2026-07-28"), "400 -32020 bad-header", "400 -32020 bad-header", "400 -32600 unknown-version"),
        (&[("mcp-protocol-version", "2026–07–28"), list], meta("2026-07-28"), "400 -32020 bad-header", "400 -32020 bad-header", "400 -32600 unknown-version"),
        (&[("mcp-protocol-version", "\t2026-07-28 "), list], meta("2026-07-28"), "modern 2026-07-28", "modern 2026-07-28", "400 -32600 unknown-version"),
        (&[("MCP-PROTOCOL-VERSION", "2026-07-28"), list], meta(r"2026-07-2\u0038"), "modern 2026-07-28", "modern 2026-07-28", "400 -32600 unknown-version"),
        // A body that is not a message, with any headers.
        (&[V2026, list], "{".to_owned(), "400 -32700 syntax", "400 -32700 syntax", "400 -32700 syntax"),
        (&[V999], String::new(), "400 -32700 syntax", "400 -32700 syntax", "400 -32700 syntax"),
        (&[SESSION], "[]".to_owned(), "400 -32600 empty-batch", "400 -32600 empty-batch", "400 -32600 empty-batch"),
        (&[SESSION], "7".to_owned(), "400 -32600 not-an-object", "400 -32600 not-an-object", "400 -32600 not-an-object"),
        (&[V2026], r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#.to_owned(), "400 -32600 null-id", "400 -32600 null-id", "400 -32600 null-id"),
        (&[V2026], format!("{LIST}{LIST}"), "400 -32700 syntax", "400 -32700 syntax", "400 -32700 syntax"),
    ] {
        assert_eq!(planned(headers, &body, DUAL), dual, "dual: {headers:?} {body}");
        assert_eq!(planned(headers, &body, MODERN), modern, "modern: {headers:?} {body}");
        assert_eq!(planned(headers, &body, LEGACY), legacy, "legacy: {headers:?} {body}");
    }
}

#[test]
#[rustfmt::skip] // one row per line
fn headers_must_match_the_body() {
    let call =
        |name: &str| with_meta("tools/call", &format!(r#""name":{name},"arguments":{{}}"#), "2026-07-28");
    let read = |uri: &str| with_meta("resources/read", &format!(r#""uri":{uri}"#), "2026-07-28");
    let list = with_meta("tools/list", "", "2026-07-28");
    let (is_call, is_read, is_list) =
        (("Mcp-Method", "tools/call"), ("Mcp-Method", "resources/read"), ("Mcp-Method", "tools/list"));
    let ok = "modern 2026-07-28";
    let (missing, mismatch, bad) =
        ("400 -32020 missing-header", "400 -32020 header-mismatch", "400 -32020 bad-header");
    let name = |name| ("Mcp-Name", name);
    for (headers, body, expected) in [
        (&[is_list][..], list.clone(), ok),
        (&[("mcp-method", "tools/list")], list.clone(), ok),
        (&[("MCP-METHOD", "tools/list")], list.clone(), ok),
        (&[("mcp-method", " tools/list\t")], list.clone(), ok),
        (&[("mcp-method", "tools/list")], with_meta(r"tools\/list", "", "2026-07-28"), ok),
        (&[], list.clone(), missing),
        (&[("mcp-method", "prompts/list")], list.clone(), mismatch),
        (&[("mcp-method", "TOOLS/LIST")], list.clone(), mismatch),
        (&[("mcp-method", "")], list.clone(), mismatch),
        (&[("mcp-method", "tools/list, tools/list")], list.clone(), mismatch),
        (&[("mcp-method", "tools/list\0")], list.clone(), mismatch),
        (&[("mcp-method", "tools/list\r\nMcp-Name: a")], list.clone(), mismatch),
        // A method is never encoded.
        (&[("mcp-method", "=?base64?dG9vbHMvbGlzdA==?=")], list.clone(), mismatch),
        (&[is_list, is_list], list.clone(), bad),
        // Other methods ignore `Mcp-Name`.
        (&[is_list, name("x"), name("y")], list.clone(), ok),
        (&[is_call, name("add")], call("\"add\""), ok),
        (&[is_call, name("  add  ")], call("\"add\""), ok),
        (&[is_call, name("add")], call(r#""\u0061dd""#), ok),
        (&[is_call], call("\"add\""), missing),
        (&[is_call, name("wrong_tool_name")], call("\"add\""), mismatch),
        (&[is_call, name("ADD")], call("\"add\""), mismatch),
        (&[is_call, name("")], call("\"add\""), mismatch),
        (&[is_call, name("")], call("\"\""), ok),
        (&[is_call, name("add"), name("add")], call("\"add\""), bad),
        (&[is_call, name("=?base64?YWRk?=")], call("\"add\""), ok),
        (&[is_call, name("=?base64?c3Vi?=")], call("\"add\""), mismatch),
        (&[is_call, name("=?base64?w6Q=?=")], call("\"ä\""), ok),
        (&[is_call, name("=?base64?w6Q?=")], call("\"ä\""), bad),
        (&[is_call, name("=?base64?w6!=?=")], call("\"ä\""), bad),
        (&[is_call, name("=?base64?w6R=?=")], call("\"ä\""), bad),
        (&[is_call, name("=?base64?/w==?=")], call("\"ä\""), bad),
        (&[is_call, name("=?BASE64?w6Q=?=")], call("\"ä\""), mismatch),
        (&[is_call, name("ä")], call("\"ä\""), bad),
        (&[is_call, name("add\r\nX: y")], call(r#""add\r\nX: y""#), bad),
        (&[is_call, name("add\0")], call(r#""add\u0000""#), bad),
        (&[is_call, name("=?base64?YWRkDQpYOiB5?=")], call(r#""add\r\nX: y""#), ok),
        (&[is_call, name("=?base64?PT9iYXNlNjQ/YT89?=")], call("\"=?base64?a?=\""), ok),
        (&[is_call, name("=?base64?a?=")], call("\"=?base64?a?=\""), bad),
        (&[is_call, name("=?base64?7aCA?=")], call(r#""\ud800""#), bad),
        // Without a name in the body there is nothing to repeat. The method itself reports that it is missing.
        (&[is_call], call("7"), ok),
        (&[is_call, name("7")], call("7"), mismatch),
        (&[is_call], with_meta("tools/call", "", "2026-07-28"), ok),
        (&[is_call, name("x")], with_meta("tools/call", "", "2026-07-28"), mismatch),
        // The last of two names counts, here and for the method itself.
        (&[is_call, name("b")], with_meta("tools/call", r#""name":"a","name":"b""#, "2026-07-28"), ok),
        (&[is_call, name("a")], with_meta("tools/call", r#""name":"a","name":"b""#, "2026-07-28"), mismatch),
        (&[("mcp-method", "prompts/get"), name("p")], with_meta("prompts/get", r#""name":"p""#, "2026-07-28"), ok),
        (&[("mcp-method", "prompts/get")], with_meta("prompts/get", r#""name":"p""#, "2026-07-28"), missing),
        (&[is_read, name("file:///a b")], read("\"file:///a b\""), ok),
        (&[is_read, name("file:///b")], read("\"file:///a\""), mismatch),
        (&[is_read], read("\"file:///a\""), missing),
        (&[is_read, name("n")], with_meta("resources/read", r#""name":"n","uri":"u""#, "2026-07-28"), mismatch),
        // The method is checked before the name, and both after `_meta`.
        (&[name("x")], call("\"add\""), missing),
        (&[("mcp-method", "x"), name("x")], call("\"add\""), mismatch),
        (&[], with_only("tools/list", VERSION), "400 -32602 meta"),
    ] {
        let headers: Vec<_> = [V2026].into_iter().chain(headers.iter().copied()).collect();
        assert_eq!(planned(&headers, &body, DUAL), expected, "{headers:?} {body}");
    }
}

#[test]
fn a_rejection_says_what_to_do_and_has_the_id_of_the_request() {
    let refuse = |headers: Row<'_>, body: &str, supported: &[Revision]| {
        let rejection = plan(headers, &ParsedMessage::read(body, DEFAULT_DEPTH), supported).expect_err("refused");
        let mut out = Vec::new();
        rejection.body(&mut out);
        serde_json::from_slice::<serde_json::Value>(&out).expect("JSON")
    };
    let body = with_meta("tools/list", "", "v999.0.0").replace("\"id\":1", "\"id\":\"q\"");
    let said = refuse(&[V999], &body, DUAL);
    assert_eq!(said["id"], "q");
    assert_eq!(said["error"]["data"], serde_json::json!({ "supported": ["2026-07-28"], "requested": "v999.0.0" }));
    let said = refuse(&[], INITIALIZE, MODERN);
    assert_eq!(said["id"], 1);
    assert!(said["error"]["message"].as_str().expect("a message").contains("2026-07-28"), "{said}");
    let said = refuse(&[V2025], LIST, DUAL);
    assert!(said["error"]["message"].as_str().expect("a message").contains("send initialize"), "{said}");
    for body in [RESPONSE, BATCH, INITIALIZED] {
        assert_eq!(refuse(&[], body, DUAL).get("id"), None, "{body}");
    }
}
