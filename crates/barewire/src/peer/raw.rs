//! JSON as text: parameters and results that are passed on without being deserialized.

use std::fmt;

use barewire_proto::json::Json;
use barewire_proto::rpc::Params;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Failure;

/// JSON text as the peer wrote it, or nothing for absent parameters. A handler can take `Raw` as its parameters, and a
/// call can return it as its result; the text is then not deserialized.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Raw {
    /// Invariant: the text is one valid JSON value.
    text: Option<Box<str>>,
}

impl Raw {
    pub(super) fn new(json: Json<'_>) -> Self {
        Self { text: Some(json.as_str().into()) }
    }

    pub(crate) fn from_params(params: Option<Params<'_>>) -> Self {
        Self { text: params.map(|params| params.json().as_str().into()) }
    }

    /// Serializes `value` as JSON.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        Ok(Self { text: Some(serde_json::to_string(value)?.into()) })
    }

    /// The JSON text; `None` for absent parameters.
    pub fn as_str(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Deserializes the text. Absent parameters are read as null.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text.as_deref().unwrap_or("null"))
    }

    pub(super) fn with_params<T>(&self, run: impl FnOnce(Option<Params<'_>>) -> T) -> T {
        crate::params::with(self.text.as_deref(), run)
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.text.as_deref().unwrap_or("null");
        serde_json::from_str::<&RawValue>(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.as_deref().unwrap_or("absent"))
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.as_deref().unwrap_or("null"))
    }
}

/// The types that a handler can take as its parameters: any type that serde can deserialize, or [`Raw`]. If the
/// parameters cannot be deserialized, the request is answered with -32602, and the handler does not run.
pub trait FromParams: sealed::ReadParams {}

impl<T: sealed::ReadParams> FromParams for T {}

pub(super) mod sealed {
    use super::*;

    /// Sealed, so that the internal representation of messages can change.
    pub trait ReadParams: Sized {
        /// Deserializes the parameters before the handler runs. A failure is sent as the answer.
        fn read_params(params: Option<Params<'_>>) -> Result<Self, Failure>;
    }

    impl<T: DeserializeOwned> ReadParams for T {
        fn read_params(params: Option<Params<'_>>) -> Result<Self, Failure> {
            crate::params::read(params)
        }
    }

    impl ReadParams for Raw {
        fn read_params(params: Option<Params<'_>>) -> Result<Self, Failure> {
            Ok(Self::from_params(params))
        }
    }
}

/// The types that a call can return as its result: any type that serde can deserialize, or [`Raw`].
pub trait FromResult: Sized + Send + 'static {
    /// Deserializes the result.
    fn from_result(result: Raw) -> Result<Self, serde_json::Error>;
}

impl<T: DeserializeOwned + Send + 'static> FromResult for T {
    fn from_result(result: Raw) -> Result<Self, serde_json::Error> {
        result.to()
    }
}

impl FromResult for Raw {
    fn from_result(result: Raw) -> Result<Self, serde_json::Error> {
        Ok(result)
    }
}
