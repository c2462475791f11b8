//! The handshake of the legacy revisions: the parameters of `initialize` and its result.

use serde::{Deserialize, Serialize};

use super::member::object;
use super::{ClientCapabilities, Implementation, Meta, Revision, ServerCapabilities};

/// What a client opens a connection with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// The revision it wants to speak, which need not be one that is known here.
    pub protocol_version: String,
    /// What it can do.
    #[serde(deserialize_with = "object")]
    pub capabilities: ClientCapabilities,
    /// Who it is.
    #[serde(deserialize_with = "object")]
    pub client_info: Implementation,
    /// What else it says.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InitializeParams {
    /// A client that wants to speak this revision.
    pub fn new(revision: Revision, capabilities: ClientCapabilities, client_info: Implementation) -> Self {
        Self { protocol_version: revision.as_str().into(), capabilities, client_info, meta: None }
    }

    /// The revision it wants, if it is known here.
    pub fn revision(&self) -> Option<Revision> {
        Revision::parse(&self.protocol_version)
    }
}

setters! { InitializeParams { meta: Option<Meta> } }

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// The revision that is spoken from now on.
    pub protocol_version: String,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// Who it is.
    pub server_info: Implementation,
    /// What a model should know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What else it says.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InitializeResult {
    /// A server that speaks this revision.
    pub fn new(revision: Revision, capabilities: ServerCapabilities, server_info: Implementation) -> Self {
        Self {
            protocol_version: revision.as_str().into(),
            capabilities,
            server_info,
            instructions: None,
            meta: None,
        }
    }

    /// The revision that is spoken, if it is known here.
    pub fn revision(&self) -> Option<Revision> {
        Revision::parse(&self.protocol_version)
    }
}

setters! { InitializeResult { instructions: Option<impl Into<String>>, meta: Option<Meta> } }
