//! Input that a modern server needs before it can answer a request: its result holds input requests, and the client
//! sends the request again with input responses.

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::{CreateMessageParams, ElicitParams, Meta};

/// Maps keys that the server chooses to its input requests.
pub type InputRequests = BTreeMap<String, InputRequest>;

/// Maps the keys of the input requests to their results, as JSON text.
pub type InputResponses = BTreeMap<String, Box<RawValue>>;

/// An input request inside a result: it has a method and parameters, but no id.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputRequest {
    /// The method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
}

impl InputRequest {
    /// Creates an input request without parameters.
    pub fn new(method: impl Into<String>) -> Self {
        Self { method: method.into(), params: None }
    }

    /// Creates an input request that asks the user.
    pub fn elicit(params: &ElicitParams) -> serde_json::Result<Self> {
        Ok(Self::new("elicitation/create").params(to_raw_value(params)?))
    }

    /// Creates an input request that calls the model of the client.
    pub fn create_message(params: &CreateMessageParams) -> serde_json::Result<Self> {
        Ok(Self::new("sampling/createMessage").params(to_raw_value(params)?))
    }

    /// Creates an input request for the roots of the client.
    pub fn list_roots() -> Self {
        Self::new("roots/list")
    }
}

setters! { InputRequest { params: Option<Box<RawValue>> } }

/// A result that asks for input. The client repeats the request with its responses to the input requests.
///
/// The result is written with the `resultType` `input_required`, which distinguishes it from other results.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InputRequiredResult {
    /// The input requests. `None` if the client only has to repeat the request.
    #[serde(default)]
    pub input_requests: Option<InputRequests>,
    /// An opaque state that the client sends back unchanged with the responses.
    #[serde(default)]
    pub request_state: Option<String>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default)]
    pub meta: Option<Meta>,
}

impl InputRequiredResult {
    /// The `resultType` of a result that asks for input.
    pub const RESULT_TYPE: &str = "input_required";
}

setters! { InputRequiredResult {
    input_requests: Option<InputRequests>, request_state: Option<impl Into<String>>, meta: Option<Meta>,
} }

impl Serialize for InputRequiredResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { input_requests, request_state, meta } = self;
        let mut object = to.serialize_struct("InputRequiredResult", 4)?;
        object.serialize_field("resultType", Self::RESULT_TYPE)?;
        match input_requests {
            Some(requests) => object.serialize_field("inputRequests", requests)?,
            None => object.skip_field("inputRequests")?,
        }
        match request_state {
            Some(state) => object.serialize_field("requestState", state)?,
            None => object.skip_field("requestState")?,
        }
        match meta {
            Some(meta) => object.serialize_field("_meta", meta)?,
            None => object.skip_field("_meta")?,
        }
        object.end()
    }
}
