//! Transcripts with tasks -> findings.

use super::super::tests::{NOTHING, found};

/// A handshake of three frames, with a server that declares these capabilities.
fn legacy(capabilities: &str, rest: &str) -> Vec<String> {
    let open = format!(
        r#"> {{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}}}}}}
< {{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"s","version":"1"}}}}}}
> {{"jsonrpc":"2.0","method":"notifications/initialized"}}
"#
    );
    found(&format!("{open}{rest}"))
}

const WITH_TASKS: &str = r#"{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#;

/// A call as a task, frame 4 and 5.
const CREATED: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","task":{}}}
< {"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"a","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}}}
"#;

fn get(id: u32) -> String {
    format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tasks/get\",\"params\":{{\"taskId\":\"a\"}}}}\n")
}

fn state(id: u32, status: &str) -> String {
    let times = r#""createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:01Z""#;
    format!(
        "< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"taskId\":\"a\",\"status\":\"{status}\",{times},\"ttl\":1.5,\"pollInterval\":7}}}}\n"
    )
}

#[test]
fn a_legacy_task_from_its_creation_to_its_result() {
    let result = r#"> {"jsonrpc":"2.0","id":4,"method":"tasks/result","params":{"taskId":"a"}}
< {"jsonrpc":"2.0","id":4,"result":{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}}
> {"jsonrpc":"2.0","id":5,"method":"tasks/cancel","params":{"taskId":"a"}}
< {"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"it is over"}}
"#;
    let all = [CREATED, &get(2), &state(2, "working"), &get(3), &state(3, "completed"), result].concat();
    assert_eq!(legacy(WITH_TASKS, &all), NOTHING);
}

#[test]
fn only_a_request_that_follows_the_end_shows_a_change_after_it() {
    // Both requests are in flight together, so their responses may describe any order.
    let together = [CREATED, &get(2), &get(3), &state(3, "failed"), &state(2, "working")].concat();
    assert_eq!(legacy(WITH_TASKS, &together), NOTHING);
    let later = [&together, &get(4), &state(4, "working")].map(String::as_str).concat();
    assert_eq!(legacy(WITH_TASKS, &later), ["task-status server 11"]);
    let other_end = [&together, &get(4), &state(4, "completed")].map(String::as_str).concat();
    assert_eq!(legacy(WITH_TASKS, &other_end), ["task-status server 11"]);
}

#[test]
fn a_legacy_task_needs_the_capability_and_the_member_task() {
    assert_eq!(legacy(r#"{"tools":{}}"#, CREATED), ["task-undeclared server 5"]);
    let unasked = CREATED.replace(r#","task":{}}"#, "}");
    assert_eq!(legacy(WITH_TASKS, &unasked), ["task-undeclared server 5"]);
    // The result of a tool may have any other members.
    let result = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[],"task":{"taskId":7}}}
"#;
    assert_eq!(legacy(WITH_TASKS, result), NOTHING);
}

#[test]
fn an_id_may_return_after_its_task_has_expired() {
    let again = CREATED.replace("\"id\":1", "\"id\":9");
    assert_eq!(legacy(WITH_TASKS, &[CREATED, &again].concat()), ["task-ids server 7"]);
    let expired = "< {\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32602,\"message\":\"expired\"}}\n";
    assert_eq!(legacy(WITH_TASKS, &[CREATED, &get(2), expired, &again].concat()), NOTHING);
}

#[test]
fn lists_and_notifications_have_complete_states() {
    let list = r#"> {"jsonrpc":"2.0","id":2,"method":"tasks/list"}
< {"jsonrpc":"2.0","id":2,"result":{"tasks":[{"taskId":7,"status":"done","createdAt":1,"lastUpdatedAt":"x","ttl":"1","pollInterval":null}]}}
< {"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"a","status":"working","createdAt":"x","ttl":1}}
"#;
    let mut expected = vec!["task-shape server 5"; 5];
    expected.push("task-shape server 6");
    assert_eq!(legacy(WITH_TASKS, list), expected);
}

#[test]
fn revisions_without_tasks_are_not_judged() {
    let older = format!("{}{}", super::super::tests::OPEN, CREATED.replace(r#","task":{}}"#, "}"));
    assert!(found(&older).iter().all(|finding| !finding.starts_with("task-")), "{:?}", found(&older));
}

/// A modern request, with these capabilities of the client and these params.
fn modern(id: u32, method: &str, capabilities: &str, params: &str) -> String {
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}}}"#
    );
    format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{params},{meta}}}}}\n")
}

fn modern_result(id: u32, result: &str) -> String {
    format!("< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{{result}}}}}\n")
}

const EXTENSION: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const MEMBERS: &str = r#""taskId":"a","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z""#;

#[test]
fn a_modern_task_from_its_creation_to_its_result() {
    let task = r#""taskId":"a""#;
    let (created, completed) = (
        format!(r#""resultType":"task","status":"completed",{MEMBERS},"ttlMs":null"#),
        format!(r#""resultType":"complete","status":"completed",{MEMBERS},"ttlMs":60000,"result":{{"content":[]}}"#),
    );
    let all = [
        modern(1, "tools/call", EXTENSION, r#""name":"t""#),
        modern_result(1, &created),
        modern(2, "tasks/get", EXTENSION, task),
        modern_result(2, &completed),
        modern(3, "tasks/cancel", EXTENSION, task),
        modern_result(3, r#""resultType":"complete""#),
        // One task may be the result of two calls.
        modern(4, "tools/call", EXTENSION, r#""name":"t""#),
        modern_result(4, &created),
        format!("< {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks\",\"params\":{{\"status\":\"failed\",{MEMBERS},\"ttlMs\":1.5}}}}\n"),
    ]
    .concat();
    let found: Vec<String> = found(&all).into_iter().filter(|finding| finding.starts_with("task-")).collect();
    assert_eq!(found, ["task-shape server 9", "task-details server 9"]);
}

#[test]
fn a_modern_client_without_the_extension_gets_no_task() {
    let created = format!(r#""resultType":"task","status":"working",{MEMBERS},"ttlMs":null"#);
    let state = format!(r#""resultType":"complete","status":"input_required",{MEMBERS},"ttlMs":1"#);
    let all = [
        modern(1, "tools/call", r#"{"extensions":{"example.com/other":{}}}"#, r#""name":"t""#),
        modern_result(1, &created),
        modern(2, "tasks/get", "{}", r#""taskId":"a""#),
        modern_result(2, &state),
    ]
    .concat();
    let found: Vec<String> = found(&all).into_iter().filter(|finding| finding.starts_with("task-")).collect();
    assert_eq!(found, ["task-undeclared server 2", "task-details server 4", "task-extension server 4"]);
}
