//! The progress of a request: the parameters of `notifications/progress`.

use serde::{Deserialize, Serialize};

use super::{Meta, member};
use crate::rpc::Id;

/// The parameters of `notifications/progress`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProgressParams {
    /// The progress token of the request, exactly as the peer wrote it.
    #[serde(with = "member::id")]
    pub progress_token: Id<'static>,
    /// The progress so far. It increases with each notification.
    pub progress: f64,
    /// The value of `progress` at the end, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// A description of the current step. Since 2025-03-26.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ProgressParams {
    /// Creates progress with this token and value.
    pub fn new(progress_token: Id<'static>, progress: f64) -> Self {
        Self { progress_token, progress, total: None, message: None, meta: None }
    }
}

setters! { ProgressParams { total: Option<f64>, message: Option<impl Into<String>>, meta: Option<Meta> } }
