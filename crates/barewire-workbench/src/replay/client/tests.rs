use barewire_proto::transcript::read;

use super::*;
use crate::replay::script::ScriptOptions;

fn script(text: &str) -> Script {
    let options = ScriptOptions { allow_redacted: true, max_frame: 10_000, ..ScriptOptions::default() };
    Script::from_entries(&read(text.as_bytes()).expect("a transcript"), options).expect("fit")
}

/// Everything that is sent until something has to come first.
fn sent(player: &mut ClientReplay<'_>) -> Vec<String> {
    let mut all = Vec::new();
    while let NextAction::Send { bytes, .. } = player.next() {
        all.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    all
}

fn words(played: &PlayReport) -> Vec<&'static str> {
    played.differences.iter().map(|difference| difference.kind.as_str()).collect()
}

const TWO: &str = r#"
>(crlf) {"jsonrpc":"2.0","id":1,"method":"a"}
> {"jsonrpc":"2.0", "id":2,"method":"b"}
< {"jsonrpc":"2.0","id":2,"result":{"n":1}}
> {"jsonrpc":"2.0","id":3,"method":"c"}
< {"jsonrpc":"2.0","id":1,"result":{}}
< {"jsonrpc":"2.0","id":3,"result":{}}
"#;

#[test]
fn a_message_waits_for_what_it_followed() {
    let script = script(TWO);
    let options = PlayOptions::default();
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    let first =
        ["{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\r\n", "{\"jsonrpc\":\"2.0\", \"id\":2,\"method\":\"b\"}\n"];
    assert_eq!(sent(&mut player), first);
    player.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    assert_eq!(sent(&mut player), [""; 0]);
    player.take(br#"{"id":2,"result":{"n":1.0},"jsonrpc":"2.0"}"#, None);
    assert_eq!(sent(&mut player).len(), 1);
    assert_eq!(player.next(), NextAction::Wait);
    player.take(br#"{"jsonrpc":"2.0","id":3,"result":{}}"#, None);
    assert_eq!(player.next(), NextAction::Done);
    let played = player.played();
    assert_eq!((words(&played), played.sent, played.compared), (vec![], 3, 3));
}

#[test]
fn every_way_to_answer_otherwise() {
    let script = script(TWO);
    let options = PlayOptions::default();
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    sent(&mut player);
    player.take(br#"{"jsonrpc":"2.0","id":2,"result":{"n":2}}"#, None);
    player.take(br#"{"jsonrpc":"2.0","id":2,"result":{"n":2}}"#, None);
    player.take(br#"{"jsonrpc":"2.0","id":3,"result":{}}"#, None);
    player.take(b"listening", None);
    player.take(br#"{"jsonrpc":"2.0","method":"n"}"#, None);
    player.take(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#, None);
    assert_eq!(sent(&mut player).len(), 1);
    assert_eq!(player.give_up("late"), 2);
    player.exited(ExitStatus::Code(0));
    let played = player.played();
    let expected =
        ["answer", "answered-again", "answer-to-nobody", "no-message", "answer-to-nobody", "unanswered", "unanswered"];
    assert_eq!(words(&played), expected);
    let first = &played.differences[0];
    assert_eq!((first.method.as_deref(), first.frame, first.answer_frame), (Some("b"), Some(2), Some(3)));
    assert_eq!(super::super::path_pattern::pointer(&first.changes[0].path), "/result/n");
}

const ASKS: &str = r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/call"}
< {"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"_meta":{"progressToken":5}}}
> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}
> {"jsonrpc":"2.0", "id" : 7,"result":{"roots":[7]}}
< {"jsonrpc":"2.0","id":1,"result":{}}
"#;

#[test]
fn what_the_server_asks_is_answered_under_its_id() {
    let script = script(ASKS);
    let options = PlayOptions::default();
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    assert_eq!(sent(&mut player).len(), 1);
    let asks = br#"{"jsonrpc":"2.0","id":"x","method":"roots/list","params":{"_meta":{"progressToken":"t"}}}"#;
    assert_eq!(player.take(asks, None).len(), 0);
    let answers = [
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"t\",\"progress\":1}}\n",
        "{\"jsonrpc\":\"2.0\", \"id\" : \"x\",\"result\":{\"roots\":[7]}}\n",
    ];
    assert_eq!(sent(&mut player), answers);
    player.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    assert_eq!((player.next(), words(&player.played())), (NextAction::Done, vec![]));
}

#[test]
fn what_the_server_does_not_ask_is_not_answered_and_what_else_it_asks_is_refused() {
    let script = script(ASKS);
    let options = PlayOptions::default();
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    sent(&mut player);
    let refusal = player.take(br#"{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage"}"#, None);
    assert!(String::from_utf8_lossy(&refusal[0]).starts_with(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601"#));
    let pong = player.take(br#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#, None);
    assert_eq!(pong.concat(), b"{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n");
    player.give_up("late");
    // The progress is a message of its own; the answer has nobody to go to.
    assert_eq!(sent(&mut player).len(), 1);
    player.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    assert_eq!(words(&player.played()), ["unexpected-request", "missing-request"]);
}

#[test]
fn what_the_server_makes_up_is_given_back() {
    let script = script(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"2","key":"0f8fad5bd9cb469fa165"}}
> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{ "cursor":"2","key":"0f8fad5bd9cb469fa165"}}
< {"jsonrpc":"2.0","id":2,"result":{"tools":[],"key":"0f8fad5bd9cb469fa165"}}
"#,
    );
    let options = PlayOptions::default();
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    sent(&mut player);
    player.take(br#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"two","key":"k"}}"#, None);
    let second =
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{ \"cursor\":\"two\",\"key\":\"k\"}}\n";
    assert_eq!(sent(&mut player), [second]);
    player.take(br#"{"jsonrpc":"2.0","id":2,"result":{"tools":[],"key":"k"}}"#, None);
    assert_eq!(words(&player.played()), [""; 0]);
}

#[test]
fn with_headers_a_changed_message_has_its_own_length() {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let script = script(&format!(
        "@ framing content-length\n<(crlf) Content-Length: 40\n<(crlf)\n<(noeol) {}\n>(crlf) Content-Length: {}\n>(crlf)\n>(noeol) {body}\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        body.len(),
    ));
    let options = PlayOptions::default();
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    player.take(br#"{"jsonrpc":"2.0","id":"long","method":"ping"}"#, None);
    let answer = r#"{"jsonrpc":"2.0","id":"long","result":{}}"#;
    assert_eq!(sent(&mut player), [format!("Content-Length: {}\r\n\r\n{answer}", answer.len())]);
}

#[test]
fn a_cancelled_request_may_be_answered_or_not() {
    let script = script(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"a"}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
> {"jsonrpc":"2.0","id":2,"method":"subscriptions/listen"}
> {"jsonrpc":"2.0","id":3,"method":"b"}
"#,
    );
    let answer = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).into_bytes();
    let options = PlayOptions::default();
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    assert_eq!(sent(&mut player).len(), 4);
    assert_eq!(player.next(), NextAction::Done);
    player.take(&answer(1), None);
    player.take(&answer(3), None);
    player.close();
    // A listener is answered when the client goes.
    player.take(&answer(2), None);
    assert_eq!(words(&player.played()), ["unexpected-answer"]);
}

#[test]
fn notifications_are_compared_in_any_order_if_wanted() {
    let script = script(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"a"}
< {"jsonrpc":"2.0","method":"n","params":{"x":1}}
< {"jsonrpc":"2.0","method":"n","params":{"x":2}}
< {"jsonrpc":"2.0","method":"gone"}
< {"jsonrpc":"2.0","id":1,"result":{}}
"#,
    );
    let options = PlayOptions { compare_notifications: true, ..PlayOptions::default() };
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    sent(&mut player);
    player.take(br#"{"jsonrpc":"2.0","method":"n","params":{"x":3}}"#, None);
    player.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    assert_eq!(player.next(), NextAction::Wait, "for the third");
    player.take(br#"{"jsonrpc":"2.0","method":"n","params":{"x":1}}"#, None);
    player.take(br#"{"jsonrpc":"2.0","method":"new"}"#, None);
    assert_eq!(player.next(), NextAction::Done);
    let played = player.played();
    assert_eq!(words(&played), ["notification", "missing-notification", "unexpected-notification"]);
    assert_eq!(played.differences[0].frame, Some(3));
}

#[test]
fn versions_are_noted_and_what_is_ignored_is_not() {
    let script = script(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"initialize"}
< {"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"s","version":"1"},"time":1,"x":{"y":1}}}
"#,
    );
    let ignore = ["initialize:/result/time", "/result/*/y"].map(|path| path.parse().expect("a path"));
    let options = PlayOptions { ignore: ignore.to_vec(), ..PlayOptions::default() };
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    sent(&mut player);
    player.take(br#"{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"t","version":"2"},"x":{"y":2}}}"#, None);
    let played = player.played();
    assert_eq!(played.notes.len(), 1);
    assert_eq!(played.differences[0].changes.len(), 1, "the name is another");
}

#[test]
fn the_end_says_what_was_not_sent() {
    let script = script(&format!("{TWO}@ exit code 0\n"));
    let options = PlayOptions::default();
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    sent(&mut player);
    player.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    player.ended("gone");
    assert_eq!(player.next(), NextAction::Done);
    let played = player.played();
    assert_eq!((words(&played), played.sent), (vec!["ended", "unanswered"], 2));
    let unsent = DifferenceKind::Ended { how: "gone".into(), unsent: 1 };
    assert_eq!(played.differences[0].kind, unsent);
    let options = PlayOptions::default();
    let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
    player.exited(ExitStatus::Signal(9));
    assert_eq!(words(&player.played()), ["exit"]);
}

#[test]
fn what_no_value_can_hold_is_compared_as_text() {
    let script = script(
        "> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1e400}\n",
    );
    for (came, kind) in [("1e400", 0), ("1e401", 1)] {
        let options = PlayOptions::default();
        let mut player = ClientReplay::new(&script, script.stream_framing(), &options);
        sent(&mut player);
        player.take(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{came}}}"#).as_bytes(), None);
        assert_eq!(player.played().differences.len(), kind);
    }
}
