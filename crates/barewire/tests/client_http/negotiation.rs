//! Negotiation over HTTP: the era and the transport, and the errors when there is neither.

use barewire::ClientError;
use barewire::client::http::HttpFailure;
use barewire::mcp::Revision;
use serde_json::{Value, json};

use super::script::{ScriptedServer, connecting, discovered};
use super::{in_time, tester};

#[tokio::test]
async fn requests_to_a_modern_server_are_mirrored_in_headers() {
    let mut script = ScriptedServer::new().await;
    let url = script.url();
    let client = connecting(tester(), url, async {
        let request = script.post("server/discover").await;
        assert_eq!(request.path, "/mcp");
        assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(request.header("mcp-method"), Some("server/discover"));
        assert_eq!(request.header("mcp-name"), None);
        assert_eq!(request.header("mcp-session-id"), None);
        request.result(discovered()).await;
    })
    .await
    .expect("connected");
    let server = async {
        let request = script.post("resources/read").await;
        assert_eq!(request.header("mcp-method"), Some("resources/read"));
        assert_eq!(request.header("mcp-name"), Some("file:///a%20b"));
        request.result(json!({"resultType": "complete", "contents": []})).await;
        let request = script.post("prompts/get").await;
        assert_eq!(request.header("mcp-name"), Some("=?base64?Z3LDvMOfZQ==?="));
        request.result(json!({"resultType": "complete", "messages": []})).await;
    };
    let calls = async {
        client.read_resource("file:///a%20b").await.expect("read");
        client.get_prompt("grüße", ()).await.expect("got");
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn an_unsupported_version_is_replaced_by_a_listed_one() {
    let mut script = ScriptedServer::new().await;
    let url = script.url();
    let client = connecting(tester(), url, async {
        let request = script.post("server/discover").await;
        request.error("400 Bad Request", -32022, json!({"supported": ["2026-07-28"], "requested": "x"})).await;
        script.post("server/discover").await.result(discovered()).await;
    });
    assert_eq!(client.await.expect("connected").revision(), Revision::V2026_07_28);
}

#[tokio::test]
async fn a_response_that_is_not_modern_leads_to_initialize() {
    let json = "Content-Type: application/json";
    let error = |code: i64| json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "no"}}).to_string();
    for (status, header, body) in [
        ("400 Bad Request", "X: y", String::new()),
        ("400 Bad Request", json, error(-32000)),
        ("400 Bad Request", json, error(-32602)),
        ("400 Bad Request", "Content-Type: text/plain", "Bad Request: No valid session ID".to_owned()),
        ("404 Not Found", "Content-Type: text/html", "<h1>no</h1>".to_owned()),
        ("404 Not Found", json, error(-32601)),
        ("405 Method Not Allowed", "X: y", String::new()),
        ("406 Not Acceptable", json, error(-32000)),
        ("500 Internal Server Error", json, error(-32603)),
        ("200 OK", json, error(-32601)),
        ("200 OK", json, "{".to_owned()),
        ("200 OK", "Content-Type: text/event-stream", String::new()),
    ] {
        let mut script = ScriptedServer::new().await;
        let url = script.url();
        let client = connecting(tester(), url, async {
            script.post("server/discover").await.answer(status, &[header], &body).await;
            script.handshake(None).await;
            script.bare("GET").await.status("405 Method Not Allowed", "").await;
        });
        let client = client.await.unwrap_or_else(|error| panic!("{status} {body}: {error}"));
        assert_eq!(client.revision(), Revision::LATEST_LEGACY, "{status} {body}");
    }
}

#[tokio::test]
async fn other_responses_are_errors_with_a_hint() {
    for (status, header, body, says) in [
        (
            "401 Unauthorized",
            "WWW-Authenticate: Bearer scope=\"a b\", resource_metadata=\"https://x/m\"",
            "",
            "scope=\"a b\" resource_metadata=\"https://x/m\"; send a token with Endpoint::bearer",
        ),
        ("401 Unauthorized", "X: y", "", "401 Unauthorized); send a token with Endpoint::bearer"),
        ("403 Forbidden", "X: y", "", "403 Forbidden)"),
        (
            "403 Forbidden",
            "Content-Type: application/json",
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"not \u001b[1mthis host"}}"#,
            "not \\x1b[1mthis host",
        ),
        ("429 Too Many Requests", "X: y", "slow down", "\"slow down\"; try again later"),
        ("503 Service Unavailable", "X: y", "down", "its log"),
        ("502 Bad Gateway", "X: y", "", "502 Bad Gateway"),
        ("200 OK", "Content-Type: text/html", "<html>hi\u{1b}</html>", "path of the MCP endpoint"),
        ("302 Found", "Location: /elsewhere", "", "307 or 308"),
    ] {
        let mut script = ScriptedServer::new().await;
        let url = script.url();
        let origin = script.origin.clone();
        let connected = connecting(tester(), url, async {
            script.post("server/discover").await.answer(status, &[header], body).await;
        });
        let error = connected.await.expect_err(status);
        assert!(matches!(&error, ClientError::Http { .. }), "{status}: {error}");
        let text = error.to_string();
        assert!(text.contains(says) && text.contains(&origin), "{status}: {text}");
        assert!(!text.contains('\u{1b}') && !text.contains("/mcp"), "{status}: {text:?}");
        // The client sent nothing else.
        script.silence().await;
    }
}

#[tokio::test]
async fn a_404_gets_a_hint_about_the_path() {
    let mut script = ScriptedServer::new().await;
    let url = script.url();
    let connected = connecting(tester(), url, async {
        for method in ["server/discover", "initialize"] {
            script.post(method).await.status("404 Not Found", "404 page not found").await;
        }
        script.bare("GET").await.status("404 Not Found", "404 page not found").await;
    });
    let error = connected.await.expect_err("nothing there").to_string();
    assert!(error.contains("404 Not Found") && error.contains("is this the path of the MCP endpoint?"), "{error}");
}

#[tokio::test]
async fn a_refused_connection_is_an_error_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("bound");
    drop(listener);
    let error = in_time(tester().http(format!("http://{addr}/mcp"))).await.expect_err("no server");
    let ClientError::Http { failure: HttpFailure::Fetch(_), .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains("is the server running?"), "{error}");
    let error = in_time(tester().http("ftp://example.com/")).await.expect_err("no such URL");
    assert!(error.to_string().contains("neither http nor https"), "{error}");
}

#[tokio::test]
async fn a_modern_refusal_is_not_followed_by_initialize() {
    for code in [-32020, -32021] {
        let mut script = ScriptedServer::new().await;
        let url = script.url();
        let connected = connecting(tester(), url, async {
            script.post("server/discover").await.error("400 Bad Request", code, Value::Null).await;
        });
        let error = connected.await.expect_err("refused");
        assert_eq!(error.code().expect("a code").get(), code);
        script.silence().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_not_a_sign_of_a_legacy_server() {
    let mut script = ScriptedServer::new().await;
    let url = script.url();
    let timeout = std::time::Duration::from_millis(300);
    let (connected, request) = tokio::join!(tester().timeout(timeout).http(url), script.post("server/discover"));
    let error = connected.expect_err("no answer");
    assert!(error.to_string().contains("no response to server/discover"), "{error}");
    request.closed().await;
    script.silence().await;
}
