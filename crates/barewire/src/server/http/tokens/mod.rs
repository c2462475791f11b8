//! Access tokens of an issuer: the head of a request -> its principal, by the token's signature or the issuer's word,
//! and by a proof if the token is bound to a key.
//!
//! ```text
//! Authorization ─ hash ─┬─ remembered ───────────────────────┬─ proof ── scopes ── principal
//!                       └─ issuer's keys ─ signature ─ claims┘
//!                        └─ issuer's answer ───────── claims ┘
//! ```
//!
//! Which tokens are good is decided in `barewire_proto::auth::server`; this folder has the keys, the clock, the network
//! and the memory.

mod document;
mod introspection;
mod issuer;
mod nonce;
mod proofs;
mod remembered;
mod verify;

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use barewire_proto::auth::server::{
    BadJws, Claims, ClaimsRefusal, Confirmation, DpopRole, ExpectedClaims, JwkSet, Jws, MAX_TOKEN_BYTES,
    PresentedToken, ProofRefusal, Scheme, ScopeHierarchy, TokenForm, credentials, is_secure_url, metadata_urls,
    normal_url,
};
use http::HeaderName;

use super::principal::ChallengeStyle;
use super::{AuthError, Authenticate, AuthenticateFuture, Principal, ProtectedResource, RequestHead};
use crate::client::http::Secret;
use crate::headers::HeaderMapView;
use introspection::{Answer, Introspection};
use issuer::{Issuer, IssuerKeys, NoKeys};
use nonce::{NonceAge, Nonces};
use proofs::{BadProof, Proofs};
use remembered::Remembered;
use verify::{is_signed_by, sha256};

/// Access tokens of an OAuth issuer, for [`HttpBuilder::authenticate`](super::HttpBuilder::authenticate).
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), barewire::Error> {
/// use barewire::Server;
/// use barewire::server::Tool;
/// use barewire::server::http::AccessTokens;
///
/// let tokens = AccessTokens::jwt("https://issuer.example", "https://mcp.example.com/mcp").require(["files:read"]);
/// let server = Server::new("files", "1.0")
///     .with(Tool::new("remove", "Removes a file", || async {}).scope("files:write"));
/// server.http().hosts(["mcp.example.com"]).behind_tls().authenticate(tokens).bind("0.0.0.0:8080").await?.run().await;
/// # Ok(()) }
/// ```
///
/// A token must be issued by this issuer, for one of the audiences, and must not have expired. Which tool, prompt or
/// resource needs which scope is set there, as with [`Tool::scope`](crate::server::Tool::scope). The principal's name is
/// the token's subject, or `client:` with the client's id if it has none. The metadata that tells clients where to get
/// a token is served too, if the audience is the URL of the server.
///
/// A token that was verified is remembered until it expires, by its hash, so a call costs hardly more than one without a
/// token. Tokens that are bound to a key (DPoP, RFC 9449) are accepted with a proof, and never without.
pub struct AccessTokens {
    issuer: Arc<Issuer>,
    audiences: Vec<String>,
    required: Vec<String>,
    hierarchy: Option<Arc<ScopeHierarchy>>,
    source: TokenSource,
    dpop: DpopRole,
    proofs: Proofs,
    remembered: Remembered<Arc<GoodToken>>,
    /// Tokens that the issuer does not know, so that a client that sends one again and again is not asked about.
    unknown: Remembered<ClaimsRefusal>,
    settings_error: Option<String>,
}

/// The way in which the claims of a token are found out.
enum TokenSource {
    /// The token is a JWT, signed by the issuer.
    Jwt {
        /// Whether only tokens with the type `at+jwt` are accepted.
        only_access_tokens: bool,
    },
    /// The issuer is asked.
    Introspection(Introspection),
}

/// A token that was verified.
struct GoodToken {
    principal: Principal,
    /// The thumbprint of the key that the token is bound to.
    bound_to: Option<String>,
    /// The number of the issuer's keys that the token was verified with.
    keys_version: u64,
}

impl AccessTokens {
    /// Accepts JWTs that this issuer has signed for this audience: the URL of the server, as clients use it. The issuer's
    /// metadata and keys are fetched when they are needed.
    pub fn jwt(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        Self::new(issuer.into(), audience.into(), TokenSource::Jwt { only_access_tokens: false })
    }

    /// Accepts tokens that this issuer calls active, and that it has issued for this audience. The issuer is asked for
    /// each token, with the id and the secret that this server has there, at most once a minute (RFC 7662).
    pub fn introspected(
        issuer: impl Into<String>,
        audience: impl Into<String>,
        client_id: impl Into<String>,
        secret: impl Into<Secret>,
    ) -> Self {
        let source = TokenSource::Introspection(Introspection::new(client_id.into(), secret.into()));
        Self::new(issuer.into(), audience.into(), source)
    }

    fn new(issuer: String, audience: String, source: TokenSource) -> Self {
        Self {
            issuer: Arc::new(Issuer::new(issuer)),
            audiences: vec![audience],
            required: Vec::new(),
            hierarchy: None,
            source,
            dpop: DpopRole::Accepted,
            proofs: Proofs::new(),
            remembered: Remembered::new(MAX_REMEMBERED, MAX_REMEMBERED_BYTES),
            unknown: Remembered::new(MAX_REMEMBERED, MAX_REMEMBERED_BYTES),
            settings_error: None,
        }
    }

    fn issuer_mut(&mut self) -> &mut Issuer {
        Arc::get_mut(&mut self.issuer).expect("the issuer is shared only while requests are served")
    }

    /// Also accepts tokens for this audience.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Refuses every token that lacks one of these scopes.
    #[must_use]
    pub fn require<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.required = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets which scopes include other scopes. Without this, each scope includes only itself.
    #[must_use]
    pub fn hierarchy(mut self, hierarchy: ScopeHierarchy) -> Self {
        self.hierarchy = Some(Arc::new(hierarchy));
        self
    }

    /// Sets whether tokens may be bound to keys (DPoP). The default is [`DpopRole::Accepted`]. With
    /// [`DpopRole::Required`], a token that is not bound to a key is refused. With [`DpopRole::Unused`], one that is.
    #[must_use]
    pub fn dpop(mut self, dpop: DpopRole) -> Self {
        self.dpop = dpop;
        self
    }

    /// Requires that a DPoP proof contains a nonce of this server, so that a proof cannot be made in advance. A client
    /// gets its first nonce with a refused request, and new ones with responses, every few minutes. Servers behind one
    /// URL need the same key.
    #[must_use]
    pub fn dpop_nonce(mut self, key: Option<[u8; 32]>) -> Self {
        self.proofs.nonces = match key {
            Some(key) => Some(Nonces::with_key(&key)),
            None => Nonces::random(),
        };
        if self.proofs.nonces.is_none() {
            self.settings_error = Some("the system returns no random bytes for the nonces".to_owned());
        }
        self
    }

    /// Sets the URL that clients send requests to, which DPoP proofs contain. Required behind a proxy that changes the
    /// host or the path; otherwise the URL of the request is used.
    #[must_use]
    pub fn public_url(mut self, url: &str) -> Self {
        self.proofs.public_url = normal_url(url);
        if self.proofs.public_url.is_none() {
            self.settings_error = Some("the public URL must be like https://mcp.example.com/mcp".to_owned());
        }
        self
    }

    /// Accepts only JWTs of the type `at+jwt` (RFC 9068). Without this, `JWT` and no type are accepted too, because many
    /// issuers write these; tokens of all other types are always refused.
    #[must_use]
    pub fn only_at_jwt(mut self) -> Self {
        if let TokenSource::Jwt { only_access_tokens } = &mut self.source {
            *only_access_tokens = true;
        }
        self
    }

    /// Fetches the keys from this URL, for an issuer without metadata.
    #[must_use]
    pub fn jwks_uri(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        if !is_secure_url(&url) {
            self.settings_error = Some("the URL of the keys must be https, or http on this machine".to_owned());
        }
        self.issuer_mut().jwks_uri = Some(url);
        self
    }

    /// Uses these keys, and fetches none: a set of public keys as JSON (JWKS).
    #[must_use]
    pub fn keys(mut self, jwks: &str) -> Self {
        match JwkSet::parse(jwks.as_bytes()).filter(|set| !set.keys.is_empty()) {
            Some(set) => self.issuer_mut().set_keys(set),
            None => self.settings_error = Some("the keys must be a JWKS with a key that can be used".to_owned()),
        }
        self
    }

    /// Asks this URL about tokens, for an issuer without metadata.
    #[must_use]
    pub fn introspection_endpoint(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        if !is_secure_url(&url) {
            self.settings_error = Some("the introspection endpoint must be https, or http on this machine".to_owned());
        }
        if let TokenSource::Introspection(introspection) = &mut self.source {
            introspection.endpoint = Some(url);
        }
        self
    }

    /// Also trusts these certificate authorities for requests to the issuer: certificates in PEM format.
    #[must_use]
    pub fn trust_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.issuer_mut().roots.push(pem.into());
        self
    }

    /// Checks a request whose token is remembered, or that has none. Returns `None` if the token must be verified.
    fn check_remembered(&self, head: &RequestHead<'_>) -> Option<Result<Principal, AuthError>> {
        let headers = HeaderMapView(head.headers);
        let given = match self.credentials(&headers) {
            Ok(given) => given,
            Err(refused) => return Some(Err(refused)),
        };
        let (hash, now) = (sha256(given.token), unix_now());
        let token = self.remembered(&hash, now)?;
        self.issuer.refresh_old_keys();
        Some(
            self.check_binding(&token, head, given.scheme, &hash, now)
                .map_err(|error| self.refused(error, Some(given.scheme))),
        )
    }

    /// Checks a request whose token is not remembered.
    async fn check_new(&self, head: &RequestHead<'_>) -> Result<Principal, AuthError> {
        let headers = HeaderMapView(head.headers);
        let given = self.credentials(&headers)?;
        let (hash, now) = (sha256(given.token), unix_now());
        let token = self.good_token(given, &hash, now).await;
        // The issuer may have taken seconds to answer.
        let checked = token.and_then(|token| self.check_binding(&token, head, given.scheme, &hash, unix_now()));
        checked.map_err(|error| self.refused(error, Some(given.scheme)))
    }

    fn credentials<'a>(&self, headers: &'a HeaderMapView<'_>) -> Result<PresentedToken<'a>, AuthError> {
        let repeated = || AuthError::invalid_because("there is more than one Authorization header");
        let given = credentials(headers).map_err(|_| self.refused(repeated(), None))?;
        // With the nonce, the first proof of a client is good.
        given.ok_or_else(|| self.refused(self.with_nonce(AuthError::unauthorized(), unix_now()), None))
    }

    /// Adds to a refusal what its challenge needs.
    fn refused(&self, error: AuthError, presented: Option<Scheme>) -> AuthError {
        let style = ChallengeStyle { presented, dpop: self.dpop };
        error.scopes(self.required.iter().cloned()).style(style)
    }

    /// Checks that the sender may use the token, and returns the principal.
    fn check_binding(
        &self,
        token: &GoodToken,
        head: &RequestHead<'_>,
        scheme: Scheme,
        hash: &[u8; 32],
        now: i64,
    ) -> Result<Principal, AuthError> {
        match token.bound_to.as_deref() {
            Some(bound_to) => self.check_proof(head, scheme, hash, bound_to, now)?,
            None => self.check_unbound(scheme)?,
        }
        Ok(token.principal.clone())
    }

    /// Returns a token that was verified with the current keys and has not expired.
    fn remembered(&self, hash: &[u8; 32], now: i64) -> Option<Arc<GoodToken>> {
        self.remembered.find(hash, now).filter(|token| token.keys_version == self.issuer.version())
    }

    /// Verifies a token.
    async fn good_token(
        &self,
        given: PresentedToken<'_>,
        hash: &[u8; 32],
        now: i64,
    ) -> Result<Arc<GoodToken>, AuthError> {
        let remembered = || self.remembered.find(hash, now).filter(|token| token.keys_version == self.issuer.version());
        if let Some(token) = remembered() {
            return Ok(token);
        }
        match &self.source {
            TokenSource::Jwt { only_access_tokens } => {
                self.verify_jwt(given.token, hash, *only_access_tokens, now).await
            }
            TokenSource::Introspection(introspection) => {
                if let Some(refusal) = self.unknown.find(hash, now) {
                    return Err(AuthError::invalid_because(refusal));
                }
                if given.token.len() > MAX_TOKEN_BYTES {
                    return Err(AuthError::invalid_because(BadJws::TooLong));
                }
                let token = std::str::from_utf8(given.token).map_err(AuthError::invalid_because)?;
                let known = || self.remembered(hash, now).map(Ok).or_else(|| self.unknown.find(hash, now).map(Err));
                match introspection.ask(&self.issuer, token, known).await {
                    Answer::Known(known) => known.map_err(AuthError::invalid_because),
                    Answer::Claims(json) => self.accept_answer(&json, hash, now),
                    Answer::None => Err(AuthError::unavailable()),
                }
            }
        }
    }

    async fn verify_jwt(
        &self,
        token: &[u8],
        hash: &[u8; 32],
        only_access_tokens: bool,
        now: i64,
    ) -> Result<Arc<GoodToken>, AuthError> {
        let jws = Jws::parse(token).map_err(AuthError::invalid_because)?;
        let claims = Claims::parse(&jws.payload).map_err(AuthError::invalid_because)?;
        let form = TokenForm::Jwt { typ: jws.header.typ.as_deref(), only_access_tokens };
        // The claims come first, because a token that is not for this server is no reason to fetch keys.
        claims.check(form, &self.expected(now)).map_err(AuthError::invalid_because)?;
        let kid = jws.header.kid.as_deref();
        let algorithm = jws.header.algorithm;
        let is_signed = |keys: &IssuerKeys| {
            let mut candidates = keys.set.candidates(algorithm, kid);
            candidates.any(|key| is_signed_by(&key.key, algorithm, jws.signed, &jws.signature))
        };
        let unavailable = |NoKeys| AuthError::unavailable();
        let mut keys = self.issuer.keys().await.map_err(unavailable)?;
        let mut is_good = is_signed(&keys);
        let may_be_newer = kid.is_none_or(|kid| !keys.set.knows(kid));
        if !is_good
            && may_be_newer
            && let Some(newer) = self.issuer.newer_keys(&keys).await.map_err(unavailable)?
        {
            is_good = is_signed(&newer);
            keys = newer;
        }
        if !is_good {
            return Err(AuthError::invalid_because("no key of its issuer has signed it"));
        }
        let until = claims.expires.unwrap_or(now).saturating_add(CLOCK_LEEWAY);
        Ok(self.remember(&claims, &jws.payload, hash, (now, until), keys.version))
    }

    fn accept_answer(&self, json: &[u8], hash: &[u8; 32], now: i64) -> Result<Arc<GoodToken>, AuthError> {
        let claims = Claims::parse(json).map_err(|bad| {
            self.issuer.log.report(format_args!("the issuer {} answers with invalid claims: {bad}", self.issuer.name));
            AuthError::unavailable()
        })?;
        if let Err(refusal) = claims.check(TokenForm::Introspection, &self.expected(now)) {
            self.unknown.insert(*hash, refusal, (now, now.saturating_add(UNKNOWN_LIFETIME)), 0);
            return Err(AuthError::invalid_because(refusal));
        }
        let asked_again = now.saturating_add(INTROSPECTION_LIFETIME);
        let until = claims.expires.map_or(asked_again, |expires| expires.saturating_add(CLOCK_LEEWAY).min(asked_again));
        Ok(self.remember(&claims, json, hash, (now, until), self.issuer.version()))
    }

    fn expected(&self, now: i64) -> ExpectedClaims<'_> {
        ExpectedClaims::new(&self.issuer.name, &self.audiences, now, CLOCK_LEEWAY)
    }

    fn remember(
        &self,
        claims: &Claims,
        json: &[u8],
        hash: &[u8; 32],
        time: (i64, i64),
        keys_version: u64,
    ) -> Arc<GoodToken> {
        let bound_to = match &claims.confirmation {
            Confirmation::Dpop(key) => Some(key.clone()),
            Confirmation::None | Confirmation::Other => None,
        };
        let presented = Some(if bound_to.is_some() { Scheme::Dpop } else { Scheme::Bearer });
        let mut principal = Principal::new(&*claims.name().unwrap_or_default())
            .scopes(claims.scopes.iter().cloned())
            .claims(String::from_utf8_lossy(json).into_owned())
            .challenged_with(ChallengeStyle { presented, dpop: self.dpop });
        if let Some(client) = &claims.client {
            principal = principal.client(client.clone());
        }
        if let Some(hierarchy) = &self.hierarchy {
            principal = principal.hierarchy(Arc::clone(hierarchy));
        }
        let token = Arc::new(GoodToken { principal, bound_to, keys_version });
        // The claims are stored as JSON and as values.
        self.remembered.insert(*hash, Arc::clone(&token), time, 2 * json.len());
        token
    }

    /// Checks a token that is bound to no key.
    fn check_unbound(&self, scheme: Scheme) -> Result<(), AuthError> {
        match (scheme, self.dpop) {
            (Scheme::Bearer, DpopRole::Unused | DpopRole::Accepted) => Ok(()),
            (Scheme::Bearer, DpopRole::Required) => {
                Err(AuthError::invalid_because("it is bound to no key: request one with a DPoP proof"))
            }
            (Scheme::Dpop, _) => Err(AuthError::invalid_because("it is bound to no key: send it as a bearer token")),
        }
    }

    /// Checks a token that is bound to a key.
    fn check_proof(
        &self,
        head: &RequestHead<'_>,
        scheme: Scheme,
        hash: &[u8; 32],
        bound_to: &str,
        now: i64,
    ) -> Result<(), AuthError> {
        let refusal = match (scheme, self.dpop) {
            (_, DpopRole::Unused) => {
                return Err(AuthError::invalid_because("it is bound to a key, which this server does not check"));
            }
            // As a bearer token it would be as good as stolen: RFC 9449, section 7.2.
            (Scheme::Bearer, _) => {
                return Err(AuthError::invalid_because(
                    "it is bound to a key: send it with the scheme DPoP and a proof",
                ));
            }
            (Scheme::Dpop, _) => match self.proofs.check(head, hash, bound_to, now) {
                Ok(age) => {
                    // RFC 9449, section 8.2: a new nonce can come with any response. So no request is refused for it.
                    if let (Some(NonceAge::Ending), Some(nonce)) = (age, self.proofs.nonce(now)) {
                        head.response.add(DPOP_NONCE, nonce);
                    }
                    return Ok(());
                }
                Err(BadProof::Full) => return Err(AuthError::unavailable()),
                Err(BadProof::ClockSetBack) => {
                    let until = "until it has caught up, or the server is restarted";
                    self.issuer.log.report(format_args!("the clock was set back: no DPoP proofs are accepted {until}"));
                    return Err(AuthError::unavailable());
                }
                Err(BadProof::Refused(refusal)) => refusal,
            },
        };
        let error = AuthError::invalid_token().error(refusal.error(), refusal);
        Err(match refusal {
            ProofRefusal::UseNonce => self.with_nonce(error, now),
            _ => error,
        })
    }

    /// Adds the nonce that a proof needs to a refusal.
    fn with_nonce(&self, error: AuthError, now: i64) -> AuthError {
        match self.proofs.nonce(now) {
            Some(nonce) if self.dpop != DpopRole::Unused => error.header(DPOP_NONCE, nonce),
            _ => error,
        }
    }
}

impl Authenticate for AccessTokens {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthenticateFuture<'a> {
        // The future of a verification is large, and most requests need none.
        match self.check_remembered(head) {
            Some(checked) => Box::pin(std::future::ready(checked)),
            None => Box::pin(self.check_new(head)),
        }
    }

    fn required_scopes(&self) -> &[String] {
        &self.required
    }

    fn protected_resource(&self) -> Option<ProtectedResource> {
        let url = self.audiences.first().filter(|audience| normal_url(audience).is_some())?;
        let resource = ProtectedResource::new(url).authorization_server(&self.issuer.name);
        Some(resource.scopes(self.required.iter().cloned()).dpop(self.dpop))
    }

    fn check_settings(&self) -> Result<(), String> {
        if let Some(error) = &self.settings_error {
            return Err(error.clone());
        }
        if metadata_urls(&self.issuer.name).is_none() {
            return Err("the issuer must be an https URL without query, or http on this machine".to_owned());
        }
        if self.audiences.iter().any(String::is_empty) {
            return Err("an audience must not be empty: use the URL of this server".to_owned());
        }
        Ok(())
    }
}

impl fmt::Debug for AccessTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessTokens")
            .field("issuer", &self.issuer.name)
            .field("audiences", &self.audiences)
            .finish_non_exhaustive()
    }
}

/// Returns the time in seconds since 1970.
fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// The number of seconds by which the clocks of issuer and server may differ.
const CLOCK_LEEWAY: i64 = 60;

/// The maximum number of tokens that are remembered in one of two generations. A client has one or two tokens.
const MAX_REMEMBERED: usize = 10_000;

/// The maximum memory for the claims of these tokens.
const MAX_REMEMBERED_BYTES: usize = 16 * 1024 * 1024;

/// The time in seconds after which the issuer is asked about a token again, so that a revoked one is noticed.
const INTROSPECTION_LIFETIME: i64 = 60;

/// The time in seconds for which the issuer is not asked again about a token that it does not know.
const UNKNOWN_LIFETIME: i64 = 10;
