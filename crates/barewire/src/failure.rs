//! The error that a handler returns: the error response for the peer, and the text for the log.

use std::error::Error;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use barewire_proto::rpc::{Code, ErrorObject};
use serde::Serialize;

/// The error that a handler returns.
///
/// `?` converts any type that implements [`Error`] to a failure. The peer that sent the request gets the code -32603
/// and the name of the error's type. The text of the error is only logged, because it can be confidential. An
/// [`ErrorObject`] is sent unchanged. For errors with an erased type, such as `Box<dyn Error>`, use [`Self::internal`].
#[derive(Debug)]
pub struct Failure(FailureReason);

#[derive(Debug)]
enum FailureReason {
    MethodNotFound,
    InvalidParams(String),
    Refused(ErrorObject),
    Internal { exception: String, log: String },
}

impl Failure {
    /// Returns a failure with the code -32601: the method does not exist.
    pub fn method_not_found() -> Self {
        Self(FailureReason::MethodNotFound)
    }

    /// Returns a failure with the code -32602: the parameters are invalid. The peer is sent `what`.
    pub fn invalid_params(what: impl Into<String>) -> Self {
        Self(FailureReason::InvalidParams(what.into()))
    }

    /// Returns a failure with the code -32603: an internal error. The peer is sent `exception`, but not `what`, which
    /// is only logged.
    pub fn internal(exception: impl Into<String>, what: impl Into<String>) -> Self {
        Self(FailureReason::Internal { exception: exception.into(), log: what.into() })
    }

    /// Calls `run`, which runs a handler, and converts a panic into a failure.
    pub(crate) fn catch<T>(run: impl FnOnce() -> T) -> Result<T, Self> {
        // This is unwind safe: a panic can leave only the handler's own state and the output inconsistent, and callers
        // of `catch` remove a partly written message from the output.
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let failure = Self::internal("panic", text.unwrap_or("panicked"));
            // The panic's payload can be of any type, and dropping the payload can panic again.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            failure
        })
    }

    pub(crate) fn unserializable(error: &serde_json::Error) -> Self {
        Self::internal("Error", format!("the result cannot be written as JSON: {error}"))
    }

    /// Returns the text for the log; `None` if the error response already contains all details.
    pub(crate) fn log(&self) -> Option<&str> {
        match &self.0 {
            FailureReason::Internal { log, .. } => Some(log),
            _ => None,
        }
    }

    /// Returns the code of the error response.
    pub(crate) fn code(&self) -> Code {
        match &self.0 {
            FailureReason::MethodNotFound => Code::METHOD_NOT_FOUND,
            FailureReason::InvalidParams(_) => Code::INVALID_PARAMS,
            FailureReason::Refused(error) => error.code,
            FailureReason::Internal { .. } => Code::INTERNAL_ERROR,
        }
    }

    /// Returns the error of the response to a request for `method`.
    pub(crate) fn error(&self, method: &str) -> ErrorObject {
        match &self.0 {
            FailureReason::MethodNotFound => {
                let data = FailureData { method: Some(method), exception: None };
                ErrorObject::standard(Code::METHOD_NOT_FOUND).with_data(&data)
            }
            FailureReason::InvalidParams(what) => {
                ErrorObject::new(Code::INVALID_PARAMS, format!("Invalid params: {what}"))
            }
            FailureReason::Refused(error) => error.clone(),
            FailureReason::Internal { exception, .. } => ErrorObject::standard(Code::INTERNAL_ERROR)
                .with_data(&FailureData { method: None, exception: Some(exception) }),
        }
    }
}

#[derive(Serialize)]
struct FailureData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<&'a str>,
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: Box<dyn Error> = Box::new(error);
        match error.downcast::<ErrorObject>() {
            Ok(refused) => Self(FailureReason::Refused(*refused)),
            Err(error) => {
                let exception = last_segment(std::any::type_name::<E>()).to_owned();
                Self(FailureReason::Internal { exception, log: chain(&*error) })
            }
        }
    }
}

/// Returns the name of a type without its path and its type arguments: `Error` for `std::io::Error`, `Wrapped` for
/// `app::Wrapped<app::Inner>`. For a `Box<T>`, returns the name of `T`.
fn last_segment(type_name: &str) -> &str {
    if let Some(boxed) = type_name.strip_prefix("alloc::boxed::Box<") {
        return last_segment(boxed.trim_end_matches('>'));
    }
    let outer = type_name.split('<').next().unwrap_or(type_name);
    outer.rsplit("::").next().unwrap_or(outer)
}

/// Returns the text of an error and of all its sources, separated by colons.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("writing to a String cannot fail");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_an_error_is_its_last_segment() {
        for (name, segment) in [
            ("core::num::error::ParseIntError", "ParseIntError"),
            ("app::Wrapped<app::deep::Inner>", "Wrapped"),
            ("Plain", "Plain"),
            ("alloc::boxed::Box<app::Inner>", "Inner"),
        ] {
            assert_eq!(last_segment(name), segment);
        }
    }
}
