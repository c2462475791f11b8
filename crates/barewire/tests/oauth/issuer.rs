//! An honest authorization server on this machine, which checks what it receives, and can be told to answer otherwise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use super::keys::SigningKey;
use super::party::{Asked, Gate, Party, Reply};

/// The metadata of an authorization server is at this path.
pub(crate) const METADATA: &str = "/.well-known/oauth-authorization-server";

/// A running authorization server.
pub(crate) struct Issuer {
    pub(crate) party: Party,
    state: Arc<Mutex<IssuerState>>,
}

/// The state of an authorization server.
pub(crate) struct IssuerState {
    origin: String,
    key: SigningKey,
    /// Answers at these paths instead of honest ones. The last answer of a path is used again.
    pub(crate) instead: BTreeMap<&'static str, Vec<Reply>>,
    /// Members of the metadata that are replaced; `null` removes one.
    pub(crate) metadata: Value,
    /// Members of the token response that are replaced.
    pub(crate) token: Value,
    /// The lifetime of access tokens, in seconds.
    pub(crate) lifetime: u64,
    /// The gate that token responses wait for.
    pub(crate) gate: Option<Arc<Gate>>,
    codes: BTreeMap<String, Grant>,
    refresh_tokens: BTreeMap<String, Grant>,
    issued: usize,
}

/// What a code or a refresh token stands for.
#[derive(Clone)]
struct Grant {
    client: String,
    challenge: String,
    redirect_uri: String,
    resource: String,
    scope: String,
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        let state = Arc::new(Mutex::new(IssuerState {
            origin: String::new(),
            key: SigningKey::p256(),
            instead: BTreeMap::new(),
            metadata: json!({}),
            token: json!({}),
            lifetime: 600,
            gate: None,
            codes: BTreeMap::new(),
            refresh_tokens: BTreeMap::new(),
            issued: 0,
        }));
        let answering = Arc::clone(&state);
        let party = Party::start(|origin| {
            answering.lock().expect("no panic").origin = origin.to_owned();
            move |asked: &Asked| answering.lock().expect("no panic").answer(asked)
        });
        Self { party: party.await, state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, IssuerState> {
        self.state.lock().expect("no panic")
    }

    pub(crate) fn name(&self) -> &str {
        &self.party.origin
    }

    /// Answers requests for this path with these, one after the other, and then always with the last one.
    pub(crate) fn answer_instead(&self, path: &'static str, replies: impl Into<Vec<Reply>>) {
        self.state().instead.insert(path, replies.into());
    }

    /// Returns the public keys.
    pub(crate) fn jwks(&self) -> String {
        json!({"keys": [self.state().key.named("k1")]}).to_string()
    }

    /// Returns the requests to the token endpoint.
    pub(crate) fn token_requests(&self) -> Vec<Asked> {
        self.party.requests().into_iter().filter(|asked| asked.path == "/token").collect()
    }
}

impl IssuerState {
    fn answer(&mut self, asked: &Asked) -> Reply {
        if let Some((_, replies)) = self.instead.iter_mut().find(|(path, _)| **path == asked.path) {
            return if replies.len() > 1 { replies.remove(0) } else { replies[0].clone() };
        }
        match (&*asked.method, &*asked.path) {
            ("GET", METADATA) => Reply::Json(200, self.metadata()),
            ("POST", "/register") => {
                self.issued += 1;
                let mut client: Value = serde_json::from_str(&asked.body).expect("a registration is JSON");
                client["client_id"] = self.unique("client").into();
                Reply::Json(201, client)
            }
            ("GET", "/authorize") => self.authorize(asked),
            ("POST", "/token") => match (self.token(asked), &self.gate) {
                (reply, None) => reply,
                (reply, Some(gate)) => Reply::Held(Arc::clone(gate), Box::new(reply)),
            },
            _ => Reply::Header(404, "X-Why: unknown".to_owned()),
        }
    }

    fn metadata(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.origin);
        let mut metadata = json!({
            "issuer": self.origin, "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"), "code_challenge_methods_supported": ["S256"],
            "response_types_supported": ["code"], "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": true,
        });
        replace(&mut metadata, &self.metadata);
        metadata
    }

    /// Returns a text that no other issuer makes.
    fn unique(&self, what: &str) -> String {
        format!("{what}-{}-of-{}", self.issued, self.origin.rsplit(':').next().expect("a port"))
    }

    /// Agrees as a user would, and redirects the browser back with a code.
    fn authorize(&mut self, asked: &Asked) -> Reply {
        let parameter = |name: &str| asked.parameter(name).unwrap_or_default();
        assert_eq!(parameter("code_challenge_method"), "S256");
        self.issued += 1;
        let code = self.unique("code");
        let grant = Grant {
            client: parameter("client_id"),
            challenge: parameter("code_challenge"),
            redirect_uri: parameter("redirect_uri"),
            resource: parameter("resource"),
            scope: parameter("scope"),
        };
        let (state, back) = (parameter("state"), grant.redirect_uri.clone());
        self.codes.insert(code.clone(), grant);
        Reply::redirect(302, format_args!("{back}?code={code}&state={state}&iss={}", self.origin))
    }

    /// Redeems a code or a refresh token, each of which is good once.
    fn token(&mut self, asked: &Asked) -> Reply {
        let field = |name: &str| asked.field(name).unwrap_or_default();
        let grant = match &*field("grant_type") {
            "authorization_code" => self.codes.remove(&field("code")).filter(|grant| {
                let verifier = ring::digest::digest(&ring::digest::SHA256, field("code_verifier").as_bytes());
                grant.challenge == BASE64.encode(verifier) && grant.redirect_uri == field("redirect_uri")
            }),
            "refresh_token" => self.refresh_tokens.remove(&field("refresh_token")),
            _ => None,
        };
        let asked_for = |grant: &Grant| grant.client == field("client_id") && grant.resource == field("resource");
        let Some(grant) = grant.filter(asked_for) else { return Reply::Json(400, json!({"error": "invalid_grant"})) };
        self.issued += 1;
        let (refresh, now) = (self.unique("refresh-hunter"), now());
        let claims = json!({
            "iss": self.origin, "aud": grant.resource, "sub": "ada", "client_id": grant.client, "scope": grant.scope,
            "iat": now, "exp": now + self.lifetime, "jti": self.issued.to_string(),
        });
        let access = self.key.token(&json!({"alg": "ES256", "kid": "k1", "typ": "at+jwt"}), &claims);
        let mut token = json!({
            "access_token": access, "token_type": "Bearer", "expires_in": self.lifetime, "refresh_token": refresh,
            "scope": grant.scope,
        });
        replace(&mut token, &self.token);
        self.refresh_tokens.insert(refresh, grant);
        Reply::Json(200, token)
    }
}

fn replace(document: &mut Value, members: &Value) {
    for (name, value) in members.as_object().expect("an object") {
        match value {
            Value::Null => drop(document.as_object_mut().expect("an object").remove(name)),
            value => document[name] = value.clone(),
        }
    }
}

/// Returns the time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}
