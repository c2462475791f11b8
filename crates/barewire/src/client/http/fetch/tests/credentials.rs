//! Tokens, and servers that want another one.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::net::{Server, answer, ok, redirect};
use super::*;
use crate::Failure;
use crate::client::http::{Challenge, ChallengeResponse, OnChallenge, Secret};

/// Remembers what it was asked, and answers after a while.
#[derive(Clone)]
struct Judge {
    answer: ChallengeResponse,
    takes: Duration,
    asked: Arc<Mutex<Vec<Challenge>>>,
}

impl Judge {
    fn new(answer: ChallengeResponse) -> Self {
        Self { answer, takes: Duration::ZERO, asked: Arc::default() }
    }
}

impl OnChallenge for Judge {
    fn challenged(
        &self,
        challenge: Challenge,
    ) -> Pin<Box<dyn Future<Output = Result<ChallengeResponse, Failure>> + Send + '_>> {
        self.asked.lock().unwrap().push(challenge);
        Box::pin(async {
            tokio::time::sleep(self.takes).await;
            Ok(self.answer.clone())
        })
    }
}

const CHALLENGE: &str = "WWW-Authenticate: Bearer scope=\"files\"\r\nWWW-Authenticate: DPoP algs=\"ES256\"\r\n";

/// Serves those who have the token.
async fn server_for(token: &'static str, status: &'static str) -> Server {
    Server::answering(move |asked| {
        match asked.header("authorization").and_then(|value| value.strip_prefix("Bearer ")) {
            Some(shown) if shown == token => ok("welcome"),
            _ => answer(status, CHALLENGE, "no"),
        }
    })
    .await
}

#[tokio::test]
async fn a_challenge_is_answered_and_the_request_sent_again_with_the_new_token() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let server = server_for("new", status).await;
        let judge = Judge::new(ChallengeResponse::Retry("new".into()));
        let endpoint =
            Endpoint::new(server.url("/mcp")).no_proxy().bearer(Secret::new("old")).on_challenge(judge.clone());
        let mut response = post(&fetch(&endpoint)).await.unwrap();
        assert_eq!(response.text_up_to(100).await, "welcome");
        let challenges = judge.asked.lock().unwrap();
        let [challenge] = challenges.as_slice() else { panic!("asked once") };
        assert_eq!(challenge.status.as_u16().to_string(), status[..3]);
        assert_eq!(challenge.www_authenticate, ["Bearer scope=\"files\"", "DPoP algs=\"ES256\""]);
        assert_eq!(challenge.url, server.url("/mcp"));
        assert_eq!(challenge.token.as_ref().map(Secret::expose), Some("old"));
        let asked = server.asked();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0].body, asked[1].body);
    }
}

#[tokio::test]
async fn a_server_that_is_never_content_is_asked_twice_and_no_more() {
    let server = server_for("none", "401 Unauthorized").await;
    let judge = Judge::new(ChallengeResponse::Retry("new".into()));
    let endpoint = Endpoint::new(server.url("/mcp")).no_proxy().on_challenge(judge.clone());
    let response = post(&fetch(&endpoint)).await.unwrap();
    assert_eq!(response.status, 401);
    assert_eq!(server.asked().len(), 2);
    assert_eq!(judge.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn whoever_gives_up_gets_what_the_server_said() {
    let server = server_for("none", "403 Forbidden").await;
    let endpoint = Endpoint::new(server.url("/mcp")).no_proxy().on_challenge(Judge::new(ChallengeResponse::GiveUp));
    let mut response = post(&fetch(&endpoint)).await.unwrap();
    assert_eq!((response.status.as_u16(), response.text_up_to(100).await.as_str()), (403, "no"));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_stranger_is_given_no_token_however_it_asks() {
    let stranger = server_for("none", "401 Unauthorized").await;
    let to = stranger.url("/");
    let server = Server::answering(move |_| redirect(307, &to)).await;
    let judge = Judge::new(ChallengeResponse::Retry("new".into()));
    let endpoint = Endpoint::new(server.url("/")).no_proxy().bearer(Secret::new("old")).on_challenge(judge.clone());
    assert_eq!(post(&fetch(&endpoint)).await.unwrap().status, 401);
    assert!(judge.asked.lock().unwrap().is_empty());
    assert_eq!(stranger.asked()[0].header("authorization"), None);
}

#[tokio::test]
async fn the_time_of_a_user_who_logs_in_is_not_the_servers() {
    let server = server_for("new", "401 Unauthorized").await;
    let judge = Judge { takes: Duration::from_millis(1500), ..Judge::new(ChallengeResponse::Retry("new".into())) };
    let fetch = fetch(&Endpoint::new(server.url("/")).no_proxy().on_challenge(judge));
    let patience = Some(Duration::from_secs(1));
    let response = fetch.send(Method::POST, fetch.url(), &headers(), Bytes::new(), patience).await.unwrap();
    assert_eq!(response.status, 200);
}

#[tokio::test]
async fn a_provider_is_asked_before_each_request() {
    let server = Server::answering(|_| ok("")).await;
    let count = Arc::new(AtomicUsize::new(0));
    let endpoint = Endpoint::new(server.url("/")).no_proxy().bearer(move || {
        let count = count.fetch_add(1, Ordering::Relaxed);
        async move { Ok((count > 0).then(|| Secret::new(format!("token-{count}")))) }
    });
    let fetch = fetch(&endpoint);
    post(&fetch).await.unwrap();
    post(&fetch).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked[0].header("authorization"), None);
    assert_eq!(asked[1].header("authorization"), Some("Bearer token-1"));
}

#[tokio::test]
async fn a_provider_that_fails_sends_nothing() {
    let server = Server::answering(|_| ok("")).await;
    let endpoint = Endpoint::new(server.url("/"))
        .no_proxy()
        .bearer(|| async { Err(Failure::internal("Keyring", "the keyring is locked")) });
    let error = refused(&fetch(&endpoint)).await;
    assert!(error.to_string().contains("the keyring is locked"), "{error}");
    assert!(!error.may_have_been_sent() && server.asked().is_empty());
}

#[tokio::test]
async fn a_token_that_is_no_token_sends_nothing_and_is_not_shown() {
    let server = Server::answering(|_| ok("")).await;
    let endpoint = Endpoint::new(server.url("/")).no_proxy().bearer(Secret::new("hunter2\r\nX: y"));
    let error = refused(&fetch(&endpoint)).await;
    assert!(matches!(error, FetchError::Header { .. }) && !format!("{error} {error:?}").contains("hunter2"), "{error}");
    assert!(server.asked().is_empty());
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
