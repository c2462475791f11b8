//! Tokens, challenges, and secrets that are never shown.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use barewire::Failure;
use barewire::client::http::{Challenge, ChallengeResponse, Endpoint, OnChallenge, Secret};
use serde_json::json;

use super::script::{ScriptedServer, discovered};
use super::{Log, in_time, tester};

/// A challenge handler that counts its calls.
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
async fn a_challenge_is_handled_once_for_each_request() {
    let handled = Arc::new(AtomicUsize::new(0));
    let log = Log::default();
    let mut script = ScriptedServer::new().await;
    let login = Login(Arc::clone(&handled), ChallengeResponse::Retry(Secret::new("hunter2")));
    let endpoint =
        Endpoint::new(script.url()).bearer(Secret::new("hunter1")).header("X-Key", "hunter3").on_challenge(login);
    let server = async {
        let refused = script.post("server/discover").await;
        assert_eq!(refused.header("authorization"), Some("Bearer hunter1"));
        assert_eq!(refused.header("x-key"), Some("hunter3"));
        refused.answer("401 Unauthorized", &[CHALLENGE], "").await;
        let request = script.post("server/discover").await;
        assert_eq!(request.header("authorization"), Some("Bearer hunter2"));
        request.result(discovered()).await;
    };
    let builder = tester();
    let (client, ()) = in_time(async { tokio::join!(builder.http(endpoint), server) }).await;
    let client = client.expect("connected");
    assert_eq!(handled.load(Ordering::SeqCst), 1);
    let server = async {
        for _ in 0..2 {
            script.post("resources/read").await.answer("403 Forbidden", &[CHALLENGE], "").await;
        }
    };
    let (error, ()) = in_time(async { tokio::join!(client.read_resource("a:b").into_future(), server) }).await;
    let error = error.expect_err("forbidden");
    assert!(error.to_string().contains("403 Forbidden): Bearer scope=\"read\""), "{error}");
    assert_eq!(handled.load(Ordering::SeqCst), 2);
    assert!(!format!("{error} {error:?} {client:?} {}", log.text()).contains("hunter"));
    script.silence().await;
}

#[tokio::test]
async fn giving_up_on_a_challenge_returns_the_servers_error() {
    let handled = Arc::new(AtomicUsize::new(0));
    let mut script = ScriptedServer::new().await;
    let endpoint = Endpoint::new(script.url()).on_challenge(Login(Arc::clone(&handled), ChallengeResponse::GiveUp));
    let server = async { script.post("server/discover").await.answer("401 Unauthorized", &[CHALLENGE], "").await };
    let (client, ()) = in_time(async { tokio::join!(tester().http(endpoint), server) }).await;
    let error = client.expect_err("unauthorized");
    assert!(error.to_string().contains("Bearer scope=\"read\""), "{error}");
    assert_eq!(handled.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_token_provider_is_called_before_each_request() {
    let count = Arc::new(AtomicUsize::new(0));
    let mut script = ScriptedServer::new().await;
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
        let request = script.post("server/discover").await;
        assert_eq!(request.header("authorization"), None);
        request.result(discovered()).await;
        let request = script.post("resources/read").await;
        assert_eq!(request.header("authorization"), Some("Bearer t1"));
        request.result(json!({"resultType": "complete", "contents": []})).await;
    };
    let calls = async {
        let client = tester().http(endpoint).await.expect("connected");
        client.read_resource("a:b").await.expect("read");
        let error = client.read_resource("a:b").await.expect_err("no token");
        assert!(error.to_string().contains("the keyring is locked"), "{error}");
        let error = client.read_resource("a:b").await.expect_err("a panic");
        assert!(error.to_string().contains("panicked") && !error.to_string().contains("hunter2"), "{error}");
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn credentials_do_not_go_to_another_origin() {
    let (mut script, mut other) = (ScriptedServer::new().await, ScriptedServer::new().await);
    let endpoint = Endpoint::new(script.url()).bearer(Secret::new("hunter1")).header("X-Key", "hunter3");
    let to = format!("Location: {}/mcp", other.origin);
    let server = async {
        script.post("server/discover").await.answer("307 Temporary Redirect", &[&to], "").await;
        let request = other.post("server/discover").await;
        assert_eq!((request.header("authorization"), request.header("x-key")), (None, None));
        request.result(discovered()).await;
    };
    let (client, ()) = in_time(async { tokio::join!(tester().http(endpoint), server) }).await;
    client.expect("connected");
}
