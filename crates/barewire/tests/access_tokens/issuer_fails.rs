//! An issuer that changes its keys, is away, is slow, or lies.

use std::time::{Duration, Instant};

use barewire::server::http::AccessTokens;
use serde_json::json;

use crate::eventually::eventually;
use crate::issuer::{TestIssuer, issuer_with_key};
use crate::keys::SigningKey;
use crate::log::Log;
use crate::{RESOURCE, Site};

/// A little more than the minimum time between two attempts to fetch keys.
const NEXT_ATTEMPT: Duration = Duration::from_millis(5200);

#[tokio::test]
async fn keys_are_changed_while_serving_and_a_removed_key_is_refused() {
    let (old, issuer) = issuer_with_key().await;
    let new = SigningKey::ed25519();
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let claims = issuer.claims(RESOURCE);
    let old_token = old.token(&json!({"alg": "ES256", "kid": "k1"}), &claims);
    let new_token = new.token(&json!({"alg": "EdDSA", "kid": "k2"}), &claims);
    assert_eq!(site.whoami(&old_token).await.status(), 200);
    issuer.state().keys = vec![new.named("k2")];
    assert_eq!(site.whoami(&new_token).await.status(), 401, "the keys were fetched just now");
    tokio::time::sleep(NEXT_ATTEMPT).await;
    assert_eq!(site.whoami(&old_token).await.status(), 200, "it is remembered, and the change is not known yet");
    assert_eq!(site.whoami(&new_token).await.status(), 200);
    assert_eq!(site.whoami(&old_token).await.status(), 401, "its key is gone, so it is not remembered any more");
    assert_eq!(issuer.count("/keys"), 2);
}

#[tokio::test]
async fn invented_key_names_do_not_make_the_server_fetch_again_and_again() {
    let (key, issuer) = issuer_with_key().await;
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let start = Instant::now();
    for number in 0..50 {
        let token = key.token(&json!({"alg": "ES256", "kid": format!("k{number}x")}), &issuer.claims(RESOURCE));
        assert_eq!(site.whoami(&token).await.status(), 401);
    }
    let most = 1 + usize::try_from(start.elapsed().as_secs() / 5).expect("small");
    assert!(issuer.count("/keys") <= most, "{} fetches", issuer.count("/keys"));
    // A token that is not for this server is no reason to fetch at all.
    let other = TestIssuer::start(vec![key.named("k1")]).await;
    let site = Site::with(AccessTokens::jwt(&other.url, RESOURCE)).await;
    let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE));
    assert_eq!(site.whoami(&token).await.status(), 401);
    assert_eq!(other.state().requests.len(), 0);
}

/// Some issuers write no key names into their tokens.
#[tokio::test]
async fn a_new_key_is_noticed_although_tokens_name_no_key() {
    let (old, issuer) = issuer_with_key().await;
    let new = SigningKey::p256();
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let token = |key: &SigningKey| key.token(&json!({"alg": "ES256"}), &issuer.claims(RESOURCE));
    assert_eq!(site.whoami(&token(&old)).await.status(), 200);
    issuer.state().keys = vec![new.jwk()];
    let start = Instant::now();
    for _ in 0..50 {
        assert_eq!(site.whoami(&token(&SigningKey::p256())).await.status(), 401);
    }
    let most = 1 + usize::try_from(start.elapsed().as_secs() / 5).expect("small");
    assert!(issuer.count("/keys") <= most, "{} fetches", issuer.count("/keys"));
    tokio::time::sleep(NEXT_ATTEMPT).await;
    assert_eq!(site.whoami(&token(&new)).await.status(), 200);
    assert_eq!(site.whoami(&token(&old)).await.status(), 401);
}

#[tokio::test]
async fn a_token_with_an_unknown_key_gets_503_while_the_keys_cannot_be_fetched() {
    let (old, issuer) = issuer_with_key().await;
    let new = SigningKey::p256();
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let claims = issuer.claims(RESOURCE);
    let known = old.token(&json!({"alg": "ES256", "kid": "k1"}), &claims);
    assert_eq!(site.whoami(&known).await.status(), 200);
    issuer.state().keys.push(new.named("k2"));
    issuer.state().status = 503;
    let (start, before) = (Instant::now(), issuer.state().requests.len());
    tokio::time::sleep(NEXT_ATTEMPT).await;
    let new_tokens =
        [json!({"alg": "ES256", "kid": "k2"}), json!({"alg": "ES256"})].map(|head| new.token(&head, &claims));
    for number in 0..20 {
        for token in &new_tokens {
            let answer = site.whoami(token).await;
            assert_eq!((answer.status(), answer.head.get("retry-after")), (503, Some("1")), "{answer:?}");
            assert_eq!(answer.head.get("www-authenticate"), None, "another token would not help");
        }
        // It was not seen before, but its key is known.
        let mut claims = claims.clone();
        claims["jti"] = number.into();
        for header in [json!({"alg": "ES256", "kid": "k1"}), json!({"alg": "ES256"})] {
            assert_eq!(site.whoami(&old.token(&header, &claims)).await.status(), 200);
        }
        assert_eq!(site.whoami(&known).await.status(), 200);
        let forged = new.token(&json!({"alg": "ES256", "kid": "k1"}), &claims);
        assert_eq!(site.whoami(&forged).await.status(), 401, "this key is known, and has not signed it");
    }
    // Each attempt asks two places for metadata.
    let most = 2 * usize::try_from(start.elapsed().as_secs() / 5).expect("small");
    assert!(issuer.state().requests.len() - before <= most, "{:?}", issuer.state().requests);
    issuer.state().status = 200;
    tokio::time::sleep(NEXT_ATTEMPT).await;
    for token in &new_tokens {
        assert_eq!(site.whoami(token).await.status(), 200, "the issuer is back");
    }
}

#[tokio::test]
async fn a_client_that_leaves_does_not_keep_new_keys_away() {
    let (old, issuer) = issuer_with_key().await;
    let new = SigningKey::p256();
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let token = |key: &SigningKey, kid| key.token(&json!({"alg": "ES256", "kid": kid}), &issuer.claims(RESOURCE));
    assert_eq!(site.whoami(&token(&old, "k1")).await.status(), 200);
    issuer.state().keys = vec![new.named("k2")];
    tokio::time::sleep(NEXT_ATTEMPT).await;
    issuer.state().delay = Duration::from_millis(500);
    let token = token(&new, "k2");
    tokio::select! {
        biased;
        () = eventually("the keys are fetched", || issuer.count("/keys") == 2) => {}
        answer = site.whoami(&token) => panic!("an answer: {answer:?}"),
    }
    issuer.state().delay = Duration::ZERO;
    while site.whoami(&token).await.status() != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(issuer.count("/keys"), 2, "the fetch that the client began is enough");
}

#[tokio::test]
async fn without_keys_the_answer_is_try_again_later() {
    let log = Log::default();
    let (key, issuer) = issuer_with_key().await;
    issuer.state().status = 503;
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE));
    for _ in 0..20 {
        let answer = site.whoami(&token).await;
        assert_eq!((answer.status(), answer.head.get("retry-after")), (503, Some("1")));
        assert_eq!(answer.head.get("www-authenticate"), None, "another token would not help");
    }
    assert!(issuer.state().requests.len() <= 4, "{:?}", issuer.state().requests);
    assert!(log.text().contains("cannot be fetched: no metadata"), "{}", log.text());
    issuer.state().status = 200;
    tokio::time::sleep(NEXT_ATTEMPT).await;
    assert_eq!(site.whoami(&token).await.status(), 200, "it is back");
    issuer.state().status = 500;
    tokio::time::sleep(NEXT_ATTEMPT).await;
    let another = key.token(&json!({"alg": "ES256", "kid": "k1", "typ": "JWT"}), &issuer.claims(RESOURCE));
    assert_eq!(site.whoami(&another).await.status(), 200, "its keys stay in use while it is away");
}

#[tokio::test]
async fn metadata_of_another_issuer_is_not_used() {
    let log = Log::default();
    let (key, issuer) = issuer_with_key().await;
    issuer.state().named = "https://honest.example".to_owned();
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE));
    assert_eq!(site.whoami(&token).await.status(), 503);
    assert!(log.text().contains("names another issuer"), "{}", log.text());
    assert_eq!(issuer.count("/keys"), 0);
}

#[tokio::test]
async fn a_redirect_of_the_issuer_is_not_followed() {
    let log = Log::default();
    let (key, issuer) = issuer_with_key().await;
    issuer.state().status = 307;
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE).jwks_uri(format!("{}/keys", issuer.url))).await;
    let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE));
    assert_eq!(site.whoami(&token).await.status(), 503);
    assert!(log.text().contains("redirects are not followed"), "{}", log.text());
}

#[tokio::test]
async fn a_slow_issuer_delays_a_request_for_some_seconds_and_no_longer() {
    let (key, issuer) = issuer_with_key().await;
    issuer.state().delay = Duration::from_secs(600);
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE).jwks_uri(format!("{}/keys", issuer.url))).await;
    let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE));
    let start = Instant::now();
    assert_eq!(site.whoami(&token).await.status(), 503);
    // The issuer would answer after ten minutes.
    assert!(start.elapsed() < Duration::from_secs(180), "{:?}", start.elapsed());
}

#[tokio::test]
async fn keys_that_are_too_weak_are_not_used() {
    let log = Log::default();
    let weak = json!({"kty": "RSA", "kid": "k1", "n": "wQ".repeat(60), "e": "AQAB"});
    let (key, issuer) = issuer_with_key().await;
    issuer.state().keys = vec![weak];
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE));
    assert_eq!(site.whoami(&token).await.status(), 401);
    assert!(log.text().contains("no key that can be used"), "{}", log.text());
}
