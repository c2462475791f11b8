//! Senders that are told apart by an address that another HTTP server knows, and sessions that are never used. The time
//! is paused: the service is called without sockets.

use std::net::IpAddr;
use std::time::Duration;

use barewire::server::http::{HttpLimits, HttpService, PeerAddress};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service;

use crate::test_server;
use crate::wire::ACCEPT;

fn service(set: impl FnOnce(&mut HttpLimits)) -> HttpService {
    let mut limits = HttpLimits::default();
    set(&mut limits);
    test_server().0.http().limits(limits).service().expect("a service")
}

/// Posts a message from an address, in a session.
async fn post(
    service: &HttpService,
    from: Option<&str>,
    session: Option<&str>,
    message: Value,
) -> (u16, Option<String>) {
    let mut request = Request::post("http://localhost/mcp").header("content-type", "application/json");
    let session = session.map(|session| format!("Mcp-Session-Id: {session}"));
    for header in [ACCEPT, "Host: localhost"].into_iter().chain(session.as_deref()) {
        let (name, value) = header.split_once(": ").expect("a header");
        request = request.header(name, value);
    }
    if let Some(from) = from {
        request = request.extension(PeerAddress(from.parse::<IpAddr>().expect("an address")));
    }
    let request = request.body(Full::new(Bytes::from(message.to_string()))).expect("a request");
    let response: Response<_> = service.clone().call(request).await.expect("a response");
    let status = response.status().as_u16();
    let session = response.headers().get("mcp-session-id").map(|id| id.to_str().expect("ASCII").to_owned());
    response.into_body().collect().await.expect("a body");
    (status, session)
}

async fn initialize(service: &HttpService, from: Option<&str>) -> Result<String, u16> {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let (status, session) = post(service, from, None, message).await;
    session.ok_or(status)
}

async fn initialized(service: &HttpService, session: &str) -> u16 {
    post(service, None, Some(session), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.0
}

async fn ping(service: &HttpService, session: &str) -> u16 {
    post(service, None, Some(session), json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await.0
}

#[tokio::test(start_paused = true)]
async fn a_session_that_sends_nothing_after_initialize_expires_in_a_minute() {
    let service = service(|_| {});
    let [used, silent, late] = [(); 3].map(|()| initialize(&service, None));
    let (used, silent, late) = (used.await.expect("room"), silent.await.expect("room"), late.await.expect("room"));
    assert_eq!(initialized(&service, &used).await, 202);
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(ping(&service, &late).await, 200, "in time, even if just");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(ping(&service, &silent).await, 404);
    // A session that has been used expires half an hour after its last use.
    tokio::time::sleep(Duration::from_secs(30 * 60 - 64)).await;
    assert_eq!(ping(&service, &used).await, 200);
    tokio::time::sleep(Duration::from_secs(66)).await;
    assert_eq!(ping(&service, &late).await, 404);
    tokio::time::sleep(Duration::from_secs(30 * 60 - 68)).await;
    assert_eq!(ping(&service, &used).await, 200);
    tokio::time::sleep(Duration::from_secs(30 * 60 + 1)).await;
    assert_eq!(ping(&service, &used).await, 404);
}

#[tokio::test(start_paused = true)]
async fn an_embedding_program_tells_senders_apart() {
    let takeover = [Some("192.0.2.1"), Some("2001:db8::1"), None];
    let same = [Some("::ffff:192.0.2.1"), Some("2001:db8::ffff:1"), None];
    let other = [Some("192.0.2.2"), Some("2001:db8:0:1::1"), Some("192.0.2.1")];
    for ((taker, same), other) in takeover.into_iter().zip(same).zip(other) {
        let service = service(|limits| (limits.sessions, limits.session_share) = (4, 1));
        let mut sessions = Vec::new();
        for _ in 0..4 {
            let session = initialize(&service, taker).await.expect("room");
            assert_eq!(initialized(&service, &session).await, 202);
            tokio::time::sleep(Duration::from_secs(1)).await;
            sessions.push(session);
        }
        assert_eq!(initialize(&service, same).await, Err(503), "{taker:?}");
        initialize(&service, other).await.expect("room was made");
        assert_eq!((ping(&service, &sessions[0]).await, ping(&service, &sessions[1]).await), (404, 200), "{taker:?}");
    }
}
