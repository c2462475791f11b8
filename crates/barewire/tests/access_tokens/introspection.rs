//! Tokens that only the issuer can read.

use barewire::server::http::AccessTokens;
use serde_json::json;

use crate::issuer::{TestIssuer, now};
use crate::{RESOURCE, Site, challenges, text};

fn tokens(issuer: &TestIssuer) -> AccessTokens {
    AccessTokens::introspected(&issuer.url, RESOURCE, "server:1", "pass word")
}

#[tokio::test]
async fn the_issuer_is_asked_once_about_a_token() {
    let issuer = TestIssuer::start(Vec::new()).await;
    let active =
        json!({"active": true, "sub": "ada", "aud": RESOURCE, "scope": "mcp", "client_id": "app", "exp": now() + 60});
    issuer.state().active.insert("opaque-1".to_owned(), active);
    let site = Site::with(tokens(&issuer)).await;
    for _ in 0..10 {
        assert!(text(&site.whoami("opaque-1").await).contains("ada"));
        let refused = site.whoami("opaque-2").await;
        assert_eq!(refused.status(), 401);
        assert!(challenges(&refused).contains("its issuer does not know it"), "{}", challenges(&refused));
    }
    assert_eq!(issuer.count("/introspect"), 2, "one question about each token");
    let (_, authorization, body) = issuer.state().requests[1].clone();
    // RFC 6749, section 2.3.1: the id and the secret are form-encoded first.
    assert_eq!(authorization, "Basic c2VydmVyJTNBMTpwYXNzJTIwd29yZA==");
    assert_eq!(body, "token=opaque-1&token_type_hint=access_token");
}

#[tokio::test]
async fn the_issuer_is_not_asked_about_a_token_that_is_too_long() {
    let issuer = TestIssuer::start(Vec::new()).await;
    let site = Site::with(tokens(&issuer)).await;
    for (length, questions) in [(16 * 1024 + 1, 0), (16 * 1024, 1)] {
        assert_eq!(site.whoami(&"a".repeat(length)).await.status(), 401);
        assert_eq!(issuer.count("/introspect"), questions, "{length}");
    }
}

#[tokio::test]
async fn many_requests_with_one_token_are_few_questions() {
    let issuer = TestIssuer::start(Vec::new()).await;
    issuer.state().active.insert("opaque".to_owned(), json!({"active": true, "sub": "ada", "aud": RESOURCE}));
    issuer.state().delay = std::time::Duration::from_millis(50);
    let site = std::sync::Arc::new(Site::with(tokens(&issuer)).await);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let site = std::sync::Arc::clone(&site);
        calls.spawn(async move { site.whoami("opaque").await.status() });
    }
    assert!(calls.join_all().await.iter().all(|status| *status == 200));
    // At most as many as may ask at a time.
    assert!(issuer.count("/introspect") <= 32, "{}", issuer.count("/introspect"));
}

#[tokio::test]
async fn the_answer_is_checked_like_a_token() {
    let issuer = TestIssuer::start(Vec::new()).await;
    let site = Site::with(tokens(&issuer)).await;
    for (token, answer, why) in [
        (
            "audience",
            json!({"active": true, "sub": "ada", "aud": "https://other.example"}),
            "issued for another server",
        ),
        ("no-audience", json!({"active": true, "sub": "ada"}), "issued for another server"),
        (
            "issuer",
            json!({"active": true, "sub": "ada", "aud": RESOURCE, "iss": "https://evil.example"}),
            "another auth",
        ),
        ("expired", json!({"active": true, "sub": "ada", "aud": RESOURCE, "exp": 5}), "it has expired"),
        ("subject", json!({"active": true, "aud": RESOURCE}), "neither a user nor a client"),
        ("text", json!({"active": "true", "sub": "ada", "aud": RESOURCE}), "does not know it"),
        (
            "bound",
            json!({"active": true, "sub": "ada", "aud": RESOURCE, "cnf": {"jkt": "abc"}}),
            "with the scheme DPoP",
        ),
    ] {
        issuer.state().active.insert(token.to_owned(), answer);
        let answer = site.whoami(token).await;
        assert_eq!(answer.status(), 401, "{token}");
        assert!(challenges(&answer).contains(why), "{token}: {}", challenges(&answer));
    }
    issuer.state().active.insert("list".to_owned(), json!([]));
    assert_eq!(site.whoami("list").await.status(), 503, "an answer that cannot be read is the issuer's mistake");
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_is_no_reason_to_refuse_the_token() {
    let log = crate::log::Log::default();
    let issuer = TestIssuer::start(Vec::new()).await;
    issuer.state().status = 401;
    let site = Site::with(tokens(&issuer).introspection_endpoint(format!("{}/introspect", issuer.url))).await;
    assert_eq!(site.whoami("opaque").await.status(), 503);
    assert!(log.text().contains("does not say whether a token is active"), "{}", log.text());
    assert!(!log.text().contains("pass") && !log.text().contains("opaque"), "{}", log.text());
    // The token must not go anywhere else.
    issuer.state().status = 307;
    assert_eq!(site.whoami("opaque").await.status(), 503);
    assert!(log.text().contains("redirects are not followed"), "{}", log.text());
}
