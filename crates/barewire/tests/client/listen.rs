//! Listens of the modern era: acknowledgement, notifications, end.

use barewire::client::{Listen, ListenEnd, ServerNotification};
use barewire::mcp::SubscriptionFilter;
use barewire::{Client, ClientError};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::script::{ScriptedServer, modern, tester};
use super::seconds;

const ALL: fn() -> Value =
    || json!({"tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true}, "prompts": {}});

fn filter() -> SubscriptionFilter {
    SubscriptionFilter::default()
        .tools_list_changed(true)
        .prompts_list_changed(true)
        .resource_subscriptions(["x:1".to_owned()])
}

fn about(id: &Value) -> Value {
    json!({"io.modelcontextprotocol/subscriptionId": id})
}

async fn acknowledge(script: &mut ScriptedServer, notifications: Value) -> Value {
    let request = script.expect("subscriptions/listen").await;
    let params = json!({"_meta": about(&request["id"]), "notifications": notifications});
    script.notify("notifications/subscriptions/acknowledged", params).await;
    request["id"].clone()
}

/// Opens a listen, and returns it with its id.
async fn open(client: &Client, script: &mut ScriptedServer) -> (Listen, Value) {
    let (listen, id) = tokio::join!(
        client.listen(filter()),
        acknowledge(script, json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]}))
    );
    (listen.expect("acknowledged"), id)
}

#[tokio::test(start_paused = true)]
async fn a_listen_receives_its_own_notifications() {
    let (client, mut script) = modern(tester(), ALL()).await;
    let mut all = client.notifications();
    let (mut listen, id) = open(&client, &mut script).await;
    let acknowledged = listen.acknowledged();
    assert!(acknowledged.tools_list_changed && !acknowledged.prompts_list_changed);
    assert_eq!(acknowledged.resource_subscriptions, ["x:1"]);

    script.notify("notifications/tools/list_changed", json!({"_meta": about(&id)})).await;
    // These belong to a listen that does not exist, and are dropped.
    script.notify("notifications/prompts/list_changed", json!({"_meta": about(&json!(4711))})).await;
    script.notify("notifications/prompts/list_changed", json!({"_meta": about(&json!("1"))})).await;
    script.notify("notifications/resources/updated", json!({"_meta": about(&id), "uri": "x:1"})).await;
    // This belongs to no listen; only the client's own stream gets it.
    script.notify("notifications/message", json!({"level": "info", "data": 1})).await;
    use ServerNotification as N;
    assert!(matches!(listen.next().await, Some(N::ToolsListChanged)));
    assert!(matches!(listen.next().await, Some(N::ResourceUpdated { uri }) if uri == "x:1"));
    assert!(matches!(all.next().await, Some(N::ToolsListChanged)));
    assert!(matches!(all.next().await, Some(N::ResourceUpdated { .. })));
    assert!(matches!(all.next().await, Some(N::Message(_))));
    // A silent listen stays open.
    assert!(timeout(seconds(86_400), listen.next()).await.is_err());
    assert!(listen.end().is_none());
}

#[tokio::test(start_paused = true)]
async fn two_listens_receive_separate_notifications() {
    let (client, mut script) = modern(tester(), ALL()).await;
    let (mut one, first) = open(&client, &mut script).await;
    let (mut two, second) = open(&client, &mut script).await;
    assert_ne!(first, second);
    script.notify("notifications/resources/updated", json!({"_meta": about(&second), "uri": "x:2"})).await;
    script.notify("notifications/resources/updated", json!({"_meta": about(&first), "uri": "x:1"})).await;
    use ServerNotification as N;
    assert!(matches!(one.next().await, Some(N::ResourceUpdated { uri }) if uri == "x:1"));
    assert!(matches!(two.next().await, Some(N::ResourceUpdated { uri }) if uri == "x:2"));
}

#[tokio::test(start_paused = true)]
async fn the_kinds_of_end_are_distinguished() {
    let (client, mut script) = modern(tester(), ALL()).await;
    let (mut listen, id) = open(&client, &mut script).await;
    script.notify("notifications/tools/list_changed", json!({"_meta": about(&id)})).await;
    let result = json!({"resultType": "complete", "_meta": about(&id)});
    script.send(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    // Some servers send both a response and a cancellation.
    script.notify("notifications/cancelled", json!({"requestId": id})).await;
    assert!(matches!(listen.next().await, Some(ServerNotification::ToolsListChanged)), "what came before the end");
    assert!(listen.next().await.is_none());
    assert!(matches!(listen.ended().await, ListenEnd::Graceful));

    let (mut listen, id) = open(&client, &mut script).await;
    script.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"})).await;
    assert!(listen.next().await.is_none());
    assert!(matches!(listen.end(), Some(ListenEnd::Cancelled)));
    // A late result is ignored, and the client does not cancel a listen that the server has ended.
    script.send(json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}})).await;
    drop(listen);
    script.expect_silence().await;

    let (mut listen, _) = open(&client, &mut script).await;
    drop(script);
    assert!(listen.next().await.is_none());
    assert!(matches!(listen.ended().await, ListenEnd::Lost(ClientError::Closed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_server_cannot_end_other_calls() {
    let (client, mut script) = modern(tester(), ALL()).await;
    let call = tokio::spawn(client.call_tool("a", ()).into_future());
    let request = script.expect("tools/call").await;
    script.notify("notifications/cancelled", json!({"requestId": request["id"]})).await;
    script.respond(&request, json!({"content": []})).await;
    call.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_listen_cancels_it() {
    let (client, mut script) = modern(tester(), ALL()).await;
    let mut all = client.notifications();
    let (listen, id) = open(&client, &mut script).await;
    drop(listen);
    assert_eq!(script.expect("notifications/cancelled").await["params"], json!({"requestId": id}));
    // Notifications that were already on the way are dropped.
    script.notify("notifications/tools/list_changed", json!({"_meta": about(&id)})).await;
    assert!(timeout(seconds(1), all.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_unacknowledged_listen_is_an_error() {
    let (client, mut script) = modern(tester().timeout(seconds(7)), ALL()).await;
    let server = async {
        let request = script.expect("subscriptions/listen").await;
        script.refuse(&request, -32603, Value::Null).await;
    };
    let (listen, ()) = tokio::join!(client.listen(filter()), server);
    assert_eq!(listen.expect_err("refused").code().map(|code| code.get()), Some(-32603));

    let began = Instant::now();
    let error = client.listen(filter()).await.expect_err("silence").to_string();
    assert!(error.contains("no response to subscriptions/listen within 7s"), "{error}");
    assert_eq!(began.elapsed(), seconds(7));
    let request = script.expect("subscriptions/listen").await;
    assert_eq!(script.expect("notifications/cancelled").await["params"]["requestId"], request["id"]);

    let server = async {
        let request = script.expect("subscriptions/listen").await;
        script.respond(&request, json!({"resultType": "complete"})).await;
    };
    let (listen, ()) = tokio::join!(client.listen(filter()), server);
    assert!(listen.expect_err("over").to_string().contains("before it was acknowledged"));
}

#[tokio::test(start_paused = true)]
async fn subscribing_to_a_resource_opens_a_listen() {
    let (client, mut script) = modern(tester(), ALL()).await;
    let mut all = client.notifications();
    let acknowledged = acknowledge(&mut script, json!({"resourceSubscriptions": ["x:1"]}));
    let (subscribed, id) = tokio::join!(client.subscribe("x:1"), acknowledged);
    subscribed.expect("subscribed");
    client.subscribe("x:1").await.expect("it is already");
    script.notify("notifications/resources/updated", json!({"_meta": about(&id), "uri": "x:1"})).await;
    assert!(matches!(all.next().await, Some(ServerNotification::ResourceUpdated { .. })));
    client.unsubscribe("x:1").await.expect("unsubscribed");
    assert_eq!(script.expect("notifications/cancelled").await["params"]["requestId"], id);
    client.unsubscribe("x:1").await.expect("nothing to do");
    script.expect_silence().await;

    let (subscribed, _) = tokio::join!(client.subscribe("x:2"), acknowledge(&mut script, json!({})));
    assert!(subscribed.expect_err("not told").to_string().contains("does not acknowledge the subscription to \"x:2\""));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_listens() {
    let (client, mut script) = modern(tester(), ALL()).await;
    let (mut listen, id) = open(&client, &mut script).await;
    let acknowledged = acknowledge(&mut script, json!({"resourceSubscriptions": ["x:9"]}));
    let (subscribed, _) = tokio::join!(client.subscribe("x:9"), acknowledged);
    subscribed.expect("subscribed");
    let began = Instant::now();
    client.shutdown().await.expect("an orderly end");
    assert_eq!(began.elapsed(), seconds(0));
    assert!(listen.next().await.is_none());
    assert!(matches!(listen.end(), Some(ListenEnd::Lost(_))));
    let mut cancelled = [script.line().await, script.line().await];
    cancelled.sort_by_key(|message| message["params"]["requestId"].to_string());
    assert_eq!(cancelled[0]["params"]["requestId"], id);
    assert_eq!(script.0.recv_line().await.expect("memory"), None);
}

#[tokio::test(start_paused = true)]
async fn a_listen_keeps_the_connection_open_and_a_subscription_does_not() {
    let (client, mut script) = modern(tester(), ALL()).await;
    let acknowledged = acknowledge(&mut script, json!({"resourceSubscriptions": ["x:1"]}));
    let (subscribed, _) = tokio::join!(client.subscribe("x:1"), acknowledged);
    subscribed.expect("subscribed");
    let (listen, _) = open(&client, &mut script).await;
    drop(client);
    script.expect_silence().await;
    drop(listen);
    while let Some(line) = script.0.recv_line().await.expect("memory") {
        assert!(line.contains("notifications/cancelled"), "{line}");
    }
}
