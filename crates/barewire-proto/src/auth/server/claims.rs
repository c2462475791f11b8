//! The claims of an access token, or the answer of an introspection endpoint -> whether the token is for this server,
//! now. RFC 7519, section 4.1, RFC 9068, section 4, RFC 7662, section 2.2, and RFC 8725, section 3.

use std::borrow::Cow;
use std::fmt;

use super::jws::once_each;
use super::url::normal_url;
use crate::json::{Json, Kind};

/// The maximum number of audiences and of scopes that are read from a token.
const MAX_LIST_ITEMS: usize = 256;

/// The prefix of the name of a client that acts for itself. Issuers give out the ids of clients and those of users
/// independently, so the two can be equal (RFC 9068, section 5).
const CLIENT_PREFIX: &str = "client:";

/// The prefix of the name of a subject that itself begins with one of the prefixes.
const SUBJECT_PREFIX: &str = "subject:";

/// The claims of an access token that decide whether it is accepted.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Claims {
    /// The issuer (`iss`).
    pub issuer: Option<String>,
    /// The user, or the client if it acts for itself (`sub`).
    pub subject: Option<String>,
    /// The client that the token was issued to (`client_id`, or `azp` where there is none).
    pub client: Option<String>,
    /// The servers that the token is for (`aud`).
    pub audience: Vec<String>,
    /// The time at which the token expires, in seconds since 1970 (`exp`).
    pub expires: Option<i64>,
    /// The time from which on the token is valid (`nbf`).
    pub not_before: Option<i64>,
    /// The scopes (`scope`, a text or a list; `scp` where there is none).
    pub scopes: Vec<String>,
    /// The key that the sender must have (`cnf`).
    pub confirmation: Confirmation,
    /// Whether the token is active (`active`), which only an introspection endpoint says.
    pub active: Option<bool>,
}

/// The proof of possession that a token requires.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "a token whose proof is not checked must not be accepted")]
pub enum Confirmation {
    /// None: the token alone is enough.
    #[default]
    None,
    /// A DPoP proof by the key with this thumbprint (`jkt`).
    Dpop(String),
    /// A proof of another kind, such as a client certificate, which this server cannot check.
    Other,
}

/// The reason why claims cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadClaims {
    /// They are not a JSON object.
    NotAnObject,
    /// A claim occurs twice.
    Repeated(&'static str),
    /// A claim has a value of the wrong type.
    Type(&'static str),
}

/// The form in which the claims came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the rules differ between the two")]
pub enum TokenForm<'a> {
    /// A JWT with this `typ`, in lower case.
    Jwt {
        /// The `typ` of the header.
        typ: Option<&'a str>,
        /// Whether only `at+jwt` is accepted.
        only_access_tokens: bool,
    },
    /// The answer of the issuer's introspection endpoint.
    Introspection,
}

/// The claims that a token for this server has.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ExpectedClaims<'a> {
    /// The issuer, letter by letter.
    pub issuer: &'a str,
    /// The audiences, one of which the token must be for.
    pub audiences: &'a [String],
    /// The time, in seconds since 1970.
    pub now: i64,
    /// The number of seconds by which the clocks of issuer and server may differ.
    pub leeway: i64,
}

/// The reason why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimsRefusal {
    /// The token is of another type, such as an ID token or a proof.
    OtherType,
    /// The issuer does not know the token, or has revoked it.
    Inactive,
    /// The issuer is missing or another one.
    Issuer,
    /// The audience is missing or another one.
    Audience,
    /// The token does not say when it expires.
    NoExpiry,
    /// The token has expired.
    Expired,
    /// The token is not valid yet.
    NotYetValid,
    /// The token names neither a user nor a client.
    NoSubject,
    /// The token requires a proof that this server cannot check.
    UnknownConfirmation,
}

impl Claims {
    /// Reads the claims.
    pub fn parse(text: &[u8]) -> Result<Self, BadClaims> {
        let json = Json::parse(text).ok().filter(|json| json.kind() == Kind::Object);
        let json = json.ok_or(BadClaims::NotAnObject)?;
        let names = ["iss", "sub", "client_id", "azp", "aud", "exp", "nbf", "scope", "scp", "cnf", "active"];
        let [iss, sub, client_id, azp, aud, exp, nbf, scope, scp, cnf, active] =
            once_each(json, names).map_err(BadClaims::Repeated)?;
        let text = |name, json: Option<Json<'_>>| match json {
            Some(json) => json.string().map(|text| Some(text.into_owned())).ok_or(BadClaims::Type(name)),
            None => Ok(None),
        };
        let time = |name, json: Option<Json<'_>>| match json {
            Some(json) => seconds(json).map(Some).ok_or(BadClaims::Type(name)),
            None => Ok(None),
        };
        Ok(Self {
            issuer: text("iss", iss)?,
            subject: text("sub", sub)?,
            client: text("client_id", client_id)?.or(text("azp", azp)?),
            audience: list(aud, false).ok_or(BadClaims::Type("aud"))?,
            expires: time("exp", exp)?,
            not_before: time("nbf", nbf)?,
            scopes: list(scope.or(scp), true).ok_or(BadClaims::Type("scope"))?,
            confirmation: confirmation(cnf)?,
            active: active.map(|active| active.as_str() == "true"),
        })
    }

    /// Checks that the token is for this server, and valid now.
    pub fn check(&self, form: TokenForm<'_>, expected: &ExpectedClaims<'_>) -> Result<(), ClaimsRefusal> {
        match form {
            TokenForm::Introspection if self.active != Some(true) => return Err(ClaimsRefusal::Inactive),
            TokenForm::Introspection => {}
            TokenForm::Jwt { typ: Some("at+jwt"), .. } => {}
            // Many issuers write `JWT` or nothing. Any other type was issued for another purpose.
            TokenForm::Jwt { typ: None | Some("jwt"), only_access_tokens: false } => {}
            TokenForm::Jwt { .. } => return Err(ClaimsRefusal::OtherType),
        }
        // An introspection endpoint belongs to the issuer, and may leave out what both know.
        let is_issuer = match (&self.issuer, form) {
            (Some(issuer), _) => issuer == expected.issuer,
            (None, form) => form == TokenForm::Introspection,
        };
        if !is_issuer {
            return Err(ClaimsRefusal::Issuer);
        }
        let is_for_us = |audience: &String| expected.audiences.iter().any(|ours| is_same_audience(audience, ours));
        if !self.audience.iter().any(is_for_us) {
            return Err(ClaimsRefusal::Audience);
        }
        match (self.expires, form) {
            (Some(expires), _) if expires.saturating_add(expected.leeway) <= expected.now => {
                return Err(ClaimsRefusal::Expired);
            }
            (None, TokenForm::Jwt { .. }) => return Err(ClaimsRefusal::NoExpiry),
            (Some(_), _) | (None, TokenForm::Introspection) => {}
        }
        if self.not_before.is_some_and(|from| from.saturating_sub(expected.leeway) > expected.now) {
            return Err(ClaimsRefusal::NotYetValid);
        }
        if self.name().is_none() {
            return Err(ClaimsRefusal::NoSubject);
        }
        match self.confirmation {
            Confirmation::Other => Err(ClaimsRefusal::UnknownConfirmation),
            Confirmation::None | Confirmation::Dpop(_) => Ok(()),
        }
    }

    /// Returns the name of the sender: the subject, or `client:` with the client's id if there is none. No user has the
    /// name of a client: a subject that begins like such a name is written with `subject:` before it.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        let subject = self.subject.as_deref().filter(|text| !text.is_empty());
        let client = self.client.as_deref().filter(|text| !text.is_empty());
        let is_prefixed = |subject: &str| [CLIENT_PREFIX, SUBJECT_PREFIX].iter().any(|it| subject.starts_with(it));
        match (subject, client) {
            (Some(subject), _) if is_prefixed(subject) => Some(format!("{SUBJECT_PREFIX}{subject}").into()),
            (Some(subject), _) => Some(subject.into()),
            (None, Some(client)) => Some(format!("{CLIENT_PREFIX}{client}").into()),
            (None, None) => None,
        }
    }
}

/// Claims can hold the names and addresses of people, so only those that say nothing about them are shown.
impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { issuer, audience, expires, scopes, .. } = self;
        f.debug_struct("Claims")
            .field("issuer", issuer)
            .field("audience", audience)
            .field("expires", expires)
            .field("scopes", scopes)
            .finish_non_exhaustive()
    }
}

impl<'a> ExpectedClaims<'a> {
    /// Returns the claims of a token by this issuer for one of these audiences.
    pub fn new(issuer: &'a str, audiences: &'a [String], now: i64, leeway: i64) -> Self {
        Self { issuer, audiences, now, leeway }
    }
}

/// Whether a token for `audience` is for the server `ours`. URLs are compared in their normal form, because clients
/// write `https://a.example` as `https://a.example/` (MCP 2026-07-28, basic/authorization, "Canonical Server URI").
fn is_same_audience(audience: &str, ours: &str) -> bool {
    let normal = |text: &str| if text.contains(['?', '#']) { None } else { normal_url(text) };
    audience == ours || normal(audience).is_some_and(|audience| normal(ours) == Some(audience))
}

/// Returns a `NumericDate` (RFC 7519, section 2) without its fraction.
pub(super) fn seconds(json: Json<'_>) -> Option<i64> {
    let fraction = |text: &str| {
        let (whole, fraction) = text.split_once('.')?;
        fraction.bytes().all(|byte| byte.is_ascii_digit()).then(|| whole.parse().ok())?
    };
    json.integer().or_else(|| (json.kind() == Kind::Number).then(|| fraction(json.as_str()))?)
}

/// Returns the items of a list, or of a text; a text of scopes is a list that is separated by spaces.
fn list(json: Option<Json<'_>>, is_separated: bool) -> Option<Vec<String>> {
    let Some(json) = json else { return Some(Vec::new()) };
    if let Some(text) = json.string() {
        let items = text.split(|letter| is_separated && letter == ' ');
        return Some(items.filter(|item| !item.is_empty()).take(MAX_LIST_ITEMS).map(str::to_owned).collect());
    }
    let items = || json.elements().take(MAX_LIST_ITEMS);
    (json.kind() == Kind::Array).then(|| items().map(|item| item.string().map(|text| text.into_owned())).collect())?
}

fn confirmation(cnf: Option<Json<'_>>) -> Result<Confirmation, BadClaims> {
    let Some(cnf) = cnf else { return Ok(Confirmation::None) };
    if cnf.kind() != Kind::Object {
        return Err(BadClaims::Type("cnf"));
    }
    let [jkt] = once_each(cnf, ["jkt"]).map_err(BadClaims::Repeated)?;
    match (jkt.map(Json::string), cnf.members().count()) {
        (Some(Some(jkt)), 1) => Ok(Confirmation::Dpop(jkt.into_owned())),
        (Some(None), _) => Err(BadClaims::Type("jkt")),
        // An empty `cnf` requires nothing that is known, and two members require two proofs.
        (None, _) | (Some(Some(_)), _) => Ok(Confirmation::Other),
    }
}

impl fmt::Display for BadClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject => f.write_str("its claims are not a JSON object"),
            Self::Repeated(name) => write!(f, "the claim {name} occurs twice"),
            Self::Type(name) => write!(f, "the claim {name} has a value of the wrong type"),
        }
    }
}

impl fmt::Display for ClaimsRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherType => "it is not an access token: send the access token, not an ID token",
            Self::Inactive => "its issuer does not know it, or has revoked it",
            Self::Issuer => "it was issued by another authorization server than that of this server's metadata",
            Self::Audience => "it was issued for another server: request a token for the resource of this server",
            Self::NoExpiry => "it has no expiry time",
            Self::Expired => "it has expired",
            Self::NotYetValid => "it is not valid yet",
            Self::NoSubject => "it names neither a user nor a client",
            Self::UnknownConfirmation => "it is bound to a certificate or key that this server cannot check",
        })
    }
}

impl std::error::Error for BadClaims {}
impl std::error::Error for ClaimsRefusal {}
