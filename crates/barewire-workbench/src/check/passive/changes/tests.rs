//! Sessions in which a definition changes -> findings, or none if there was a notice or another reason.

use super::super::tests::{NOTHING, OPEN, ask, findings};

fn found(transcript: &str) -> Vec<String> {
    let of_this = findings(transcript).into_iter().filter(|it| it.check.id == "definition-changes");
    of_this.map(|it| format!("{} {}", it.level().as_str(), it.detail)).collect()
}

fn legacy(id: u32, tool: &str) -> String {
    list(&format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}\n"), id, tool, "")
}

fn list(request: &str, id: u32, tool: &str, more: &str) -> String {
    format!("{request}< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"tools\":[{tool}]{more}}}}}\n")
}

fn tool(description: &str) -> String {
    format!(r#"{{"name":"t","description":"{description}","inputSchema":{{"type":"object"}}}}"#)
}

const NOTICE: &str = "< {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";

fn declared() -> String {
    OPEN.replace("\"tools\":{}", "\"tools\":{\"listChanged\":true}")
}

#[test]
fn a_change_without_a_notice_is_found() {
    let (one, two) = (legacy(1, &tool("a")), legacy(2, &tool("b")));
    let detail = "the tool t differs from frame 5: /description";
    assert_eq!(found(&format!("{OPEN}{one}{two}")), [format!("ours {detail}")]);
    assert_eq!(found(&format!("{}{one}{two}", declared())), [format!("SHOULD {detail}")]);
    let gone = legacy(2, r#"{"name":"t","inputSchema":{"type":"object"}}"#);
    assert_eq!(found(&format!("{OPEN}{one}{gone}")), ["ours the tool t differs from frame 5: a member is gone"]);
}

#[test]
fn a_notice_before_or_right_after_is_enough() {
    let (one, two) = (legacy(1, &tool("a")), legacy(2, &tool("b")));
    assert_eq!(found(&format!("{OPEN}{one}{NOTICE}{two}")), NOTHING);
    assert_eq!(found(&format!("{OPEN}{one}{two}{NOTICE}")), NOTHING);
    let other = NOTICE.replace("tools", "prompts");
    assert_eq!(found(&format!("{OPEN}{one}{other}{two}")).len(), 1);
    // A notice much later is too late.
    let timed = |text: &str, at: &str| text.replace("< ", &format!("<(+{at}) ")).replace("> ", &format!(">(+{at}) "));
    let late = |at: &str| format!("{OPEN}{}{}{}", timed(&one, "1"), timed(&two, "2"), timed(NOTICE, at));
    assert_eq!(found(&late("3")), NOTHING);
    assert_eq!(found(&late("9")).len(), 1);
}

#[test]
fn the_same_definition_in_another_form_has_not_changed() {
    let other = r#"{"inputSchema": {"type":"object"}, "description":"\u0061","name":"t","_meta":{"served":2}}"#;
    let again = format!("{OPEN}{}{}", legacy(1, &tool("a")), legacy(2, other));
    assert_eq!(found(&again), NOTHING);
    // Two tools with one name are not compared with each other, in one list and in the next.
    let twice = format!("{},{}", tool("a"), tool("b"));
    assert_eq!(found(&format!("{OPEN}{}{}", legacy(1, &twice), legacy(2, &twice))), NOTHING);
    // Nor are tools of two pages of one list.
    let first =
        list("> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n", 1, &tool("a"), ",\"nextCursor\":\"c\"");
    let second = "> {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{\"cursor\":\"c\"}}\n";
    assert_eq!(found(&format!("{OPEN}{first}{}", list(second, 2, &tool("b"), ""))), NOTHING);
}

#[test]
fn a_server_that_is_started_again_may_have_changed() {
    let again = OPEN.replace("\"id\":0", "\"id\":7");
    assert_eq!(found(&format!("{OPEN}{}{again}{}", legacy(1, &tool("a")), legacy(2, &tool("b")))), NOTHING);
}

/// In the modern era a server gives notice only to a client that listens, and its results are fresh for a time.
#[test]
fn a_modern_change_counts_while_the_client_listens_or_the_result_is_fresh() {
    let session = |first: &str, ttl: u32, at: &str| {
        let more = format!(",\"resultType\":\"complete\",\"cacheScope\":\"public\",\"ttlMs\":{ttl}");
        let lists = |id, text: &str| list(&ask(id, "tools/list"), id, &tool(text), &more);
        let second = lists(2, "b").replace("< ", &format!("<(+{at}) "));
        format!("{first}{}{second}", lists(1, "a").replace("< ", "<(+1) "))
    };
    assert_eq!(found(&session("", 0, "2")), NOTHING);
    assert_eq!(found(&session("", 500, "2")), NOTHING);
    let fresh = found(&session("", 5000, "2"));
    assert_eq!(fresh.len(), 1, "{fresh:?}");
    assert!(fresh[0].starts_with("ours ") && fresh[0].ends_with("is still fresh"), "{fresh:?}");
    let discovered = format!(
        "{}< {{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\
         \"capabilities\":{{\"tools\":{{\"listChanged\":true}}}},\"ttlMs\":0,\"cacheScope\":\"public\"}}}}\n",
        ask(0, "server/discover")
    );
    let listen = ask(9, "subscriptions/listen")
        .replace("\"params\":{", "\"params\":{\"notifications\":{\"toolsListChanged\":true},");
    let listening = found(&session(&format!("{discovered}{listen}"), 0, "2"));
    assert_eq!(listening.len(), 1, "{listening:?}");
    assert!(listening[0].starts_with("SHOULD "), "{listening:?}");
}

/// The capabilities of the client are part of every modern request.
#[test]
fn another_client_may_get_other_definitions() {
    let more = ",\"resultType\":\"complete\",\"cacheScope\":\"private\",\"ttlMs\":60000";
    let one = list(&ask(1, "tools/list"), 1, &tool("a"), more).replace("< ", "<(+1) ");
    let with_sampling =
        ask(2, "tools/list").replace("clientCapabilities\":{}", "clientCapabilities\":{\"sampling\":{}}");
    let two = list(&with_sampling, 2, &tool("b"), more).replace("< ", "<(+2) ");
    assert_eq!(found(&format!("{one}{two}")), NOTHING);
    let instructions = |id: u32, text: &str, at: u32| {
        let result = format!(
            "{{\"resultType\":\"complete\",\"instructions\":\"{text}\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{{}},\"ttlMs\":60000,\"cacheScope\":\"public\"}}"
        );
        format!("{}<(+{at}) {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n", ask(id, "server/discover"))
    };
    let changed = found(&format!("{}{}", instructions(1, "a", 1), instructions(2, "b", 2)));
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert!(changed[0].contains("the text of the instructions differs"), "{changed:?}");
}

/// Over HTTP, the definitions may depend on the credentials, and a legacy server can give notice only on a stream.
#[test]
fn another_principal_may_get_other_definitions() {
    let more = ",\"resultType\":\"complete\",\"cacheScope\":\"private\",\"ttlMs\":60000";
    let exchange = |number: u32, token: &str, description: &str| {
        let lines = list(&ask(number, "tools/list"), number, &tool(description), more);
        let lines = lines.replace("> ", &format!(">x{number} ")).replace("< ", &format!("<x{number}(+{number}) "));
        let (request, response) = lines.split_once('\n').expect("two lines");
        format!(
            "@x{number} head > POST /mcp HTTP/1.1\n@x{number} head > Host: h\n@x{number} head > Authorization: {token}\n\
             {request}\n@x{number} head < HTTP/1.1 200 OK\n{response}@x{number} eof <\n"
        )
    };
    let two = |other: &str| found(&(exchange(1, "Bearer a", "a") + &exchange(2, other, "b")));
    assert_eq!(two("Bearer b"), NOTHING);
    assert_eq!(two("Bearer a").len(), 1, "{:?}", two("Bearer a"));
}
