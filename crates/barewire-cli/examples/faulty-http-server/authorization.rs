//! Access tokens: metadata documents, a token endpoint, and the refusal of requests without a valid token.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::Server;
use super::wire::{Request, Response};

impl Server {
    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn resource(&self) -> String {
        format!("{}/mcp", self.origin())
    }

    /// Returns a token of each kind: the valid one, and those that must be refused.
    pub(crate) fn tokens(&self) -> Value {
        let valid = json!({"iss": self.origin(), "aud": self.resource(), "exp": END, "scope": "use call"});
        let token = |member: &str, value: Value| {
            let mut claims = valid.clone();
            claims[member] = value;
            signed(&claims)
        };
        json!({
            "valid": signed(&valid),
            "other-audience": token("aud", json!("https://other.example/mcp")),
            "expired": token("exp", json!(1_700_000_000)),
            "other-issuer": token("iss", json!("https://other.example")),
            "no-scope": token("scope", json!("use")),
        })
    }

    /// Returns a metadata document, or the answer of the token endpoint.
    pub(crate) fn document(&self, request: &Request) -> Option<Response> {
        if !self.has_auth {
            return None;
        }
        let metadata = match request.path.as_str() {
            "/.well-known/oauth-protected-resource/mcp" => self.resource_metadata()?,
            "/other-metadata" => json!({
                "resource": self.resource(),
                "authorization_servers": [format!("{}/other", self.origin())],
            }),
            "/.well-known/oauth-authorization-server/other" => self.server_metadata("/other")?,
            "/.well-known/oauth-authorization-server" => self.server_metadata("")?,
            "/token" => return Some(self.token(request)),
            _ => return None,
        };
        // A token must not be sent there.
        if request.header("authorization").is_some() || request.header("dpop").is_some() {
            return Some(Response::new(400));
        }
        if self.has("resource-metadata-is-html") && request.path.contains("protected-resource") {
            return Some(Response::new(200).page("<html>Welcome</html>", "text/html"));
        }
        if self.has("resource-metadata-is-text") && request.path.contains("protected-resource") {
            return Some(Response::new(200).page(&metadata.to_string(), "text/plain"));
        }
        Some(Response::new(200).json(&metadata))
    }

    fn resource_metadata(&self) -> Option<Value> {
        if self.has("no-resource-metadata") {
            return None;
        }
        let resource = match () {
            () if self.has("other-resource") => "https://other.example/mcp".to_owned(),
            () if self.has("resource-is-origin") => self.origin(),
            () => self.resource(),
        };
        let issuer = if self.has("plain-http-issuer") { "http://issuer.example".to_owned() } else { self.origin() };
        let scopes = if self.has("metadata-with-offline-access") { vec!["use", "offline_access"] } else { vec!["use"] };
        let mut metadata = json!({
            "resource": resource,
            "authorization_servers": if self.has("no-authorization-servers") { vec![] } else { vec![issuer] },
            "scopes_supported": scopes,
        });
        if self.has_dpop {
            metadata["dpop_bound_access_tokens_required"] = json!(true);
            metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
        }
        Some(metadata)
    }

    /// Returns the metadata of the authorization server at this path.
    fn server_metadata(&self, path: &str) -> Option<Value> {
        if self.has("no-server-metadata") {
            return None;
        }
        let origin = self.origin();
        let end = if self.has("other-issuer-in-metadata") { "/" } else { path };
        let token_host = if self.has("plain-http-token-endpoint") { "http://issuer.example" } else { origin.as_str() };
        let methods = if self.has("plain-pkce") { ["plain"] } else { ["S256"] };
        let mut metadata = json!({
            "issuer": format!("{origin}{end}"),
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{token_host}/token"),
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "dpop_signing_alg_values_supported": ["ES256"],
        });
        if !self.has("no-pkce") {
            metadata["code_challenge_methods_supported"] = json!(methods);
        }
        if !self.has("no-response-iss") {
            metadata["authorization_response_iss_parameter_supported"] = json!(true);
        }
        if !self.has("no-registration") {
            metadata["client_id_metadata_document_supported"] = json!(true);
        }
        if self.has("no-token-endpoint") {
            metadata.as_object_mut().expect("an object").remove("token_endpoint");
        }
        Some(metadata)
    }

    /// Issues a token that is bound to a key, to the client whose secret is known.
    fn token(&self, request: &Request) -> Response {
        let expected = format!("Basic {}", STANDARD.encode("checker:open-sesame"));
        if request.header("authorization") != Some(expected.as_str()) || request.header("dpop").is_none() {
            return Response::new(401).json(&json!({"error": "invalid_client"}));
        }
        let token = self.tokens()["valid"].clone();
        Response::new(200).json(&json!({"access_token": token, "token_type": "DPoP", "expires_in": 3600}))
    }

    /// Returns a refusal if the request does not have a valid token.
    pub(crate) fn authorize(&self, request: &Request) -> Option<Response> {
        if !self.has_auth {
            return None;
        }
        let Some(authorization) = request.header("authorization") else {
            return match () {
                () if self.has("no-token-is-403") => Some(Response::new(403)),
                () if self.has("no-token-is-302") => Some(Response::new(302).header("Location", "/login")),
                () if self.has("no-token-is-served") => None,
                () => Some(self.refuse(401, "")),
            };
        };
        let (scheme, token) = authorization.split_once(' ').unwrap_or(("", authorization));
        if !self.is_accepted(token) || !self.is_proven(scheme, request) {
            let status = if self.has("invalid-token-is-403") { 403 } else { 401 };
            return Some(self.refuse(status, "error=\"invalid_token\", "));
        }
        // Calls of tools need a scope of their own.
        let claims = claims(token).unwrap_or_default();
        let needs_scope = String::from_utf8_lossy(&request.body).contains("\"tools/call\"");
        let has_scope = claims["scope"].as_str().is_none_or(|scope| scope.split(' ').any(|it| it == "call"));
        if !needs_scope || has_scope || self.has("any-scope") {
            return None;
        }
        Some(match () {
            () if self.has("scope-is-401") => self.refuse(401, "error=\"insufficient_scope\", "),
            () if self.has("scope-without-name") => {
                Response::new(403).header("WWW-Authenticate", "Bearer error=\"insufficient_scope\"")
            }
            () => {
                let challenge = "Bearer error=\"insufficient_scope\", scope=\"use call\"";
                Response::new(403).header("WWW-Authenticate", challenge)
            }
        })
    }

    fn refuse(&self, status: u16, error: &str) -> Response {
        let path = match () {
            () if self.has("challenge-leads-nowhere") => "/nowhere",
            () if self.has("two-resource-metadata") => "/other-metadata",
            () => "/.well-known/oauth-protected-resource/mcp",
        };
        let scope = if self.has("challenge-with-offline-access") { "use offline_access" } else { "use" };
        let scheme = if self.has_dpop { "DPoP algs=\"ES256\"," } else { "Bearer" };
        let metadata = match self.has("no-resource-metadata") {
            true => String::new(),
            false => format!(", resource_metadata=\"{}{path}\"", self.origin()),
        };
        let challenge = format!("{scheme} {error}scope=\"{scope}\"{metadata}");
        Response::new(status).header("WWW-Authenticate", &challenge)
    }

    /// Whether the signature and the claims of a token are right. Nothing here is cryptography: the signature is a word.
    fn is_accepted(&self, token: &str) -> bool {
        let Some(claims) = claims(token) else { return self.has("any-opaque-token") };
        let signature = token.rsplit('.').next().unwrap_or_default();
        let is_signed = match signature {
            "" => self.has("unsigned-tokens"),
            signature => signature == URL_SAFE_NO_PAD.encode(SIGNATURE) || self.has("any-signature"),
        };
        is_signed
            && (claims["iss"] == json!(self.origin()) || self.has("any-issuer"))
            && (claims["aud"] == json!(self.resource()) || self.has("any-audience"))
            && (claims["exp"] == json!(END) || self.has("any-expiry"))
    }

    /// Whether the proof of a bound token is for this request. Its signature is not looked at.
    fn is_proven(&self, scheme: &str, request: &Request) -> bool {
        if !self.has_dpop {
            return scheme == "Bearer";
        }
        if scheme == "Bearer" {
            return self.has("bound-token-as-bearer");
        }
        let Some(proof) = request.header("dpop").and_then(claims) else { return false };
        let id = proof["jti"].as_str().unwrap_or_default().to_owned();
        let is_new = self.state.lock().expect("no thread panics").proofs.insert(id);
        (is_new || self.has("proof-as-often-as-you-like"))
            && (proof["htm"] == json!(request.verb) || self.has("proof-for-any-method"))
            && (proof["htu"] == json!(self.resource()) || self.has("proof-for-any-url"))
    }
}

fn signed(claims: &Value) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part(r#"{"alg":"ES256"}"#), part(&claims.to_string()), part(SIGNATURE))
}

/// Returns the claims of a token or proof.
fn claims(token: &str) -> Option<Value> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&payload).ok()
}

/// The time at which valid tokens expire, in the year 2096.
const END: u64 = 4_000_000_000;
/// The text that stands for the signature of the authorization server.
const SIGNATURE: &str = "signed by the authorization server of the faulty server";
