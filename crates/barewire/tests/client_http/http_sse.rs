//! HTTP+SSE, the transport of 2024-11-05.

use barewire::ClientError;
use barewire::client::ServerNotification;
use barewire::client::http::HttpFailure;
use barewire::mcp::Revision;
use serde_json::{Value, json};

use super::script::{EventWriter, HttpRequest, ScriptedServer, answer, connecting};
use super::{in_time, tester};

fn initialized(request: &Value) -> Value {
    let result = json!({
        "protocolVersion": "2024-11-05",
        "capabilities": {"resources": {}},
        "serverInfo": {"name": "old", "version": "1"},
    });
    answer(request, result)
}

/// Refuses the newer transports, and opens the stream.
async fn stream(script: &mut ScriptedServer, endpoint: &str) -> EventWriter {
    for method in ["server/discover", "initialize"] {
        script.post(method).await.status("405 Method Not Allowed", "").await;
    }
    script.bare("GET").await.events(&format!("event: endpoint\ndata: {endpoint}\n\n")).await
}

async fn posted(script: &mut ScriptedServer, method: &str) -> HttpRequest {
    let request = script.post(method).await;
    assert_eq!(request.path, "/messages?session=7");
    request
}

#[tokio::test]
async fn messages_go_to_the_named_url_and_arrive_on_the_stream() {
    for endpoint in ["/messages?session=7", "messages?session=7", "ORIGIN/messages?session=7"] {
        let mut script = ScriptedServer::new().await;
        let (url, endpoint) = (script.url(), endpoint.replace("ORIGIN", &script.origin));
        let mut stream_of = None;
        let client = connecting(tester(), url, async {
            let mut events = stream(&mut script, &endpoint).await;
            let request = posted(&mut script, "initialize").await;
            let message = request.json();
            request.status("202 Accepted", "Accepted").await;
            events.send(&initialized(&message)).await;
            posted(&mut script, "notifications/initialized").await.status("202 Accepted", "Accepted").await;
            stream_of = Some(events);
        });
        let client = client.await.expect("connected");
        assert_eq!(client.revision(), Revision::V2024_11_05);
        let mut events = stream_of.expect("opened");
        let mut notifications = client.notifications();
        let server = async {
            let request = posted(&mut script, "resources/read").await;
            let message = request.json();
            request.status("200 OK", "").await;
            events.text("event: message\n").await;
            events.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
            events.send(&answer(&message, json!({"contents": []}))).await;
            posted(&mut script, "resources/read").await.status("404 Not Found", "no session").await;
        };
        let calls = async {
            client.read_resource("a:b").await.expect("read");
            let error = client.read_resource("a:b").await.expect_err("refused");
            assert!(error.to_string().contains("404"), "{error}");
        };
        in_time(async { tokio::join!(server, calls) }).await;
        assert!(matches!(in_time(notifications.next()).await, Some(ServerNotification::ToolsListChanged)));
        drop(client);
        events.closed().await;
        script.silence().await;
    }
}

#[tokio::test]
async fn an_endpoint_at_another_origin_is_refused() {
    let other = ScriptedServer::new().await;
    for (endpoint, says) in [
        (format!("{}/messages", other.origin), "another origin"),
        ("https://example.com/messages".to_owned(), "another origin"),
        ("file:///etc/passwd".to_owned(), "endpoint"),
    ] {
        let mut script = ScriptedServer::new().await;
        let url = script.url();
        let connected = connecting(tester(), url, async {
            stream(&mut script, &endpoint).await.closed().await;
        });
        let error = connected.await.expect_err(&endpoint);
        let ClientError::Http { failure: HttpFailure::Endpoint { .. }, .. } = &error else { panic!("{error}") };
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_stream_without_an_endpoint_event_is_refused() {
    let mut script = ScriptedServer::new().await;
    let url = script.url();
    let connected = connecting(tester(), url, async {
        for method in ["server/discover", "initialize"] {
            script.post(method).await.status("404 Not Found", "").await;
        }
        script.bare("GET").await.events("data: {}\n\n").await.closed().await;
    });
    let error = connected.await.expect_err("no endpoint");
    assert!(error.to_string().contains("first event is not `endpoint`"), "{error}");
}

#[tokio::test]
async fn the_end_of_the_stream_ends_the_connection_and_the_next_call_reconnects() {
    let mut script = ScriptedServer::new().await;
    let url = script.url();
    let open = async |script: &mut ScriptedServer| {
        let mut events = script.bare("GET").await.events("event: endpoint\ndata: /messages?session=7\n\n").await;
        let request = posted(script, "initialize").await;
        let message = request.json();
        request.status("202 Accepted", "").await;
        events.send(&initialized(&message)).await;
        posted(script, "notifications/initialized").await.status("202 Accepted", "").await;
        events
    };
    let mut first = None;
    let client = connecting(tester().revision(Revision::V2024_11_05), url, async {
        script.post("initialize").await.status("404 Not Found", "").await;
        first = Some(open(&mut script).await);
    });
    let client = client.await.expect("connected");
    let call = tokio::spawn(client.read_resource("a:b").into_future());
    posted(&mut script, "resources/read").await.status("202 Accepted", "").await;
    first.expect("opened").end().await;
    let lost = in_time(call).await.expect("no panic");
    assert!(matches!(&lost, Err(ClientError::Closed(_))), "{lost:?}");
    let server = async {
        script.post("initialize").await.status("404 Not Found", "").await;
        let mut events = open(&mut script).await;
        let request = posted(&mut script, "resources/read").await;
        let message = request.json();
        request.status("202 Accepted", "").await;
        events.send(&answer(&message, json!({"contents": []}))).await;
        events
    };
    let (read, _events) = in_time(async { tokio::join!(client.read_resource("a:b").into_future(), server) }).await;
    read.expect("read");
}
