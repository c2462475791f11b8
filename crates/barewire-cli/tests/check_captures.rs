//! `barewire check FILE`: each fault in a capture is reported once, under its check, and against the party at fault.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The findings in this transcript, one per line: check, party, frame and detail.
fn found(name: &str, transcript: &str) -> Vec<String> {
    let path: PathBuf = std::env::temp_dir().join(format!("barewire-{name}-{}.wire", std::process::id()));
    std::fs::write(&path, format!("wire 1\n{transcript}\n")).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_barewire")).args(["check", "--json"]).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    let output = output.expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    let checks = report["checks"].as_array().expect("checks");
    let failed = checks.iter().filter(|check| check["status"] == "fail");
    let line = |check: &Value, finding: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {} {} {}", text(&check["id"]), text(&finding["party"]), finding["frame"], text(&finding["detail"]))
    };
    let findings = |check: &Value| check["findings"].as_array().cloned().unwrap_or_default();
    failed.flat_map(|check| findings(check).iter().map(|finding| line(check, finding)).collect::<Vec<_>>()).collect()
}

const NOTHING: [&str; 0] = [];

/// A handshake of three frames.
fn agreed(revision: &str) -> String {
    format!(
        r#"> {{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}}}}}}
< {{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"{revision}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}
> {{"jsonrpc":"2.0","method":"notifications/initialized"}}
"#
    )
}

/// Frames 4 and 5: a list of these tools.
fn listed(tools: &str) -> String {
    format!(
        r#"> {{"jsonrpc":"2.0","id":"list","method":"tools/list"}}
< {{"jsonrpc":"2.0","id":"list","result":{{"tools":[{tools}]}}}}
"#
    )
}

const TOOL: &str =
    r#"{"name":"get","inputSchema":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}"#;

fn called(params: &str, outcome: &str) -> String {
    format!(
        r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}
< {{"jsonrpc":"2.0","id":1,{outcome}}}
"#
    )
}

/// A client that closes stdin right after its requests has not waited for responses.
#[test]
fn a_client_that_does_not_wait_gets_no_finding() {
    let asked = ">(+0.1) {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n>(+0.1) {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n";
    let answered = "<(+0.3) {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n@(+9) eof <\n@(+9) exit code 0\n";
    for (closed, is_reported) in [("@(+0.2) eof >\n", false), ("", true)] {
        let text = format!("wire 1\n{asked}{closed}{answered}");
        let path = std::env::temp_dir().join(format!("barewire-waited-{is_reported}-{}.wire", std::process::id()));
        std::fs::write(&path, text).expect("it can be written");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_barewire"))
            .args(["check", "--only", "unanswered-request"])
            .arg(&path)
            .output()
            .expect("it runs");
        let _ = std::fs::remove_file(&path);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.contains("FAIL  unanswered-request"), is_reported, "{text}");
    }
}

#[test]
fn the_failure_of_a_tool_is_not_a_protocol_error() {
    let error = |code: i64| format!(r#""error":{{"code":{code},"message":"no"}}"#);
    let session = |tool: &str, params: &str, code| {
        format!("{}{}{}", agreed("2025-06-18"), listed(tool), called(params, &error(code)))
    };
    let valid = r#"{"name":"get","arguments":{"q":"x"}}"#;
    let failed =
        ["reserved-error-codes server 7 a call of get with valid arguments fails with -32603, not with isError"];
    assert_eq!(found("internal", &session(TOOL, valid, -32603)), failed);
    let unknown = ["reserved-error-codes server 7 the tool get is listed, but a call of it fails with -32601"];
    assert_eq!(found("gone", &session(TOOL, valid, -32601)), unknown);
    // The arguments, the name or a task may explain the error.
    assert_eq!(found("arguments", &session(TOOL, r#"{"name":"get","arguments":{"q":1}}"#, -32603)), NOTHING);
    assert_eq!(found("name", &session(TOOL, r#"{"name":"got","arguments":{"q":"x"}}"#, -32603)), NOTHING);
    assert_eq!(found("params", &session(TOOL, valid, -32602)), NOTHING);
    // So may a refusal of the client.
    let asked = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get","arguments":{"q":"x"}}}
< {"jsonrpc":"2.0","id":7,"method":"ping"}
> {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#;
    assert_eq!(found("refused", &format!("{}{}{asked}", agreed("2025-06-18"), listed(TOOL))), NOTHING);
    let task = TOOL.replace(r#"{"name""#, r#"{"execution":{"taskSupport":"required"},"name""#);
    assert_eq!(found("task", &session(&task, valid, -32601)), NOTHING);
}

#[test]
fn an_altered_id_is_one_finding() {
    let asked =
        |id: &str| format!("{}> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n", agreed("2025-11-25"));
    let session = |asked_as: &str, answered_as: &str| {
        format!("{}< {{\"jsonrpc\":\"2.0\",\"id\":{answered_as},\"result\":{{}}}}\n", asked(asked_as))
    };
    for (asked, answered) in [("1", r#""1""#), (r#""1""#, "1"), ("1", "1.0"), ("12", "1.2e1")] {
        let expected = [format!("id-fidelity server 5 the response has id {answered}, the request has id {asked}")];
        assert_eq!(found("id", &session(asked, answered)), expected);
    }
    for (asked, answered) in [(r#""a""#, r#""\u0061""#), ("1.0", "1"), ("-7", "-7")] {
        assert_eq!(found("same-id", &session(asked, answered)), NOTHING, "{asked} {answered}");
    }
    let expected = ["id-fidelity server 5 response id 2 matches no request; the last request was sent with id 1"];
    assert_eq!(found("other-id", &session("1", "2")), expected);
}

#[test]
fn a_response_to_a_notification_is_not_that_of_a_cancelled_request() {
    let answer = r#"< {"jsonrpc":"2.0","id":null,"result":{}}"#;
    let session = format!(
        r#"{}> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"slow"}}}}
> {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":1}}}}
{answer}"#,
        agreed("2025-11-25")
    );
    let expected = ["notification-silence server 6 a response without an id follows a notification"];
    assert_eq!(found("cancelled", &session), expected);
    // A request in flight may be the one that was answered.
    let waits = session.replace("notifications/cancelled", "notifications/other");
    assert!(found("waits", &waits)[0].starts_with("id-fidelity server 6 "));
}

#[test]
fn tools_are_judged_by_the_rules_of_their_revision() {
    let list = |revision: &str, tool: &str| found("tool", &format!("{}{}", agreed(revision), listed(tool)));
    let spaced = TOOL.replace("\"get\"", "\"get it\"");
    assert_eq!(list("2025-06-18", &spaced), NOTHING);
    assert!(list("2025-11-25", &spaced)[0].starts_with("tool-names server 5 the tool name get it has characters"));
    let twice = list("2025-06-18", &format!("{TOOL},{TOOL}"));
    assert_eq!(twice, ["tool-names server 5 two tools have the name get"]);
    let array = TOOL.replace(r#"{"name""#, r#"{"outputSchema":{"type":"array"},"name""#);
    for revision in ["2025-06-18", "2025-11-25"] {
        let expected = ["tool-schemas server 5 outputSchema of get: its type must be object"];
        assert_eq!(list(revision, &array), expected);
    }
    assert_eq!(list("2025-03-26", &array), NOTHING);
}

#[test]
fn undeclared_capabilities_are_reported() {
    let session = format!(
        r#"{}> {{"jsonrpc":"2.0","id":1,"method":"prompts/list"}}
< {{"jsonrpc":"2.0","id":1,"error":{{"code":-32601,"message":"no"}}}}
< {{"jsonrpc":"2.0","id":1,"method":"roots/list"}}"#,
        agreed("2025-11-25")
    );
    let expected = [
        "undeclared-client-capability server 6 the server sends roots/list, but the client has not declared the capability for it",
        "undeclared-server-capability client 4 the client sends prompts/list, but the server has not declared the capability for it",
    ];
    assert_eq!(found("undeclared", &session), expected);
}

/// Each line used to be parsed together with all lines before it.
#[test]
fn an_endless_multiline_message_costs_linear_time() {
    let begin = format!("< {}\n", "[".repeat(100_000));
    let lines = "< 1,\n".repeat(40_000);
    let since = Instant::now();
    let findings = found("pieces", &format!("{}{begin}{lines}", agreed("2025-11-25")));
    assert!(since.elapsed() < Duration::from_secs(180), "{:?}", since.elapsed());
    assert!(findings[0].starts_with("stdout-purity server 4 "), "{:?}", findings[0]);
}

/// An exchange: the request's line, headers and body, and the response.
fn exchange(number: u32, head: &[&str], body: &str, answer: (&str, &str)) -> String {
    let (status, text) = answer;
    let heads: String = head.iter().map(|line| format!("@x{number} head > {line}\n")).collect();
    let answered = match text {
        "" => String::new(),
        text => format!("@x{number} head < content-type: application/json\n<x{number}(noeol) {text}\n"),
    };
    format!(
        "{heads}@x{number} framing body\n>x{number}(noeol) {body}\n@x{number} eof >\n@x{number} head < HTTP/1.1 {status}\n{answered}@x{number} eof <\n"
    )
}

/// A modern request over HTTP, with what its headers repeat.
fn modern(number: u32, method: &str, headers: &[&str], params: &str, result: &str) -> String {
    let said = format!("mcp-method: {method}");
    let head = [
        "POST /mcp HTTP/1.1",
        "host: h",
        "accept: application/json, text/event-stream",
        "content-type: application/json",
    ];
    let version = ["mcp-protocol-version: 2026-07-28", &said];
    let head: Vec<&str> = head.into_iter().chain(version).chain(headers.iter().copied()).collect();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{meta}{params}}}}}"#);
    let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{{result}}}}}"#);
    exchange(number, &head, &body, ("200 OK", &answer))
}

const COMPLETE: &str = r#""resultType":"compl\u0065te""#;

fn page(number: u32, cursor: &str, scope: &str, rest: &str) -> String {
    let result = format!(r#"{COMPLETE},"ttlMs":0,"cacheScope":"{scope}",{rest}"#);
    modern(number, "tools/list", &[], cursor, &result)
}

const WEATHER: &str = r#"{"name":"weather","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}},"outputSchema":{"type":"array"}}"#;

#[test]
fn pages_of_a_modern_list_are_checked_together() {
    let first = page(1, "", r"pri\u0076ate", &format!(r#""tools":[{WEATHER}],"nextCursor":"two""#));
    let second = |scope: &str, name: &str| {
        let tool = format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
        page(2, r#","cursor":"tw\u006f""#, scope, &format!(r#""tools":[{tool}]"#))
    };
    assert_eq!(found("pages", &format!("{first}{}", second("private", "other"))), NOTHING);
    let twice = ["tool-names server 4 two tools have the name weather"];
    assert_eq!(found("pages-name", &format!("{first}{}", second("private", "weather"))), twice);
    let scopes = ["caching-hints server 4 a page of tools/list has cacheScope public, the first page has private"];
    assert_eq!(found("pages-scope", &format!("{first}{}", second("public", "other"))), scopes);
    // Another client reads the same list at the same time.
    let other = page(3, "", "private", &format!(r#""tools":[{WEATHER}],"nextCursor":"two""#));
    let both = format!("{first}{other}{}{}", second("private", "other"), second("private", "other"));
    assert_eq!(found("pages-both", &both), NOTHING);
}

#[test]
fn calls_over_http_are_judged_by_the_list_of_another_exchange() {
    let list = page(1, "", "public", &format!(r#""tools":[{WEATHER}]"#));
    let call = |headers: &[&str], content: &str| {
        let headers: Vec<&str> = ["mcp-name: weather"].into_iter().chain(headers.iter().copied()).collect();
        let result = format!(r#"{COMPLETE},"content":[],"structuredContent":{content}"#);
        let params = r#","name":"weather","arguments":{"region":"eu"}"#;
        format!("{list}{}", modern(2, "tools/call", &headers, params, &result))
    };
    assert_eq!(found("call", &call(&["mcp-param-region: eu"], "[]")), NOTHING);
    let output = found("call-output", &call(&["mcp-param-region: eu"], "{}"));
    assert!(output.len() == 1 && output[0].starts_with("output-schema server 4 "), "{output:?}");
    for header in [&[][..], &["mcp-param-region: us"]] {
        let findings = found("call-header", &call(header, "[]"));
        assert!(
            findings.len() == 1
                && findings[0].starts_with("http-header-mirroring client 3 a call of weather: Mcp-Param-Region"),
            "{findings:?}"
        );
    }
    // A redacted value cannot be compared.
    assert_eq!(found("call-secret", &call(&["mcp-param-region: <redacted-1>"], "[]")), NOTHING);
}

#[test]
fn a_repeated_response_does_not_count_against_another_session() {
    let ask = r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":5,"result":{}}"#;
    let head = |number: u32, session: &str| {
        let heads =
            ["POST /mcp HTTP/1.1", "accept: application/json, text/event-stream", "content-type: application/json"];
        let heads: String = heads.iter().map(|line| format!("@x{number} head > {line}\n")).collect();
        format!(
            "{heads}@x{number} head > mcp-session-id: {session}\n@x{number} framing body\n>x{number}(noeol) {ask}\n@x{number} eof >\n"
        )
    };
    let twice = format!("<x2 data: {answer}\n<x2\n");
    let capture = format!(
        "{}{}@x2 head < HTTP/1.1 200 OK\n@x2 head < content-type: text/event-stream\n@x2 framing sse\n{twice}{twice}@x2 eof <\n\
         @x1 head < HTTP/1.1 200 OK\n@x1 head < content-type: application/json\n<x1(noeol) {answer}\n@x1 eof <\n",
        head(1, "A"),
        head(2, "B"),
    );
    let expected = ["answered-once server 4 the request with this id is already answered"];
    assert_eq!(found("sessions", &capture), expected);
}

#[test]
fn http_with_sse_is_not_judged_as_streamable_http() {
    let ask = |id: u32, method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    };
    let hello = ask(
        0,
        "initialize",
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#,
    );
    let welcome = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let post = |number, body: &str| {
        exchange(
            number,
            &["POST /messages?sessionId=1 HTTP/1.1", "content-type: application/json"],
            body,
            ("202 Accepted", "Accepted"),
        )
    };
    let open = |endpoint: &str| {
        format!(
            "@x1 head > GET /sse HTTP/1.1\n@x1 head > accept: text/event-stream\n@x1 eof >\n@x1 head < HTTP/1.1 200 OK\n\
                 @x1 head < content-type: text/event-stream\n@x1 framing sse\n{endpoint}"
        )
    };
    let event = |text: &str| format!("<x1 data: {text}\n<x1\n");
    let endpoint = "<x1 event: endpoint\n<x1 data: /messages?sessionId=1\n<x1\n";
    let call = ask(1, "tools/list", "{}");
    let talk = |endpoint: &str, last: &str| {
        let parts = [open(endpoint), post(2, &hello), event(welcome), post(3, ready), post(4, &call), last.to_owned()];
        parts.concat()
    };
    let tools = event(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#);
    assert_eq!(found("sse", &talk(endpoint, &tools)), NOTHING);
    assert_eq!(found("sse-unnamed", &talk("", &tools)), NOTHING);
    assert_eq!(found("sse-alone", &post(1, &hello)), NOTHING);
    assert_eq!(found("sse-ends", &talk(endpoint, "")), NOTHING);
    // All of it is one conversation, so the missing response is noticed.
    let log = event(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    let findings = found("sse-silent", &talk(endpoint, &log));
    assert_eq!(findings, ["unanswered-request server 6 tools/list with id 1 has no response"]);
}
