//! The answer to a request of the page, or why there is none.

use std::fmt;

use serde::Serialize;
use serde_json::json;

use super::saved_file::SavedContent;

/// An answer.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "the page knows these kinds of answers")]
pub enum Answer {
    /// A JSON text.
    Json(String),
    /// Nothing to say: status 204.
    Done,
    /// A file to save.
    Download {
        /// The name of the file.
        name: String,
        /// Its media type.
        kind: &'static str,
        /// Its content.
        content: SavedContent,
    },
}

impl Answer {
    /// Makes an answer of a value that consists of our own members and of texts, each of bounded length.
    pub fn json(value: &impl Serialize) -> Result<Self, AnswerError> {
        let text = serde_json::to_string(value);
        text.map(Self::Json).map_err(|error| AnswerError::new(500, format!("the answer cannot be written: {error}")))
    }
}

/// The reason why a request is not answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AnswerError {
    /// The HTTP status.
    pub status: u16,
    /// What is wrong.
    pub error: String,
    /// What would help.
    pub hint: Option<String>,
    /// The place in a filter that is wrong, in characters.
    pub at: Option<usize>,
}

impl AnswerError {
    /// Makes an error with this status.
    pub fn new(status: u16, error: impl fmt::Display) -> Self {
        Self { status, error: error.to_string(), hint: None, at: None }
    }

    /// Makes an error for a thing that does not exist.
    pub fn not_found(what: impl fmt::Display) -> Self {
        Self::new(404, what)
    }

    /// Sets the hint.
    #[must_use]
    pub fn with_hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    pub(super) fn body(&self) -> String {
        let Self { error, hint, at, .. } = self;
        json!({"error": error, "hint": hint, "at": at}).to_string()
    }
}
