//! Layers around tools, prompts and resources: in both eras, over HTTP, with questions, threads, panics and
//! cancellation.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use barewire::mcp::{CallToolResult, ElicitResult, Revision};
use barewire::server::{
    Call, Elicit, Invocation, InvocationResult, Layer, NextLayer, Prompt, ProtocolError, Resource, Template, Tool,
    ToolError,
};
use barewire::{Client, ClientError, Server, testkit};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The events that the layers of a test have seen, in order.
#[derive(Clone, Default)]
struct LayerLog(Arc<Mutex<Vec<String>>>);

impl LayerLog {
    fn push(&self, what: String) {
        self.0.lock().expect("no panic").push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }

    /// Returns a layer that records each invocation and its outcome.
    fn layer(&self, name: &'static str) -> impl Layer + use<> {
        let log = self.clone();
        move |invocation: Invocation, next: NextLayer| {
            let log = log.clone();
            async move {
                let (kind, arguments) = (invocation.kind(), invocation.arguments().unwrap_or("-").to_owned());
                log.push(format!("{name}> {kind:?} {} {arguments}", invocation.name()));
                let outcome = next.run(invocation).await;
                log.push(match &outcome {
                    Ok(served) if served.is_tool_error() => format!("{name}< failed"),
                    Ok(_) => format!("{name}< ok"),
                    Err(error) => format!("{name}< {}", error.code().get()),
                });
                outcome
            }
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
struct Note {
    id: u32,
}

async fn greet(call: Call) -> Result<String, ToolError> {
    let Name { name } = call.ask("name", Elicit::form("Who are you?")).await?;
    Ok(format!("hello {name}"))
}

fn server(log: &LayerLog) -> Server {
    Server::new("layered", "1.0")
        .layer(log.layer("outer"))
        .layer(log.layer("inner"))
        .tool("add", "Adds", |Add { a, b }| async move { a + b })
        .tool("greet", "Greets", greet)
        .tool("fail", "Fails", || async { Err::<(), _>("no") })
        .tool("panic", "Panics", || async {
            if true {
                panic!("on purpose")
            }
        })
        .tool("refuse", "Refuses", || async { Err::<(), _>(ProtocolError::invalid_params("never")) })
        .with(Tool::new("slow", "Blocks", |Add { a, b }| async move { a - b }).blocking())
        .with(Prompt::new("hello", "Says hello", |Name { name }| async move { format!("hello {name}") }))
        .with(Resource::text("note://readme", "readme", "read me"))
        .with(Template::new("note://{id}", "note", |Note { id }| async move { format!("note {id}") }))
}

async fn connect(server: &Server, revision: Revision) -> Client {
    let builder = Client::builder("t", "1").revision(revision);
    let builder = builder.on_elicit(|_| async {
        Ok(ElicitResult::accept(json!({"name": "Ada"}).as_object().cloned().expect("an object")))
    });
    testkit::connect_with(server, builder).await.expect("connected")
}

async fn text(client: &Client, tool: &str, arguments: Value) -> Result<String, ClientError> {
    let result = client.call_tool(tool, arguments).await?;
    let text = result.content.first().and_then(|content| content.as_text()).unwrap_or_default();
    Ok(format!("{}{text}", if result.is_error { "failed: " } else { "" }))
}

const ERAS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

#[tokio::test]
async fn the_first_layer_is_the_outermost_around_tools_prompts_and_resources() {
    for revision in ERAS {
        let log = LayerLog::default();
        let client = connect(&server(&log), revision).await;
        assert_eq!(text(&client, "add", json!({"a": 19, "b": 23})).await.expect("added"), "42");
        let arguments = r#"{"a":19,"b":23}"#;
        let around = |what: &str| {
            [format!("outer> {what}"), format!("inner> {what}"), "inner< ok".to_owned(), "outer< ok".to_owned()]
        };
        assert_eq!(log.take(), around(&format!("Tool add {arguments}")));
        assert_eq!(text(&client, "slow", json!({"a": 19, "b": 23})).await.expect("on a thread"), "-4");
        assert_eq!(log.take(), around(&format!("Tool slow {arguments}")));
        client.get_prompt("hello", json!({"name": "Ada"})).await.expect("a prompt");
        assert_eq!(log.take(), around(r#"Prompt hello {"name":"Ada"}"#));
        for uri in ["note://readme", "note://7"] {
            client.read_resource(uri).await.expect("read");
            assert_eq!(log.take(), around(&format!("Resource {uri} -")));
        }
        // Names that the server does not have go through no layer.
        client.call_tool("none", json!({})).await.expect_err("unknown");
        client.read_resource("note://none").await.expect_err("unknown");
        assert_eq!(log.take(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_layer_sees_how_a_handler_failed() {
    for revision in ERAS {
        let log = LayerLog::default();
        let client = connect(&server(&log), revision).await;
        assert_eq!(text(&client, "fail", json!({})).await.expect("a result"), "failed: no");
        assert_eq!(log.take()[2..], ["inner< failed", "outer< failed"]);
        let bad = text(&client, "add", json!({"a": 1})).await.expect("arguments are checked inside of the layers");
        assert!(bad.starts_with("failed: Invalid arguments"), "{bad}");
        assert_eq!(log.take()[2..], ["inner< failed", "outer< failed"]);
        for (tool, code) in [("panic", -32603), ("refuse", -32602)] {
            text(&client, tool, json!({})).await.expect_err("an error of the protocol");
            assert_eq!(log.take()[2..], [format!("inner< {code}"), format!("outer< {code}")]);
        }
    }
}

#[tokio::test]
async fn a_layer_runs_in_each_round_of_a_call() {
    for (revision, rounds) in ERAS.into_iter().zip([1, 2]) {
        let log = LayerLog::default();
        let client = connect(&server(&log), revision).await;
        assert_eq!(text(&client, "greet", json!({})).await.expect("greeted"), "hello Ada");
        let log = log.take();
        let started = log.iter().filter(|what| what.starts_with("inner> ")).count();
        assert_eq!((started, log.iter().filter(|what| *what == "inner< ok").count()), (rounds, 1), "{log:?}");
    }
}

#[tokio::test]
async fn a_layer_may_refuse_ask_and_answer_by_itself() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let server = Server::new("guarded", "1.0")
        .layer(|invocation, next| async move {
            match invocation.name() {
                "never" | "note://never" => invocation.refuse("not allowed"),
                "canned" => Ok(InvocationResult::Tool(CallToolResult::text("from the layer"))),
                "odd" => Ok(InvocationResult::Prompt(barewire::mcp::GetPromptResult::new(Vec::new()))),
                "asked" => {
                    let asked = invocation.call().ask("sure", Elicit::<Name>::form("Sure?")).await;
                    match asked {
                        Ok(Name { name }) if name == "Ada" => next.run(invocation).await,
                        _ => invocation.refuse("not sure"),
                    }
                }
                _ => next.run(invocation).await,
            }
        })
        .with(Resource::text("note://never", "never", "secret"));
    let server = ["never", "canned", "odd", "asked"].into_iter().fold(server, |server, name| {
        let count = Arc::clone(&count);
        // A refused handler must not run at all, not even the part of the closure before its future.
        server.tool(name, "Counts", move || {
            count.fetch_add(1, Ordering::SeqCst);
            async { "ran" }
        })
    });
    for revision in ERAS {
        let client = connect(&server, revision).await;
        ran.store(0, Ordering::SeqCst);
        assert_eq!(text(&client, "never", json!({})).await.expect("a result"), "failed: not allowed");
        assert_eq!(text(&client, "canned", json!({})).await.expect("a result"), "from the layer");
        assert!(text(&client, "odd", json!({})).await.is_err(), "a prompt is no result of a tool");
        let error = client.read_resource("note://never").await.expect_err("refused");
        assert!(error.to_string().contains("not allowed"), "{error}");
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        assert_eq!(text(&client, "asked", json!({})).await.expect("asked"), "ran");
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_layer_is_dropped_with_its_call() {
    struct NotifyOnDrop(Arc<tokio::sync::Notify>);
    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    for revision in ERAS {
        let (started, dropped) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let (starts, drops) = (Arc::clone(&started), Arc::clone(&dropped));
        let server = Server::new("waits", "1.0")
            .layer(move |invocation, next| {
                let notify_on_drop = NotifyOnDrop(Arc::clone(&drops));
                async move {
                    let _notify_on_drop = notify_on_drop;
                    next.run(invocation).await
                }
            })
            .tool("wait", "Waits", move || {
                starts.notify_one();
                pending::<()>()
            });
        let client = connect(&server, revision).await;
        let call = tokio::spawn(async move { client.call_tool("wait", json!({})).await.map(drop) });
        started.notified().await;
        call.abort();
        dropped.notified().await;
    }
}

#[cfg(feature = "http")]
#[tokio::test]
async fn layers_run_for_requests_over_http() {
    let log = LayerLog::default();
    let listener = server(&log).http().bind("127.0.0.1:0").await.expect("bound");
    let url = listener.url();
    tokio::spawn(listener.run());
    for revision in ERAS {
        let client = Client::builder("t", "1").revision(revision).http(url.clone()).await.expect("connected");
        assert_eq!(text(&client, "add", json!({"a": 19, "b": 23})).await.expect("added"), "42");
        assert_eq!(log.take().len(), 4);
        client.shutdown().await.expect("an orderly end");
    }
}
