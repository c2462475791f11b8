use std::sync::LazyLock;

use super::*;

static DEFAULT: LazyLock<PlayOptions> = LazyLock::new(PlayOptions::default);

fn client<'a>(script: &'a Script, options: &'a PlayOptions) -> ClientReplay<'a> {
    ClientReplay::new(script, script.stream_framing(), options)
}

/// Returns everything that is sent until the client waits.
fn sent(client: &mut ClientReplay<'_>) -> Vec<String> {
    let mut all = Vec::new();
    while let NextAction::Send { bytes, .. } = client.next() {
        all.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    all
}

fn kinds(report: &PlayReport) -> Vec<&'static str> {
    report.differences.iter().map(|difference| difference.kind.as_str()).collect()
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
fn a_send_waits_for_the_messages_before_it() {
    let script = Script::of_test(TWO);
    let mut client = client(&script, &DEFAULT);
    let first =
        ["{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\r\n", "{\"jsonrpc\":\"2.0\", \"id\":2,\"method\":\"b\"}\n"];
    assert_eq!(sent(&mut client), first);
    client.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    assert_eq!(sent(&mut client), [""; 0]);
    client.take(br#"{"id":2,"result":{"n":1.0},"jsonrpc":"2.0"}"#, None);
    assert_eq!(sent(&mut client).len(), 1);
    assert_eq!(client.next(), NextAction::Wait);
    client.take(br#"{"jsonrpc":"2.0","id":3,"result":{}}"#, None);
    assert_eq!(client.next(), NextAction::Done);
    let report = client.report();
    assert_eq!((kinds(&report), report.sent, report.compared), (vec![], 3, 3));
}

#[test]
fn every_kind_of_different_response() {
    let script = Script::of_test(TWO);
    let mut client = client(&script, &DEFAULT);
    sent(&mut client);
    client.take(br#"{"jsonrpc":"2.0","id":2,"result":{"n":2}}"#, None);
    client.take(br#"{"jsonrpc":"2.0","id":2,"result":{"n":2}}"#, None);
    client.take(br#"{"jsonrpc":"2.0","id":3,"result":{}}"#, None);
    client.take(b"listening", None);
    client.take(br#"{"jsonrpc":"2.0","method":"n"}"#, None);
    client.take(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#, None);
    assert_eq!(sent(&mut client).len(), 1);
    assert_eq!(client.give_up("late"), 2);
    client.handle_exit(ExitStatus::Code(0));
    let report = client.report();
    let expected =
        ["answer", "answered-again", "answer-to-nobody", "no-message", "answer-to-nobody", "unanswered", "unanswered"];
    assert_eq!(kinds(&report), expected);
    let first = &report.differences[0];
    assert_eq!((first.method.as_deref(), first.frame, first.answer_frame), (Some("b"), Some(2), Some(3)));
    assert_eq!(first.changes[0].pointer(), "/result/n");
}

const ASKS: &str = r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/call"}
< {"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"_meta":{"progressToken":5}}}
> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}
> {"jsonrpc":"2.0", "id" : 7,"result":{"roots":[7]}}
< {"jsonrpc":"2.0","id":1,"result":{}}
"#;

#[test]
fn requests_of_the_server_are_answered_with_their_live_ids() {
    let script = Script::of_test(ASKS);
    let mut client = client(&script, &DEFAULT);
    assert_eq!(sent(&mut client).len(), 1);
    let asks = br#"{"jsonrpc":"2.0","id":"x","method":"roots/list","params":{"_meta":{"progressToken":"t"}}}"#;
    assert_eq!(client.take(asks, None).len(), 0);
    let answers = [
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"t\",\"progress\":1}}\n",
        "{\"jsonrpc\":\"2.0\", \"id\" : \"x\",\"result\":{\"roots\":[7]}}\n",
    ];
    assert_eq!(sent(&mut client), answers);
    client.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    assert_eq!((client.next(), kinds(&client.report())), (NextAction::Done, vec![]));
}

#[test]
fn missing_requests_are_not_answered_and_unexpected_ones_are_refused() {
    let script = Script::of_test(ASKS);
    let mut client = client(&script, &DEFAULT);
    sent(&mut client);
    let refusal = client.take(br#"{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage"}"#, None);
    assert!(String::from_utf8_lossy(&refusal[0]).starts_with(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601"#));
    let pong = client.take(br#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#, None);
    assert_eq!(pong.concat(), b"{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n");
    client.give_up("late");
    // The progress notification is still sent, but not the response.
    assert_eq!(sent(&mut client).len(), 1);
    client.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    assert_eq!(kinds(&client.report()), ["unexpected-request", "missing-request"]);
}

#[test]
fn generated_values_are_returned() {
    let script = Script::of_test(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"2","key":"0f8fad5bd9cb469fa165"}}
> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{ "cursor":"2","key":"0f8fad5bd9cb469fa165"}}
< {"jsonrpc":"2.0","id":2,"result":{"tools":[],"key":"0f8fad5bd9cb469fa165"}}
"#,
    );
    let mut client = client(&script, &DEFAULT);
    sent(&mut client);
    client.take(br#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"two","key":"k"}}"#, None);
    let second =
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{ \"cursor\":\"two\",\"key\":\"k\"}}\n";
    assert_eq!(sent(&mut client), [second]);
    client.take(br#"{"jsonrpc":"2.0","id":2,"result":{"tools":[],"key":"k"}}"#, None);
    assert_eq!(kinds(&client.report()), [""; 0]);
}

#[test]
fn a_rewritten_message_has_its_own_content_length() {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let script = Script::of_test(&format!(
        "@ framing content-length\n<(crlf) Content-Length: 40\n<(crlf)\n<(noeol) {}\n>(crlf) Content-Length: {}\n>(crlf)\n>(noeol) {body}\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        body.len(),
    ));
    let mut client = client(&script, &DEFAULT);
    client.take(br#"{"jsonrpc":"2.0","id":"long","method":"ping"}"#, None);
    let answer = r#"{"jsonrpc":"2.0","id":"long","result":{}}"#;
    assert_eq!(sent(&mut client), [format!("Content-Length: {}\r\n\r\n{answer}", answer.len())]);
}

#[test]
fn a_cancelled_request_may_be_answered_or_not() {
    let script = Script::of_test(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"a"}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
> {"jsonrpc":"2.0","id":2,"method":"subscriptions/listen"}
> {"jsonrpc":"2.0","id":3,"method":"b"}
"#,
    );
    let answer = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).into_bytes();
    let mut client = client(&script, &DEFAULT);
    assert_eq!(sent(&mut client).len(), 4);
    assert_eq!(client.next(), NextAction::Done);
    client.take(&answer(1), None);
    client.take(&answer(3), None);
    client.close();
    // A subscription is answered only when the client closes its side.
    client.take(&answer(2), None);
    assert_eq!(kinds(&client.report()), ["unexpected-answer"]);
}

#[test]
fn notifications_are_compared_in_any_order() {
    let script = Script::of_test(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"a"}
< {"jsonrpc":"2.0","method":"n","params":{"x":1}}
< {"jsonrpc":"2.0","method":"n","params":{"x":2}}
< {"jsonrpc":"2.0","method":"gone"}
< {"jsonrpc":"2.0","id":1,"result":{}}
"#,
    );
    let options = PlayOptions { compare_notifications: true, ..PlayOptions::default() };
    let mut client = client(&script, &options);
    sent(&mut client);
    client.take(br#"{"jsonrpc":"2.0","method":"n","params":{"x":3}}"#, None);
    client.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    assert_eq!(client.next(), NextAction::Wait, "for the third");
    client.take(br#"{"jsonrpc":"2.0","method":"n","params":{"x":1}}"#, None);
    client.take(br#"{"jsonrpc":"2.0","method":"new"}"#, None);
    assert_eq!(client.next(), NextAction::Done);
    let report = client.report();
    assert_eq!(kinds(&report), ["notification", "missing-notification", "unexpected-notification"]);
    assert_eq!(report.differences[0].frame, Some(3));
}

#[test]
fn versions_are_noted_and_ignored_places_are_not_compared() {
    let script = Script::of_test(
        r#"
> {"jsonrpc":"2.0","id":1,"method":"initialize"}
< {"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"s","version":"1"},"time":1,"x":{"y":1}}}
"#,
    );
    let ignore = ["initialize:/result/time", "/result/*/y"].map(|path| path.parse().expect("a path"));
    let options = PlayOptions { ignore: ignore.to_vec(), ..PlayOptions::default() };
    let mut client = client(&script, &options);
    sent(&mut client);
    client.take(br#"{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"t","version":"2"},"x":{"y":2}}}"#, None);
    let report = client.report();
    assert_eq!(report.notes.len(), 1);
    assert_eq!(report.differences[0].changes.len(), 1, "only the name differs");
}

#[test]
fn an_early_end_counts_the_unsent_messages() {
    let script = Script::of_test(&format!("{TWO}@ exit code 0\n"));
    let mut client = client(&script, &DEFAULT);
    sent(&mut client);
    client.take(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    client.handle_end("gone");
    assert_eq!(client.next(), NextAction::Done);
    let report = client.report();
    assert_eq!((kinds(&report), report.sent), (vec!["ended", "unanswered"], 2));
    let unsent = DifferenceKind::Ended { how: "gone".into(), unsent: 1 };
    assert_eq!(report.differences[0].kind, unsent);
    let mut client = self::client(&script, &DEFAULT);
    client.handle_exit(ExitStatus::Signal(9));
    assert_eq!(kinds(&client.report()), ["exit"]);
}

#[test]
fn numbers_too_large_for_a_float_are_compared_exactly() {
    let script = Script::of_test(
        "> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1e400}\n",
    );
    for (result, differences) in [("1e400", 0), ("1e401", 1)] {
        let mut client = client(&script, &DEFAULT);
        sent(&mut client);
        client.take(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#).as_bytes(), None);
        assert_eq!(client.report().differences.len(), differences);
    }
}
