//! The member `cacheScope` of 2026-07-28: the clients that may share a cached result.

use serde::{Deserialize, Serialize};

/// The clients for which a cached result may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CacheScope {
    /// All clients.
    Public,
    /// Only the client that requested the result. This is the default.
    Private,
}

impl CacheScope {
    /// Returns the name that is used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}
