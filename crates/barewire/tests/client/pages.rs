//! Paginated lists.

use barewire::mcp::Revision;
use barewire::{Client, ClientError};
use serde_json::{Value, json};

use super::script::{ScriptedServer, legacy, modern, tester};

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

/// Answers each request with the next of these cursors. Returns the requested cursors.
async fn serve(script: &mut ScriptedServer, pages: &[Option<&str>]) -> Vec<Value> {
    let mut cursors = Vec::new();
    for (number, next) in pages.iter().enumerate() {
        let request = script.expect("tools/list").await;
        cursors.push(request["params"]["cursor"].clone());
        let mut page = json!({"tools": [tool(&format!("t{number}"))]});
        if let Some(next) = next {
            page["nextCursor"] = json!(next);
        }
        script.respond(&request, page).await;
    }
    cursors
}

async fn names(client: &Client) -> Result<Vec<String>, ClientError> {
    Ok(client.list_tools().await?.into_iter().map(|tool| tool.name).collect())
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read_and_an_empty_cursor_is_valid() {
    let (client, mut script) = legacy(tester(), Revision::V2024_11_05, json!({"tools": {}})).await;
    let (names, cursors) = tokio::join!(names(&client), serve(&mut script, &[Some("b"), Some(""), None]));
    assert_eq!(names.expect("listed"), ["t0", "t1", "t2"]);
    assert_eq!(cursors, [Value::Null, json!("b"), json!("")]);
    // The first page has no params at all.
    let page = tokio::spawn(client.list_tools_page(None).into_future());
    let request = script.expect("tools/list").await;
    assert!(request.get("params").is_none(), "{request}");
    script.respond(&request, json!({"tools": [], "nextCursor": ""})).await;
    assert_eq!(page.await.expect("no panic").expect("a page").next_cursor.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_cursor_is_an_error() {
    let (client, mut script) = modern(tester(), json!({"tools": {}})).await;
    let (names, _) = tokio::join!(names(&client), serve(&mut script, &[Some("a"), Some("b"), Some("a")]));
    let error = names.expect_err("a repeated cursor").to_string();
    assert!(error.contains(r#"it repeats the list cursor "a""#), "{error}");
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn an_endless_list_is_an_error() {
    let (client, mut script) = modern(tester(), json!({"tools": {}})).await;
    let cursors: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let pages: Vec<Option<&str>> = cursors.iter().map(|cursor| Some(cursor.as_str())).collect();
    let (names, _) = tokio::join!(names(&client), serve(&mut script, &pages));
    assert!(names.expect_err("no end").to_string().contains("does not end within 1000 pages"));
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_with_too_many_bytes_is_an_error() {
    let (client, mut script) = modern(tester(), json!({"tools": {}})).await;
    let padding = "x".repeat(8 << 20);
    let server = async {
        // With the text around the padding, the last page exceeds the limit, and no other is requested.
        for number in 0..16 {
            let request = script.expect("tools/list").await;
            let page = json!({"_meta": {"x/padding": padding}, "tools": [], "nextCursor": number.to_string()});
            script.respond(&request, page).await;
        }
    };
    let (names, ()) = tokio::join!(names(&client), server);
    let error = names.expect_err("too much").to_string();
    assert!(error.contains("its list does not end within 128 MiB"), "{error}");
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn the_other_lists_are_read_too() {
    let (client, mut script) = modern(tester(), json!({"resources": {}, "prompts": {}})).await;
    let server = async {
        for (method, items) in [
            ("resources/list", json!({"resources": [{"uri": "x:1", "name": "one"}]})),
            ("resources/templates/list", json!({"resourceTemplates": [{"uriTemplate": "x:{n}", "name": "n"}]})),
            ("prompts/list", json!({"prompts": [{"name": "p"}]})),
        ] {
            let request = script.expect(method).await;
            script.respond(&request, items).await;
        }
    };
    let lists = async {
        assert_eq!(client.list_resources().await.expect("listed")[0].uri, "x:1");
        assert_eq!(client.list_resource_templates().await.expect("listed")[0].uri_template, "x:{n}");
        assert_eq!(client.list_prompts().await.expect("listed")[0].name, "p");
    };
    tokio::join!(lists, server);
}
