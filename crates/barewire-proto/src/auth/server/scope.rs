//! Scopes: the list in a token, and the hierarchy in which a broad scope includes narrow ones -> whether a token is
//! enough. RFC 6749, section 3.3; MCP 2026-07-28, basic/authorization, "Step-Up Authorization Flow": "Servers MUST
//! account for scope hierarchies".

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The scopes that include other scopes.
///
/// ```
/// use barewire_proto::auth::server::ScopeHierarchy;
///
/// let scopes = ScopeHierarchy::new().implies("admin", ["files:write"]).implies("files:write", ["files:read"]);
/// assert!(scopes.covers(&["admin"], "files:read"));
/// assert!(!scopes.covers(&["files:read"], "files:write"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScopeHierarchy {
    implied: BTreeMap<String, Vec<String>>,
}

impl ScopeHierarchy {
    /// Creates a hierarchy in which each scope includes only itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the scopes that a scope includes. What those include is included too.
    #[must_use]
    pub fn implies<S: Into<String>>(mut self, broad: impl Into<String>, narrow: impl IntoIterator<Item = S>) -> Self {
        self.implied.entry(broad.into()).or_default().extend(narrow.into_iter().map(Into::into));
        self
    }

    /// Whether a token with the scopes `granted` has the scope `required`.
    pub fn covers<S: AsRef<str>>(&self, granted: &[S], required: &str) -> bool {
        if granted.iter().any(|scope| scope.as_ref() == required) {
            return true;
        }
        if self.implied.is_empty() {
            return false;
        }
        // A scope is looked at once, so a cycle ends too.
        let mut seen = BTreeSet::new();
        let mut next: Vec<&str> = granted.iter().map(AsRef::as_ref).collect();
        while let Some(scope) = next.pop() {
            if scope == required {
                return true;
            }
            if seen.insert(scope) {
                next.extend(self.implied.get(scope).into_iter().flatten().map(String::as_str));
            }
        }
        false
    }

    /// Whether a token with the scopes `granted` has all scopes of `required`.
    pub fn covers_all<S: AsRef<str>, R: AsRef<str>>(&self, granted: &[S], required: &[R]) -> bool {
        required.iter().all(|scope| self.covers(granted, scope.as_ref()))
    }
}

/// Whether the text can be a scope: printable ASCII without spaces, quotes and backslashes, and not empty.
pub fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~'))
}

/// Returns the scopes of a challenge or a metadata document: each once, in order, only those that can be written, and
/// without `offline_access`, because a refresh token is no requirement of a resource (MCP 2026-07-28,
/// basic/authorization, "Refresh Tokens").
pub fn listed_scopes<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let is_listed = |scope: &&'a str| is_scope(scope) && *scope != "offline_access" && seen.insert(*scope);
    scopes.into_iter().filter(is_listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broad_scope_includes_narrow_ones_over_any_number_of_steps() {
        let hierarchy = ScopeHierarchy::new()
            .implies("admin", ["files", "users"])
            .implies("files", ["files:write"])
            .implies("files:write", ["files:read"])
            // A cycle: the two are the same.
            .implies("users", ["people"])
            .implies("people", ["users"]);
        for (granted, required, is_covered) in [
            (&["admin"][..], "files:read", true),
            (&["files:write"], "files:read", true),
            (&["files:read"], "files:write", false),
            (&["people"], "users", true),
            (&["people"], "admin", false),
            (&["files:read", "files:write"], "files:read", true),
            (&[], "files:read", false),
            (&["unknown"], "unknown", true),
            (&["file"], "files:read", false),
            (&["files:"], "files:read", false),
        ] {
            assert_eq!(hierarchy.covers(granted, required), is_covered, "{granted:?} {required}");
        }
        assert!(hierarchy.covers_all(&["files"], &["files:read", "files:write"]));
        assert!(!hierarchy.covers_all(&["files"], &["files:read", "users"]));
        assert!(hierarchy.covers_all::<&str, &str>(&[], &[]));
    }

    #[test]
    fn lists_have_no_offline_access_and_nothing_that_leaves_its_quotes() {
        let scopes = ["mcp", "offline_access", "a b", "", "mcp", "x\"y", "a\\b", "files:read", "\u{e9}", "a\r\nb"];
        assert_eq!(listed_scopes(scopes), ["mcp", "files:read"]);
    }
}
