//! How long a result may be kept, and for whom: `ttlMs` and `cacheScope` of 2026-07-28.

use serde::{Deserialize, Serialize};

/// Who may be given a result that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CacheScope {
    /// Everybody.
    Public,
    /// Only who asked for it, which is what is meant if nothing is said.
    Private,
}

impl CacheScope {
    /// As it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}
