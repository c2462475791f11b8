//! Access tokens of an issuer over real sockets: what is accepted, and every attack that is refused.

#[path = "access_tokens/attacks.rs"]
mod attacks;
#[cfg(target_os = "linux")]
#[path = "access_tokens/cost.rs"]
mod cost;
#[path = "access_tokens/dpop.rs"]
mod dpop;
mod eventually;
#[path = "access_tokens/introspection.rs"]
mod introspection;
#[path = "access_tokens/issuer.rs"]
mod issuer;
#[path = "access_tokens/issuer_fails.rs"]
mod issuer_fails;
#[path = "access_tokens/keys.rs"]
mod keys;
mod log;
#[path = "access_tokens/lying_issuer.rs"]
mod lying_issuer;
#[path = "oauth/party.rs"]
#[allow(dead_code, reason = "these tests do not look at what an issuer receives")]
mod party;
#[path = "access_tokens/scopes.rs"]
mod scopes;
#[path = "access_tokens/tokens.rs"]
mod tokens;
#[path = "http_server/wire.rs"]
#[allow(dead_code, reason = "these tests read no streams")]
mod wire;

use barewire::Server;
use barewire::server::Call;
use barewire::server::http::{AccessTokens, HttpBuilder};
use serde_json::{Value, json};
use wire::{HttpResponse, Wire};

/// The URL of the server under test, as its clients use it.
const RESOURCE: &str = "http://localhost/mcp";

/// A server whose tool says what it knows about the sender.
fn server() -> Server {
    Server::new("test", "1")
        .tool("whoami", "Who is it", |call: Call| async move {
            let Some(principal) = call.principal() else { return "nobody".to_owned() };
            let claims: Value = principal.claims_as().expect("the claims are JSON");
            let (name, client, scopes) = (principal.name(), principal.client_id(), principal.granted_scopes());
            json!({"name": name, "client": client, "scopes": scopes, "tenant": claims["tenant"]}).to_string()
        })
        .tool("echo", "Answers", || async { "echo" })
}

/// A running server.
struct Site {
    addr: std::net::SocketAddr,
}

impl Site {
    async fn of(http: HttpBuilder) -> Self {
        let listener = http.bind("127.0.0.1:0").await.expect("bound");
        let addr = listener.local_addr().expect("bound");
        tokio::spawn(listener.run());
        Self { addr }
    }

    async fn with(tokens: AccessTokens) -> Self {
        Self::of(server().http().authenticate(tokens)).await
    }

    /// Calls a method with these headers, on a connection of its own.
    async fn ask(&self, headers: &[&str], method: &str, params: Value) -> HttpResponse {
        let mut wire = Wire::to(self.addr).await;
        let (mine, message) = wire::modern(1, method, params);
        let headers: Vec<&str> = mine.iter().map(String::as_str).chain(headers.iter().copied()).collect();
        wire.ask(&headers, &message).await
    }

    /// Calls the tool `whoami` with a bearer token.
    async fn whoami(&self, token: &str) -> HttpResponse {
        self.ask(&[&format!("Authorization: Bearer {token}")], "tools/call", json!({"name": "whoami"})).await
    }
}

/// Returns the text of a tool's result.
#[track_caller]
fn text(response: &HttpResponse) -> String {
    let json = response.json();
    json["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no result: {response:?}")).to_owned()
}

/// Returns the challenges of a response, one a line.
fn challenges(response: &HttpResponse) -> String {
    let challenges = response.head.headers.iter().filter(|(name, _)| name == "www-authenticate");
    challenges.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("\n")
}
