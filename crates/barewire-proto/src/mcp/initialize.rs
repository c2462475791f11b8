//! The handshake of the legacy revisions: the parameters and the result of `initialize`.

use serde::{Deserialize, Serialize};

use super::member::object;
use super::{ClientCapabilities, Implementation, Meta, Revision, ServerCapabilities};

/// The parameters of `initialize`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// The revision that the client requests. It can be a revision that this crate does not know.
    pub protocol_version: String,
    /// The capabilities of the client.
    #[serde(deserialize_with = "object")]
    pub capabilities: ClientCapabilities,
    /// The name and version of the client.
    #[serde(deserialize_with = "object")]
    pub client_info: Implementation,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InitializeParams {
    /// Creates the parameters of a client that requests this revision.
    pub fn new(revision: Revision, capabilities: ClientCapabilities, client_info: Implementation) -> Self {
        Self { protocol_version: revision.as_str().into(), capabilities, client_info, meta: None }
    }

    /// Returns the requested revision, or `None` if this crate does not know the revision.
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
    /// The revision that the server has chosen for the connection.
    pub protocol_version: String,
    /// The capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// The name and version of the server.
    pub server_info: Implementation,
    /// Instructions for the model on how to use the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InitializeResult {
    /// Creates the result of a server that agrees to use this revision.
    pub fn new(revision: Revision, capabilities: ServerCapabilities, server_info: Implementation) -> Self {
        Self {
            protocol_version: revision.as_str().into(),
            capabilities,
            server_info,
            instructions: None,
            meta: None,
        }
    }

    /// Returns the revision of the connection, or `None` if this crate does not know it.
    pub fn revision(&self) -> Option<Revision> {
        Revision::parse(&self.protocol_version)
    }
}

setters! { InitializeResult { instructions: Option<impl Into<String>>, meta: Option<Meta> } }
