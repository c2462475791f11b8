//! Lists with texts that hide something -> findings.

use super::super::tests::{NOTHING, OPEN, findings};

/// Returns the findings in a list of this kind, each as check, path and detail.
fn found_in(method: &str, list: &str) -> Vec<String> {
    let member = method.split('/').next().expect("a method");
    let transcript = format!(
        "{}> {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\"}}\n\
         < {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"{member}\":{list}}}}}\n",
        OPEN.replace("\"tools\":{}", "\"tools\":{},\"prompts\":{},\"resources\":{}")
    );
    let line = |it: &crate::check::Finding| {
        format!("{} {} {}", it.check.id, it.path.as_deref().unwrap_or_default(), it.detail)
    };
    findings(&transcript).iter().map(line).collect()
}

fn tool(members: &str) -> String {
    format!(r#"[{{"name":"a","inputSchema":{{"type":"object"}}}},{{"name":"t",{members}}}]"#)
}

#[test]
fn hidden_text_is_found_in_every_string_and_name_of_a_definition() {
    let schema = |schema: &str| tool(&format!(r#""inputSchema":{{"type":"object",{schema}}}"#));
    for (list, expected) in [
        (
            tool(r#""inputSchema":{"type":"object"},"description":"x\u200by""#),
            "invisible-text /result/tools/1/description the tool t: 1 character without width: U+200B",
        ),
        (
            tool(r#""inputSchema":{"type":"object"},"title":"\u202e""#),
            "text-direction /result/tools/1/title the tool t: 1 character that changes the order of the text: U+202E",
        ),
        (
            schema(r#""properties":{"a\u200db":{"type":"string"}}"#),
            "invisible-text /result/tools/1/inputSchema/properties/a\u{200d}b the tool t: 1 character without width: U+200D",
        ),
        (
            schema(r#""properties":{"p":{"enum":["a","b\udb40\udc61\udb40\udc62"]}}"#),
            "invisible-text /result/tools/1/inputSchema/properties/p/enum/1 the tool t: 2 tag characters: U+E0061, \
             U+E0062; they spell \"ab\"",
        ),
        (
            schema(r#""properties":{"p":{"type":"string","description":"\u001b[31m"}}"#),
            "control-characters /result/tools/1/inputSchema/properties/p/description the tool t: 1 control character: \
             U+001B",
        ),
    ] {
        assert_eq!(found_in("tools/list", &list), [expected]);
    }
}

#[test]
fn patterns_and_values_for_programs_may_have_control_characters() {
    for schema in [
        r#""properties":{"p":{"type":"string","pattern":"^[^\u0000-\u001f\u200b]*$"}}"#,
        r#""patternProperties":{"^[\u0000-\u001f]$":{}}"#,
        r#""properties":{"separator":{"type":"string","default":"\u001f","examples":["\u0000"]}}"#,
    ] {
        let list = tool(&format!(r#""inputSchema":{{"type":"object",{schema}}}"#));
        assert_eq!(found_in("tools/list", &list), NOTHING, "{schema}");
    }
}

#[test]
fn prompts_resources_and_instructions_are_inspected_too() {
    let prompt = r#"[{"name":"p","arguments":[{"name":"x","description":"\ufeffA"}]}]"#;
    let expected =
        "invisible-text /result/prompts/0/arguments/0/description the prompt p: 1 character without width: U+FEFF";
    assert_eq!(found_in("prompts/list", prompt), [expected]);
    let resource = r#"[{"uri":"a:b","name":"\u2066x\u2069"}]"#;
    assert_eq!(found_in("resources/list", resource).len(), 1);
    let opened = OPEN.replace("\"serverInfo\"", "\"instructions\":\"\\u202ex\",\"serverInfo\"");
    let found = findings(&opened);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].path.as_deref(), Some("/result/instructions"));
}

#[test]
fn a_long_description_is_reported() {
    let list =
        |length: usize| tool(&format!(r#""inputSchema":{{"type":"object"}},"description":"{}""#, "x".repeat(length)));
    assert_eq!(found_in("tools/list", &list(10 * 1024)), NOTHING);
    let expected = "long-description /result/tools/1/description the tool t: 10241 bytes, more than 10 KiB";
    assert_eq!(found_in("tools/list", &list(10 * 1024 + 1)), [expected]);
}

#[test]
fn names_that_look_alike_are_found_over_pages() {
    let page = |id: u32, cursor: &str, name: &str, next: &str| {
        format!(
            "> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"prompts/list\",\"params\":{{{cursor}}}}}\n\
             < {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"prompts\":[{{\"name\":\"{name}\"}}]{next}}}}}\n"
        )
    };
    let two = |one: &str, other: &str| {
        let open = OPEN.replace("\"tools\":{}", "\"prompts\":{}");
        let pages = page(1, "", one, ",\"nextCursor\":\"c\"") + &page(2, "\"cursor\":\"c\"", other, "");
        findings(&(open + &pages)).iter().map(|it| format!("{} {}", it.check.id, it.detail)).collect::<Vec<_>>()
    };
    assert_eq!(two("greet", "meet"), NOTHING);
    // The same name twice is no likeness.
    assert_eq!(two("greet", "greet"), ["duplicate-definitions two prompts have the name greet"]);
    let expected = "confusable-names the prompts greet and grеet (U+0435) differ only in letters that look alike";
    assert_eq!(two("greet", "gr\\u0435et"), [expected]);
    assert_eq!(two("greet", "Greet"), ["confusable-names the prompts greet and Greet differ only in case or width"]);
}

#[test]
fn a_finding_is_reported_once_for_each_server() {
    let list = r#"< {"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"},"title":"\u202e"}]}}"#;
    let once = |id: &str| {
        format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}\n{}\n", list.replace("ID", id))
    };
    assert_eq!(findings(&format!("{OPEN}{}{}", once("1"), once("2"))).len(), 1);
}

#[test]
fn a_uri_that_is_listed_twice_is_found() {
    let list = |uris: [&str; 2]| {
        let uris = uris.map(|uri| format!(r#"{{"uri":"{uri}","name":"a"}}"#));
        found_in("resources/list", &format!("[{}]", uris.join(",")))
    };
    assert_eq!(list(["file:///a", "file:///b"]), NOTHING);
    let expected = "duplicate-definitions /result/resources/1/uri two resources have the URI file:///a";
    assert_eq!(list(["file:///a", "file:///a"]), [expected]);
}

/// A definition may move to a later page when the list changes.
#[test]
fn pages_before_and_after_a_change_are_not_compared() {
    let page = |id: u32, cursor: &str, next: &str| {
        format!(
            "> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\",\"params\":{{{cursor}}}}}\n\
             < {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"tools\":[{{\"name\":\"t\",\
             \"inputSchema\":{{\"type\":\"object\"}}}}]{next}}}}}\n"
        )
    };
    let open = OPEN.replace("\"tools\":{}", "\"tools\":{\"listChanged\":true},\"prompts\":{\"listChanged\":true}");
    let found = |notice: &str| {
        let notice = format!("< {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{notice}/list_changed\"}}\n");
        let pages = page(1, "", ",\"nextCursor\":\"c\"") + &notice + &page(2, "\"cursor\":\"c\"", "");
        findings(&format!("{open}{pages}")).iter().map(|it| it.detail.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("tools"), NOTHING);
    assert_eq!(found("prompts"), ["two tools have the name t"]);
}
