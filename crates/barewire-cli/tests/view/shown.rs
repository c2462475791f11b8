//! What the page shows in rows and at members, and what it exports of a selection.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{Folder, PROGRAM, View, file};
use crate::eventually::eventually;

/// Returns the frames of rows with a member of them.
fn of_rows(view: &View, query: &str, member: &str) -> Vec<(Value, Value)> {
    let rows = view.json(&format!("s/1/rows?count=500&{query}"));
    let rows = rows["rows"].as_array().expect("rows").clone();
    rows.iter().map(|row| (row["frame"].clone(), row[member].clone())).collect()
}

#[test]
fn a_row_shows_what_tells_it_from_others() {
    let view = View::of(&[&file("tour.wire")]);
    view.complete();
    let previews = of_rows(&view, "", "preview");
    for (frame, preview) in [
        (3, r#"{"planks":3}"#),
        (4, r#"{"progressToken":"cut","progress":1,"total":3}"#),
        (7, "3 planks"),
        (12, r#"{"mm":90}"#),
        (13, "no bit of 90 mm"),
        (17, ""),
    ] {
        assert!(previews.contains(&(frame.into(), preview.into())), "{frame} {preview}: {previews:?}");
    }
    let folder = Folder::new("previews");
    let bad = folder.capture("bad.wire", ">(+0.1) {\"jsonrpc\":\"2.0\",\"id\":1,}\n>(+0.2 esc) {\"a\":\"\\xff\"}\n");
    let view = View::of(&[&bad]);
    view.complete();
    let bytes = [(1.into(), r#"{"jsonrpc":"2.0","id":1,}"#.into()), (2.into(), "{\"a\":\"\\xff\"}".into())];
    assert_eq!(of_rows(&view, "", "preview"), bytes);
}

#[test]
fn an_event_is_shown_with_all_of_its_text() {
    let folder = Folder::new("events");
    let line = format!("The beginning {}the end", "and more ".repeat(10_000));
    let lines = format!(">(+0.1) {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}\n!(+0.2) {line}\n");
    let view = View::of(&[&folder.capture("events.wire", &lines)]);
    view.complete();
    let event = view.json("s/1/event/1");
    assert_eq!(event["row"]["key"], "e1");
    assert_eq!((&event["length"], &event["text_complete"]), (&line.len().into(), &false.into()));
    assert!(event["text"].as_str().is_some_and(|text| line.starts_with(text) && text.len() > 60_000));
    let end = view.json(&format!("s/1/event/1/text?from={}", line.len() - 7));
    assert_eq!(end["text"], "the end");
    assert_eq!(view.json("s/1/find?event=1")["index"], 1);
    assert_eq!(view.json("s/1/find?event=0")["index"], Value::Null);
    for path in ["s/1/event/0", "s/1/event/2", "s/1/event/4294967297", "s/1/event/0/text"] {
        assert_eq!(view.get(path).status, 404, "{path}");
    }
}

#[test]
fn a_comparison_says_when_an_operation_was_cancelled() {
    let folder = Folder::new("cancelled");
    let lines = r#">(+0.1) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cut"}}
>(+1.1) {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
<(+1.31) {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
"#;
    let view = View::of(&[&folder.capture("one.wire", lines), &folder.capture("two.wire", lines)]);
    eventually("both are read", || view.json("sources")["sources"][1]["state"] == "complete");
    view.complete();
    let compared = view.json("compare?a=1&b=2");
    let side = &compared["operations"][0]["a"];
    assert_eq!((&side["outcome"], &side["latency"]), (&"cancelled".into(), &1.0.into()), "{compared}");
    let bar = &view.json("s/1/timeline")["bars"][0];
    assert_eq!(side["outcome"], bar["outcome"]);
}

/// Returns an exported file of the first source.
fn exported(view: &View, format: &str, selection: &str) -> String {
    let reply = view.get(&format!("s/1/export/{format}?{selection}"));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Returns the bodies of each entry: of the request, and of the response.
fn bodies(har: &Value) -> Vec<(&str, &str)> {
    let entries = har["log"]["entries"].as_array().expect("entries");
    let requests = entries.iter().map(|it| it["request"]["postData"]["text"].as_str().unwrap_or_default());
    let responses = entries.iter().map(|it| it["response"]["content"]["text"].as_str().unwrap_or_default());
    requests.zip(responses).collect()
}

#[test]
fn an_export_has_the_operations_that_the_filter_selects() {
    let view = View::of(&[&file("tour.wire")]);
    view.complete();
    // Only the response of a call matches the first filter, and only its request the second one.
    for filter in ["filter=%22no%20bit%22", "filter=%22mm%22%20kind%3Arequest"] {
        let har = json(&exported(&view, "har", filter));
        let bodies = bodies(&har);
        assert_eq!(bodies.len(), 1, "{filter}: {har}");
        assert!(bodies[0].0.contains("\"drill\"") && bodies[0].1.contains("no bit of 90 mm"), "{filter}: {har}");
        let traces = json(&exported(&view, "otlp", filter));
        let spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
        let names: BTreeSet<&str> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
        assert_eq!(names, BTreeSet::from(["MCP conversation", "tools/call drill"]), "{filter}");
        let frame = |span: &Value| {
            span["attributes"].to_string().contains(r#""key":"barewire.frame","value":{"intValue":"12"}"#)
        };
        assert!(spans.iter().any(frame), "frames keep their numbers: {traces}");
        let wire = exported(&view, "wire", filter);
        let lines: Vec<&str> = wire.lines().filter(|line| line.starts_with(['<', '>', '!'])).collect();
        assert_eq!(lines.len(), 2, "{filter}: {wire}");
        assert!(lines[0].contains("\"drill\"") && lines[1].contains("no bit of 90 mm"), "{wire}");
        for format in ["svg", "mermaid"] {
            let diagram = exported(&view, format, filter);
            assert!(diagram.contains("drill") && !diagram.contains("saw"), "{filter}: {diagram}");
        }
        let page = exported(&view, "html", filter);
        assert!(page.contains("This file has only what the filter"), "{filter}");
        let data = page.split("id=\"barewire-data\">").nth(1).and_then(|rest| rest.split("</script>").next());
        let data = data.expect("data");
        assert!(!data.contains("tools/call saw") && !data.contains("3 planks") && !data.contains("weld"), "{data}");
    }
    let everything = json(&exported(&view, "har", ""));
    assert!(bodies(&everything).len() > 8, "{everything}");
}

#[test]
fn an_export_over_http_has_the_exchanges_of_the_selection() {
    let view = View::of(&[&file("http.wire")]);
    view.complete();
    let har = json(&exported(&view, "har", "filter=tool%3Asearch"));
    let selected = bodies(&har);
    assert_eq!(selected.len(), 1, "{har}");
    assert!(selected[0].0.contains("\"search\"") && selected[0].1.contains("12 of them"), "{har}");
    assert!(!selected[0].1.contains("roots/list"), "a question that the filter does not select: {har}");
    assert_eq!(har["log"]["entries"][0]["response"]["status"], 200);
    // A capture of the selection is a capture again.
    let folder = Folder::new("selected");
    let path = folder.0.join("selected.wire");
    fs::write(&path, exported(&view, "wire", "filter=errors")).expect("a file");
    let read = Command::new(PROGRAM).args(["read", "--json"]).arg(&path).output().expect("it runs");
    let text = String::from_utf8(read.stdout).expect("UTF-8");
    let kinds: Vec<Value> = text.lines().map(|line| json(line)["kind"].clone()).collect();
    assert_eq!(kinds, ["request", "error"], "{text}");
    // Of a conversation, everything is exported: also its events.
    let sources = view.json("sources");
    let names: Vec<&str> = sources["sources"][0]["conversations"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert_eq!(names.len(), 2, "{sources}");
    let of = |name: &str| {
        exported(
            &view,
            "wire",
            &format!("conversation={}", name.replace('<', "%3C").replace('>', "%3E").replace(' ', "%20")),
        )
    };
    let (first, second) = (of(names[0]), of(names[1]));
    assert!(first.contains("12 of them") && !first.contains("Session not found"), "{first}");
    assert!(second.contains("Session not found") && !second.contains("12 of them"), "{second}");
}

/// A finding about a member is no mismatch with a schema.
#[test]
fn a_member_that_a_finding_is_about_is_marked() {
    let folder = Folder::new("marks");
    let lines = r#">(+0.1) {"jsonrpc":"2.0","id":1,"method":"tools/list"}
<(+0.2) {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"cut","description":"a\u202eb","inputSchema":{"type":"object"}}]}}
"#;
    let view = View::of(&[&folder.capture("marks.wire", lines)]);
    view.complete();
    let frame = view.json("s/1/frame/2");
    assert_eq!(frame["schema"], Value::Array(Vec::new()), "{frame}");
    let marks = frame["marks"].as_array().expect("a list");
    let paths: Vec<&str> = marks.iter().filter_map(|it| it["path"].as_str()).collect();
    assert_eq!(paths, ["/result/tools/0/description"], "{frame}");
    let at = marks[0]["at"].as_u64().and_then(|at| usize::try_from(at).ok()).expect("a place");
    assert!(frame["text"].as_str().is_some_and(|text| text[at..].starts_with("\"a\\u202eb")), "{frame}");
}

#[test]
fn arguments_are_compared_with_the_schema_that_was_listed() {
    let folder = Folder::new("schemas");
    let tool = r#"{"name":"cut","inputSchema":{"type":"object","properties":{"mm":{"type":"integer"},"of":{"type":"object","properties":{"wood":{"enum":["oak"]}}}},"required":["mm"]},"outputSchema":{"type":"object","properties":{"left":{"type":"number"}}}}"#;
    let call = |id: u32, arguments: &str| {
        format!(
            r#">(+0.{id}) {{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"cut","arguments":{arguments}}}}}"#
        )
    };
    let lines = [
        call(1, r#"{"mm":"early"}"#),
        r#"<(+0.1) {"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#.to_owned(),
        r#">(+0.2) {"jsonrpc":"2.0","id":2,"method":"tools/list"}"#.to_owned(),
        format!(r#"<(+0.2) {{"jsonrpc":"2.0","id":2,"result":{{"tools":[{tool}]}}}}"#),
        call(3, r#"{"mm":"three"}"#),
        call(4, r#"{"mm":4,"of":{"wood":"ash"}}"#),
        call(5, r#"{"mm":5,"of":{"wood":"oak"}}"#),
        call(6, "{}"),
        r#"<(+0.7) {"jsonrpc":"2.0","id":5,"result":{"content":[],"structuredContent":{"left":"none"}}}"#.to_owned(),
    ];
    let view = View::of(&[&folder.capture("schemas.wire", &(lines.join("\n") + "\n"))]);
    view.complete();
    let errors = |frame: u32| -> Vec<(String, String)> {
        let frame = view.json(&format!("s/1/frame/{frame}"));
        let text = frame["text"].as_str().expect("a text");
        let schema = frame["schema"].as_array().expect("a list").clone();
        let at = |it: &Value| it["at"].as_u64().and_then(|at| usize::try_from(at).ok()).expect("a place");
        schema
            .iter()
            .map(|it| (it["path"].as_str().expect("a path").to_owned(), text[at(it)..].chars().take(6).collect()))
            .collect()
    };
    let pair = |path: &str, text: &str| vec![(path.to_owned(), text.to_owned())];
    assert_eq!(errors(1), [], "nothing was listed yet");
    assert_eq!(errors(5), pair("/params/arguments/mm", "\"three"));
    assert_eq!(errors(6), pair("/params/arguments/of/wood", "\"ash\"}"));
    assert_eq!(errors(7), []);
    assert_eq!(errors(8), pair("/params/arguments", "{}}}"));
    // The result once, whether or not a finding says so.
    assert_eq!(errors(9), pair("/result/structuredContent/left", "\"none\""));
    let message = view.json("s/1/frame/5")["schema"][0]["message"].clone();
    let words = message.as_str().expect("a text");
    assert!(words.starts_with("does not match the inputSchema of cut in frame 4: /mm: "), "{words}");
}
