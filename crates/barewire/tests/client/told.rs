//! What a server tells unasked.

use barewire::client::ServerNotification;
use barewire::mcp::{LoggingLevel, Revision};
use serde_json::json;
use tokio::time::timeout;

use super::script::{legacy, tester};
use super::{Log, seconds};

#[tokio::test(start_paused = true)]
async fn each_notification_is_told_from_the_others() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    // What comes before anybody asks for it is not lost.
    script.tell("notifications/tools/list_changed", json!({})).await;
    script.say(json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})).await;
    tokio::time::sleep(seconds(1)).await;
    let mut told = client.notifications();
    script.tell("notifications/resources/list_changed", json!({})).await;
    script.tell("notifications/resources/updated", json!({"uri": "x:1"})).await;
    script.tell("notifications/message", json!({"level": "error", "logger": "db", "data": {"a": 1}})).await;
    script.tell("notifications/elicitation/complete", json!({"elicitationId": "e"})).await;
    script.tell("x/own", json!({"n": 1.50})).await;
    use ServerNotification as N;
    assert!(matches!(told.next().await, Some(N::ToolsListChanged)));
    assert!(matches!(told.next().await, Some(N::PromptsListChanged)));
    assert!(matches!(told.next().await, Some(N::ResourcesListChanged)));
    assert!(matches!(told.next().await, Some(N::ResourceUpdated { uri }) if uri == "x:1"));
    match told.next().await {
        Some(N::Message(line)) => {
            assert_eq!((line.level, line.logger.as_deref()), (LoggingLevel::Error, Some("db")));
            assert_eq!(line.data.get(), r#"{"a":1}"#);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(told.next().await, Some(N::ElicitationComplete { elicitation_id }) if elicitation_id == "e"));
    match told.next().await {
        Some(N::Other { method, params }) => {
            assert_eq!((method.as_str(), params.as_str()), ("x/own", Some(r#"{"n":1.5}"#)));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_behind_is_told_by_how_much() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    let (mut slow, mut quick) = (client.notifications(), client.notifications());
    for n in 0..1000 {
        script.tell("x/count", json!({"n": n})).await;
        assert!(matches!(quick.next().await, Some(ServerNotification::Other { .. })));
    }
    match slow.next().await {
        Some(ServerNotification::Lagged(missed)) => assert_eq!(missed, 1000 - 256),
        other => panic!("{other:?}"),
    }
    match slow.next().await {
        Some(ServerNotification::Other { params, .. }) => assert_eq!(params.as_str(), Some(r#"{"n":744}"#)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_handed_on_and_reported() {
    let log = Log::default();
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    let mut told = client.notifications();
    script.tell("notifications/message", json!({"level": "loud", "data": 1})).await;
    match told.next().await {
        Some(ServerNotification::Other { method, .. }) => assert_eq!(method, "notifications/message"),
        other => panic!("{other:?}"),
    }
    assert!(log.text().contains("notifications/message"), "{}", log.text());
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_with_the_connection() {
    let (client, script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    let mut told = client.notifications();
    assert!(timeout(seconds(1), told.next()).await.is_err());
    drop(script);
    assert!(told.next().await.is_none());

    let (client, _script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    let mut told = client.notifications();
    drop(client);
    assert!(told.next().await.is_none());
}
