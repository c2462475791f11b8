//! Transcripts -> the evidence of the findings: the request, the response, and the fault in them.

use super::tests::{OPEN, findings};
use crate::check::Finding;
use crate::secrets::Redactor;

fn redacted(transcript: &str, check: &str) -> Vec<Finding> {
    let mut findings = findings(&format!("{OPEN}{transcript}"));
    findings.retain(|finding| finding.check.id == check);
    findings.iter_mut().for_each(|finding| finding.redact(&mut Redactor::knowing([])));
    findings
}

/// Returns the lines of evidence of the only finding of a check.
fn evidence(transcript: &str, check: &str) -> Vec<String> {
    let found = redacted(transcript, check);
    let [finding] = &found[..] else { panic!("one finding of {check}: {found:?}") };
    finding.evidence_lines(120).iter().map(|line| format!("{}{}", line.label, line.text)).collect()
}

#[test]
fn another_id_is_marked_in_the_request_and_in_the_response() {
    let wrong = r#"
> {"jsonrpc":"2.0","id":993,"method":"ping"}
< {"jsonrpc":"2.0","id":992,"result":{}}"#;
    let expected = [
        r#"sent     | {"jsonrpc":"2.0","id":993,"method":"ping"}"#,
        r#"         |                       ^^^"#,
        r#"received | {"jsonrpc":"2.0","id":992,"result":{}}"#,
        r#"         |                       ^^^"#,
    ];
    assert_eq!(evidence(wrong, "id-fidelity"), expected);
    let found = redacted(wrong, "id-fidelity");
    let excerpt = |it: &Option<crate::check::Excerpt>| it.as_ref().map(|it| (it.location.frame, it.text()));
    let [finding] = &found[..] else { panic!("{found:?}") };
    let (frame, (text, fault)) = excerpt(&finding.request).expect("a request");
    assert_eq!((frame, text.get(fault.expect("a fault"))), (Some(4), Some("993")));
    let (frame, (text, fault)) = excerpt(&finding.response).expect("a response");
    assert_eq!((frame, text.get(fault.expect("a fault"))), (Some(5), Some("992")));
    assert_eq!(finding.evidence, r#"{"jsonrpc":"2.0","id":992,"result":{}}"#);
}

/// Some clients write the id last.
#[test]
fn the_id_of_a_long_request_is_shown_after_its_start() {
    let text = "x".repeat(5000);
    let wrong = format!(
        r#"
> {{"jsonrpc":"2.0","method":"tools/call","params":{{"name":"t","arguments":{{"a":"{text}"}}}},"id":7}}
< {{"jsonrpc":"2.0","id":"7","result":{{"content":[]}}}}"#
    );
    let lines = evidence(&wrong, "id-fidelity");
    assert!(
        lines[0].starts_with(r#"sent     | {"jsonrpc":"2.0","method":"tools/call","params":{"name":"t""#),
        "{lines:?}"
    );
    assert_eq!(lines[1..3], [r#"         | …"id":7}"#, "         |       ^"]);
    assert_eq!(lines[4], "         |                       ^^^");
}

/// The excerpt is cut around the member, not at the end.
#[test]
fn a_fault_deep_in_a_long_result_is_shown() {
    let rows: Vec<String> = (0..4000).map(|row| format!(r#"{{"row":{row},"name":"n{row}"}}"#)).collect();
    let rows = rows.join(",").replace(r#""row":3456,"#, r#""row":"three","#);
    assert!(rows.len() > 100 * 1024);
    let schema = r#"{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"row":{"type":"integer"}}}}}}"#;
    let wrong = format!(
        r#"
> {{"jsonrpc":"2.0","id":1,"method":"tools/list"}}
< {{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"t","inputSchema":{{"type":"object"}},"outputSchema":{schema}}}]}}}}
> {{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"t"}}}}
< {{"jsonrpc":"2.0","id":2,"result":{{"content":[],"structuredContent":{{"rows":[{rows}]}}}}}}"#
    );
    let lines = evidence(&wrong, "output-schema");
    assert_eq!(lines[0], r#"sent     | {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}"#);
    assert!(lines[1].contains(r#""n3455"},{"row":"three","name":"n3456"}"#), "{lines:?}");
    let at = lines[2].find('^').expect("a mark");
    let marked: String = lines[1].chars().skip(lines[2][..at].chars().count()).take(7).collect();
    assert_eq!((marked.as_str(), lines[2].matches('^').count()), ("\"three\"", 7), "{lines:?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 120), "{lines:?}");
}

#[test]
fn a_traceback_keeps_its_last_lines() {
    let calls = r#"  File \"/srv/app.py\", line 7, in call\n    return run()\n"#.repeat(400);
    let wrong = format!(
        r#"
> {{"jsonrpc":"2.0","id":1,"method":"ping"}}
< {{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"Traceback (most recent call last):\n{calls}ValueError: no such day"}}}}"#
    );
    let lines = evidence(&wrong, "structured-errors");
    assert!(lines[1].ends_with(r#"ValueError: no such day"}}"#), "{lines:?}");
    assert!(lines[2].ends_with('^'), "{lines:?}");
}

#[test]
fn the_last_lines_of_stderr_are_the_evidence_of_a_crash() {
    let crash = r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}
! Traceback (most recent call last):
!   File "a.py", line 1, in <module>
!     main()
!   File "a.py", line 7, in main
!     int(day)
! ValueError: no such day
@ exit code 1"#;
    let expected = [
        r#"sent     | {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#,
        r#"stderr   |   File "a.py", line 7, in main"#,
        "         |     int(day)",
        "         | ValueError: no such day",
    ];
    assert_eq!(evidence(crash, "stays-alive"), expected);
}

#[test]
fn a_missing_response_is_said_below_its_request() {
    let mute = r#"
>(+1) {"jsonrpc":"2.0","id":1,"method":"ping"}
>(+2) {"jsonrpc":"2.0","id":2,"method":"ping"}
<(+3) {"jsonrpc":"2.0","id":2,"result":{}}
@(+30) eof >"#;
    let expected = [r#"sent     | {"jsonrpc":"2.0","id":1,"method":"ping"}"#, "received | no response"];
    assert_eq!(evidence(mute, "unanswered-request"), expected);
}

#[test]
fn a_secret_next_to_the_fault_stays_redacted() {
    let wrong = r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"password":"hunter2hunter2"}}}
< {"jsonrpc":"2.0","access_token":"s3cr3ts3cr3ts3cr3t","id":"1","api_key":"k3yk3yk3yk3yk3y","result":{"content":[]}}"#;
    let lines = evidence(wrong, "id-fidelity");
    let all = lines.concat();
    assert!(!all.contains("hunter2") && !all.contains("s3cr3t") && !all.contains("k3y"), "{lines:?}");
    assert_eq!(all.matches("<redacted-").count(), 3, "{lines:?}");
    let at = lines[3].find('^').expect("a mark");
    assert!(lines[2].get(at..).is_some_and(|rest| rest.starts_with("\"1\"")), "{lines:?}");
}

/// The names around the excerpt say that its values are secrets, even if they are not shown.
#[test]
fn a_secret_far_below_its_name_stays_redacted() {
    let keys: Vec<String> = (0..2000).map(|key| format!(r#""k{key}":"v4lu3v4lu3-{key}""#)).collect();
    let keys = keys.join(",").replace(r#""k1500":"v4lu3v4lu3-1500""#, r#""k1500":7"#);
    let schema =
        r#"{"type":"object","properties":{"credentials":{"type":"object","additionalProperties":{"type":"string"}}}}"#;
    let wrong = format!(
        r#"
> {{"jsonrpc":"2.0","id":1,"method":"tools/list"}}
< {{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"t","inputSchema":{{"type":"object"}},"outputSchema":{schema}}}]}}}}
> {{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"t"}}}}
< {{"jsonrpc":"2.0","id":2,"result":{{"content":[],"structuredContent":{{"credentials":{{{keys}}}}}}}}}"#
    );
    let lines = evidence(&wrong, "output-schema");
    assert!(lines[1].contains("\"k1499\"") && !lines[1].contains("v4lu3"), "{lines:?}");
}

/// The output of a request of the server is sent by the client.
#[test]
fn a_response_of_the_client_is_sent() {
    let wrong = r#"
< {"jsonrpc":"2.0","id":7,"method":"ping"}
> {"jsonrpc":"2.0","id":8,"result":{}}"#;
    let lines = evidence(wrong, "id-fidelity");
    assert!(lines[0].starts_with("received | ") && lines[2].starts_with("sent     | "), "{lines:?}");
}

#[test]
fn a_notification_that_is_answered_is_shown() {
    let wrong = r#"
> {"jsonrpc":"2.0","method":"notifications/x"}
< {"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}"#;
    let lines = evidence(wrong, "notification-silence");
    assert_eq!(lines[0], r#"sent     | {"jsonrpc":"2.0","method":"notifications/x"}"#);
    assert_eq!(lines[2], "         |                       ^^^^");
}
