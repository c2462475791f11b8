//! The error object of a response: borrowed from a received response, or owned.

use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Code;
use crate::json::{Json, Text};
use crate::safe_text::Escaped;

/// An error object, borrowed from the response that contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct ErrorRef<'a> {
    /// The error code, for use by programs.
    pub code: Code,
    /// The error message, to display to people.
    pub message: Text<'a>,
    /// Additional details.
    pub data: Option<Json<'a>>,
}

impl ErrorRef<'_> {
    /// Copies the error, so that it does not borrow from the frame.
    pub fn to_owned(&self) -> ErrorObject {
        let message = self.message.to_str().map_or_else(|| self.message.raw().to_owned(), Into::into);
        let data = self
            .data
            .map(|data| RawValue::from_string(data.as_str().to_owned()).expect("a Json is checked when it is made"));
        ErrorObject { code: self.code, message, data }
    }
}

/// An error object to send, or a copy of one that was received.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct ErrorObject {
    /// The error code, for use by programs.
    pub code: Code,
    /// The error message, to display to people: a short sentence.
    pub message: String,
    /// Additional details.
    pub data: Option<Box<RawValue>>,
}

impl ErrorObject {
    /// Creates an error without data.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Creates an error with the standard message of its code, or `Server error` if the code has none.
    pub fn standard(code: Code) -> Self {
        Self::new(code, code.message().unwrap_or("Server error"))
    }

    /// Sets the data. Data that cannot be serialized is omitted, because the code and message matter more.
    #[must_use]
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = serde_json::value::to_raw_value(data).ok();
        self
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", Escaped::new(&self.message), self.code)
    }
}

impl std::error::Error for ErrorObject {}
