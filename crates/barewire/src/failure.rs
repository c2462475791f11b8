//! Why a handler did not give a result, and what its caller is told.

use std::error::Error;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use barewire_proto::rpc::{Code, ErrorObject};
use serde::Serialize;

/// What a handler returns instead of a result.
///
/// Any type that implements [`Error`] turns into one by `?`. The caller is told -32603 and the name of that type; what the
/// error says goes to the log only, because it may hold what is nobody else's business. An [`ErrorObject`] is sent as it
/// is. For errors that hide their type, as a boxed one does, there is [`Self::internal`].
#[derive(Debug)]
pub struct Failure(Why);

#[derive(Debug)]
enum Why {
    MethodNotFound,
    InvalidParams(String),
    Refused(ErrorObject),
    Internal { exception: String, log: String },
}

impl Failure {
    /// There is no such method: -32601.
    pub fn method_not_found() -> Self {
        Self(Why::MethodNotFound)
    }

    /// There is, but not with these parameters: -32602. The caller is told what is wrong with them.
    pub fn invalid_params(what: impl Into<String>) -> Self {
        Self(Why::InvalidParams(what.into()))
    }

    /// Something failed in here: -32603. The caller is told `exception`, the log gets `what`.
    pub fn internal(exception: impl Into<String>, what: impl Into<String>) -> Self {
        Self(Why::Internal { exception: exception.into(), log: what.into() })
    }

    /// Runs code that is not ours; if it panics, that is how it failed.
    pub(crate) fn catch<T>(run: impl FnOnce() -> T) -> Result<T, Self> {
        // What a panic leaves half done is the handler's own; ours is only bytes, and what is half written is taken back.
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let failure = Self::internal("panic", text.unwrap_or("panicked"));
            // What a handler panics with is its own type, and dropping it may panic as well.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            failure
        })
    }

    pub(crate) fn unserializable(error: &serde_json::Error) -> Self {
        Self::internal("Error", format!("the result cannot be written as JSON: {error}"))
    }

    /// What the log should say; `None` if the answer says it all.
    pub(crate) fn log(&self) -> Option<&str> {
        match &self.0 {
            Why::Internal { log, .. } => Some(log),
            _ => None,
        }
    }

    /// The code that the caller is told.
    pub(crate) fn code(&self) -> Code {
        match &self.0 {
            Why::MethodNotFound => Code::METHOD_NOT_FOUND,
            Why::InvalidParams(_) => Code::INVALID_PARAMS,
            Why::Refused(error) => error.code,
            Why::Internal { .. } => Code::INTERNAL_ERROR,
        }
    }

    /// What the caller is told.
    pub(crate) fn error(&self, method: &str) -> ErrorObject {
        match &self.0 {
            Why::MethodNotFound => {
                let data = Data { method: Some(method), exception: None };
                ErrorObject::standard(Code::METHOD_NOT_FOUND).with_data(&data)
            }
            Why::InvalidParams(what) => ErrorObject::new(Code::INVALID_PARAMS, format!("Invalid params: {what}")),
            Why::Refused(error) => error.clone(),
            Why::Internal { exception, .. } => ErrorObject::standard(Code::INTERNAL_ERROR)
                .with_data(&Data { method: None, exception: Some(exception) }),
        }
    }
}

#[derive(Serialize)]
struct Data<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<&'a str>,
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: Box<dyn Error> = Box::new(error);
        match error.downcast::<ErrorObject>() {
            Ok(refused) => Self(Why::Refused(*refused)),
            Err(error) => {
                let exception = last_segment(std::any::type_name::<E>()).to_owned();
                Self(Why::Internal { exception, log: chain(&*error) })
            }
        }
    }
}

/// `Error` of `std::io::Error`, `Wrapped` of `app::Wrapped<app::Inner>`, and of a box what is in it.
fn last_segment(type_name: &str) -> &str {
    if let Some(boxed) = type_name.strip_prefix("alloc::boxed::Box<") {
        return last_segment(boxed.trim_end_matches('>'));
    }
    let outer = type_name.split('<').next().unwrap_or(type_name);
    outer.rsplit("::").next().unwrap_or(outer)
}

/// The error and all that caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("a String takes everything");
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
