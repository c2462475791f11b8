//! Tokens, challenges, and what is never shown.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use barewire::Failure;
use barewire::client::http::{Challenge, ChallengeResponse, Endpoint, OnChallenge, Secret};
use serde_json::json;

use super::script::{Script, discovered};
use super::{Log, soon, tester};

/// Gets a token when it is asked to.
struct Login(Arc<AtomicUsize>, ChallengeResponse);

impl OnChallenge for Login {
    fn challenged(
        &self,
        challenge: Challenge,
    ) -> Pin<Box<dyn Future<Output = Result<ChallengeResponse, Failure>> + Send + '_>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        assert_eq!(challenge.www_authenticate, ["Bearer realm=\"x\", scope=\"read\""]);
        let answer = self.1.clone();
        Box::pin(async move { Ok(answer) })
    }
}

const CHALLENGE: &str = "WWW-Authenticate: Bearer realm=\"x\", scope=\"read\"";

#[tokio::test]
async fn a_challenge_is_answered_once_for_each_request() {
    let asked = Arc::new(AtomicUsize::new(0));
    let log = Log::default();
    let mut script = Script::new().await;
    let login = Login(Arc::clone(&asked), ChallengeResponse::Retry(Secret::new("hunter2")));
    let endpoint =
        Endpoint::new(script.url()).bearer(Secret::new("hunter1")).header("X-Key", "hunter3").on_challenge(login);
    let server = async {
        let refused = script.post("server/discover").await;
        assert_eq!(refused.header("authorization"), Some("Bearer hunter1"));
        assert_eq!(refused.header("x-key"), Some("hunter3"));
        refused.answer("401 Unauthorized", &[CHALLENGE], "").await;
        let asked = script.post("server/discover").await;
        assert_eq!(asked.header("authorization"), Some("Bearer hunter2"));
        asked.result(discovered()).await;
    };
    let builder = tester();
    let (client, ()) = soon(async { tokio::join!(builder.http(endpoint), server) }).await;
    let client = client.expect("connected");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let server = async {
        for _ in 0..2 {
            script.post("resources/read").await.answer("403 Forbidden", &[CHALLENGE], "").await;
        }
    };
    let (error, ()) = soon(async { tokio::join!(client.read_resource("a:b").into_future(), server) }).await;
    let error = error.expect_err("forbidden");
    assert!(error.to_string().contains("403 Forbidden): Bearer scope=\"read\""), "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert!(!format!("{error} {error:?} {client:?} {}", log.text()).contains("hunter"));
    script.silence().await;
}

#[tokio::test]
async fn what_was_said_stands_if_the_challenge_is_given_up() {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut script = Script::new().await;
    let endpoint = Endpoint::new(script.url()).on_challenge(Login(Arc::clone(&asked), ChallengeResponse::GiveUp));
    let server = async { script.post("server/discover").await.answer("401 Unauthorized", &[CHALLENGE], "").await };
    let (client, ()) = soon(async { tokio::join!(tester().http(endpoint), server) }).await;
    let error = client.expect_err("unauthorized");
    assert!(error.to_string().contains("Bearer scope=\"read\""), "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn tokens_are_asked_for_before_each_request_and_may_be_missing() {
    let count = Arc::new(AtomicUsize::new(0));
    let mut script = Script::new().await;
    let counted = Arc::clone(&count);
    let endpoint = Endpoint::new(script.url()).bearer(move || {
        let n = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match n {
                0 => Ok(None),
                1 => Ok(Some(Secret::new("t1"))),
                2 => Err(std::io::Error::other("the keyring is locked").into()),
                _ => panic!("hunter2"),
            }
        }
    });
    let server = async {
        let asked = script.post("server/discover").await;
        assert_eq!(asked.header("authorization"), None);
        asked.result(discovered()).await;
        let asked = script.post("resources/read").await;
        assert_eq!(asked.header("authorization"), Some("Bearer t1"));
        asked.result(json!({"resultType": "complete", "contents": []})).await;
    };
    let calls = async {
        let client = tester().http(endpoint).await.expect("connected");
        client.read_resource("a:b").await.expect("read");
        let error = client.read_resource("a:b").await.expect_err("no token");
        assert!(error.to_string().contains("the keyring is locked"), "{error}");
        let error = client.read_resource("a:b").await.expect_err("a panic");
        assert!(error.to_string().contains("panicked") && !error.to_string().contains("hunter2"), "{error}");
    };
    soon(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn nothing_that_says_who_asks_goes_to_another_origin() {
    let (mut script, mut other) = (Script::new().await, Script::new().await);
    let endpoint = Endpoint::new(script.url()).bearer(Secret::new("hunter1")).header("X-Key", "hunter3");
    let to = format!("Location: {}/mcp", other.origin);
    let server = async {
        script.post("server/discover").await.answer("307 Temporary Redirect", &[&to], "").await;
        let asked = other.post("server/discover").await;
        assert_eq!((asked.header("authorization"), asked.header("x-key")), (None, None));
        asked.result(discovered()).await;
    };
    let (client, ()) = soon(async { tokio::join!(tester().http(endpoint), server) }).await;
    client.expect("connected");
}
