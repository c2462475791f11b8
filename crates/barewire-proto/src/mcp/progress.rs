//! How far a request has come: the parameters of `notifications/progress`.

use serde::{Deserialize, Serialize};

use super::{Meta, member};
use crate::rpc::Id;

/// How far a request has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProgressParams {
    /// The token that came with the request, as it was written.
    #[serde(with = "member::id")]
    pub progress_token: Id<'static>,
    /// How far. It grows with each message.
    pub progress: f64,
    /// How far it will go, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done. Since 2025-03-26.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ProgressParams {
    /// So far it has come.
    pub fn new(progress_token: Id<'static>, progress: f64) -> Self {
        Self { progress_token, progress, total: None, message: None, meta: None }
    }
}

setters! { ProgressParams { total: Option<f64>, message: Option<impl Into<String>>, meta: Option<Meta> } }
