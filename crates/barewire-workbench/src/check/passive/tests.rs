//! Transcripts -> the findings of the passive checks: check, party and frame.

use barewire_proto::transcript::read;

use crate::check::catalogue::CheckPlace;
use crate::check::{Finding, Inspector};
use crate::frames::{FrameLimits, Streams};
use crate::pipeline::ObserverSink;

/// Returns the findings in a transcript, each as check, party and frame.
pub(super) fn found(transcript: &str) -> Vec<String> {
    let line = |finding: &Finding| {
        let frame = finding.location.frame.map_or("-".to_owned(), |frame| frame.to_string());
        format!("{} {} {frame}", finding.check.id, finding.party.as_str())
    };
    findings(transcript).iter().map(line).collect()
}

pub(super) fn findings(transcript: &str) -> Vec<Finding> {
    let mut observed = ObserverSink::new(Inspector::new());
    let mut streams = Streams::new(FrameLimits { frame: 1 << 20, depth: 64 });
    for entry in read(transcript.as_bytes()).expect("a transcript") {
        assert!(matches!(streams.entry(&entry, &mut observed), Ok(true)));
    }
    assert!(streams.finish(&mut observed).is_ok());
    let ledger = observed.finish().ledger;
    let outcomes = ledger.into_outcomes(CheckPlace::Capture);
    outcomes.into_iter().flat_map(|outcome| outcome.findings().to_vec()).collect()
}

pub(super) const NOTHING: [&str; 0] = [];

/// A handshake of three frames.
pub(super) const OPEN: &str = r#"> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}
< {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

pub(super) fn found_after_handshake(transcript: &str) -> Vec<String> {
    found(&format!("{OPEN}{transcript}"))
}

#[test]
fn an_ordinary_session() {
    let session = r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}
< {"jsonrpc":"2.0","id":"a","method":"ping"}
> {"jsonrpc":"2.0","id":"a","result":{}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
> {"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"x:y"}}
@ eof >
@ exit code 0"#;
    // The server has not declared the capability for the last request. The missing response to this request is no
    // finding, because the capture ends there.
    assert_eq!(found_after_handshake(session), ["undeclared-server-capability client 9"]);
}

#[test]
fn the_party_at_fault_is_named() {
    let broken = r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/list"
< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}
> {"id":2,"method":"ping"}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"Invalid Request"}}
< {"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}
> {"jsonrpc":"2.0","id":8,"result":{}}"#;
    let expected = [
        "jsonrpc-messages client 4",
        "jsonrpc-messages client 6",
        "id-fidelity client 9",
        "undeclared-client-capability server 8",
    ];
    assert_eq!(found_after_handshake(broken), expected);
}

#[test]
fn a_message_over_several_lines_is_one_finding() {
    let pretty = r#"
< {
<   "jsonrpc": "2.0",
<   "id": 5,
<   "result": {}
< }
< listening"#;
    assert_eq!(found_after_handshake(pretty), ["stdout-purity server 9", "one-message-a-line server 4"]);
}

#[test]
fn a_response_without_an_id_is_attributed_to_a_notification_or_an_unanswered_request() {
    let orphan = r#"< {"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#;
    assert_eq!(found_after_handshake(orphan), ["notification-silence server 4"]);
    let before = r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let answered = r#"< {"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(found_after_handshake(&format!("{before}\n{orphan}\n{answered}")), ["notification-silence server 5"]);
    assert_eq!(found_after_handshake(&format!("{before}\n{orphan}")), ["id-fidelity server 5"]);
    // A batch may be refused without an id.
    let batch = r#"> [{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    assert_eq!(found_after_handshake(&format!("{batch}\n{orphan}")), ["batch-policy client 4"]);
}

#[test]
fn a_response_long_after_the_cancellation_is_late() {
    let cancelled = |at: &str| {
        format!(
            r#">(+1) {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t"}}}}
>(+2) {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":1}}}}
<(+{at}) {{"jsonrpc":"2.0","id":1,"result":{{"content":[]}}}}"#
        )
    };
    assert_eq!(found_after_handshake(&cancelled("2.5")), NOTHING);
    assert_eq!(found_after_handshake(&cancelled("9")), ["late-answer server 6"]);
}

#[test]
fn progress_must_increase_and_belong_to_a_request() {
    let progress = r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p"}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":3}}"#;
    assert_eq!(found_after_handshake(progress), ["progress-rules server 6", "progress-rules server 8"]);
}

/// Returns a request with the metadata of the modern era.
pub(super) fn ask(id: u32, method: &str) -> String {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{meta}}}}}\n")
}

#[test]
fn an_older_server_that_serves_a_modern_request_is_not_judged_by_modern_rules() {
    let list = "< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[]}}\n";
    assert_eq!(found(&format!("{}{list}", ask(1, "tools/list"))), NOTHING);
    let discovered = r#"< {"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}}"#;
    let both = format!("{}{discovered}\n{}{list}", ask(0, "server/discover"), ask(1, "tools/list"));
    let expected = ["result-type server 4", "caching-hints server 4", "caching-hints server 4"];
    assert_eq!(found(&both), expected);
    // A modern client that omits its metadata and sends a response.
    let bare = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":9,"method":"roots/list"}
> {"jsonrpc":"2.0","id":9,"result":{"roots":[]}}"#;
    let expected = [
        "unanswered-request server 3",
        "modern-meta client 3",
        "modern-meta client 3",
        "modern-server-requests server 4",
        "modern-server-requests client 5",
    ];
    assert_eq!(found(&format!("{}{discovered}\n{bare}", ask(0, "server/discover"))), expected);
}

#[test]
fn redacted_and_truncated_frames_are_not_judged() {
    let changed = r#"
<(redacted) {"jsonrpc":"2.0","id":<redacted-1>}
<(truncated=900:0000000000000000000000000000000000000000000000000000000000000000) {"jsonrpc":"2.0","id"
@ gap < 100"#;
    assert_eq!(found_after_handshake(changed), NOTHING);
}

#[test]
fn how_a_process_ends() {
    assert_eq!(found_after_handshake("@ eof >\n@ exit code 3"), ["exit-code server -"]);
    assert_eq!(found_after_handshake("@ exit code 3"), ["stays-alive server 1"]);
    assert_eq!(found_after_handshake("@ exit signal 11"), ["stays-alive server 1"]);
    assert_eq!(found_after_handshake("@ eof >\n@ exit signal 15"), NOTHING);
    assert_eq!(found_after_handshake("@(+1) eof >\n@(+2.9) exit signal 15"), NOTHING);
    assert_eq!(found_after_handshake("@(+1) eof >\n@(+3) exit signal 15"), ["eof-exit server -"]);
    assert_eq!(found_after_handshake("@(+1) eof >\n@(+9) exit signal 9"), ["eof-exit server -"]);
    assert_eq!(found_after_handshake("@(+1) eof >\n@(+9) exit code 0"), NOTHING);
    assert_eq!(found_after_handshake("@(+1) eof <\n@(+1) eof >\n@(+9) exit signal 9"), NOTHING);
    assert_eq!(found_after_handshake("!(esc) \\x1b[1mready"), ["stderr-hygiene server -"]);
}

#[test]
fn a_result_of_a_tool_has_content_of_a_known_type() {
    let called = |result: &str| {
        let asked = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
        found_after_handshake(&format!("{asked}\n< {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}"))
    };
    assert_eq!(called(r#"{"content":[{"type":"text","text":"x"}]}"#), NOTHING);
    assert_eq!(called(r#"{"content":[]}"#), NOTHING);
    for bad in ["{}", r#"{"structuredContent":{}}"#, r#"{"content":[{"type":"txt","text":"x"}]}"#] {
        assert_eq!(called(bad).len(), 1, "{bad}");
        assert!(called(bad)[0].starts_with("result-shape server "), "{bad}");
    }
}

#[test]
fn an_error_is_judged_by_modern_rules_only_from_a_modern_server() {
    let error = r#"< {"jsonrpc":"2.0","id":0,"error":{"code":-32050,"message":"not yet"}}"#;
    assert_eq!(found(&format!("{}{error}", ask(0, "server/discover"))), NOTHING);
    let result =
        r#"< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}}"#;
    let spoken = format!("{}{result}\n{}{error}", ask(1, "tools/list"), ask(0, "prompts/list"));
    let findings = found(&spoken);
    assert!(findings.iter().any(|line| line.starts_with("reserved-error-codes server ")), "{findings:?}");
}

/// Not every server can represent an integer beyond 2^53.
#[test]
fn an_id_beyond_2_53_may_be_refused_without_an_id() {
    let refused = r#"> {"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}
< {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no such number"}}"#;
    assert_eq!(found_after_handshake(refused), NOTHING);
    let findings = found_after_handshake(&refused.replace("9007199254740993", "9"));
    assert_eq!(findings.len(), 1, "{findings:?}");
}

/// A tool without a name, which is a finding, at the end of a list.
#[test]
fn only_so_many_tools_of_a_list_are_checked() {
    let list = |count: usize| {
        let tools: Vec<String> =
            (1..count).map(|tool| format!(r#"{{"name":"{tool}","inputSchema":{{"type":"object"}}}}"#)).collect();
        let (tools, last) = (tools.join(","), r#"{"name":"","inputSchema":{"type":"object"}}"#);
        let request = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        format!("{request}\n< {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"tools\":[{tools},{last}]}}}}")
    };
    assert_eq!(found_after_handshake(&list(16_384)), ["tool-names server 5"]);
    assert_eq!(found_after_handshake(&list(16_385)), NOTHING);
}

/// Returns the findings, each as check, level and severity, of a session in this revision with these messages.
fn rules_in(revision: &str, messages: &str) -> Vec<String> {
    let transcript = format!("{}{messages}", OPEN.replace("2025-06-18", revision));
    let line = |it: &Finding| format!("{} {} {}", it.check.id, it.level().as_str(), it.severity().as_str());
    findings(&transcript).iter().map(line).collect()
}

#[test]
fn the_level_of_a_rule_is_that_of_the_revision() {
    let undeclared = r#"< {"jsonrpc":"2.0","id":"a","method":"roots/list"}
> {"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"no roots"}}
@ exit code 0"#;
    assert_eq!(rules_in("2025-03-26", undeclared), ["undeclared-client-capability SHOULD high"]);
    assert_eq!(rules_in("2025-06-18", undeclared), ["undeclared-client-capability MUST high"]);
    let batch = "> [{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}]\n@ exit code 0";
    assert_eq!(rules_in("2025-03-26", batch), NOTHING);
    assert_eq!(rules_in("2025-11-25", batch), ["batch-policy stated low"]);
}

/// The specification binds the side that sends too early, in words of its own for each side.
#[test]
fn a_request_before_the_handshake_is_a_should_of_its_sender() {
    let early = r#"> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}}}}
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":"a","method":"roots/list"}
@ exit code 0"#;
    let gate: Vec<Finding> = findings(early).into_iter().filter(|it| it.check.id == "lifecycle-gate").collect();
    let rules: Vec<String> = gate.iter().map(Finding::rule_text).collect();
    assert_eq!(rules.len(), 2, "{rules:?}");
    assert!(rules[0].starts_with("SHOULD of the client: MCP ") && rules[0].contains("basic/lifecycle"), "{rules:?}");
    assert!(rules[1].starts_with("SHOULD of the server: MCP ") && rules[1].contains("other than pings"), "{rules:?}");
}

/// A process that its host ended with a signal ended normally, whatever its exit code is.
#[test]
fn an_exit_after_a_signal_of_the_host_is_not_judged() {
    for end in [
        "@ eof >\n@ signal 15\n@ exit code 143",
        "@ eof >\n@ signal 2\n@ exit code 1",
        "@ signal 2 received\n@ exit code 1",
        "@ signal 15\n@ exit signal 11",
        "@ exit code 130",
        // The signal can reach the tap last.
        "@ exit code 1\n@ signal 15 received",
    ] {
        assert_eq!(found_after_handshake(end), NOTHING, "{end}");
    }
    assert_eq!(found_after_handshake("@ eof >\n@ exit code 1"), ["exit-code server -"]);
    assert_eq!(found_after_handshake("@ signal 10\n@ exit code 1"), ["stays-alive server 1"]);
    let talks_on = "@ signal 2\n> {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n@ exit code 1";
    assert_eq!(found_after_handshake(talks_on), ["stays-alive server 1"]);
}

/// A modern session with one `subscriptions/listen` of frame 3, and these messages after it.
fn listening(messages: &str) -> Vec<String> {
    let discovered = r#"< {"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true}},"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}}"#;
    let filter = r#""params":{"notifications":{"toolsListChanged":true},"#;
    let listen = ask(7, "subscriptions/listen").replace(r#""params":{"#, filter);
    found(&format!("{}{discovered}\n{listen}{messages}", ask(0, "server/discover")))
}

fn tagged(method: &str, params: &str) -> String {
    let tag = r#""_meta":{"io.modelcontextprotocol/subscriptionId":7}"#;
    format!("< {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{{params}{tag}}}}}\n")
}

#[test]
fn a_notification_that_crosses_the_cancellation_of_its_subscription_is_no_fault() {
    let ack = tagged("subscriptions/acknowledged", r#""notifications":{"toolsListChanged":true},"#);
    let change = tagged("tools/list_changed", "");
    let cancel = r#"> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert_eq!(listening(&format!("{ack}{change}{cancel}\n{change}")), NOTHING);
    assert_eq!(listening(&format!("{change}{ack}{cancel}\n")), ["listen-acknowledged server 4"]);
    let end = r#"< {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#;
    assert_eq!(listening(&format!("{ack}{end}\n")), NOTHING);
    assert_eq!(listening(&format!("{ack}{end}\n{change}")), ["listen-acknowledged server 6"]);
}

#[test]
fn a_subscription_gets_only_what_it_requested() {
    let ack = tagged("subscriptions/acknowledged", r#""notifications":{"toolsListChanged":true},"#);
    assert_eq!(listening(&format!("{ack}{}", tagged("prompts/list_changed", ""))), ["listen-acknowledged server 5"]);
    assert_eq!(listening(&tagged("subscriptions/acknowledged", "")), ["listen-acknowledged server 4"]);
    let more = tagged("subscriptions/acknowledged", r#""notifications":{"promptsListChanged":true},"#);
    assert_eq!(listening(&more), ["listen-acknowledged server 4"]);
    let end = r#"< {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}"#;
    assert_eq!(listening(&format!("{ack}{end}")), ["listen-acknowledged server 5"]);
}

#[test]
fn members_of_a_result_have_values_of_the_schema() {
    let shape = |method: &str, result: &str| {
        let asked = format!("> {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{\"name\":\"t\"}}}}");
        let session = format!("{asked}\n< {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}");
        let found = findings(&format!("{OPEN}{session}"));
        found.iter().filter(|it| it.check.id == "result-shape").filter_map(|it| it.path.clone()).collect::<Vec<_>>()
    };
    let tool = |members: &str| {
        shape("tools/list", &format!(r#"{{"tools":[{{"name":"t","inputSchema":{{"type":"object"}}{members}}}]}}"#))
    };
    assert_eq!(tool(r#","x":null,"inputSchema2":null,"_meta":{"a":null}"#), NOTHING);
    assert_eq!(tool(r#","title":null"#), ["/result/tools/0/title"]);
    assert_eq!(tool(r#","annotations":{"readOnlyHint":null}"#), ["/result/tools/0/annotations/readOnlyHint"]);
    let called = |content: &str| shape("tools/call", &format!(r#"{{"content":[{content}]}}"#));
    let image = |data: &str| called(&format!(r#"{{"type":"image","mimeType":"image/png","data":"{data}"}}"#));
    assert_eq!(image(r"aGk\/aGk="), NOTHING);
    assert_eq!(image("data:image/png;base64,aGk="), ["/result/content/0/data"]);
    let link = |uri: &str| called(&format!(r#"{{"type":"resource_link","name":"l","uri":"{uri}"}}"#));
    assert_eq!(link("notes"), ["/result/content/0/uri"]);
    // What `barewire check` has given as an argument is no fault of the server.
    assert_eq!((link("barewire"), link("barewire-2")), (vec![], vec![]));
    let text = |annotations: &str| called(&format!(r#"{{"type":"text","text":"","annotations":{annotations}}}"#));
    assert_eq!(text(r#"{"priority":1e0}"#), NOTHING);
    assert_eq!(text(r#"{"priority":7}"#), ["/result/content/0/annotations/priority"]);
    let read = |uri: &str| shape("resources/read", &format!(r#"{{"contents":[{{"uri":"{uri}","text":""}}]}}"#));
    assert_eq!(read("urn:x"), NOTHING);
    assert_eq!(read("notes/a.md"), ["/result/contents/0/uri"]);
    let template = |text: &str| {
        shape(
            "resources/templates/list",
            &format!(r#"{{"resourceTemplates":[{{"name":"t","uriTemplate":"{text}"}}]}}"#),
        )
    };
    assert_eq!(template("x:/{a}/{+b}"), NOTHING);
    assert_eq!(template("x:/{a"), ["/result/resourceTemplates/0/uriTemplate"]);
    let completed = |count: usize| {
        let values = vec!["\"v\""; count].join(",");
        shape("completion/complete", &format!(r#"{{"completion":{{"values":[{values}]}}}}"#))
    };
    assert_eq!(completed(100), NOTHING);
    assert_eq!(completed(101), ["/result/completion/values"]);
}

#[test]
fn a_log_message_has_a_level_and_data() {
    let log = |params: &str| {
        let session = format!("< {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{params}}}");
        let found = findings(&format!("{OPEN}{session}"));
        found.iter().filter(|it| it.check.id == "result-shape").map(|it| it.detail.clone()).collect::<Vec<_>>()
    };
    assert_eq!(log(r#"{"level":"warning","data":null}"#), NOTHING);
    assert_eq!(log(r#"{"level":"warn","data":"x"}"#).len(), 1);
    assert_eq!(log(r#"{"level":"info","message":"x"}"#), ["notifications/message: data is missing"]);
}
