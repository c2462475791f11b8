//! Scopes of tools, prompts and resources.

use barewire::Server;
use barewire::server::http::{AccessTokens, BearerTokens, DpopRole, Principal, ScopeHierarchy};
use barewire::server::{Prompt, Resource, Template, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::issuer::issuer_with_key;
use crate::wire::Wire;
use crate::{RESOURCE, Site, challenges};

#[derive(Deserialize, JsonSchema)]
struct Id {
    id: String,
}

fn scoped_server() -> Server {
    Server::new("scoped", "1")
        .with(Tool::new("read", "Reads", || async { "read" }).scope("files:read"))
        .with(Tool::new("move", "Moves", || async { "moved" }).scope("files:read").scope("files:write"))
        .tool("free", "Needs nothing", || async { "free" })
        .with(Prompt::new("plan", "Plans", |Id { id }| async move { id }).scope("plans"))
        .with(Resource::text("file://secret", "secret", "s").scope("files:read"))
        .with(
            Template::new("file://by/{id}", "by", |Id { id }| async move { id })
                .scope("files:write")
                .complete("id", |_| async { vec!["a".to_owned()] }),
        )
        .with(Resource::text("file://open", "open", "o"))
}

fn tokens() -> BearerTokens {
    let hierarchy = std::sync::Arc::new(
        ScopeHierarchy::new().implies("admin", ["files:write"]).implies("files:write", ["files:read"]),
    );
    let principal = |name: &'static str, scopes: &[&str]| {
        Principal::new(name).scopes(scopes.iter().copied()).hierarchy(std::sync::Arc::clone(&hierarchy))
    };
    BearerTokens::new()
        .token("none", principal("none", &[]))
        .token("reader", principal("reader", &["files:read"]))
        .token("writer", principal("writer", &["files:write"]))
        .token("admin", principal("admin", &["admin"]))
}

#[tokio::test]
async fn a_request_needs_the_scopes_of_what_it_reaches() {
    let site = Site::of(scoped_server().http().authenticate(tokens())).await;
    let tool = |name: &str| ("tools/call", json!({"name": name}));
    let read = |uri: &str| ("resources/read", json!({"uri": uri}));
    let complete =
        |reference: Value| ("completion/complete", json!({"ref": reference, "argument": {"name": "id", "value": ""}}));
    let listen = |uri: &str| ("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [uri]}}));
    for (token, (method, params), needed) in [
        ("none", tool("free"), None),
        ("none", tool("read"), Some("files:read")),
        ("none", tool("move"), Some("files:read files:write")),
        // The scope that the sender has is named too: a new token needs all of them.
        ("reader", tool("move"), Some("files:read files:write")),
        ("reader", tool("read"), None),
        ("writer", tool("move"), None),
        ("admin", tool("move"), None),
        ("none", tool("unknown"), None),
        ("reader", ("prompts/get", json!({"name": "plan", "arguments": {"id": "1"}})), Some("plans")),
        ("none", read("file://open"), None),
        ("none", read("file://secret"), Some("files:read")),
        ("reader", read("file://by/1"), Some("files:write")),
        ("writer", read("file://by/1"), None),
        ("reader", complete(json!({"type": "ref/resource", "uri": "file://by/{id}"})), Some("files:write")),
        ("writer", complete(json!({"type": "ref/resource", "uri": "file://by/{id}"})), None),
        ("writer", complete(json!({"type": "ref/prompt", "name": "plan"})), Some("plans")),
        ("none", listen("file://secret"), Some("files:read")),
        ("none", ("tools/list", json!({})), None),
    ] {
        let answer = site.ask(&[&format!("Authorization: Bearer {token}")], method, params.clone()).await;
        match needed {
            None => assert_eq!(answer.status(), 200, "{token} {method} {params}: {answer:?}"),
            Some(needed) => {
                assert_eq!(answer.status(), 403, "{token} {method} {params}");
                let challenge = challenges(&answer);
                assert!(challenge.contains(r#"error="insufficient_scope""#), "{challenge}");
                assert_eq!(answer.json()["id"], 1, "the error answers the request");
                assert!(challenge.contains(&format!(r#"scope="{needed}""#)), "{challenge}");
            }
        }
    }
}

#[tokio::test]
async fn a_name_cannot_hide_its_scopes() {
    let site = Site::of(scoped_server().http().authenticate(tokens())).await;
    let mut wire = Wire::to(site.addr).await;
    let header = "Authorization: Bearer none";
    let params =
        json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = wire.ask(&[header], &initialize).await;
    let session = format!("Mcp-Session-Id: {}", answer.head.get("mcp-session-id").expect("a session"));
    wire.ask(&[header, &session], &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let common = ["Host: localhost", "Content-Type: application/json", crate::wire::ACCEPT, header, &session];
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"\u0072ead"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"free","name":"read"}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"free"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read"}}]"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file://secret"}}"#,
    ] {
        wire.request("POST /mcp", &common, body).await;
        let answer = wire.answer().await;
        assert_eq!(answer.status(), 403, "{body}: {answer:?}");
        assert!(challenges(&answer).contains(r#"scope="files:read""#));
    }
    let free = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"free"}}]"#;
    wire.request("POST /mcp", &common, free).await;
    assert_eq!(wire.answer().await.status(), 200);
}

#[tokio::test]
async fn the_scopes_of_the_server_and_of_the_tool_are_named_together() {
    let (key, issuer) = issuer_with_key().await;
    let tokens = AccessTokens::jwt(&issuer.url, RESOURCE)
        .require(["basic"])
        .hierarchy(ScopeHierarchy::new().implies("all", ["basic", "files:read"]));
    let site = Site::of(scoped_server().http().authenticate(tokens)).await;
    for (scope, tool, status) in [
        ("", "free", 403),
        ("basic", "free", 200),
        ("basic", "read", 403),
        ("files:read", "read", 403),
        ("basic files:read", "read", 200),
        ("all", "read", 200),
        ("all", "move", 403),
    ] {
        let mut claims = issuer.claims(RESOURCE);
        claims["scope"] = scope.into();
        let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims);
        let answer = site.ask(&[&format!("Authorization: Bearer {token}")], "tools/call", json!({"name": tool})).await;
        assert_eq!(answer.status(), status, "{scope:?} {tool}");
        let needed = match (status, tool) {
            (200, _) => continue,
            (_, "free") => r#"scope="basic""#,
            (_, "read") => r#"scope="basic files:read""#,
            (_, _) => r#"scope="basic files:read files:write""#,
        };
        assert!(challenges(&answer).contains(needed), "{}", challenges(&answer));
        assert!(challenges(&answer).contains("resource_metadata="), "{}", challenges(&answer));
    }
    // A stream needs what every request needs.
    let mut claims = issuer.claims(RESOURCE);
    claims["scope"] = "".into();
    let token = format!("Authorization: Bearer {}", key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims));
    let mut wire = Wire::to(site.addr).await;
    wire.get(&[&token, "Mcp-Session-Id: unknown"]).await;
    assert_eq!(wire.answer().await.status(), 403);
}

#[tokio::test]
async fn a_scope_that_is_missing_is_asked_for_with_the_scheme_of_the_token() {
    let (key, issuer) = issuer_with_key().await;
    let tokens = AccessTokens::jwt(&issuer.url, RESOURCE).dpop(DpopRole::Unused);
    let site = Site::of(scoped_server().http().authenticate(tokens)).await;
    let token = key.token(&json!({"alg": "ES256", "kid": "k1"}), &issuer.claims(RESOURCE));
    let answer = site.ask(&[&format!("Authorization: Bearer {token}")], "tools/call", json!({"name": "read"})).await;
    assert_eq!(answer.status(), 403);
    assert!(challenges(&answer).starts_with("Bearer ") && !challenges(&answer).contains("DPoP"));
}
