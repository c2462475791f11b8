//! The error object of a response: as it was received, and as it is sent.

use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Code;
use crate::json::{Json, Text};

/// An error object, borrowed from the response it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct ErrorRef<'a> {
    /// What went wrong, for programs.
    pub code: Code,
    /// What went wrong, for people.
    pub message: Text<'a>,
    /// What else the sender had to say.
    pub data: Option<Json<'a>>,
}

impl ErrorRef<'_> {
    /// A copy that does not borrow from the frame.
    pub fn to_owned(&self) -> ErrorObject {
        let message = self.message.to_str().map_or_else(|| self.message.raw().to_owned(), Into::into);
        let data = self
            .data
            .map(|data| RawValue::from_string(data.as_str().to_owned()).expect("what was scanned as JSON is JSON"));
        ErrorObject { code: self.code, message, data }
    }
}

/// An error object to send, or one that was kept.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct ErrorObject {
    /// What went wrong, for programs.
    pub code: Code,
    /// What went wrong, for people: a short sentence.
    pub message: String,
    /// What else there is to say.
    pub data: Option<Box<RawValue>>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// One of the standard errors, with the sentence that JSON-RPC has for it.
    pub fn standard(code: Code) -> Self {
        Self::new(code, code.message().unwrap_or("Server error"))
    }

    /// Adds data. If it cannot be written as JSON it is left out: an error about an error helps nobody.
    #[must_use]
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = serde_json::value::to_raw_value(data).ok();
        self
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject {}
