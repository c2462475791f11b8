//! Tests the relation of each message in a transcript to earlier messages.

use barewire_proto::mcp::Side;
use barewire_proto::transcript::read;

use super::{OperationTracker, Relation, ResponseOutcome};
use crate::Error;
use crate::frames::{FrameLimits, Sink, Streams, WireItem};

/// The relations of all messages in a transcript, one line each.
#[derive(Default)]
struct RelationLog {
    tracker: OperationTracker,
    lines: Vec<String>,
}

impl Sink for RelationLog {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
        let Self { tracker, lines } = self;
        tracker.take(item, &mut |message| {
            lines.push(match message.relation {
                Relation::None => "-".to_owned(),
                Relation::Request { operation, id_in_use } => {
                    let by = if operation.asker == Side::Client { "client" } else { "server" };
                    let again = if id_in_use { ", id in use" } else { "" };
                    let round = operation.rounds.len();
                    format!("{} {by} asks {} (round {round}{again})", operation.number, operation.title())
                }
                Relation::Response { operation, latency, late } => {
                    let how = operation.answer().map(|answer| &answer.outcome);
                    let how = match how {
                        Some(ResponseOutcome::Error { code, .. }) => format!("error {code}"),
                        how => format!("{how:?}"),
                    };
                    let late = if late { ", late" } else { "" };
                    let time = latency.map_or(String::new(), |time| format!(" after {} ms", time.as_millis()));
                    format!("{} {how}{time}{late}", operation.number)
                }
                Relation::Progress { operation } => {
                    format!("{} progress {}", operation.number, operation.progress)
                }
                Relation::Cancellation { operation } => format!("{} cancelled", operation.number),
                Relation::RefusesUnidentified => "refuses unidentified".to_owned(),
                Relation::Duplicate => "duplicate".to_owned(),
                Relation::Unsolicited => "unsolicited".to_owned(),
            });
        });
        Ok(true)
    }
}

fn relations(transcript: &str) -> RelationLog {
    let mut log = RelationLog::default();
    let mut streams = Streams::new(FrameLimits { frame: 1 << 20, depth: 64 });
    for entry in read(transcript.as_bytes()).expect("a transcript") {
        assert!(matches!(streams.entry(&entry, &mut log), Ok(true)));
    }
    assert!(streams.finish(&mut log).is_ok());
    log
}

#[test]
fn each_side_has_its_own_ids() {
    let log = relations(
        r#"
>(+0.001) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}
<(+0.002) {"jsonrpc":"2.0","id":1,"method":"roots/list"}
<(+0.003) {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
>(+0.004) {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}
<(+0.007) {"jsonrpc":"2.0","id":1.0,"result":{"content":[],"isError":true}}
<(+0.008) {"jsonrpc":"2.0","id":1,"result":{}}
<(+0.009) {"jsonrpc":"2.0","id":"1","result":{}}"#,
    );
    let lines = [
        "1 client asks tools/call a (round 1)",
        "2 server asks roots/list (round 1)",
        "1 progress 1",
        "2 Some(Result) after 2 ms",
        "1 Some(ToolFailed) after 6 ms",
        "duplicate",
        "unsolicited",
    ];
    assert_eq!(log.lines, lines);
    assert_eq!(log.tracker.open().count(), 0);
}

#[test]
fn late_responses_and_responses_to_invalid_requests_are_paired() {
    let log = relations(
        r#"
> {"jsonrpc":"2.0","id":"a","method":"slow"}
> {"jsonrpc":"2.0","id":"a","method":"slow"}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u0061"}}
< {"jsonrpc":"2.0","id":"a","result":{}}
> {"jsonrpc":"2.0","id":2,"method":"x","params":3}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"no"}}
> {"jsonrpc":
< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}
< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}
> [{"jsonrpc":"2.0","id":3,"method":"m"},{"jsonrpc":"2.0","id":4,"method":"m"}]
< {"id":4,"result":{}}"#,
    );
    let lines = [
        "1 client asks slow (round 1)",
        "2 client asks slow (round 1, id in use)",
        "1 cancelled",
        "1 Some(Result), late",
        "3 client asks x (round 1)",
        "3 error -32600",
        "-",
        "refuses unidentified",
        "unsolicited",
        "4 client asks m (round 1)",
        "5 client asks m (round 1)",
        "5 Some(Unreadable)",
    ];
    assert_eq!(log.lines, lines);
    let open: Vec<u64> = log.tracker.open().map(|operation| operation.number).collect();
    assert_eq!(open, [2, 4]);
}

#[test]
fn rounds_are_one_operation_also_over_http() {
    let log = relations(
        r#"
@x1 head > POST /mcp HTTP/1.1
@x1 framing body
>x1(noeol +1) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}
@x1 eof >
@x1 head < HTTP/1.1 200 OK
@x1 framing sse
<x1(+2) data: {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s","inputRequests":{}}}
<x1
@x1 eof <
@x2 head > POST /mcp HTTP/1.1
@x2 framing body
>x2(noeol +5) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","requestState":"s","inputResponses":{}}}
@x2 eof >
@x2 head < HTTP/1.1 200 OK
<x2(noeol +6) {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete"}}
@x2 eof <"#,
    );
    let lines = [
        "1 client asks tools/call ask (round 1)",
        "1 Some(InputRequired) after 1000 ms",
        "1 client asks tools/call ask (round 2)",
        "1 Some(Result) after 1000 ms",
    ];
    assert_eq!(log.lines, lines);
    assert_eq!(log.tracker.open().count(), 0);
}

#[test]
fn exchanges_of_a_session_are_one_conversation() {
    let log = relations(
        r#"
@x1 head > POST /mcp HTTP/1.1
>x1(noeol) {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
@x1 eof >
@x1 head < HTTP/1.1 200 OK
@x1 head < Mcp-Session-Id: <redacted-1>
<x1(noeol) {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"1"}}}
@x1 eof <
@x2 head > GET /mcp HTTP/1.1
@x2 head > mcp-session-id: <redacted-1>
@x2 eof >
@x2 head < HTTP/1.1 200 OK
@x2 framing sse
<x2 data: {"jsonrpc":"2.0","id":7,"method":"roots/list"}
<x2
@x3 head > POST /mcp HTTP/1.1
@x3 head > mcp-session-id: <redacted-1>
>x3(noeol) {"jsonrpc":"2.0","id":7,"result":{"roots":[]}}
@x3 eof >
@x3 head < HTTP/1.1 202 Accepted
@x3 eof <"#,
    );
    let lines = [
        "1 client asks initialize (round 1)",
        "1 Some(Result)",
        "2 server asks roots/list (round 1)",
        "2 Some(Result)",
    ];
    assert_eq!(log.lines, lines);
    let facts = &log.tracker.conversations["<redacted-1>"].facts;
    assert_eq!(facts.version.as_deref(), Some("2025-06-18"));
    assert_eq!(facts.server.as_ref().map(|server| server.name.as_str()), Some("s"));
}

#[test]
fn an_id_of_another_type_answers_the_request() {
    let log = relations(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"a"}
> {"jsonrpc":"2.0","id":"2","method":"b"}
> {"jsonrpc":"2.0","id":"3","method":"c"}
> {"jsonrpc":"2.0","id":3,"method":"d"}
< {"jsonrpc":"2.0","id":"1","result":{}}
< {"jsonrpc":"2.0","id":2.0,"result":{}}
< {"jsonrpc":"2.0","id":3,"result":{}}
< {"jsonrpc":"2.0","id":"\u0033","result":{}}
< {"jsonrpc":"2.0","id":"1","result":{}}
< {"jsonrpc":"2.0","id":"x","result":{}}"#,
    );
    let answers = ["1 Some(Result)", "2 Some(Result)", "4 Some(Result)", "3 Some(Result)", "duplicate", "unsolicited"];
    assert_eq!(log.lines[4..], answers);
}

/// Returns a POST in this exchange with these headers.
fn post(channel: &str, target: &str, headers: &[&str], body: &str) -> String {
    let heads: String = headers.iter().map(|header| format!("@{channel} head > {header}\n")).collect();
    format!(
        "@{channel} head > POST {target} HTTP/1.1\n{heads}@{channel} framing body\n>{channel}(noeol) {body}\n@{channel} eof >\n"
    )
}

const ASK: &str = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"slow"}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":5,"result":{}}"#;

#[test]
fn a_duplicate_response_does_not_answer_another_session() {
    let transcript = [
        post("x1", "/mcp", &["mcp-session-id: A"], ASK),
        post("x2", "/mcp", &["mcp-session-id: B"], ASK),
        format!(
            "@x2 head < HTTP/1.1 200 OK\n@x2 framing sse\n<x2 data: {ANSWER}\n<x2\n<x2 data: {ANSWER}\n<x2\n@x2 eof <\n"
        ),
        format!("@x1 head < HTTP/1.1 200 OK\n<x1(noeol) {ANSWER}\n@x1 eof <\n"),
        // A response also does not answer the request of another exchange without a session.
        post("x3", "/mcp", &[], ASK),
        post("x4", "/mcp", &[], &ASK.replace("\"id\":5", "\"id\":6")),
        format!("@x4 head < HTTP/1.1 200 OK\n<x4(noeol) {ANSWER}\n@x4 eof <\n"),
    ];
    let log = relations(&transcript.concat());
    let lines = [
        "1 client asks tools/call slow (round 1)",
        "2 client asks tools/call slow (round 1)",
        "2 Some(Result)",
        "duplicate",
        "1 Some(Result)",
        "3 client asks tools/call slow (round 1)",
        "4 client asks tools/call slow (round 1)",
        "unsolicited",
    ];
    assert_eq!(log.lines, lines);
}

#[test]
fn a_request_refused_by_its_status_is_not_unanswered() {
    let transcript = [
        post("x1", "/mcp", &["mcp-session-id: A"], ASK),
        "@x1 head < HTTP/1.1 404 Not Found\n@x1 eof <\n".to_owned(),
        post("x2", "/mcp", &["mcp-session-id: B"], ASK),
        "@x2 head < HTTP/1.1 200 OK\n@x2 eof <\n".to_owned(),
    ];
    let log = relations(&transcript.concat());
    let open: Vec<_> = log.tracker.open().map(|it| it.conversation.as_str()).collect();
    assert_eq!(open, ["B"]);
}

#[test]
fn closing_the_connection_cancels_modern_requests() {
    let cut = |channel| format!("@{channel} cut < the client closed the connection\n@{channel} eof <\n");
    let said = [
        post("x1", "/mcp", &["mcp-method: ping"], ASK),
        cut("x1"),
        post("x2", "/mcp", &[], ASK),
        cut("x2"),
        post("x3", "/mcp", &["mcp-method: ping"], ASK),
        "@x3 cut < the server closed the connection\n@x3 eof <\n".to_owned(),
    ];
    let log = relations(&format!("wire 1\n{}", said.concat()));
    let unanswered = log.tracker.open().filter(|it| it.is_unanswered()).map(|it| it.channel.as_str());
    assert_eq!(unanswered.collect::<Vec<_>>(), ["x2", "x3"]);
}

#[test]
fn the_id_of_a_refused_request_is_free_again() {
    let transcript = [
        post("x1", "/mcp", &["mcp-session-id: A"], ASK),
        "@x1 head < HTTP/1.1 401 Unauthorized\n@x1 eof <\n".to_owned(),
        post("x2", "/mcp", &["mcp-session-id: A"], ASK),
        format!("@x2 head < HTTP/1.1 200 OK\n<x2(noeol) {ANSWER}\n@x2 eof <\n"),
    ];
    let log = relations(&transcript.concat());
    assert_eq!(log.tracker.open().count(), 0);
    assert_eq!(log.lines.last().map(String::as_str), Some("2 Some(Result)"));
}

#[test]
fn a_session_that_is_named_late_keeps_its_requests() {
    let transcript = [
        post("x1", "/mcp", &["mcp-session-id: A"], ASK),
        post("x2", "/mcp", &[], ASK),
        "@x2 head < HTTP/1.1 200 OK\n@x2 head < mcp-session-id: A\n".to_owned(),
        format!("<x2(noeol) {ANSWER}\n@x2 eof <\n@x1 head < HTTP/1.1 200 OK\n<x1(noeol) {ANSWER}\n@x1 eof <\n"),
    ];
    let log = relations(&transcript.concat());
    assert_eq!(log.lines[2..], ["1 Some(Result)", "2 Some(Result)"]);
    assert_eq!(log.tracker.open().count(), 0);
}

/// Returns a stream of HTTP+SSE that names its endpoint, if one is given.
fn stream(channel: &str, endpoint: Option<&str>) -> String {
    let named = endpoint.map(|uri| format!("<{channel} event: endpoint\n<{channel} data: {uri}\n<{channel}\n"));
    format!(
        "@{channel} head > GET /sse HTTP/1.1\n@{channel} eof >\n@{channel} head < HTTP/1.1 200 OK\n@{channel} framing sse\n{}",
        named.unwrap_or_default()
    )
}

fn accepted(channel: &str) -> String {
    format!("@{channel} head < HTTP/1.1 202 Accepted\n@{channel} eof <\n")
}

#[test]
fn http_sse_posts_are_answered_in_their_stream() {
    let answer = |channel: &str| format!("<{channel} data: {ANSWER}\n<{channel}\n");
    let asked = [post("x3", "/messages?sessionId=b", &[], ASK), post("x4", "/messages?sessionId=a", &[], ASK)];
    let named = [
        stream("x1", Some("/messages?sessionId=a")),
        stream("x2", Some("http://localhost:3000/messages?sessionId=b")),
        asked.concat(),
        answer("x1"),
        accepted("x3"),
        accepted("x4"),
        answer("x2"),
    ];
    let log = relations(&named.concat());
    assert_eq!(log.lines[2..], ["2 Some(Result)", "1 Some(Result)"]);
    // Without an endpoint event, a response is paired by its id if only one outstanding request has this id.
    let unnamed = [stream("x1", None), stream("x2", None), asked.concat(), accepted("x3"), accepted("x4")].concat();
    assert_eq!(relations(&format!("{unnamed}{}", answer("x1"))).lines[2..], ["-"]);
    let one = [stream("x1", None), asked[0].clone(), accepted("x3"), answer("x1"), answer("x1")].concat();
    assert_eq!(relations(&one).lines[1..], ["1 Some(Result)", "duplicate"]);
}

fn ping(id: usize) -> String {
    format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")
}

fn pong(id: usize) -> String {
    format!("< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n")
}

#[test]
fn the_oldest_of_too_many_requests_is_forgotten() {
    let count = 65_536;
    let mut transcript: String = (0..=count).map(ping).collect();
    transcript += &(pong(0) + &pong(1));
    let log = relations(&transcript);
    assert_eq!(log.lines[count + 1..], ["unsolicited", "2 Some(Result)"]);
    assert_eq!(log.tracker.open().count(), count - 1);
}

#[test]
fn the_oldest_of_too_many_requests_with_one_id_gets_no_response() {
    let count = 64;
    let log = relations(&(ping(1).repeat(count + 1) + &pong(1).repeat(count + 1)));
    let answered: Vec<String> = (2..=count + 1).map(|number| format!("{number} Some(Result)")).collect();
    assert_eq!(log.lines[count + 1..2 * count + 1], answered);
    assert_eq!(log.lines[2 * count + 1], "duplicate");
}

#[test]
fn too_many_rounds_are_two_operations() {
    let round = |id: usize| {
        format!(
            "> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"a\",\"requestState\":\"s\"}}}}\n\
             < {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"resultType\":\"input_required\",\"requestState\":\"s\"}}}}\n"
        )
    };
    let log = relations(&(0..=1000).map(round).collect::<String>());
    assert_eq!(log.lines[1998], "1 client asks tools/call a (round 1000)");
    assert_eq!(log.lines[2000], "2 client asks tools/call a (round 1)");
}
