//! What a modern server says of itself: the result of `server/discover`.

use serde::{Deserialize, Serialize};

use super::member::{known, whole_or_zero};
use super::{CacheScope, Meta, Revision, ServerCapabilities};

/// The versions, capabilities and instructions of a server. Its name is in `_meta`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DiscoverResult {
    /// The revisions it speaks, which need not be known here. Legacy ones among them need `initialize`.
    pub supported_versions: Vec<String>,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// What a model should know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// How many milliseconds it may be kept.
    #[serde(default, deserialize_with = "whole_or_zero", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Who may be given what was kept.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// What else it says.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl DiscoverResult {
    /// A server of these revisions.
    pub fn new(supported_versions: Vec<String>, capabilities: ServerCapabilities) -> Self {
        Self { supported_versions, capabilities, ..Self::default() }
    }

    /// Of the revisions it speaks those that are known here, in its order.
    pub fn revisions(&self) -> impl Iterator<Item = Revision> + '_ {
        self.supported_versions.iter().filter_map(|version| Revision::parse(version))
    }
}

setters! { DiscoverResult {
    instructions: Option<impl Into<String>>, ttl_ms: Option<u64>, cache_scope: Option<CacheScope>,
    meta: Option<Meta>,
} }
