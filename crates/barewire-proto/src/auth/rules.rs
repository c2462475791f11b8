//! A revision of MCP -> the rules of sign-in in which it differs from the others; and the overrides for servers that
//! are known to be wrong.

use crate::mcp::Revision;

/// The rules in which revisions differ. Rules that later revisions only made stricter are always applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RevisionRules {
    /// Whether a server without protected resource metadata is its own authorization server.
    pub(super) server_is_issuer: bool,
    /// Whether a server that does not name its PKCE methods is refused.
    pub(super) pkce_must_be_advertised: bool,
    /// Whether `offline_access` is added if the authorization server lists it.
    pub(super) offline_access: bool,
}

impl RevisionRules {
    /// Returns the rules of a revision. If the revision is not yet known, because the server answered the first request
    /// with 401, the ways of every revision are tried, with the strictest checks.
    pub(super) fn of(revision: Option<Revision>) -> Self {
        let rules = |server_is_issuer, pkce_must_be_advertised, offline_access| Self {
            server_is_issuer,
            pkce_must_be_advertised,
            offline_access,
        };
        match revision {
            None => rules(true, true, true),
            // 2024-11-05 has no authorization; servers that added it follow 2025-03-26.
            Some(Revision::V2024_11_05 | Revision::V2025_03_26) => rules(true, false, false),
            Some(Revision::V2025_06_18) => rules(false, false, false),
            Some(Revision::V2025_11_25) => rules(false, true, false),
            Some(Revision::V2026_07_28) => rules(false, true, true),
        }
    }
}

/// Exceptions from the rules, for one server that is known to be wrong. All are off by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overrides {
    /// Accepts metadata of an authorization server whose `issuer` differs from the issuer that the resource names. The
    /// issuer of the document is then the one that callbacks are compared with.
    pub issuer_may_differ: bool,
    /// Leaves out `resource`, for authorization servers that refuse the parameter (Entra ID v2 answers with an error).
    /// Tokens are then not bound to this server by the request.
    pub no_resource: bool,
    /// Sends `scope` with a refresh request, for authorization servers that require it (Entra ID v2).
    pub scope_on_refresh: bool,
    /// Accepts an authorization server that does not name its methods of PKCE (Entra ID does not, but has S256). Codes are
    /// protected by S256 all the same, if the server really checks it.
    pub pkce_unannounced: bool,
}

setters! { Overrides {
    issuer_may_differ: bool, no_resource: bool, scope_on_refresh: bool, pkce_unannounced: bool,
} }
