use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

static DEFAULT: LazyLock<ServeOptions> = LazyLock::new(ServeOptions::default);

fn answers(server: &mut ServerReplay<'_>, frame: &str) -> Vec<String> {
    sent(server.take(frame.as_bytes(), Arrival { at: Instant::now(), exchange: 0 }))
}

fn sent(out: Vec<ServerOutput>) -> Vec<String> {
    let text = |out| match out {
        ServerOutput::Send { bytes, .. } => Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
        ServerOutput::Log(_) => None,
    };
    out.into_iter().filter_map(text).collect()
}

fn server<'a>(script: &'a Script, options: &'a ServeOptions) -> ServerReplay<'a> {
    ServerReplay::new(script, script.stream_framing(), options, Instant::now())
}

fn echo(id: &str, text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo","params":{{"text":"{text}","_meta":{{"x":{id}}}}}}}"#)
}

const ECHO: &str = r#"
> {"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"a"}}
< {"jsonrpc":"2.0","id":1,"result":"first"}
> {"jsonrpc":"2.0","id":2,"method":"echo","params":{"text":"a"}}
< {"jsonrpc":"2.0","id":2, "result":"second"}
> {"jsonrpc":"2.0","id":3,"method":"echo","params":{"text":"b"}}
< {"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}
"#;

const FIRST: &str = r#"{"jsonrpc":"2.0","id":"x","result":"first"}"#;
const SECOND: &str = r#"{"jsonrpc":"2.0","id":"x", "result":"second"}"#;

#[test]
fn repeated_requests_get_the_responses_in_turn() {
    let script = Script::of_test(ECHO);
    let mut server = server(&script, &DEFAULT);
    let b = r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"no"}}"#;
    assert_eq!(answers(&mut server, &echo("9", "b")), [b]);
    for expected in [FIRST, SECOND, SECOND] {
        assert_eq!(answers(&mut server, &echo("\"x\"", "a")), [expected]);
    }
    assert_eq!((server.matched, server.unmatched, server.unused().len()), (4, 0, 0));
}

#[test]
fn with_strict_no_response_is_used_twice() {
    let script = Script::of_test(ECHO);
    let options = ServeOptions { strict: true, ..ServeOptions::default() };
    let mut server = server(&script, &options);
    for expected in [FIRST, SECOND] {
        assert_eq!(answers(&mut server, &echo("\"x\"", "a")), [expected]);
    }
    let refused = answers(&mut server, &echo("5", "a")).remove(0);
    assert!(refused.contains("-32603") && refused.contains("more often"), "{refused}");
    assert_eq!((server.matched, server.unmatched, server.unused().len()), (2, 1, 1));
}

#[test]
fn with_in_order_only_the_next_request_matches() {
    let script = Script::of_test(ECHO);
    let options = ServeOptions { in_order: true, ..ServeOptions::default() };
    let mut server = server(&script, &options);
    let refused = answers(&mut server, &echo("5", "b")).remove(0);
    assert!(refused.contains("frame 1 is the nearest"), "{refused}");
    assert_eq!(answers(&mut server, &echo("\"x\"", "a")), [FIRST]);
    assert_eq!(answers(&mut server, &echo("\"x\"", "a")), [SECOND]);
    let refused = answers(&mut server, r#"{"jsonrpc":"2.0","id":5,"method":"other"}"#).remove(0);
    assert!(refused.contains("out of order: the next request of the capture is echo in frame 5"), "{refused}");
    assert_eq!(answers(&mut server, &echo("7", "b")).len(), 1);
    let refused = answers(&mut server, &echo("8", "b")).remove(0);
    assert!(refused.contains("no more requests"), "{refused}");
}

#[test]
fn an_unmatched_request_gets_the_nearest() {
    let script = Script::of_test(ECHO);
    let mut server = server(&script, &DEFAULT);
    let refused: Value = serde_json::from_str(&answers(&mut server, &echo("5", "c"))[0]).expect("JSON");
    assert_eq!(refused["error"]["code"], -32603);
    let nearest = json!({ "frame": 1, "differs": [{ "path": "/params/text", "recorded": "a", "came": "c" }] });
    assert_eq!(refused["error"]["data"]["nearest"], nearest);
    let unknown = answers(&mut server, r#"{"jsonrpc":"2.0","id":5,"method":"other"}"#);
    assert!(unknown[0].contains("-32601"), "{}", unknown[0]);
    let pong = answers(&mut server, r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#);
    assert_eq!((pong, server.unmatched), (vec![r#"{"jsonrpc":"2.0","id":6,"result":{}}"#.to_owned()], 2));
    let ignore = vec!["echo:/params/text".parse().expect("a path")];
    let options = ServeOptions { ignore, ..ServeOptions::default() };
    let mut lenient = self::server(&script, &options);
    assert_eq!(answers(&mut lenient, &echo("\"x\"", "c")), [FIRST]);
}

#[test]
fn empty_params_equal_absent_params() {
    let script = Script::of_test(
        "> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n",
    );
    let mut server = server(&script, &DEFAULT);
    for params in ["", r#","params":{}"#, r#","params":{"_meta":{"progressToken":1}}"#] {
        let asks = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"a"{params}}}"#);
        assert_eq!(answers(&mut server, &asks), [r#"{"jsonrpc":"2.0","id":2,"result":1}"#]);
    }
}

const CONVERSATION: &str = r#"
>(+1.0) {"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":"t"}}}
<(+1.5) {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}
<(+2.0) {"jsonrpc":"2.0","id":1,"method":"roots/list"}
>(+3.0) {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}
<(+4.0) {"jsonrpc":"2.0","id":1,"result":"done"}
<(+5.0) {"jsonrpc":"2.0","method":"notifications/changed"}
"#;

fn asks(id: u8, meta: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a","params":{{"_meta":{{{meta}}}}}}}"#)
}

#[test]
fn messages_before_the_response_keep_their_place() {
    let script = Script::of_test(CONVERSATION);
    let mut server = server(&script, &DEFAULT);
    let meanwhile = [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
    ];
    assert_eq!(answers(&mut server, &asks(9, r#""progressToken":7"#)), meanwhile);
    let answered = r#"{"jsonrpc":"2.0","id":1,"result":{"roots":["mine"]}}"#;
    let rest = [r#"{"jsonrpc":"2.0","id":9,"result":"done"}"#, r#"{"jsonrpc":"2.0","method":"notifications/changed"}"#];
    assert_eq!(answers(&mut server, answered), rest);
    // The same request again, without a token: there is no progress, and the server's request has a new id.
    let again = answers(&mut server, &asks(10, ""));
    assert_eq!(again, [r#"{"jsonrpc":"2.0","id":"replay-1","method":"roots/list"}"#]);
    // After the cancellation nothing more is sent.
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":10}}"#;
    assert_eq!(answers(&mut server, cancel), [""; 0]);
    assert_eq!(answers(&mut server, r#"{"jsonrpc":"2.0","id":"replay-1","result":{}}"#), [""; 0]);
}

#[test]
fn in_real_time_messages_are_as_late_as_in_the_capture() {
    let script = Script::of_test(CONVERSATION);
    let options = ServeOptions { real_time: true, ..ServeOptions::default() };
    let mut server = server(&script, &options);
    let now = Instant::now();
    assert_eq!(
        sent(server.take(asks(9, r#""progressToken":7"#).as_bytes(), Arrival { at: now, exchange: 0 })),
        [""; 0]
    );
    assert_eq!(server.due(), Some(now + Duration::from_millis(500)));
    assert_eq!(sent(server.run(now + Duration::from_millis(500))).len(), 1);
    assert_eq!(server.due(), Some(now + Duration::from_secs(1)));
    assert_eq!(sent(server.run(now + Duration::from_secs(1))).len(), 1);
    assert_eq!(server.due(), None, "the client has to answer first");
}

#[test]
fn a_batch_is_answered_with_a_batch() {
    let script = Script::of_test(ECHO);
    let mut server = server(&script, &DEFAULT);
    let batch = format!("[{},{},{}]", echo("\"x\"", "a"), echo("2", "none"), r#"{"jsonrpc":"2.0","method":"n"}"#);
    let answer = answers(&mut server, &batch);
    assert_eq!(answer.len(), 1);
    let elements: Vec<Value> = serde_json::from_str(&answer[0]).expect("an array");
    assert_eq!((elements.len(), server.matched, server.unmatched), (2, 1, 1));
}

#[test]
fn invalid_frames_get_the_recorded_error_or_a_standard_one() {
    let script = Script::of_test(
        "> nonsense\n< {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":7,\"message\":\"what?\"}}\n",
    );
    let mut server = server(&script, &DEFAULT);
    let was = r#"{"jsonrpc":"2.0","id":null,"error":{"code":7,"message":"what?"}}"#;
    assert_eq!(answers(&mut server, "nonsense"), [was]);
    assert!(answers(&mut server, "{nonsense")[0].contains("-32700"));
    assert_eq!(server.unmatched, 1);
}

/// A request that is answered, and then cancelled while messages after its answer are still due, is finished once.
#[test]
fn a_request_of_a_batch_is_not_counted_twice() {
    let script = Script::of_test(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"early"}
< {"jsonrpc":"2.0","id":1,"result":"early"}
< {"jsonrpc":"2.0","id":7,"method":"roots/list"}
> {"jsonrpc":"2.0","id":7,"result":{"roots":[]}}
< {"jsonrpc":"2.0","method":"notifications/later"}
> {"jsonrpc":"2.0","id":2,"method":"slow"}
< {"jsonrpc":"2.0","id":8,"method":"roots/list"}
> {"jsonrpc":"2.0","id":8,"result":{"roots":[]}}
< {"jsonrpc":"2.0","id":2,"result":"slow"}
"#,
    );
    let mut server = server(&script, &DEFAULT);
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"early"},{"jsonrpc":"2.0","id":2,"method":"slow"}]"#;
    let requests = answers(&mut server, batch);
    assert!(requests.iter().all(|text| text.contains("roots/list")), "{requests:?}");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(answers(&mut server, cancel), [""; 0], "the other request is not finished");
    let all = answers(&mut server, r#"{"jsonrpc":"2.0","id":8,"result":{"roots":[]}}"#);
    assert_eq!(all.len(), 1, "{all:?}");
    let all: Value = serde_json::from_str(&all[0]).expect("JSON");
    let ids: Vec<&Value> = all.as_array().expect("a batch").iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [1, 2]);
}

/// A client that never answers cannot start reactions without end.
#[test]
fn a_client_that_answers_nothing_is_refused_at_last() {
    let script = Script::of_test(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"ask"}
< {"jsonrpc":"2.0","id":7,"method":"roots/list"}
> {"jsonrpc":"2.0","id":7,"result":{"roots":[]}}
< {"jsonrpc":"2.0","id":1,"result":"done"}
"#,
    );
    let mut server = server(&script, &DEFAULT);
    for id in 0..2 * MAX_ACTIVE_REACTIONS {
        let answer = answers(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ask"}}"#));
        assert_eq!(answer[0].contains("too many requests"), id >= MAX_ACTIVE_REACTIONS, "{id}: {answer:?}");
    }
    assert!(server.active.len() <= MAX_ACTIVE_REACTIONS && server.sent_ids.len() <= MAX_ACTIVE_REACTIONS);
}
