//! Authentication: the principal that handlers see, and the refusals.

use std::sync::{Arc, Mutex};

use barewire::server::http::{
    AuthError, Authenticate, AuthenticateFuture, BearerTokens, Principal, ProtectedResource, RequestHead,
};
use serde_json::json;

use crate::wire::{ACCEPT, call};
use crate::{TestSite, test_server};

fn tokens() -> BearerTokens {
    BearerTokens::new()
        .token("ada-token", Principal::new("ada").scopes(["mcp"]))
        .token("bob-token", Principal::new("bob").scopes(["mcp"]))
        .token("eve-token", Principal::new("eve"))
        .require(["mcp"])
}

const ADA: &str = "Authorization: Bearer ada-token";
const BOB: &str = "Authorization: Bearer bob-token";

#[tokio::test]
async fn a_handler_sees_the_principal() {
    let site = TestSite::of(test_server().0.http().authenticate(tokens())).await;
    let mut wire = site.connect().await;
    for (token, name) in [(ADA, "ada"), (BOB, "bob")] {
        let (headers, message) = crate::wire::modern(1, "tools/call", json!({"name": "whoami"}));
        let headers: Vec<&str> = headers.iter().map(String::as_str).chain([token]).collect();
        let answer = wire.ask(&headers, &message).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], name);
    }
}

#[tokio::test]
async fn a_refusal_names_the_missing_token_or_scope() {
    let resource = ProtectedResource::new("http://localhost/mcp").authorization_server("https://issuer.example");
    let site = TestSite::of(test_server().0.http().authenticate(tokens()).protected_resource(resource)).await;
    let metadata = r#"resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp""#;
    for (headers, status, parts) in [
        (&[][..], 401, &["Bearer ", metadata, r#"scope="mcp""#][..]),
        (&["Authorization: Bearer wrong"], 401, &[r#"error="invalid_token""#, metadata]),
        (&["Authorization: Bearer eve-token"], 403, &[r#"error="insufficient_scope""#, r#"scope="mcp""#]),
        (&["Authorization: Basic YTpi"], 401, &["Bearer "]),
        (&[ADA, ADA], 401, &["Bearer "]),
    ] {
        let mut wire = site.connect().await;
        let answer = wire.ask(headers, &call(1, "whoami", json!({}))).await;
        assert_eq!(answer.refusal(), (status, -32600), "{headers:?}");
        assert_eq!(answer.json().get("id"), None, "the body has not been read");
        let challenge = answer.head.get("www-authenticate").expect("a challenge");
        for part in parts {
            assert!(challenge.contains(part), "{challenge}");
        }
        assert!(!answer.body.contains("eve-token") && !answer.body.contains("wrong"), "{}", answer.body);
    }
    // The metadata is served without a token, unless the host is wrong.
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let mut wire = site.connect().await;
        wire.request(&format!("GET {path}"), &["Host: localhost"], "").await;
        let answer = wire.answer().await;
        assert_eq!((answer.status(), &answer.json()["resource"]), (200, &json!("http://localhost/mcp")));
        assert_eq!(answer.json()["authorization_servers"], json!(["https://issuer.example"]));
        wire.request(&format!("GET {path}"), &["Host: evil.example"], "").await;
        assert_eq!(wire.answer().await.status(), 403);
    }
}

#[tokio::test]
async fn a_session_belongs_to_one_principal() {
    let site = TestSite::of(test_server().0.http().authenticate(tokens())).await;
    let mut wire = site.connect().await;
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = wire.ask(&[ADA], &initialize).await;
    let session = format!("Mcp-Session-Id: {}", answer.head.get("mcp-session-id").expect("a session"));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(wire.ask(&[ADA, &session], &initialized).await.status(), 202);
    assert_eq!(wire.ask(&[BOB, &session], &call(1, "whoami", json!({}))).await.refusal(), (404, -32600));
    wire.get(&[BOB, &session]).await;
    assert_eq!(wire.answer().await.status(), 404);
    wire.request("DELETE /mcp", &["Host: localhost", BOB, &session], "").await;
    assert_eq!(wire.answer().await.status(), 404);
    let answer = wire.ask(&[ADA, &session], &call(1, "whoami", json!({}))).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "ada", "it is still there");
}

#[tokio::test]
async fn state_of_one_principal_is_refused_from_another() {
    let capable = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let ask = async |wire: &mut crate::wire::Wire, token: &str, more: serde_json::Value| {
        let mut params = json!({"name": "ask_twice", "_meta": capable});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let (headers, message) = crate::wire::modern(1, "tools/call", params);
        let headers: Vec<&str> = headers.iter().map(String::as_str).chain([token]).collect();
        wire.ask(&headers, &message).await.json()
    };
    // The tool asks twice, so that there is state after the first answer.
    let (server, _) = test_server();
    let server = server.tool("ask_twice", "Asks twice", |call: barewire::server::Call| async move {
        let crate::Name { name: one } = call.ask("one", barewire::server::Elicit::form("One?")).await?;
        let crate::Name { name: two } = call.ask("two", barewire::server::Elicit::form("Two?")).await?;
        Ok::<_, barewire::server::AskError>(format!("{one}{two}"))
    });
    let site = TestSite::of(server.http().authenticate(tokens())).await;
    let mut wire = site.connect().await;
    let answer = |key: &str| json!({"inputResponses": {key: {"action": "accept", "content": {"name": key}}}});
    let second = ask(&mut wire, ADA, answer("one")).await;
    assert_eq!(second["result"]["resultType"], "input_required");
    let mut more = answer("two");
    more["requestState"] = second["result"]["requestState"].clone();
    assert!(more["requestState"].is_string());
    let stolen = ask(&mut wire, BOB, more.clone()).await;
    assert_eq!(stolen["error"]["code"], -32602);
    let done = ask(&mut wire, ADA, more).await;
    assert_eq!(done["result"]["content"][0]["text"], "onetwo");
}

/// Requires a proof for exactly this method and URI.
struct Proof;

impl Authenticate for Proof {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let proof = head.headers.get("dpop").and_then(|proof| proof.to_str().ok());
            match proof {
                Some(proof) if proof == format!("{} {}", head.method, head.uri) => Ok(Principal::new("prover")),
                _ => Err(AuthError::unauthorized().challenge("DPoP algs=\"ES256\"".parse().expect("a value"))),
            }
        })
    }
}

/// Writes down what `Debug` shows of each head.
struct Shown(Arc<Mutex<String>>);

impl Authenticate for Shown {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthenticateFuture<'a> {
        *self.0.lock().expect("no panic") += &format!("{head:?} {:?} {:#?}", head.headers, head.headers);
        Box::pin(async { Err(AuthError::unauthorized()) })
    }
}

#[tokio::test]
async fn debug_output_of_a_head_has_no_secrets() {
    let shown = Arc::new(Mutex::new(String::new()));
    let site = TestSite::of(test_server().0.http().authenticate(Shown(Arc::clone(&shown)))).await;
    let headers = [
        "Host: localhost",
        "Content-Type: application/json",
        ACCEPT,
        "Authorization: Bearer hunter2",
        "Authorization: DPoP hunter2",
        "DPoP: hunter2",
        "Cookie: a=hunter2",
        "Proxy-Authorization: Basic hunter2",
    ];
    for first in ["POST /mcp", "GET /mcp", "DELETE /mcp"] {
        let mut wire = site.connect().await;
        let headers: Vec<&str> = headers.iter().copied().chain(["Mcp-Session-Id: s"]).collect();
        wire.request(first, &headers, if first.starts_with("POST") { "{}" } else { "" }).await;
        assert_eq!(wire.answer().await.status(), 401, "{first}");
    }
    let shown = shown.lock().expect("no panic");
    assert!(shown.contains("authorization") && shown.contains("application/json"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn a_custom_check_sees_the_whole_head_and_sets_its_challenge() {
    let site = TestSite::of(test_server().0.http().authenticate(Proof).behind_tls()).await;
    let mut wire = site.connect().await;
    let answer = wire.ask(&[], &call(1, "whoami", json!({}))).await;
    assert_eq!((answer.status(), answer.head.get("www-authenticate")), (401, Some("DPoP algs=\"ES256\"")));
    let (headers, message) = crate::wire::modern(1, "tools/call", json!({"name": "whoami"}));
    let headers: Vec<&str> =
        headers.iter().map(String::as_str).chain(["DPoP: POST https://localhost/mcp?x=1"]).collect();
    let mut all = vec!["Host: localhost", "Content-Type: application/json", ACCEPT];
    all.extend(headers);
    wire.request("POST /mcp?x=1", &all, &message.to_string()).await;
    assert_eq!(wire.answer().await.json()["result"]["content"][0]["text"], "prover");
}
