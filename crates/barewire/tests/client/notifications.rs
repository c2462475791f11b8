//! Notifications of the server.

use barewire::client::ServerNotification;
use barewire::mcp::{LoggingLevel, Revision};
use serde_json::json;
use tokio::time::timeout;

use super::script::{legacy, tester};
use super::{Log, seconds};

#[tokio::test(start_paused = true)]
async fn each_notification_has_its_variant() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    // The first stream also gets notifications that arrived before it.
    script.notify("notifications/tools/list_changed", json!({})).await;
    script.send(json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})).await;
    tokio::time::sleep(seconds(1)).await;
    let mut notifications = client.notifications();
    script.notify("notifications/resources/list_changed", json!({})).await;
    script.notify("notifications/resources/updated", json!({"uri": "x:1"})).await;
    script.notify("notifications/message", json!({"level": "error", "logger": "db", "data": {"a": 1}})).await;
    script.notify("notifications/elicitation/complete", json!({"elicitationId": "e"})).await;
    script.notify("x/own", json!({"n": 1.50})).await;
    use ServerNotification as N;
    assert!(matches!(notifications.next().await, Some(N::ToolsListChanged)));
    assert!(matches!(notifications.next().await, Some(N::PromptsListChanged)));
    assert!(matches!(notifications.next().await, Some(N::ResourcesListChanged)));
    assert!(matches!(notifications.next().await, Some(N::ResourceUpdated { uri }) if uri == "x:1"));
    match notifications.next().await {
        Some(N::Message(line)) => {
            assert_eq!((line.level, line.logger.as_deref()), (LoggingLevel::Error, Some("db")));
            assert_eq!(line.data.get(), r#"{"a":1}"#);
        }
        other => panic!("{other:?}"),
    }
    assert!(
        matches!(notifications.next().await, Some(N::ElicitationComplete { elicitation_id }) if elicitation_id == "e")
    );
    match notifications.next().await {
        Some(N::Other { method, params }) => {
            assert_eq!((method.as_str(), params.as_str()), ("x/own", Some(r#"{"n":1.5}"#)));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_learns_how_many_notifications_it_missed() {
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    let (mut slow, mut quick) = (client.notifications(), client.notifications());
    for n in 0..1000 {
        script.notify("x/count", json!({"n": n})).await;
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
async fn unreadable_params_are_passed_on_and_logged() {
    let log = Log::default();
    let (client, mut script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    let mut notifications = client.notifications();
    script.notify("notifications/message", json!({"level": "loud", "data": 1})).await;
    match notifications.next().await {
        Some(ServerNotification::Other { method, .. }) => assert_eq!(method, "notifications/message"),
        other => panic!("{other:?}"),
    }
    assert!(log.text().contains("notifications/message"), "{}", log.text());
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_with_the_connection() {
    let (client, script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    let mut notifications = client.notifications();
    assert!(timeout(seconds(1), notifications.next()).await.is_err());
    drop(script);
    assert!(notifications.next().await.is_none());

    let (client, _script) = legacy(tester(), Revision::V2025_11_25, json!({})).await;
    let mut notifications = client.notifications();
    drop(client);
    assert!(notifications.next().await.is_none());
}
