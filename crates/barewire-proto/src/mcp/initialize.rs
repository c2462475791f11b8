//! The handshake of the legacy revisions: the parameters of `initialize` and its result.

use serde::{Deserialize, Serialize};

use super::member::object;
use super::{ClientCapabilities, Implementation, Meta, Revision, ServerCapabilities};

/// The parameters of `initialize`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// The revision that the client requests. This crate need not know it.
    pub protocol_version: String,
    /// The capabilities.
    #[serde(deserialize_with = "object")]
    pub capabilities: ClientCapabilities,
    /// The name and version.
    #[serde(deserialize_with = "object")]
    pub client_info: Implementation,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InitializeParams {
    /// The parameters of a client that requests this revision.
    pub fn new(revision: Revision, capabilities: ClientCapabilities, client_info: Implementation) -> Self {
        Self { protocol_version: revision.as_str().into(), capabilities, client_info, meta: None }
    }

    /// The requested revision, or `None` if this crate does not know it.
    pub fn revision(&self) -> Option<Revision> {
        Revision::parse(&self.protocol_version)
    }
}

setters! { InitializeParams { meta: Option<Meta> } }

/// The result of `initialize`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// The revision of the connection.
    pub protocol_version: String,
    /// The capabilities.
    pub capabilities: ServerCapabilities,
    /// The name and version.
    pub server_info: Implementation,
    /// Instructions for the model on how to use the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InitializeResult {
    /// The result of a server that agrees on this revision.
    pub fn new(revision: Revision, capabilities: ServerCapabilities, server_info: Implementation) -> Self {
        Self {
            protocol_version: revision.as_str().into(),
            capabilities,
            server_info,
            instructions: None,
            meta: None,
        }
    }

    /// The revision of the connection, or `None` if this crate does not know it.
    pub fn revision(&self) -> Option<Revision> {
        Revision::parse(&self.protocol_version)
    }
}

setters! { InitializeResult { instructions: Option<impl Into<String>>, meta: Option<Meta> } }
