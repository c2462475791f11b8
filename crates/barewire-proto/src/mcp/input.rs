//! Input that a modern server needs before it can answer: the requests in its result, and the answers in the retry.

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::{CreateMessageParams, ElicitParams, Meta};

/// What is asked, by keys that the server chooses.
pub type InputRequests = BTreeMap<String, InputRequest>;

/// What was answered, by the same keys: results, as text.
pub type InputResponses = BTreeMap<String, Box<RawValue>>;

/// A request in a result: it has a method and parameters, but no id.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputRequest {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
}

impl InputRequest {
    /// A request without parameters.
    pub fn new(method: impl Into<String>) -> Self {
        Self { method: method.into(), params: None }
    }

    /// Asks the user.
    pub fn elicit(params: &ElicitParams) -> serde_json::Result<Self> {
        Ok(Self::new("elicitation/create").params(to_raw_value(params)?))
    }

    /// Asks the model.
    pub fn create_message(params: &CreateMessageParams) -> serde_json::Result<Self> {
        Ok(Self::new("sampling/createMessage").params(to_raw_value(params)?))
    }

    /// Asks for the folders that the client works in.
    pub fn list_roots() -> Self {
        Self::new("roots/list")
    }
}

setters! { InputRequest { params: Option<Box<RawValue>> } }

/// A result that is none yet: the client is to send the request again, with answers.
///
/// It is written with its `resultType`, `input_required`, which is what tells it from other results.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InputRequiredResult {
    /// What is asked. `None` if the client is only to come again.
    #[serde(default)]
    pub input_requests: Option<InputRequests>,
    /// What the client sends back with the answers, as it is.
    #[serde(default)]
    pub request_state: Option<String>,
    /// What else is said of it.
    #[serde(rename = "_meta", default)]
    pub meta: Option<Meta>,
}

impl InputRequiredResult {
    /// What `resultType` says in such a result.
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
