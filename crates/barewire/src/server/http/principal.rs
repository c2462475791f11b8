//! The authenticated sender of a request: its name, its scopes, and the claims of its token.

use std::fmt;
use std::sync::{Arc, OnceLock};

use barewire_proto::auth::server::{DpopRole, Scheme, ScopeHierarchy};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::sender::Sender;

/// The authenticated sender of a request. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Principal(Arc<PrincipalData>);

#[derive(Clone, PartialEq, Eq)]
struct PrincipalData {
    name: Arc<str>,
    scopes: Vec<String>,
    hierarchy: Option<Arc<ScopeHierarchy>>,
    client: Option<Box<str>>,
    claims: Option<Box<str>>,
    challenge: ChallengeStyle,
    sender: KeptSender,
}

/// The sender that the principal's requests are counted for, so that it is not created and dropped with each request. A
/// changed copy of the principal finds its sender anew.
#[derive(Default)]
struct KeptSender(OnceLock<Arc<Sender>>);

impl Clone for KeptSender {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The sender follows from the name, so it makes no difference.
impl PartialEq for KeptSender {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeptSender {}

/// The schemes that the challenge to a principal's request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChallengeStyle {
    /// The scheme of the request.
    pub(super) presented: Option<Scheme>,
    /// The role of DPoP at this server.
    pub(super) dpop: DpopRole,
}

/// A principal as a store keeps it, for a call that may run again.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StoredPrincipal {
    name: String,
    scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hierarchy: Option<ScopeHierarchy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claims: Option<Box<str>>,
}

impl StoredPrincipal {
    pub(crate) fn of(principal: &Principal) -> Self {
        let PrincipalData { name, scopes, hierarchy, client, claims, .. } = &*principal.0;
        Self {
            name: name.to_string(),
            scopes: scopes.clone(),
            hierarchy: hierarchy.as_deref().cloned(),
            client: client.clone(),
            claims: claims.clone(),
        }
    }

    pub(crate) fn into_principal(self) -> Principal {
        let Self { name, scopes, hierarchy, client, claims } = self;
        let hierarchy = hierarchy.map(Arc::new);
        Principal::new(name).change(|data| {
            (data.scopes, data.hierarchy, data.client, data.claims) = (scopes, hierarchy, client, claims);
        })
    }

    /// Returns the length of the claims, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.claims.as_deref().map_or(0, str::len)
    }
}

/// Shows what a [`Principal`] shows.
impl fmt::Debug for StoredPrincipal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone().into_principal().fmt(f)
    }
}

impl Principal {
    /// Creates a principal. Two principals with the same name are the same sender: sessions and sealed state are bound
    /// to the name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(PrincipalData {
            name: name.into(),
            scopes: Vec::new(),
            hierarchy: None,
            client: None,
            claims: None,
            challenge: ChallengeStyle::default(),
            sender: KeptSender::default(),
        }))
    }

    fn change(mut self, change: impl FnOnce(&mut PrincipalData)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Sets the scopes that the principal has.
    #[must_use]
    pub fn scopes<S: Into<String>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.change(|data| data.scopes = scopes.into_iter().map(Into::into).collect())
    }

    /// Sets which scopes include other scopes. Without this, each scope includes only itself.
    #[must_use]
    pub fn hierarchy(self, hierarchy: impl Into<Arc<ScopeHierarchy>>) -> Self {
        self.change(|data| data.hierarchy = Some(hierarchy.into()))
    }

    /// Sets the id of the client that acts for the principal.
    #[must_use]
    pub fn client(self, client: impl Into<Box<str>>) -> Self {
        self.change(|data| data.client = Some(client.into()))
    }

    /// Sets the claims of the principal's token, as a JSON object.
    #[must_use]
    pub fn claims(self, json: impl Into<Box<str>>) -> Self {
        self.change(|data| data.claims = Some(json.into()))
    }

    #[cfg(feature = "oauth")]
    pub(super) fn challenged_with(self, challenge: ChallengeStyle) -> Self {
        self.change(|data| data.challenge = challenge)
    }

    /// Returns the name of the principal: for a token of an issuer, its subject, or `client:` with the client's id if
    /// it has none.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the name without copying it.
    pub(super) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.0.name)
    }

    /// Returns the place for the sender that the principal's requests are counted for.
    pub(super) fn kept_sender(&self) -> &OnceLock<Arc<Sender>> {
        &self.0.sender.0
    }

    pub(super) fn challenge_style(&self) -> ChallengeStyle {
        self.0.challenge
    }

    /// Returns the scopes that the principal's token names.
    pub fn granted_scopes(&self) -> &[String] {
        &self.0.scopes
    }

    /// Whether the principal has this scope, or one that includes it.
    pub fn has_scope(&self, scope: &str) -> bool {
        match &self.0.hierarchy {
            Some(hierarchy) => hierarchy.covers(&self.0.scopes, scope),
            None => self.0.scopes.iter().any(|known| known == scope),
        }
    }

    /// Returns the id of the client that acts for the principal, if it is known.
    pub fn client_id(&self) -> Option<&str> {
        self.0.client.as_deref()
    }

    /// Deserializes the claims of the principal's token. Without claims, this deserializes an empty object.
    ///
    /// ```
    /// use barewire::server::http::Principal;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Tenant { tenant: String }
    ///
    /// let principal = Principal::new("ada").claims(r#"{"sub":"ada","tenant":"acme"}"#);
    /// assert_eq!(principal.claims_as::<Tenant>()?.tenant, "acme");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn claims_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.claims.as_deref().unwrap_or("{}"))
    }
}

/// Shows the name and the scopes, but no claims: they can hold the names and addresses of people.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PrincipalData { name, scopes, .. } = &*self.0;
        f.debug_struct("Principal").field("name", name).field("scopes", scopes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_the_scopes_that_its_scopes_include() {
        let principal = Principal::new("ada").scopes(["files:write"]);
        assert!(principal.has_scope("files:write") && !principal.has_scope("files:read"));
        let principal = principal.hierarchy(ScopeHierarchy::new().implies("files:write", ["files:read"]));
        assert!(principal.has_scope("files:read") && !principal.has_scope("admin"));
        assert_eq!(principal.granted_scopes(), ["files:write"]);
    }

    #[test]
    fn a_principal_is_stored_and_read_whole() {
        let hierarchy = ScopeHierarchy::new().implies("files:write", ["files:read"]);
        let principal = Principal::new("ada").scopes(["files:write"]).hierarchy(hierarchy);
        let principal = principal.client("app").claims(r#"{"sub":"ada"}"#);
        let stored = serde_json::to_string(&StoredPrincipal::of(&principal)).expect("JSON");
        let read: StoredPrincipal = serde_json::from_str(&stored).expect("a principal");
        assert!(read.into_principal() == principal, "{stored}");
    }

    #[test]
    fn debug_output_has_no_claims() {
        let principal = Principal::new("ada").claims(r#"{"email":"ada@example.com"}"#).client("app");
        assert_eq!(format!("{principal:?}"), r#"Principal { name: "ada", scopes: [], .. }"#);
    }
}
