//! A result or an error -> the bytes of a response.

use barewire_proto::rpc::Code;
use serde_json::{Value, json};

/// The answer to a request.
pub(super) enum Answer {
    Result(Value),
    /// A result that is written in parts: the response is cut in the middle of a character.
    Cut(Value),
    /// The text of a result that is too large, or too deep, to be built as a value.
    Text(String),
    /// The response comes later.
    Later,
}

/// An error response.
#[derive(Debug)]
pub(super) struct Failure {
    code: i64,
    message: &'static str,
    data: Value,
}

impl Failure {
    pub(super) fn new(code: Code, message: &'static str, data: Value) -> Self {
        Self { code: code.get(), message, data }
    }

    pub(super) fn invalid_request(rule: &'static str) -> Self {
        Self::new(Code::INVALID_REQUEST, "Invalid Request", json!({"rule": rule}))
    }

    pub(super) fn invalid_params(rule: &'static str) -> Self {
        Self::new(Code::INVALID_PARAMS, "Invalid params", json!({"rule": rule}))
    }

    pub(super) fn unknown_method() -> Self {
        Self::new(Code::METHOD_NOT_FOUND, "Method not found", json!({}))
    }
}

impl Answer {
    /// Returns the bytes of the response and the offsets at which it is cut; `None` if it comes later.
    pub(super) fn write(answer: Result<Self, Failure>, id: &str) -> Option<(Vec<u8>, Vec<usize>)> {
        let result = |text: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{text}}}").into_bytes();
        match answer {
            Ok(Self::Later) => None,
            Ok(Self::Result(value)) => Some((result(&value.to_string()), Vec::new())),
            Ok(Self::Text(text)) => Some((result(&text), Vec::new())),
            Ok(Self::Cut(value)) => {
                let bytes = result(&value.to_string());
                // The first byte after 0xE2 is in the middle of a character.
                let inside = bytes.iter().position(|byte| *byte >= 0xE2).map_or(bytes.len() / 2, |at| at + 1);
                Some((bytes.clone(), vec![1, inside]))
            }
            Err(Failure { code, message, data }) => {
                let error = json!({"code": code, "message": message, "data": data});
                Some((format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}").into_bytes(), Vec::new()))
            }
        }
    }
}
