//! Tokens that are bound to a key: RFC 9449.

use barewire::server::http::{AccessTokens, DpopRole};
use serde_json::{Value, json};

use crate::issuer::{TestIssuer, issuer_with_key, now};
use crate::keys::{SigningKey, token_hash};
use crate::wire::HttpResponse;
use crate::{RESOURCE, Site, challenges, server, text};

/// A client with a key, and a token that is bound to it.
pub(crate) struct Holder {
    key: SigningKey,
    pub(crate) token: String,
}

impl Holder {
    fn new(issuer_key: &SigningKey, issuer: &TestIssuer, key: SigningKey) -> Self {
        Self::bound(issuer_key, "ES256", issuer, key)
    }

    /// Creates a client whose token the issuer has signed with this algorithm.
    pub(crate) fn bound(issuer_key: &SigningKey, algorithm: &str, issuer: &TestIssuer, key: SigningKey) -> Self {
        let mut claims = issuer.claims(RESOURCE);
        claims["cnf"] = json!({"jkt": key.thumbprint()});
        Self { token: issuer_key.token(&json!({"alg": algorithm, "kid": "k1", "typ": "at+jwt"}), &claims), key }
    }

    /// Returns the claims of a proof for a call.
    pub(crate) fn claims(&self) -> Value {
        let id = std::sync::atomic::AtomicUsize::fetch_add(&PROOFS, 1, std::sync::atomic::Ordering::Relaxed);
        json!({"jti": format!("proof-{id}"), "htm": "POST", "htu": RESOURCE, "iat": now(), "ath": token_hash(&self.token)})
    }

    pub(crate) fn proof(&self, claims: &Value) -> String {
        self.key.token(&json!({"typ": "dpop+jwt", "alg": self.algorithm(), "jwk": self.key.jwk()}), claims)
    }

    fn algorithm(&self) -> &'static str {
        match self.key {
            SigningKey::Rsa(_) => "PS256",
            SigningKey::P256(_) => "ES256",
            SigningKey::Ed25519(_) => "EdDSA",
        }
    }

    async fn send(&self, site: &Site, proof: &str) -> HttpResponse {
        let headers = [format!("Authorization: DPoP {}", self.token), format!("DPoP: {proof}")];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        site.ask(&headers, "tools/call", json!({"name": "whoami"})).await
    }
}

static PROOFS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

#[tokio::test]
async fn a_bound_token_is_good_with_a_proof_of_every_algorithm() {
    let (issuer_key, issuer) = issuer_with_key().await;
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    for key in [SigningKey::p256(), SigningKey::ed25519(), SigningKey::rsa()] {
        let holder = Holder::new(&issuer_key, &issuer, key);
        for _ in 0..3 {
            assert!(text(&holder.send(&site, &holder.proof(&holder.claims())).await).contains("ada"));
        }
    }
}

#[tokio::test]
async fn a_stolen_token_or_proof_is_of_no_use() {
    let (issuer_key, issuer) = issuer_with_key().await;
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    let holder = Holder::new(&issuer_key, &issuer, SigningKey::p256());
    let refused = |answer: HttpResponse, error: &str, why: &str| {
        let challenge = challenges(&answer);
        assert_eq!(answer.status(), 401, "{why}");
        assert!(challenge.contains(&format!(r#"error="{error}""#)) && challenge.contains(why), "{challenge}");
        challenge
    };
    // Section 7.2: never as a bearer token.
    refused(site.whoami(&holder.token).await, "invalid_token", "send it with the scheme DPoP");
    let dpop = format!("Authorization: DPoP {}", holder.token);
    let without = site.ask(&[&dpop], "tools/call", json!({"name": "whoami"})).await;
    let challenge = refused(without, "invalid_dpop_proof", "send it with a DPoP header");
    assert!(challenge.starts_with("DPoP algs="), "{challenge}");

    let proof = holder.proof(&holder.claims());
    assert_eq!(holder.send(&site, &proof).await.status(), 200);
    refused(holder.send(&site, &proof).await, "invalid_dpop_proof", "used before");
    let header = format!("DPoP: {proof}");
    let twice = site.ask(&[&dpop, &header, &header], "tools/call", json!({"name": "whoami"})).await;
    refused(twice, "invalid_dpop_proof", "more than one DPoP header");

    // The key of the thief, with the token of the holder.
    let thief = Holder { key: SigningKey::p256(), token: holder.token.clone() };
    refused(thief.send(&site, &thief.proof(&thief.claims())).await, "invalid_token", "bound to another key");
    // The public key of the holder, and a signature of the thief.
    let header = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": holder.key.jwk()});
    let forged = thief.key.token(&header, &holder.claims());
    refused(holder.send(&site, &forged).await, "invalid_dpop_proof", "signature of the DPoP proof is wrong");
    // A proof for another token of the same key.
    let other = Holder::new(&SigningKey::p256(), &issuer, SigningKey::p256());
    let mut claims = holder.claims();
    claims["ath"] = token_hash(&other.token).into();
    refused(holder.send(&site, &holder.proof(&claims)).await, "invalid_token", "for another access token");

    for (name, value, why) in [
        ("htm", json!("GET"), "another HTTP method"),
        ("htu", json!("http://localhost/other"), "another URL"),
        ("htu", json!("https://evil.example/mcp"), "another URL"),
        ("iat", json!(now() - 120), "too old"),
        ("iat", json!(now() + 120), "from the future"),
        ("jti", json!(7), "must have jti"),
    ] {
        let mut claims = holder.claims();
        claims[name] = value;
        refused(holder.send(&site, &holder.proof(&claims)).await, "invalid_dpop_proof", why);
    }
    refused(holder.send(&site, "x").await, "invalid_dpop_proof", "cannot be read");
    // A token that is bound to nothing gains nothing by a proof.
    let unbound = Holder {
        token: issuer_key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE)),
        key: SigningKey::p256(),
    };
    refused(unbound.send(&site, &unbound.proof(&unbound.claims())).await, "invalid_token", "bound to no key");
}

#[tokio::test]
async fn a_nonce_is_given_when_it_is_needed() {
    let (issuer_key, issuer) = issuer_with_key().await;
    let key = Some([7; 32]);
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE).dpop_nonce(key)).await;
    let sibling = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE).dpop_nonce(key)).await;
    let stranger = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE).dpop_nonce(None)).await;
    let holder = Holder::new(&issuer_key, &issuer, SigningKey::p256());
    let with_nonce = |nonce: &str| {
        let mut claims = holder.claims();
        claims["nonce"] = nonce.into();
        holder.proof(&claims)
    };
    let first = holder.send(&site, &holder.proof(&holder.claims())).await;
    assert_eq!(first.status(), 401);
    assert!(challenges(&first).contains(r#"error="use_dpop_nonce""#), "{}", challenges(&first));
    let nonce = first.head.get("dpop-nonce").expect("a nonce").to_owned();
    for site in [&site, &sibling, &site] {
        assert_eq!(holder.send(site, &with_nonce(&nonce)).await.status(), 200);
    }
    for (site, nonce) in [(&site, "invented"), (&stranger, nonce.as_str())] {
        let answer = holder.send(site, &with_nonce(nonce)).await;
        assert!(challenges(&answer).contains("use_dpop_nonce") && answer.head.get("dpop-nonce").is_some());
    }
}

/// RFC 9449, section 8.2: otherwise each client would have a request refused every few minutes.
#[tokio::test]
async fn a_new_nonce_comes_with_a_response_before_the_old_one_ends() {
    let (issuer_key, issuer) = issuer_with_key().await;
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE).dpop_nonce(Some([7; 32]))).await;
    let holder = Holder::new(&issuer_key, &issuer, SigningKey::p256());
    let with_nonce = |nonce: &str| {
        let mut claims = holder.claims();
        claims["nonce"] = nonce.into();
        holder.proof(&claims)
    };
    // The nonce of the period before. If a period begins meanwhile, it has ended, so the attempt is repeated.
    let new_nonce = loop {
        let answer = holder.send(&site, &with_nonce(&nonce_at(now() - 150))).await;
        if answer.status() == 200 {
            break answer.head.get("dpop-nonce").expect("a new nonce").to_owned();
        }
        assert!(challenges(&answer).contains("use_dpop_nonce"), "{answer:?}");
    };
    assert!([nonce_at(now()), nonce_at(now() - 150)].contains(&new_nonce), "{new_nonce}");
    assert_eq!(holder.send(&site, &with_nonce(&new_nonce)).await.status(), 200);
    // One that is new needs no other.
    let given = loop {
        let nonce = nonce_at(now());
        let answer = holder.send(&site, &with_nonce(&nonce)).await;
        assert_eq!(answer.status(), 200);
        if nonce == nonce_at(now()) {
            break answer.head.get("dpop-nonce").map(str::to_owned);
        }
    };
    assert_eq!(given, None);
    // The first proof of a client can be good.
    let answer = site.ask(&[], "tools/list", json!({})).await;
    let first = answer.head.get("dpop-nonce").expect("a nonce");
    assert_eq!((answer.status(), holder.send(&site, &with_nonce(first)).await.status()), (401, 200));
    // There are no nonces where none are needed.
    let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
    for answer in [site.ask(&[], "tools/list", json!({})).await, holder.send(&site, &with_nonce(first)).await] {
        assert_eq!(answer.head.get("dpop-nonce"), None);
    }
}

/// Returns the nonce that a server with the key of these tests gives at a time.
fn nonce_at(time: i64) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[7; 32]);
    let tag = ring::hmac::sign(&key, &time.div_euclid(150).to_be_bytes());
    base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, &tag.as_ref()[..16])
}

#[tokio::test]
async fn tokens_can_be_required_to_be_bound() {
    let (issuer_key, issuer) = issuer_with_key().await;
    let holder = Holder::new(&issuer_key, &issuer, SigningKey::p256());
    let bearer = issuer_key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE));
    let required = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE).dpop(DpopRole::Required)).await;
    let answer = required.whoami(&bearer).await;
    assert_eq!(answer.status(), 401);
    assert!(challenges(&answer).starts_with("DPoP algs=") && !challenges(&answer).contains("Bearer"));
    assert_eq!(holder.send(&required, &holder.proof(&holder.claims())).await.status(), 200);
    let unused = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE).dpop(DpopRole::Unused)).await;
    assert_eq!(unused.whoami(&bearer).await.status(), 200);
    let answer = holder.send(&unused, &holder.proof(&holder.claims())).await;
    assert_eq!(answer.status(), 401);
    assert!(!challenges(&answer).contains("DPoP algs"), "{}", challenges(&answer));
}

#[tokio::test]
async fn behind_a_proxy_the_url_is_the_one_that_clients_see() {
    let (issuer_key, issuer) = issuer_with_key().await;
    let holder = Holder::new(&issuer_key, &issuer, SigningKey::p256());
    let tokens = || AccessTokens::jwt(&issuer.url, RESOURCE);
    let proof = |url: &str| {
        let mut claims = holder.claims();
        claims["htu"] = url.into();
        holder.proof(&claims)
    };
    let proxied = Site::with(tokens().public_url("https://MCP.example.com:443/v1/mcp")).await;
    assert_eq!(holder.send(&proxied, &proof("https://mcp.example.com/v1/mcp")).await.status(), 200);
    assert_eq!(holder.send(&proxied, &proof(RESOURCE)).await.status(), 401);
    let tls = Site::of(server().http().behind_tls().authenticate(tokens())).await;
    assert_eq!(holder.send(&tls, &proof("https://localhost/mcp")).await.status(), 200);
    assert_eq!(holder.send(&tls, &proof("http://localhost/mcp")).await.status(), 401);
}
