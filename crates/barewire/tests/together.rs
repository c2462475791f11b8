//! Our client and our server together, over memory, in every revision.
#![cfg(feature = "tokio")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::client::{Builder, Listen, ListenEnd, ServerNotification, accept};
use barewire::mcp::{
    CompleteParams, CompleteReference, CreateMessageParams, CreateMessageResult, ElicitResult, Era, LoggingLevel,
    Revision, Root, SamplingMessage, SubscriptionFilter,
};
use barewire::server::{Call, Elicit, Prompt, Resource, Roots, Structured, Template, ToolError, Visit};
use barewire::{Client, ClientError, Failure, Server, TraceContext, testkit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

#[derive(Deserialize, Serialize, JsonSchema)]
struct Pair {
    a: f64,
    b: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
    #[serde(default = "thirty")]
    age: u32,
}

fn thirty() -> u32 {
    30
}

#[derive(Deserialize)]
struct Note {
    id: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Topic {
    topic: String,
}

/// A server with one of everything.
fn server() -> Server {
    Server::new("everything", "1.0")
        .instructions("be kind")
        .page_size(2)
        .tool("add", "Adds", |Pair { a, b }| async move { a + b })
        .tool("both", "Gives them back", |pair: Pair| async move { Structured(pair) })
        .tool("fail", "Fails", || async { Err::<(), _>("it is broken") })
        .tool("count", "Counts", |call: Call| async move {
            for n in 1..=3 {
                call.progress(n, 3, format!("step {n}")).await?;
                call.log(LoggingLevel::Info, format!("at {n}")).await?;
            }
            Ok::<_, ToolError>(call.trace_context().traceparent.unwrap_or_default())
        })
        .tool("greet", "Greets", |call: Call| async move {
            let Name { name, age } = call.ask("user", Elicit::form("Who are you?")).await?;
            Ok::<_, ToolError>(format!("Hello, {name} ({age})!"))
        })
        .tool("visit", "Sends to a page", |call: Call| async move {
            call.ask("page", Visit::new("Log in", "https://example.com/")).await?;
            Ok::<_, ToolError>("visited")
        })
        .tool("research", "Asks everybody", |call: Call| async move {
            let question = CreateMessageParams::new(vec![SamplingMessage::user("Capital of France?")], 100);
            let (model, roots) = tokio::join!(call.ask("model", question), call.ask("where", Roots));
            let said = model?.content[0].as_text().unwrap_or_default().to_owned();
            // A second round, in which the answers of the first are still there.
            let Name { name, .. } = call.ask("user", Elicit::form("And you are?")).await?;
            Ok::<_, ToolError>(format!("{said} {} {name}", roots?[0].uri))
        })
        .with(Resource::text("note://readme", "readme", "Read me"))
        .with(Template::new("note://{id}", "note", |Note { id }| async move { format!("Note {id}") }))
        .with(Prompt::new("explain", "Explains", |Topic { topic }| async move { format!("Explain {topic}") }).complete(
            "topic",
            |it| async move {
                ["rust", "ruby"].iter().filter(|it2| it2.starts_with(&it.value)).map(|it| it.to_string()).collect()
            },
        ))
}

/// A client that answers all requests of a server: the user's name is Ada, the model knows a capital, and there is one
/// root.
fn client_with_answers() -> Builder {
    Client::builder("tester", "0.1")
        .on_elicit(|_| async { Ok(accept(json!({"name": "Ada"}))?) })
        .on_elicit_url(|page| async move {
            assert_eq!(page.url, "https://example.com/");
            Ok(accept(json!({}))?)
        })
        .on_sample(|params| async move {
            assert_eq!(params.max_tokens, 100);
            Ok(CreateMessageResult::new("m", "Paris"))
        })
        .roots([Root::new("file:///work")])
}

async fn text(client: &Client, tool: &str) -> Result<String, ClientError> {
    let result = client.call_tool(tool, ()).await?;
    let text = result.content.iter().filter_map(|content| content.as_text()).collect();
    if result.is_error { Ok(format!("failed: {text}")) } else { Ok(text) }
}

async fn within_deadline<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(100), future).await.expect("in time")
}

#[tokio::test(start_paused = true)]
async fn they_agree_on_the_latest_revision_and_describe_themselves() {
    let client = testkit::connect(&server()).await;
    assert_eq!(client.revision(), Revision::V2026_07_28);
    assert_eq!(client.server_info().implementation.expect("given").name, "everything");
    assert_eq!(client.instructions().as_deref(), Some("be kind"));
    assert_eq!(client.discover().await.expect("again").supported_versions, ["2026-07-28"]);
    // A server of one legacy revision is found too.
    for revision in Revision::ALL {
        let old = server().revisions([revision]);
        assert_eq!(testkit::connect(&old).await.revision(), revision);
    }
    // A server without the client's only revision is an error.
    let old = server().revisions([Revision::V2024_11_05]);
    let modern = Client::builder("modern", "1").revision(Revision::LATEST);
    assert!(testkit::connect_with(&old, modern).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn tools_resources_and_prompts_work_in_every_revision() {
    for revision in Revision::ALL {
        let client = testkit::connect_as(&server(), revision).await;
        assert_eq!(client.revision(), revision);
        if client.era() == Era::Legacy {
            client.ping().await.expect("there");
        }
        let tools = client.list_tools().await.expect("listed");
        assert_eq!(tools.len(), 7, "all pages");
        assert_eq!(tools[0].name, "add");
        let sum = client.call_tool("add", Pair { a: 19.0, b: 23.0 }).await.expect("added");
        assert_eq!(sum.content[0].as_text(), Some("42"));
        let both = client.call_tool("both", Pair { a: 1.0, b: 2.0 }).await.expect("given back");
        assert_eq!(both.structured_content.is_some(), revision.has_structured_content());
        assert_eq!(text(&client, "fail").await.expect("a result"), "failed: it is broken");
        assert_eq!(client.call_tool("none", ()).await.expect_err("unknown").code().map(|it| it.get()), Some(-32602));

        assert_eq!(client.list_resources().await.expect("listed")[0].uri, "note://readme");
        assert_eq!(client.list_resource_templates().await.expect("listed").len(), 1);
        let read = client.read_resource("note://7").await.expect("read");
        assert_eq!(read.contents[0].uri(), "note://7");
        assert!(client.read_resource("other:1").await.is_err());

        assert_eq!(client.list_prompts().await.expect("listed")[0].name, "explain");
        let prompt = client.get_prompt("explain", json!({"topic": "wires"})).await.expect("got");
        assert_eq!(prompt.messages[0].content.as_text(), Some("Explain wires"));
        let complete = CompleteParams::new(CompleteReference::prompt("explain"), "topic", "ru");
        let values = client.complete(complete).await.expect("completed").completion.values;
        assert_eq!(values, ["rust", "ruby"]);
        client.shutdown().await.expect("an orderly end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_gets_its_answer_in_both_eras() {
    for revision in Revision::ALL {
        let client =
            testkit::connect_with(&server(), client_with_answers().revision(revision)).await.expect("connected");
        let greeting = text(&client, "greet").await;
        match revision.has_elicitation() {
            true => assert_eq!(greeting.expect("greeted"), "Hello, Ada (30)!"),
            // This revision has no elicitation.
            false => assert!(greeting.expect("a result").starts_with("failed: "), "{revision}"),
        }
        if revision.has_url_elicitation() {
            assert_eq!(text(&client, "visit").await.expect("visited"), "visited");
        }
        if revision.has_elicitation() {
            let found = text(&client, "research").await.expect("found");
            assert_eq!(found, "Paris file:///work Ada", "{revision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_who_declines_and_a_client_without_a_user() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let declining = Client::builder("t", "1").on_elicit(|_| async { Ok(ElicitResult::decline()) });
        let client = testkit::connect_with(&server(), declining.revision(revision)).await.expect("connected");
        assert_eq!(text(&client, "greet").await.expect("a result"), "failed: the user declined to answer");

        let failing = Client::builder("t", "1").on_elicit(|_| async { Err(Failure::internal("Screen", "it is gone")) });
        let client = testkit::connect_with(&server(), failing.revision(revision)).await.expect("connected");
        assert!(text(&client, "greet").await.expect("a result").starts_with("failed: "));

        // A client that does not declare elicitation is not asked.
        let client = testkit::connect_as(&server(), revision).await;
        match (client.era(), text(&client, "greet").await) {
            (Era::Legacy, result) => assert!(result.expect("a result").starts_with("failed: ")),
            (Era::Modern, refused) => {
                assert_eq!(refused.expect_err("refused").code().map(|it| it.get()), Some(-32021));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn progress_log_and_trace_go_with_a_call() {
    for revision in Revision::ALL {
        let client = testkit::connect_as(&server(), revision).await;
        let mut told = client.notifications();
        client.set_log_level(LoggingLevel::Info).await.expect("set");
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let trace = TraceContext::default().traceparent(parent);
        let (call, mut progress) = client.call_tool("count", ()).trace(trace).with_progress();
        let call = tokio::spawn(call.into_future());
        for n in 1..=3 {
            let step = within_deadline(progress.next()).await.expect("a step");
            assert_eq!((step.progress, step.total), (f64::from(n), Some(3.0)));
            assert_eq!(step.message.is_some(), revision.has_progress_message());
            match within_deadline(told.next()).await {
                Some(ServerNotification::Message(line)) => assert_eq!(line.data.get(), format!("\"at {n}\"")),
                other => panic!("{other:?}"),
            }
        }
        let result = call.await.expect("no panic").expect("a result");
        assert_eq!(result.content[0].as_text(), Some(parent));
        assert!(progress.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_drops_its_handler() {
    struct Gone(Arc<AtomicUsize>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let gone = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&gone);
        let server = server().tool("hold", "Holds", move || {
            let gone = Gone(Arc::clone(&count));
            async move {
                let _gone = gone;
                std::future::pending::<()>().await;
            }
        });
        let client = testkit::connect_as(&server, revision).await;
        assert!(timeout(Duration::from_secs(1), client.call_tool("hold", ()).into_future()).await.is_err());
        let error = client.call_tool("hold", ()).timeout(Duration::from_secs(1)).await.expect_err("too late");
        assert!(matches!(error, ClientError::TimedOut { .. }));
        client.list_prompts().await.expect("the connection goes on");
        assert_eq!(gone.load(Ordering::SeqCst), 2);
    }
}

/// A client that gets notifications of all changes, in the way of its era.
async fn listening(server: &Server, revision: Revision) -> (Client, Option<Listen>) {
    let client = testkit::connect_as(server, revision).await;
    let filter =
        SubscriptionFilter::default().tools_list_changed(true).prompts_list_changed(true).resources_list_changed(true);
    let listen = match client.era() {
        Era::Legacy => None,
        Era::Modern => Some(client.listen(filter.clone()).await.expect("acknowledged")),
    };
    match &listen {
        Some(listen) => assert_eq!(listen.acknowledged(), filter),
        // The answer shows that the handshake is complete: from then on a server may send notifications.
        None => drop(client.ping().await.expect("there")),
    }
    (client, listen)
}

#[tokio::test(start_paused = true)]
async fn changes_are_notified_in_every_revision() {
    for revision in Revision::ALL {
        let server = server();
        let handle = server.handle();
        let (client, listen) = listening(&server, revision).await;
        let mut told = client.notifications();
        use ServerNotification as N;
        handle.remove_tool("add");
        assert!(matches!(within_deadline(told.next()).await, Some(N::ToolsListChanged)), "{revision}");
        handle.remove_prompt("explain");
        assert!(matches!(within_deadline(told.next()).await, Some(N::PromptsListChanged)));
        handle.remove_resource("note://readme");
        assert!(matches!(within_deadline(told.next()).await, Some(N::ResourcesListChanged)));

        client.subscribe("note://1").await.expect("subscribed");
        handle.updated("note://2");
        handle.updated("note://1");
        assert!(matches!(within_deadline(told.next()).await, Some(N::ResourceUpdated { uri }) if uri == "note://1"));
        client.unsubscribe("note://1").await.expect("unsubscribed");
        client.list_tools().await.expect("so that it has arrived");
        handle.updated("note://1");
        assert!(timeout(Duration::from_secs(1), told.next()).await.is_err());
        if let Some(mut listen) = listen {
            assert!(matches!(within_deadline(listen.next()).await, Some(N::ToolsListChanged)));
            assert!(listen.end().is_none());
            client.shutdown().await.expect("an orderly end");
            assert!(matches!(listen.ended().await, ListenEnd::Lost(_)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_calls_at_once_find_their_answers() {
    let client = testkit::connect(&server()).await;
    let calls: Vec<_> = (0..300u32)
        .map(|n| {
            let call = client.call_tool("add", Pair { a: f64::from(n), b: 1.0 });
            tokio::spawn(call.into_future())
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        let sum = call.await.expect("no panic").expect("added");
        assert_eq!(sum.content[0].as_text(), Some((n + 1).to_string().as_str()));
    }
}
