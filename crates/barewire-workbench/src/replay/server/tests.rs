use barewire_proto::transcript::read;
use serde_json::{Value, json};

use super::*;
use crate::replay::script::ScriptOptions;

fn script(text: &str) -> Script {
    let options = ScriptOptions { allow_redacted: false, max_frame: 10_000, ..ScriptOptions::default() };
    Script::from_entries(&read(text.as_bytes()).expect("a transcript"), options).expect("fit")
}

/// What is sent in answer to a frame.
fn answers(stage: &mut ServerReplay<'_>, frame: &str) -> Vec<String> {
    sent(stage.take(frame.as_bytes(), Arrival { at: Instant::now(), exchange: 0 }))
}

fn sent(out: Vec<ServerOutput>) -> Vec<String> {
    let text = |out| match out {
        ServerOutput::Send { bytes, .. } => Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
        ServerOutput::Log(_) => None,
    };
    out.into_iter().filter_map(text).collect()
}

fn stage<'a>(script: &'a Script, options: &'a ServeOptions) -> ServerReplay<'a> {
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
fn what_is_asked_again_is_answered_in_turn() {
    let script = script(ECHO);
    let options = ServeOptions::default();
    let mut stage = stage(&script, &options);
    let b = r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"no"}}"#;
    assert_eq!(answers(&mut stage, &echo("9", "b")), [b]);
    for expected in [FIRST, SECOND, SECOND] {
        assert_eq!(answers(&mut stage, &echo("\"x\"", "a")), [expected]);
    }
    assert_eq!((stage.matched, stage.unmatched, stage.unused().len()), (4, 0, 0));
}

#[test]
fn strictly_it_is_answered_as_often_as_in_the_capture() {
    let script = script(ECHO);
    let options = ServeOptions { strict: true, ..ServeOptions::default() };
    let mut stage = stage(&script, &options);
    for expected in [FIRST, SECOND] {
        assert_eq!(answers(&mut stage, &echo("\"x\"", "a")), [expected]);
    }
    let refused = answers(&mut stage, &echo("5", "a")).remove(0);
    assert!(refused.contains("-32603") && refused.contains("more often"), "{refused}");
    assert_eq!((stage.matched, stage.unmatched, stage.unused().len()), (2, 1, 1));
}

#[test]
fn in_order_only_the_next_will_do() {
    let script = script(ECHO);
    let options = ServeOptions { in_order: true, ..ServeOptions::default() };
    let mut stage = stage(&script, &options);
    let refused = answers(&mut stage, &echo("5", "b")).remove(0);
    assert!(refused.contains("frame 1 is the nearest"), "{refused}");
    assert_eq!(answers(&mut stage, &echo("\"x\"", "a")), [FIRST]);
    assert_eq!(answers(&mut stage, &echo("\"x\"", "a")), [SECOND]);
    let refused = answers(&mut stage, r#"{"jsonrpc":"2.0","id":5,"method":"other"}"#).remove(0);
    assert!(refused.contains("out of order: the next in the capture is echo in frame 5"), "{refused}");
    assert_eq!(answers(&mut stage, &echo("7", "b")).len(), 1);
    let refused = answers(&mut stage, &echo("8", "b")).remove(0);
    assert!(refused.contains("no more requests"), "{refused}");
}

#[test]
fn what_matches_nothing_is_told_what_is_nearest() {
    let script = script(ECHO);
    let options = ServeOptions::default();
    let mut stage = stage(&script, &options);
    let refused: Value = serde_json::from_str(&answers(&mut stage, &echo("5", "c"))[0]).expect("JSON");
    assert_eq!(refused["error"]["code"], -32603);
    let nearest = json!({ "frame": 1, "differs": [{ "path": "/params/text", "recorded": "a", "came": "c" }] });
    assert_eq!(refused["error"]["data"]["nearest"], nearest);
    let unknown = answers(&mut stage, r#"{"jsonrpc":"2.0","id":5,"method":"other"}"#);
    assert!(unknown[0].contains("-32601"), "{}", unknown[0]);
    let pong = answers(&mut stage, r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#);
    assert_eq!((pong, stage.unmatched), (vec![r#"{"jsonrpc":"2.0","id":6,"result":{}}"#.to_owned()], 2));
    let ignore = vec!["echo:/params/text".parse().expect("a path")];
    let options = ServeOptions { ignore, ..ServeOptions::default() };
    let mut lenient = self::stage(&script, &options);
    assert_eq!(answers(&mut lenient, &echo("\"x\"", "c")), [FIRST]);
}

#[test]
fn params_that_are_nothing_are_the_same_as_none() {
    let script =
        script("> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n");
    let options = ServeOptions::default();
    let mut stage = stage(&script, &options);
    for params in ["", r#","params":{}"#, r#","params":{"_meta":{"progressToken":1}}"#] {
        let asks = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"a"{params}}}"#);
        assert_eq!(answers(&mut stage, &asks), [r#"{"jsonrpc":"2.0","id":2,"result":1}"#]);
    }
}

const TALK: &str = r#"
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
fn what_the_server_said_meanwhile_is_said_at_the_same_point() {
    let script = script(TALK);
    let options = ServeOptions::default();
    let mut stage = stage(&script, &options);
    let meanwhile = [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
    ];
    assert_eq!(answers(&mut stage, &asks(9, r#""progressToken":7"#)), meanwhile);
    let answered = r#"{"jsonrpc":"2.0","id":1,"result":{"roots":["mine"]}}"#;
    let rest = [r#"{"jsonrpc":"2.0","id":9,"result":"done"}"#, r#"{"jsonrpc":"2.0","method":"notifications/changed"}"#];
    assert_eq!(answers(&mut stage, answered), rest);
    // Again, without a token: no progress, and another id for our own request.
    let again = answers(&mut stage, &asks(10, ""));
    assert_eq!(again, [r#"{"jsonrpc":"2.0","id":"replay-1","method":"roots/list"}"#]);
    // Given up, nothing more is said about it.
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":10}}"#;
    assert_eq!(answers(&mut stage, cancel), [""; 0]);
    assert_eq!(answers(&mut stage, r#"{"jsonrpc":"2.0","id":"replay-1","result":{}}"#), [""; 0]);
}

#[test]
fn in_real_time_it_is_said_as_late_as_in_the_capture() {
    let script = script(TALK);
    let options = ServeOptions { real_time: true, ..ServeOptions::default() };
    let mut stage = stage(&script, &options);
    let now = Instant::now();
    assert_eq!(sent(stage.take(asks(9, r#""progressToken":7"#).as_bytes(), Arrival { at: now, exchange: 0 })), [""; 0]);
    assert_eq!(stage.due(), Some(now + Duration::from_millis(500)));
    assert_eq!(sent(stage.run(now + Duration::from_millis(500))).len(), 1);
    assert_eq!(stage.due(), Some(now + Duration::from_secs(1)));
    assert_eq!(sent(stage.run(now + Duration::from_secs(1))).len(), 1);
    assert_eq!(stage.due(), None, "the client has to answer first");
}

#[test]
fn an_array_is_answered_with_an_array() {
    let script = script(ECHO);
    let options = ServeOptions::default();
    let mut stage = stage(&script, &options);
    let batch = format!("[{},{},{}]", echo("\"x\"", "a"), echo("2", "none"), r#"{"jsonrpc":"2.0","method":"n"}"#);
    let answer = answers(&mut stage, &batch);
    assert_eq!(answer.len(), 1);
    let elements: Vec<Value> = serde_json::from_str(&answer[0]).expect("an array");
    assert_eq!((elements.len(), stage.matched, stage.unmatched), (2, 1, 1));
}

#[test]
fn what_is_no_message_is_refused_as_it_was_or_as_it_should_be() {
    let script =
        script("> nonsense\n< {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":7,\"message\":\"what?\"}}\n");
    let options = ServeOptions::default();
    let mut stage = stage(&script, &options);
    let was = r#"{"jsonrpc":"2.0","id":null,"error":{"code":7,"message":"what?"}}"#;
    assert_eq!(answers(&mut stage, "nonsense"), [was]);
    assert!(answers(&mut stage, "{nonsense")[0].contains("-32700"));
    assert_eq!(stage.unmatched, 1);
}
