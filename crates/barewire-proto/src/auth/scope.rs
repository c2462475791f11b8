//! Scopes: a space-separated text <-> a set, and the scopes that a client asks for.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The maximum length of the scopes of one request. With the other parameters, a URL of this length still fits into the
/// request line of common servers.
pub const MAX_SCOPE_BYTES: usize = 4 * 1024;

/// The scope that asks for a refresh token: OpenID Connect Core, section 11.
pub const OFFLINE_ACCESS: &str = "offline_access";

/// A set of scopes in the order in which they were added. RFC 6749, section 3.3: the order has no meaning, and scopes
/// are compared letter by letter.
#[derive(Debug, Clone, Default)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a text with scopes separated by spaces. Texts that are no scopes, such as one with a quote, are left out.
    pub fn parse(text: &str) -> Self {
        text.split(' ').collect()
    }

    /// Whether there are no scopes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the scope is in the set.
    pub fn has(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Whether every scope of `other` is in the set.
    pub fn has_all(&self, other: &Self) -> bool {
        other.iter().all(|scope| self.has(scope))
    }

    /// Adds the scopes that are not yet in the set.
    pub fn add(&mut self, other: &Self) {
        for scope in other.iter() {
            self.insert(scope);
        }
    }

    /// Returns the scopes in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn insert(&mut self, scope: &str) {
        if is_scope(scope) && !self.has(scope) {
            self.0.push(scope.to_owned());
        }
    }
}

/// Whether the text is a `scope-token`: RFC 6749, section 3.3.
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        let mut set = Self::default();
        scopes.into_iter().for_each(|scope| set.insert(scope));
        set
    }
}

/// Two sets are equal if they have the same scopes, in any order.
impl PartialEq for Scopes {
    fn eq(&self, other: &Self) -> bool {
        self.has_all(other) && other.has_all(self)
    }
}

impl Eq for Scopes {}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let scopes = Self::parse(&text);
        match scopes.0.join(" ") == text {
            true => Ok(scopes),
            false => Err(de::Error::custom("scopes must be separated by single spaces")),
        }
    }
}

/// The facts from which the scopes of an authorization request are chosen.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ScopeSources<'a> {
    /// The scopes that the user has set.
    pub configured: Option<&'a Scopes>,
    /// The scopes that the challenge names.
    pub challenge: Option<&'a Scopes>,
    /// `scopes_supported` of the protected resource.
    pub resource: Option<&'a Scopes>,
    /// The scopes that were asked for before.
    pub previous: Option<&'a Scopes>,
    /// Whether to ask for a refresh token with [`OFFLINE_ACCESS`]. It must be `false` unless the authorization server
    /// lists the scope.
    pub offline_access: bool,
}

setters! { ScopeSources<'a> {
    configured: Option<&'a Scopes>, challenge: Option<&'a Scopes>, resource: Option<&'a Scopes>,
    previous: Option<&'a Scopes>, offline_access: bool,
} }

impl ScopeSources<'_> {
    /// Returns the scopes to ask for. An empty set means that the request has no `scope` parameter.
    ///
    /// Those of the challenge, else those of the resource, else none: MCP 2026-07-28, basic/authorization, "Scope
    /// Selection Strategy". Those that were asked for before are kept: "Step-Up Authorization Flow".
    pub fn select(&self) -> Scopes {
        let mut scopes = Scopes::new();
        let sources = match (self.configured, self.challenge, self.resource) {
            // The user decides, but a challenge names what the current operation needs.
            (Some(configured), challenge, _) => [Some(configured), challenge.filter(|_| self.previous.is_some())],
            (None, Some(challenge), _) => [Some(challenge), None],
            (None, None, Some(resource)) => [Some(resource), None],
            (None, None, None) => [None, None],
        };
        for source in [self.previous].into_iter().chain(sources).flatten() {
            scopes.add(source);
        }
        // A request without scopes gets the default of the authorization server. One scope more would replace it.
        if self.offline_access && !scopes.is_empty() {
            scopes.insert(OFFLINE_ACCESS);
        }
        scopes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_set() {
        let scopes = Scopes::parse("b  a b \"c\" d\\e ü files:read");
        assert_eq!(scopes.to_string(), "b a files:read");
        assert_eq!(scopes, Scopes::parse("files:read a b"));
        assert_ne!(scopes, Scopes::parse("a b"));
        let json = serde_json::to_string(&scopes).unwrap();
        assert_eq!(json, r#""b a files:read""#);
        assert_eq!(serde_json::from_str::<Scopes>(&json).unwrap(), scopes);
        assert_eq!(serde_json::from_str::<Scopes>(r#""""#).unwrap(), Scopes::new());
        assert!(serde_json::from_str::<Scopes>(r#""a  b""#).is_err());
    }

    #[test]
    fn scopes_are_selected_by_the_order_of_the_specification() {
        let [user, challenge, resource, before] = ["u", "c1 c2", "r1 r2", "b c1"].map(Scopes::parse);
        let none = ScopeSources::default();
        for (sources, expected) in [
            (none, ""),
            (none.offline_access(true), ""),
            (none.resource(&resource), "r1 r2"),
            (none.resource(&resource).challenge(&challenge), "c1 c2"),
            (none.resource(&resource).offline_access(true), "r1 r2 offline_access"),
            (none.configured(&user).challenge(&challenge), "u"),
            (none.configured(&user).challenge(&challenge).previous(&before), "b c1 u c2"),
            (none.challenge(&challenge).previous(&before), "b c1 c2"),
            (none.previous(&before), "b c1"),
        ] {
            assert_eq!(sources.select().to_string(), expected, "{sources:?}");
        }
    }
}
