//! The `DPoP` header of a request -> whether its sender has the key that the access token is bound to. RFC 9449,
//! sections 4.2, 4.3 and 7; the signature, the hashes and the replays are checked by the caller.

use std::fmt;

use super::jwk::PublicKey;
use super::jws::{BadJws, Jws, once_each};
use super::url::normal_url;
use crate::http::base64::encode_url;
use crate::json::{Json, Kind};

/// A proof, taken apart but not verified.
#[derive(Clone)]
#[non_exhaustive]
pub struct Proof<'a> {
    /// The signed text. The caller verifies its signature with `key`.
    pub jws: Jws<'a>,
    /// The public key of the sender.
    pub key: PublicKey,
    /// The name of this proof (`jti`), which must not occur twice.
    pub id: String,
    /// The nonce of the server that the proof contains, which the caller checks.
    pub nonce: Option<String>,
    /// The time at which the proof was made, in seconds since 1970.
    pub issued: i64,
    method: String,
    url: String,
    token_hash: Option<String>,
}

/// The request that a proof must be for.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ProofExpectations<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The URL that the client has sent the request to, in its [normal form](normal_url).
    pub url: &'a str,
    /// The SHA-256 of the access token, in URL-safe Base64.
    pub token_hash: &'a str,
    /// The thumbprint of the key that the token is bound to.
    pub bound_to: &'a str,
    /// The thumbprint of the key in the proof.
    pub thumbprint: &'a str,
    /// Whether the proof contains a nonce that this server has given.
    pub nonce: NonceState,
    /// The time, in seconds since 1970.
    pub now: i64,
    /// The maximum age of a proof in seconds.
    pub max_age: i64,
    /// The number of seconds by which the client's clock may be ahead.
    pub leeway: i64,
}

/// The nonce of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every state is one that the caller decides")]
pub enum NonceState {
    /// The server requires none.
    NotRequired,
    /// The nonce is one that the server has given, and is still valid.
    Valid,
    /// The nonce is missing, unknown or too old.
    Stale,
}

/// The reason why a proof is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProofRefusal {
    /// There is no `DPoP` header.
    Missing,
    /// There is more than one `DPoP` header.
    Repeated,
    /// The proof is not a signed text.
    Jws(BadJws),
    /// The type is not `dpop+jwt`.
    Type,
    /// The public key is missing or cannot be used, or does not fit the algorithm.
    Key,
    /// The claims are missing, repeated or of the wrong type.
    Claims,
    /// The signature is wrong.
    Signature,
    /// The proof is for another HTTP method.
    Method,
    /// The proof is for another URL.
    Url,
    /// The proof is too old, or from the future.
    Time,
    /// The proof is for another access token.
    Token,
    /// The proof is by another key than the one that the token is bound to.
    OtherKey,
    /// The nonce is missing or too old.
    UseNonce,
    /// The proof was used before.
    Replayed,
}

impl<'a> Proof<'a> {
    /// Takes a proof apart.
    pub fn parse(text: &'a [u8]) -> Result<Self, ProofRefusal> {
        let mut jws = Jws::parse(text).map_err(ProofRefusal::Jws)?;
        if jws.header.typ.as_deref() != Some("dpop+jwt") {
            return Err(ProofRefusal::Type);
        }
        let Some(Ok(jwk)) = jws.header.jwk.take() else { return Err(ProofRefusal::Key) };
        if !jwk.fits(jws.header.algorithm) {
            return Err(ProofRefusal::Key);
        }
        let json = Json::parse(&jws.payload).ok().filter(|json| json.kind() == Kind::Object);
        let json = json.ok_or(ProofRefusal::Claims)?;
        let [jti, htm, htu, iat, ath, nonce] =
            once_each(json, ["jti", "htm", "htu", "iat", "ath", "nonce"]).map_err(|_| ProofRefusal::Claims)?;
        let optional = |json: Option<Json<'_>>| match json {
            Some(json) => json.string().map(|text| Some(text.into_owned())).ok_or(ProofRefusal::Claims),
            None => Ok(None),
        };
        let required = |json| optional(json)?.filter(|text| !text.is_empty()).ok_or(ProofRefusal::Claims);
        let (id, method, url) = (required(jti)?, required(htm)?, required(htu)?);
        let issued = iat.and_then(super::claims::seconds).ok_or(ProofRefusal::Claims)?;
        let (token_hash, nonce) = (optional(ath)?, optional(nonce)?);
        Ok(Self { jws, key: jwk.key, id, nonce, method, url, issued, token_hash })
    }

    /// Checks that the proof is for this request, this token and this moment.
    pub fn check(&self, expected: &ProofExpectations<'_>) -> Result<(), ProofRefusal> {
        if self.method != expected.method {
            return Err(ProofRefusal::Method);
        }
        if normal_url(&self.url).as_deref() != Some(expected.url) {
            return Err(ProofRefusal::Url);
        }
        if self.token_hash.as_deref() != Some(expected.token_hash) {
            return Err(ProofRefusal::Token);
        }
        if expected.thumbprint != expected.bound_to {
            return Err(ProofRefusal::OtherKey);
        }
        // Before the time: with a nonce of the server, a client whose clock is wrong can be told so.
        if expected.nonce == NonceState::Stale {
            return Err(ProofRefusal::UseNonce);
        }
        let oldest = expected.now.saturating_sub(expected.max_age);
        if !(oldest..=expected.now.saturating_add(expected.leeway)).contains(&self.issued) {
            return Err(ProofRefusal::Time);
        }
        Ok(())
    }
}

impl ProofRefusal {
    /// Returns the error code of the challenge (RFC 9449, section 7.1, and RFC 6750, section 3.1).
    pub fn error(self) -> &'static str {
        match self {
            Self::UseNonce => "use_dpop_nonce",
            Self::Token | Self::OtherKey => "invalid_token",
            _ => "invalid_dpop_proof",
        }
    }
}

/// Returns bytes in URL-safe Base64 without padding, as thumbprints and hashes of tokens are written.
pub fn base64url(bytes: &[u8]) -> String {
    encode_url(bytes)
}

impl fmt::Display for ProofRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the token is bound to a key: send it with a DPoP header"),
            Self::Repeated => f.write_str("there is more than one DPoP header"),
            Self::Jws(bad) => write!(f, "the DPoP proof cannot be read: {bad}"),
            Self::Type => f.write_str("the typ of the DPoP proof must be dpop+jwt"),
            Self::Key => f.write_str("the DPoP proof must contain a public key that fits its algorithm"),
            Self::Claims => f.write_str("the DPoP proof must have jti, htm, htu and iat, each once"),
            Self::Signature => f.write_str("the signature of the DPoP proof is wrong"),
            Self::Method => f.write_str("the DPoP proof is for another HTTP method"),
            Self::Url => f.write_str("the DPoP proof is for another URL"),
            Self::Time => f.write_str("the DPoP proof is too old, or from the future: make one for each request"),
            Self::Token => f.write_str("the DPoP proof is for another access token"),
            Self::OtherKey => f.write_str("the access token is bound to another key than that of the DPoP proof"),
            Self::UseNonce => f.write_str("the DPoP proof must contain the nonce of the DPoP-Nonce header"),
            Self::Replayed => f.write_str("the DPoP proof was used before: make one for each request"),
        }
    }
}

impl std::error::Error for ProofRefusal {}

impl<'a> ProofExpectations<'a> {
    /// Returns the expectations for a request, at the time 0 and without a nonce.
    pub fn new(method: &'a str, url: &'a str, token_hash: &'a str) -> Self {
        let nonce = NonceState::NotRequired;
        Self { method, url, token_hash, bound_to: "", thumbprint: "", nonce, now: 0, max_age: 60, leeway: 5 }
    }
}

setters! { ProofExpectations<'a> {
    bound_to: &'a str, thumbprint: &'a str, nonce: NonceState, now: i64, max_age: i64, leeway: i64,
} }
