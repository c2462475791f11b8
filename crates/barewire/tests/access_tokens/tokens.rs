//! Tokens that are good: every algorithm, the principal that handlers see, the memory, and the metadata.

use barewire::server::http::{AccessTokens, BearerTokens, Principal, ProtectedResource};
use serde_json::{Value, json};

use crate::issuer::{TestIssuer, issuer_with_key, now};
use crate::keys::SigningKey;
use crate::wire::{Wire, call};
use crate::{RESOURCE, Site, challenges, server, text};

#[tokio::test]
async fn tokens_of_every_algorithm_are_verified() {
    for (key, algorithm) in [
        (SigningKey::rsa(), "RS256"),
        (SigningKey::rsa(), "PS256"),
        (SigningKey::p256(), "ES256"),
        (SigningKey::ed25519(), "EdDSA"),
        (SigningKey::ed25519(), "Ed25519"),
    ] {
        let issuer = TestIssuer::start(vec![key.named("k1")]).await;
        let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
        let claims = issuer.claims(RESOURCE);
        for header in [json!({"alg": algorithm, "typ": "at+jwt", "kid": "k1"}), json!({"alg": algorithm})] {
            let token = key.token(&header, &claims);
            assert!(text(&site.whoami(&token).await).contains("ada"), "{algorithm}");
            // One bit of the signature, or of the claims.
            let (message, signature) = token.rsplit_once('.').expect("three parts");
            let flipped = signature.replacen(|letter: char| letter != 'A', "A", 1);
            assert_eq!(site.whoami(&format!("{message}.{flipped}")).await.status(), 401, "{algorithm}");
            let other = crate::keys::unsigned(&header, &json!({"sub": "eve"}));
            assert_eq!(site.whoami(&format!("{other}.{signature}")).await.status(), 401, "{algorithm}");
        }
    }
}

#[tokio::test]
async fn a_handler_sees_the_subject_the_client_the_scopes_and_the_claims() {
    let (key, issuer) = issuer_with_key().await;
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let mut claims = issuer.claims(RESOURCE);
    claims["tenant"] = "acme".into();
    let answer = text(&site.whoami(&key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims)).await);
    let seen: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(seen, json!({"name": "ada", "client": "app", "scopes": ["mcp"], "tenant": "acme"}));
}

#[tokio::test]
async fn a_verified_token_needs_no_issuer_and_ends_with_its_expiry() {
    let (key, issuer) = issuer_with_key().await;
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let mut claims = issuer.claims(RESOURCE);
    // A busy machine may need longer for the requests than the first token is valid.
    let mut valid_for = 2;
    let (token, end) = loop {
        let end = now() + valid_for;
        // 60 seconds are the difference that clocks may have.
        claims["exp"] = (end - 60).into();
        let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims);
        let mut statuses = Vec::new();
        for _ in 0..20 {
            statuses.push(site.whoami(&token).await.status());
        }
        if now() < end {
            assert_eq!(statuses, [200; 20]);
            break (token, end);
        }
        valid_for *= 2;
    };
    assert_eq!((issuer.count("/keys"), issuer.count("/.well-known")), (1, 1));
    let answer = loop {
        let answer = site.whoami(&token).await;
        if answer.status() != 200 {
            break answer;
        }
        assert!(now() < end + 60, "it is still valid");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert!(now() >= end, "not before its time");
    assert_eq!(answer.status(), 401);
    assert!(challenges(&answer).contains("it has expired"), "{}", challenges(&answer));
}

#[tokio::test]
async fn the_keys_can_be_given_or_be_at_a_url() {
    let (key, issuer) = issuer_with_key().await;
    let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE));
    let given = AccessTokens::jwt(&issuer.url, RESOURCE).keys(&json!({"keys": [key.named("k1")]}).to_string());
    assert_eq!(Site::with(given).await.whoami(&token).await.status(), 200);
    assert_eq!(issuer.state().requests.len(), 0, "nothing was fetched");
    let at_url = AccessTokens::jwt(&issuer.url, RESOURCE).jwks_uri(format!("{}/keys", issuer.url));
    assert_eq!(Site::with(at_url).await.whoami(&token).await.status(), 200);
    assert_eq!((issuer.count("/keys"), issuer.count("/.well-known")), (1, 0));
}

#[tokio::test]
async fn the_metadata_says_where_to_get_a_token() {
    let (_, issuer) = issuer_with_key().await;
    let tokens = AccessTokens::jwt(&issuer.url, RESOURCE).require(["mcp", "offline_access"]);
    let site = Site::with(tokens).await;
    let answer = site.ask(&[], "tools/list", json!({})).await;
    assert_eq!(answer.status(), 401);
    let metadata = "http://localhost/.well-known/oauth-protected-resource/mcp";
    assert_eq!(
        challenges(&answer),
        format!("Bearer resource_metadata=\"{metadata}\", scope=\"mcp\"\nDPoP algs=\"ES256 EdDSA PS256 RS256\"")
    );
    let mut wire = Wire::to(site.addr).await;
    wire.request("GET /.well-known/oauth-protected-resource/mcp", &["Host: localhost"], "").await;
    assert_eq!(
        wire.answer().await.json(),
        json!({
            "resource": RESOURCE, "authorization_servers": [issuer.url], "scopes_supported": ["mcp"],
            "bearer_methods_supported": ["header"],
            "dpop_signing_alg_values_supported": ["ES256", "EdDSA", "PS256", "RS256"],
        })
    );
    let mine = ProtectedResource::new("http://localhost/mcp").authorization_server("https://mine.example");
    let tokens = AccessTokens::jwt(&issuer.url, RESOURCE);
    let site = Site::of(server().http().authenticate(tokens).protected_resource(mine)).await;
    let mut wire = Wire::to(site.addr).await;
    wire.request("GET /.well-known/oauth-protected-resource", &["Host: localhost"], "").await;
    assert_eq!(wire.answer().await.json()["authorization_servers"], json!(["https://mine.example"]));
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_when_the_server_starts() {
    let tokens = || AccessTokens::jwt("https://issuer.example", RESOURCE);
    for (tokens, why) in [
        (AccessTokens::jwt("issuer.example", RESOURCE), "https URL"),
        (AccessTokens::jwt("http://issuer.example", RESOURCE), "https URL"),
        (AccessTokens::jwt("https://issuer.example", ""), "audience"),
        (tokens().jwks_uri("http://keys.example/k"), "URL of the keys"),
        (tokens().keys("{}"), "JWKS"),
        (tokens().keys(r#"{"keys":[{"kty":"oct","k":"AQ"}]}"#), "JWKS"),
        (tokens().public_url("mcp.example.com"), "public URL"),
        (tokens().introspection_endpoint("http://a.example/i"), "introspection endpoint"),
    ] {
        let error = server().http().authenticate(tokens).bind("127.0.0.1:0").await.expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
    }
    let scoped = barewire::server::Tool::new("t", "T", || async {}).scope("s");
    let error = server().with(scoped.clone()).http().bind("127.0.0.1:0").await.expect_err("no authentication");
    assert!(error.to_string().contains("add an authentication"), "{error}");
    let fixed = BearerTokens::new().token("x", Principal::new("ada"));
    assert!(server().with(scoped).http().authenticate(fixed).bind("127.0.0.1:0").await.is_ok());
}

#[tokio::test]
async fn a_session_goes_on_with_a_new_token_of_the_same_subject_only() {
    let (key, issuer) = issuer_with_key().await;
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let token = |sub: &str, jti: &str| {
        let mut claims = issuer.claims(RESOURCE);
        (claims["sub"], claims["jti"]) = (sub.into(), jti.into());
        format!("Authorization: Bearer {}", key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims))
    };
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let mut wire = Wire::to(site.addr).await;
    let answer = wire.ask(&[&token("ada", "1")], &initialize).await;
    let session = format!("Mcp-Session-Id: {}", answer.head.get("mcp-session-id").expect("a session"));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(wire.ask(&[&token("ada", "2"), &session], &initialized).await.status(), 202);
    let answer = wire.ask(&[&token("ada", "3"), &session], &call(1, "whoami", json!({}))).await;
    assert!(text(&answer).contains("ada"));
    assert_eq!(wire.ask(&[&token("bob", "4"), &session], &call(1, "whoami", json!({}))).await.status(), 404);
    assert_eq!(wire.ask(&[&session], &call(1, "whoami", json!({}))).await.status(), 401);
}
