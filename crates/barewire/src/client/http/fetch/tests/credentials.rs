//! Tokens, and servers that require a new token.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::net::{TestServer, answer, ok, redirect};
use super::*;
use crate::Failure;
use crate::client::http::{Challenge, ChallengeResponse, OnChallenge, Secret};

/// A challenge handler that records challenges and answers after a delay.
#[derive(Clone)]
struct RecordingHandler {
    answer: ChallengeResponse,
    delay: Duration,
    challenges: Arc<Mutex<Vec<Challenge>>>,
}

impl RecordingHandler {
    fn new(answer: ChallengeResponse) -> Self {
        Self { answer, delay: Duration::ZERO, challenges: Arc::default() }
    }
}

impl OnChallenge for RecordingHandler {
    fn challenged(
        &self,
        challenge: Challenge,
    ) -> Pin<Box<dyn Future<Output = Result<ChallengeResponse, Failure>> + Send + '_>> {
        self.challenges.lock().unwrap().push(challenge);
        Box::pin(async {
            tokio::time::sleep(self.delay).await;
            Ok(self.answer.clone())
        })
    }
}

const CHALLENGE: &str = "WWW-Authenticate: Bearer scope=\"files\"\r\nWWW-Authenticate: DPoP algs=\"ES256\"\r\n";

/// Starts a server that accepts only requests with this token.
async fn server_for(token: &'static str, status: &'static str) -> TestServer {
    TestServer::answering(move |request| {
        match request.header("authorization").and_then(|value| value.strip_prefix("Bearer ")) {
            Some(shown) if shown == token => ok("welcome"),
            _ => answer(status, CHALLENGE, "no"),
        }
    })
    .await
}

#[tokio::test]
async fn a_challenge_leads_to_one_retry_with_the_new_token() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let server = server_for("new", status).await;
        let handler = RecordingHandler::new(ChallengeResponse::Retry("new".into()));
        let endpoint =
            Endpoint::new(server.url("/mcp")).no_proxy().bearer(Secret::new("old")).on_challenge(handler.clone());
        let mut response = post(&fetch(&endpoint)).await.unwrap();
        assert_eq!(response.text_up_to(100).await, "welcome");
        let challenges = handler.challenges.lock().unwrap();
        let [challenge] = challenges.as_slice() else { panic!("asked once") };
        assert_eq!(challenge.status.as_u16().to_string(), status[..3]);
        assert_eq!(challenge.www_authenticate, ["Bearer scope=\"files\"", "DPoP algs=\"ES256\""]);
        assert_eq!(challenge.url, server.url("/mcp"));
        assert_eq!(challenge.token.as_ref().map(Secret::expose), Some("old"));
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].body, requests[1].body);
    }
}

#[tokio::test]
async fn a_request_is_retried_once_at_most() {
    let server = server_for("none", "401 Unauthorized").await;
    let handler = RecordingHandler::new(ChallengeResponse::Retry("new".into()));
    let endpoint = Endpoint::new(server.url("/mcp")).no_proxy().on_challenge(handler.clone());
    let response = post(&fetch(&endpoint)).await.unwrap();
    assert_eq!(response.status, 401);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(handler.challenges.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn giving_up_returns_the_servers_response() {
    let server = server_for("none", "403 Forbidden").await;
    let endpoint =
        Endpoint::new(server.url("/mcp")).no_proxy().on_challenge(RecordingHandler::new(ChallengeResponse::GiveUp));
    let mut response = post(&fetch(&endpoint)).await.unwrap();
    assert_eq!((response.status.as_u16(), response.text_up_to(100).await.as_str()), (403, "no"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn another_origin_gets_no_token_even_after_a_challenge() {
    let stranger = server_for("none", "401 Unauthorized").await;
    let to = stranger.url("/");
    let server = TestServer::answering(move |_| redirect(307, &to)).await;
    let handler = RecordingHandler::new(ChallengeResponse::Retry("new".into()));
    let endpoint = Endpoint::new(server.url("/")).no_proxy().bearer(Secret::new("old")).on_challenge(handler.clone());
    assert_eq!(post(&fetch(&endpoint)).await.unwrap().status, 401);
    assert!(handler.challenges.lock().unwrap().is_empty());
    assert_eq!(stranger.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn the_time_of_a_login_does_not_count_towards_the_timeout() {
    let server = server_for("new", "401 Unauthorized").await;
    let handler = RecordingHandler {
        delay: Duration::from_millis(1500),
        ..RecordingHandler::new(ChallengeResponse::Retry("new".into()))
    };
    let fetch = fetch(&Endpoint::new(server.url("/")).no_proxy().on_challenge(handler));
    let patience = Some(Duration::from_secs(1));
    let response = fetch.send(Method::POST, fetch.url(), &headers(), Bytes::new(), patience).await.unwrap();
    assert_eq!(response.status, 200);
}

#[tokio::test]
async fn the_provider_is_called_before_each_request() {
    let server = TestServer::answering(|_| ok("")).await;
    let count = Arc::new(AtomicUsize::new(0));
    let endpoint = Endpoint::new(server.url("/")).no_proxy().bearer(move || {
        let count = count.fetch_add(1, Ordering::Relaxed);
        async move { Ok((count > 0).then(|| Secret::new(format!("token-{count}")))) }
    });
    let fetch = fetch(&endpoint);
    post(&fetch).await.unwrap();
    post(&fetch).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].header("authorization"), None);
    assert_eq!(requests[1].header("authorization"), Some("Bearer token-1"));
}

#[tokio::test]
async fn nothing_is_sent_if_the_provider_fails() {
    let server = TestServer::answering(|_| ok("")).await;
    let endpoint = Endpoint::new(server.url("/"))
        .no_proxy()
        .bearer(|| async { Err(Failure::internal("Keyring", "the keyring is locked")) });
    let error = refused(&fetch(&endpoint)).await;
    assert!(error.to_string().contains("the keyring is locked"), "{error}");
    assert!(!error.may_have_been_sent() && server.requests().is_empty());
}

#[tokio::test]
async fn an_invalid_token_is_neither_sent_nor_shown() {
    let server = TestServer::answering(|_| ok("")).await;
    let endpoint = Endpoint::new(server.url("/")).no_proxy().bearer(Secret::new("hunter2\r\nX: y"));
    let error = refused(&fetch(&endpoint)).await;
    assert!(matches!(error, FetchError::Header { .. }) && !format!("{error} {error:?}").contains("hunter2"), "{error}");
    assert!(server.requests().is_empty());
}

#[test]
fn what_is_secret_is_not_shown() {
    let endpoint = Endpoint::new("https://example.com/hunter2?k=hunter2")
        .header("X-Api-Key", "hunter2")
        .bearer(Secret::new("hunter2"))
        .proxy("http://u:hunter2@p");
    assert_eq!(format!("{:?}", Secret::new("hunter2")), "***");
    let shown = format!("{endpoint:?}");
    assert!(
        shown.contains("https://example.com") && shown.contains("X-Api-Key") && !shown.contains("hunter2"),
        "{shown}"
    );
}
