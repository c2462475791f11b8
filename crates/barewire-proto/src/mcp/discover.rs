//! The result of `server/discover`: the description of a modern server.

use serde::{Deserialize, Serialize};

use super::member::{known, whole_or_zero};
use super::{CacheScope, Meta, Revision, ServerCapabilities};

/// The supported revisions, capabilities and instructions of a server. The name of the server is in `_meta`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DiscoverResult {
    /// The revisions that the server supports, possibly including some that this crate does not know. A client uses a
    /// legacy revision only after `initialize`.
    pub supported_versions: Vec<String>,
    /// The capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions for the model on how to use the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The number of milliseconds for which the result may be cached. Since 2026-07-28.
    #[serde(default, deserialize_with = "whole_or_zero", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The clients for which a cached result may be used. Since 2026-07-28.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl DiscoverResult {
    /// Creates the result of a server that supports these revisions.
    pub fn new(supported_versions: Vec<String>, capabilities: ServerCapabilities) -> Self {
        Self { supported_versions, capabilities, ..Self::default() }
    }

    /// Returns the supported revisions that this crate knows, in the order in which the server lists them.
    pub fn revisions(&self) -> impl Iterator<Item = Revision> + '_ {
        self.supported_versions.iter().filter_map(|version| Revision::parse(version))
    }
}

setters! { DiscoverResult {
    instructions: Option<impl Into<String>>, ttl_ms: Option<u64>, cache_scope: Option<CacheScope>,
    meta: Option<Meta>,
} }
