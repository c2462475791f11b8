//! Issuers that never answer, never end, break off or lie: requests whose tokens cannot be checked get 503 in time, and
//! all others are answered as before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barewire::server::http::AccessTokens;
use serde_json::{Value, json};

use crate::eventually::eventually;
use crate::issuer::now;
use crate::keys::SigningKey;
use crate::log::Log;
use crate::party::{Asked, Party, Reply};
use crate::wire::Wire;
use crate::{RESOURCE, Site};

/// The most that an issuer could write while it is not read: the buffers of a connection on this machine.
const MAX_BUFFERED: u64 = 16 * 1024 * 1024;

const METADATA: &str = "/.well-known/oauth-authorization-server";

/// Starts an issuer with one key, which answers otherwise at one path.
async fn issuer(key: &SigningKey, path: &'static str, reply: Reply) -> Party {
    let keys = json!({"keys": [key.named("k1")]});
    let issuer = Party::start(|origin| {
        let metadata = json!({
            "issuer": origin, "jwks_uri": format!("{origin}/keys"),
            "introspection_endpoint": format!("{origin}/introspect"),
        });
        move |asked: &Asked| match &*asked.path {
            found if found == path => reply.clone(),
            METADATA => Reply::Json(200, metadata.clone()),
            "/keys" => Reply::Json(200, keys.clone()),
            _ => Reply::Header(404, "X-Why: unknown".to_owned()),
        }
    });
    issuer.await
}

fn claims(issuer: &str) -> Value {
    json!({"iss": issuer, "aud": RESOURCE, "sub": "ada", "exp": now() + 600})
}

fn html() -> Reply {
    Reply::Text(200, "text/html", "<html>Welcome</html>".to_owned())
}

/// Asserts that a token gets 503 while the issuer answers so at one path.
async fn assert_unavailable(path: &'static str, reply: Reply) {
    let key = SigningKey::p256();
    let issuer = issuer(&key, path, reply.clone()).await;
    let introspects = path == "/introspect";
    let (tokens, token) = match introspects {
        true => (AccessTokens::introspected(&issuer.origin, RESOURCE, "me", "hunter2"), "opaque".to_owned()),
        false => {
            let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims(&issuer.origin));
            (AccessTokens::jwt(&issuer.origin, RESOURCE), token)
        }
    };
    let site = Site::with(tokens).await;
    let answer = site.whoami(&token).await;
    assert_eq!((answer.status(), answer.head.get("retry-after")), (503, Some("1")), "{path} {reply:?}");
    assert_eq!(answer.head.get("www-authenticate"), None, "another token would not help");
    assert!(issuer.count(path) > 0, "{path} was not asked: {:?}", issuer.lines());
    assert!(issuer.written() < MAX_BUFFERED, "{path}: {} bytes were taken", issuer.written());
}

#[tokio::test]
async fn documents_that_are_none_are_no_reason_to_refuse_a_token() {
    let log = Log::default();
    let many = format!("{{\"keys\":[{}]}}", vec![SigningKey::p256().named("k1").to_string(); 100_000].join(","));
    assert_unavailable("/keys", Reply::Text(200, "application/json", many)).await;
    assert!(log.text().contains("longer than"), "{}", log.text());
    for path in [METADATA, "/keys", "/introspect"] {
        let replies = [
            Reply::Flood(100 * 1024 * 1024),
            Reply::Half,
            html(),
            Reply::Json(200, json!([])),
            Reply::Json(500, json!({})),
            Reply::redirect(307, "/elsewhere"),
        ];
        for reply in replies {
            assert_unavailable(path, reply).await;
        }
    }
    assert_unavailable(METADATA, Reply::Json(200, json!({"issuer": "https://honest.example"}))).await;
    assert!(!log.text().contains("hunter2") && !log.text().contains("opaque"), "{}", log.text());
}

/// All at once, because each of them takes as long as the limit.
#[tokio::test]
async fn an_issuer_that_never_answers_or_never_ends_is_given_up() {
    let silent = |path| assert_unavailable(path, Reply::Silence);
    let endless = |path| assert_unavailable(path, Reply::Trickle);
    tokio::join!(
        silent(METADATA),
        silent("/keys"),
        silent("/introspect"),
        endless(METADATA),
        endless("/keys"),
        endless("/introspect"),
    );
}

/// A request that has waited for an attempt of another one is not the reason for one more.
#[tokio::test]
async fn requests_wait_together_for_an_issuer_that_does_not_answer() {
    for path in ["/keys", METADATA] {
        let key = SigningKey::p256();
        let issuer = issuer(&key, path, Reply::Silence).await;
        let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims(&issuer.origin));
        let (tokens, token) = match path {
            METADATA => (AccessTokens::introspected(&issuer.origin, RESOURCE, "me", "hunter2"), "opaque".to_owned()),
            _ => (AccessTokens::jwt(&issuer.origin, RESOURCE), token),
        };
        let site = Arc::new(Site::with(tokens).await);
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (site, token) = (Arc::clone(&site), token.clone());
            waiting.spawn(async move { site.whoami(&token).await.status() });
        }
        assert!(waiting.join_all().await.iter().all(|status| *status == 503));
        assert_eq!(issuer.count(path), 1, "{:?}", issuer.lines());
    }
}

/// Many servers answer every path with a page, and some have metadata without keys where that of OAuth is.
#[tokio::test]
async fn a_place_without_usable_metadata_is_passed_over() {
    for first in [html(), Reply::Json(200, json!([])), Reply::Json(200, json!({"issuer": null}))] {
        let key = SigningKey::p256();
        let keys = json!({"keys": [key.named("k1")]});
        let issuer = Party::start(|origin| {
            let metadata = json!({
                "issuer": origin, "jwks_uri": format!("{origin}/keys"),
                "introspection_endpoint": format!("{origin}/introspect"),
            });
            let without_keys = json!({"issuer": origin});
            move |asked: &Asked| match (&*asked.path, &first) {
                (METADATA, Reply::Json(_, json)) if json.is_object() => Reply::Json(200, without_keys.clone()),
                (METADATA, first) => (*first).clone(),
                ("/.well-known/openid-configuration", _) => Reply::Json(200, metadata.clone()),
                ("/keys", _) => Reply::Json(200, keys.clone()),
                _ => Reply::Json(200, json!({"active": true, "sub": "ada", "aud": RESOURCE})),
            }
        });
        let issuer = issuer.await;
        let site = Site::with(AccessTokens::jwt(&issuer.origin, RESOURCE)).await;
        let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims(&issuer.origin));
        assert_eq!(site.whoami(&token).await.status(), 200, "{:?}", issuer.lines());
        let site = Site::with(AccessTokens::introspected(&issuer.origin, RESOURCE, "me", "hunter2")).await;
        assert_eq!(site.whoami("opaque").await.status(), 200, "{:?}", issuer.lines());
    }
}

/// The keys beyond the limit are as if they were not there, so that a token costs a bounded number of attempts.
#[tokio::test]
async fn of_a_thousand_keys_the_first_64_are_used() {
    let (key, other) = (SigningKey::p256(), SigningKey::p256());
    for (others, status) in [(63, 200), (64, 401), (1000, 401)] {
        let mut keys: Vec<_> = (0..others).map(|number| other.named(&format!("other-{number}"))).collect();
        keys.push(key.named("k1"));
        let issuer = issuer(&key, "/keys", Reply::Json(200, json!({"keys": keys}))).await;
        let site = Site::with(AccessTokens::jwt(&issuer.origin, RESOURCE)).await;
        let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims(&issuer.origin));
        assert_eq!(site.whoami(&token).await.status(), status, "{others} other keys");
    }
}

#[tokio::test]
async fn while_the_issuer_does_not_answer_other_requests_are_answered() {
    let is_silent = Arc::new(AtomicBool::new(false));
    let silent = Arc::clone(&is_silent);
    let issuer = Party::start(|origin| {
        let metadata = json!({"issuer": origin, "introspection_endpoint": format!("{origin}/introspect")});
        move |asked: &Asked| match &*asked.path {
            METADATA => Reply::Json(200, metadata.clone()),
            _ if silent.load(Ordering::SeqCst) => Reply::Silence,
            _ => Reply::Json(200, json!({"active": true, "sub": "ada", "aud": RESOURCE})),
        }
    });
    let issuer = issuer.await;
    let site = Arc::new(Site::with(AccessTokens::introspected(&issuer.origin, RESOURCE, "me", "hunter2")).await);
    assert_eq!(site.whoami("known").await.status(), 200);
    is_silent.store(true, Ordering::SeqCst);
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..20 {
        let site = Arc::clone(&site);
        waiting.spawn(async move { site.whoami(&format!("unknown-{number}")).await.status() });
    }
    eventually("the issuer is asked", || issuer.count("/introspect") == 21).await;
    // A token that is known, one that is refused without the issuer, and a request without any.
    assert_eq!(site.whoami("known").await.status(), 200);
    assert_eq!(site.ask(&[], "tools/list", json!({})).await.status(), 401);
    let mut wire = Wire::to(site.addr).await;
    wire.request("GET /.well-known/oauth-protected-resource", &["Host: localhost"], "").await;
    assert_eq!(wire.answer().await.status(), 200);
    assert!(waiting.try_join_next().is_none(), "the others still wait");
    assert!(waiting.join_all().await.iter().all(|status| *status == 503));
}
