//! Tokens that an attacker could make or has found, each of which is refused.

use barewire::server::http::AccessTokens;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use crate::issuer::{TestIssuer, now};
use crate::keys::{SigningKey, hmac_token, unsigned};
use crate::log::Log;
use crate::wire::{ACCEPT, HttpResponse, Wire, call};
use crate::{RESOURCE, Site, challenges, text};

/// The issuer's keys: an RSA key and a P-256 key, as most issuers have them while they change over.
struct Scene {
    rsa: SigningKey,
    p256: SigningKey,
    issuer: TestIssuer,
    site: Site,
}

impl Scene {
    async fn new() -> Self {
        let (rsa, p256) = (SigningKey::rsa(), SigningKey::p256());
        let issuer = TestIssuer::start(vec![rsa.named("rsa"), p256.named("ec")]).await;
        let site = Site::with(AccessTokens::jwt(&issuer.url, RESOURCE)).await;
        Self { rsa, p256, issuer, site }
    }

    fn claims(&self, change: impl FnOnce(&mut Value)) -> Value {
        let mut claims = self.issuer.claims(RESOURCE);
        change(&mut claims);
        claims
    }

    /// Asserts that the token is refused with 401, and that the challenge says why.
    async fn refuses(&self, attack: &str, token: &str, why: &str) {
        let answer = self.site.whoami(token).await;
        assert_eq!(answer.status(), 401, "{attack}");
        let challenge = challenges(&answer);
        assert!(challenge.contains(r#"error="invalid_token""#) && challenge.contains(why), "{attack}: {challenge}");
        assert!(!format!("{answer:?}").contains(token), "{attack}: the answer repeats the token");
    }
}

#[tokio::test]
async fn unsigned_and_forged_tokens_are_refused() {
    let scene = Scene::new().await;
    let claims = scene.claims(|_| {});
    let unsigned_token = |alg: &str| unsigned(&json!({"alg": alg, "kid": "ec"}), &claims);
    for alg in ["none", "None", "NONE", "nOnE", ""] {
        let (bare, signed) = (format!("{}.", unsigned_token(alg)), format!("{}.AAAA", unsigned_token(alg)));
        scene.refuses("alg none", &bare, "not signed with RS256").await;
        scene.refuses("alg none with a signature", &signed, "not signed with RS256").await;
    }
    scene.refuses("no signature", &format!("{}.", unsigned_token("ES256")), "no key of its issuer").await;
    let zeros = BASE64.encode([0; 64]);
    scene.refuses("the zero signature", &format!("{}.{zeros}", unsigned_token("ES256")), "no key of its issuer").await;

    // The public key is known to all, so it must never be a secret (RFC 8725, section 2.1).
    let jwk = scene.rsa.jwk();
    let modulus = BASE64.decode(jwk["n"].as_str().expect("n")).expect("Base64");
    for (attack, secret) in [
        ("the modulus as HMAC secret", modulus.as_slice()),
        ("its text as HMAC secret", jwk["n"].as_str().expect("n").as_bytes()),
        ("the JWK as HMAC secret", jwk.to_string().as_bytes()),
        ("an empty HMAC secret", b"".as_slice()),
    ] {
        let token = hmac_token(secret, &json!({"alg": "HS256", "kid": "rsa"}), &claims);
        scene.refuses(attack, &token, "not signed with RS256").await;
    }

    // A key is used only for its own kind of algorithm.
    let swapped = scene.rsa.token(&json!({"alg": "RS256", "kid": "ec"}), &claims);
    scene.refuses("an RSA signature, the name of the P-256 key", &swapped, "no key of its issuer").await;
    let swapped = scene.p256.token(&json!({"alg": "ES256", "kid": "rsa"}), &claims);
    scene.refuses("an ES256 signature, the name of the RSA key", &swapped, "no key of its issuer").await;
    let renamed = scene.p256.token(&json!({"alg": "EdDSA", "kid": "ec"}), &claims);
    scene.refuses("an ES256 signature called EdDSA", &renamed, "no key of its issuer").await;

    // Keys that the attacker brings along are not looked at.
    let own = SigningKey::p256();
    for header in [
        json!({"alg": "ES256", "kid": "ec"}),
        json!({"alg": "ES256", "jwk": own.jwk()}),
        json!({"alg": "ES256", "kid": "ec", "jwk": own.named("ec")}),
        json!({"alg": "ES256", "kid": "mine", "jku": format!("{}/mine", scene.issuer.url)}),
        json!({"alg": "ES256", "kid": "../../mine", "x5u": "http://127.0.0.1:9/"}),
    ] {
        scene.refuses("a key of the attacker", &own.token(&header, &claims), "no key of its issuer").await;
    }
    assert_eq!(scene.issuer.count("/mine"), 0, "no URL of a token is fetched");
    let critical = scene.p256.token(&json!({"alg": "ES256", "kid": "ec", "crit": ["exp"]}), &claims);
    scene.refuses("an extension that must be understood", &critical, "extensions").await;
    scene.refuses("not a token", "s3cret", "not a signed JWT").await;
    let long = format!("{}.{}.AA", "A".repeat(16_000), "A".repeat(1000));
    scene.refuses("a token that is too long", &long, "longer than 16 KiB").await;
}

#[tokio::test]
async fn tokens_for_others_and_of_other_times_are_refused() {
    let scene = Scene::new().await;
    let (jwt, sign) =
        (json!({"alg": "ES256", "kid": "ec"}), |header: &Value, claims: &Value| scene.p256.token(header, claims));
    let cases: [(&str, Value, Value, &str); 10] = [
        ("audience confusion", jwt.clone(), json!({"aud": "https://other.example/mcp"}), "issued for another server"),
        ("no audience", jwt.clone(), json!({"aud": null}), "the claim aud"),
        (
            "a longer audience",
            jwt.clone(),
            json!({"aud": format!("{RESOURCE}.evil.example")}),
            "issued for another server",
        ),
        ("another issuer", jwt.clone(), json!({"iss": "https://evil.example"}), "another authorization server"),
        ("expired", jwt.clone(), json!({"exp": now() - 61}), "it has expired"),
        ("never expires", jwt.clone(), json!({"exp": null}), "the claim exp"),
        ("from the future", jwt.clone(), json!({"nbf": now() + 120}), "not valid yet"),
        ("bound to a certificate", jwt.clone(), json!({"cnf": {"x5t#S256": "abc"}}), "bound to a certificate"),
        (
            "a proof as a token",
            json!({"alg": "ES256", "kid": "ec", "typ": "dpop+jwt"}),
            json!({}),
            "not an access token",
        ),
        ("a logout token", json!({"alg": "ES256", "kid": "ec", "typ": "logout+jwt"}), json!({}), "not an access token"),
    ];
    for (attack, header, change, why) in cases {
        let claims = scene.claims(|claims| {
            claims.as_object_mut().expect("claims").extend(change.as_object().expect("a change").clone());
        });
        scene.refuses(attack, &sign(&header, &claims), why).await;
    }
    // An ID token of the same issuer is for the client.
    let id_token = scene.claims(|claims| (claims["aud"], claims["nonce"]) = ("app".into(), "n".into()));
    scene.refuses("an ID token", &sign(&jwt, &id_token), "issued for another server").await;
}

#[tokio::test]
async fn a_token_counts_only_in_its_header() {
    let scene = Scene::new().await;
    let token = scene.p256.token(&json!({"alg": "ES256", "kid": "ec"}), &scene.claims(|_| {}));
    assert_eq!(scene.site.whoami(&token).await.status(), 200);
    let (headers, message) = crate::wire::modern(1, "tools/call", json!({"name": "whoami"}));
    let common = ["Host: localhost", "Content-Type: application/json", ACCEPT];
    let headers: Vec<&str> = common.into_iter().chain(headers.iter().map(String::as_str)).collect();
    let mut wire = Wire::to(scene.site.addr).await;
    wire.request(&format!("POST /mcp?access_token={token}"), &headers, &message.to_string()).await;
    assert_eq!(wire.answer().await.status(), 401, "RFC 6750, section 2.3: not in the URI");
    let bearer = format!("Authorization: Bearer {token}");
    let answer = scene.site.ask(&[&bearer, &bearer], "tools/call", json!({"name": "whoami"})).await;
    assert_eq!(answer.status(), 401, "two headers could be two senders");
    assert!(challenges(&answer).contains("more than one Authorization header"));
}

#[tokio::test]
async fn nothing_of_a_token_is_logged() {
    let log = Log::default();
    let scene = Scene::new().await;
    let good = scene.p256.token(&json!({"alg": "ES256", "kid": "ec"}), &scene.claims(|_| {}));
    let unknown = scene.p256.token(&json!({"alg": "ES256", "kid": "unknown"}), &scene.claims(|_| {}));
    assert_eq!(scene.site.whoami(&good).await.status(), 200);
    scene.issuer.state().status = 500;
    tokio::time::sleep(std::time::Duration::from_millis(5100)).await;
    assert_eq!(scene.site.whoami(&unknown).await.status(), 503);
    let text = log.text();
    assert!(text.contains("cannot be fetched") && text.contains("stay in use"), "there is something to log: {text}");
    for token in [&good, &unknown] {
        let parts = token.split('.').filter(|part| part.len() > 20);
        parts.for_each(|part| assert!(!text.contains(part), "{text}"));
    }
    assert!(
        !format!("{:?}", AccessTokens::introspected("https://a.example", RESOURCE, "me", "hunter2"))
            .contains("hunter2")
    );
}

/// RFC 9068, section 5: the id of a client can be the subject of a user.
#[tokio::test]
async fn a_client_with_the_name_of_a_user_is_somebody_else() {
    let scene = Scene::new().await;
    let header = json!({"alg": "ES256", "kid": "ec"});
    let user = scene.p256.token(&header, &scene.claims(|_| {}));
    let client = scene.p256.token(
        &header,
        &scene.claims(|claims| {
            claims["client_id"] = claims.as_object_mut().expect("an object").remove("sub").expect("a subject");
        }),
    );
    let name = |answer: HttpResponse| {
        let who: Value = serde_json::from_str(&text(&answer)).expect("JSON");
        who["name"].as_str().expect("a name").to_owned()
    };
    assert_eq!(name(scene.site.whoami(&user).await), "ada");
    assert_eq!(name(scene.site.whoami(&client).await), "client:ada");
    let mut wire = Wire::to(scene.site.addr).await;
    let [user, client] = [user, client].map(|token| format!("Authorization: Bearer {token}"));
    let session = wire.initialize_with("2025-06-18", json!({}), &[&user]).await;
    let version = "MCP-Protocol-Version: 2025-06-18";
    for (sender, status) in [(&user, 200), (&client, 404), (&user, 200)] {
        let answer = wire.ask(&[&session, version, sender], &call(1, "echo", json!({}))).await;
        assert_eq!(answer.status(), status, "{answer:?}");
    }
}
