//! Questions that a handler asks the user or the model through the client: the params to send, the client capability
//! that each question needs, and how the answer is read.

use std::fmt;
use std::marker::PhantomData;

use barewire_proto::json::Json;
use barewire_proto::mcp::{
    ClientCapabilities, ClientCapability, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitForm,
    ElicitResult, ListRootsResult, Object, Revision, Root,
};
use barewire_proto::rpc::ErrorObject;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::seal;
use crate::peer::CallError;
use crate::schema::{self, Constraints, Form, form_of};

/// A question for [`Call::ask`](super::Call::ask): a form ([`Elicit`], or [`ElicitForm`] with a schema written by
/// hand), a web page to visit ([`Visit`]), a question to the model ([`CreateMessageParams`]), or the client's folders
/// ([`Roots`]).
pub trait Question: sealed::Askable {}

impl<Q: sealed::Askable> Question for Q {}

pub(super) mod sealed {
    use super::*;

    /// The methods of a question that `Call::ask` uses.
    pub trait Askable: Send {
        /// The type of the answer.
        type Answer: Send;
        /// The JSON-RPC method of the question.
        fn method(&self) -> &'static str;
        /// Returns the params of the request, as this revision defines them.
        fn params(&self, revision: Revision) -> Result<Option<Box<RawValue>>, AskError>;
        /// Returns the capability that the client must have declared.
        fn required_capability(&self) -> ClientCapability;
        /// Whether this question can be sent to a client with these capabilities in this revision.
        fn can_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool;
        /// Parses the client's result into the answer.
        fn read(&self, answer: &RawValue) -> Result<Self::Answer, AskError>;
    }
}

/// The reason why a question has no answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AskError {
    /// The user declined.
    Declined,
    /// The user dismissed the question without a choice.
    Cancelled,
    /// The client answered with an error.
    Refused(ErrorObject),
    /// The answer does not match the question.
    Unreadable(String),
    /// The question cannot be asked: no valid form can be generated from its type, or the client's revision does not
    /// support this kind of question.
    Misuse(String),
    /// No answer arrived: the connection ended, or the question timed out.
    Unanswered(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declined => f.write_str("the user declined to answer"),
            Self::Cancelled => f.write_str("the user dismissed the question"),
            // The error code is omitted, because a model reads this text.
            Self::Refused(error) => write!(f, "the client could not answer: {}", error.message),
            Self::Unreadable(what) => write!(f, "the answer is not what was asked for: {what}"),
            Self::Misuse(what) => write!(f, "the question cannot be asked: {what}"),
            Self::Unanswered(what) => write!(f, "no answer: {what}"),
        }
    }
}

impl std::error::Error for AskError {}

impl From<CallError> for AskError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(error) => Self::Refused(error),
            CallError::Fault(what) | CallError::Result(what) => Self::Unreadable(what),
            other => Self::Unanswered(other.to_string()),
        }
    }
}

/// A form for the user to fill in, with one field for each field of `T`.
#[derive(Debug, Clone)]
pub struct Elicit<T> {
    message: String,
    answer: PhantomData<fn() -> T>,
}

impl<T: JsonSchema + DeserializeOwned> Elicit<T> {
    /// Creates a form with this text above its fields.
    pub fn form(message: impl Into<String>) -> Self {
        Self { message: message.into(), answer: PhantomData }
    }
}

impl<T: JsonSchema + DeserializeOwned + Send> sealed::Askable for Elicit<T> {
    type Answer = T;

    fn method(&self) -> &'static str {
        ELICITATION_CREATE
    }

    fn params(&self, revision: Revision) -> Result<Option<Box<RawValue>>, AskError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct FormParams<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            mode: Option<&'static str>,
            message: &'a str,
            requested_schema: Box<RawValue>,
        }
        let Form { schema: requested_schema, has_multi_select } = form_of::<T>().map_err(AskError::Misuse)?;
        if has_multi_select && !revision.has_url_elicitation() {
            return Err(AskError::Misuse(format!("{revision} has no multiple-choice fields in forms")));
        }
        raw(&FormParams { mode: mode(revision), message: &self.message, requested_schema })
    }

    fn required_capability(&self) -> ClientCapability {
        ClientCapability::ElicitationForm
    }

    fn can_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool {
        revision.has_elicitation() && client.has(ClientCapability::ElicitationForm)
    }

    fn read(&self, answer: &RawValue) -> Result<T, AskError> {
        let content = elicited(answer)?.content.map(raw).transpose()?.flatten();
        let content = content.as_deref().and_then(|content| Json::parse(content.get().as_bytes()).ok());
        let constraints = Constraints::of::<T>().map_err(AskError::Misuse)?;
        schema::read(content, &constraints).map_err(|bad| AskError::Unreadable(bad.to_string()))
    }
}

/// A form with a schema written by hand. The answer is not checked against that schema: the handler must check it.
impl sealed::Askable for ElicitForm {
    type Answer = Object;

    fn method(&self) -> &'static str {
        ELICITATION_CREATE
    }

    fn params(&self, revision: Revision) -> Result<Option<Box<RawValue>>, AskError> {
        raw(&WithMode { mode: mode(revision), params: self })
    }

    fn required_capability(&self) -> ClientCapability {
        ClientCapability::ElicitationForm
    }

    fn can_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool {
        revision.has_elicitation() && client.has(ClientCapability::ElicitationForm)
    }

    fn read(&self, answer: &RawValue) -> Result<Object, AskError> {
        Ok(elicited(answer)?.content.unwrap_or_default())
    }
}

/// The params of a form, with `mode`, which distinguishes a form from a URL.
#[derive(Serialize)]
struct WithMode<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(flatten)]
    params: T,
}

/// Returns the `mode` of a form. It is `None` in revisions without URL elicitation, which have no `mode`.
fn mode(revision: Revision) -> Option<&'static str> {
    revision.has_url_elicitation().then_some("form")
}

/// A web page for the user to visit. The answer says only that the user agreed to visit the page. Data that the user
/// enters there is not sent through MCP.
#[derive(Debug, Clone)]
pub struct Visit {
    message: String,
    url: String,
}

impl Visit {
    /// Creates the question. `message` tells the user why to visit the page; `url` is its address.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), url: url.into() }
    }
}

impl sealed::Askable for Visit {
    type Answer = ();

    fn method(&self) -> &'static str {
        ELICITATION_CREATE
    }

    fn params(&self, revision: Revision) -> Result<Option<Box<RawValue>>, AskError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct UrlParams<'a> {
            mode: &'static str,
            message: &'a str,
            url: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            elicitation_id: Option<String>,
        }
        let elicitation_id = revision.has_elicitation_ids().then(seal::random_name).transpose();
        let elicitation_id = elicitation_id.map_err(|error| AskError::Misuse(error.to_string()))?;
        raw(&UrlParams { mode: "url", message: &self.message, url: &self.url, elicitation_id })
    }

    fn required_capability(&self) -> ClientCapability {
        ClientCapability::ElicitationUrl
    }

    fn can_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool {
        revision.has_url_elicitation() && client.has(ClientCapability::ElicitationUrl)
    }

    fn read(&self, answer: &RawValue) -> Result<(), AskError> {
        elicited(answer).map(drop)
    }
}

/// A question to the model behind the client.
impl sealed::Askable for CreateMessageParams {
    type Answer = CreateMessageResult;

    fn method(&self) -> &'static str {
        "sampling/createMessage"
    }

    fn params(&self, _: Revision) -> Result<Option<Box<RawValue>>, AskError> {
        raw(self)
    }

    fn required_capability(&self) -> ClientCapability {
        match wants_tools(self) {
            true => ClientCapability::SamplingTools,
            false => ClientCapability::Sampling,
        }
    }

    fn can_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool {
        match wants_tools(self) {
            true => revision.has_sampling_tools() && client.has(ClientCapability::SamplingTools),
            false => client.has(ClientCapability::Sampling),
        }
    }

    fn read(&self, answer: &RawValue) -> Result<CreateMessageResult, AskError> {
        serde_json::from_str(answer.get()).map_err(unreadable)
    }
}

fn wants_tools(params: &CreateMessageParams) -> bool {
    params.tools.is_some() || params.tool_choice.is_some()
}

/// A question to the client: which folders it works in (`roots/list`).
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "`roots/list` takes no parameters")]
pub struct Roots;

impl sealed::Askable for Roots {
    type Answer = Vec<Root>;

    fn method(&self) -> &'static str {
        "roots/list"
    }

    fn params(&self, _: Revision) -> Result<Option<Box<RawValue>>, AskError> {
        Ok(None)
    }

    fn required_capability(&self) -> ClientCapability {
        ClientCapability::Roots
    }

    fn can_ask(&self, client: &ClientCapabilities, _: Revision) -> bool {
        client.has(ClientCapability::Roots)
    }

    fn read(&self, answer: &RawValue) -> Result<Vec<Root>, AskError> {
        let answer: ListRootsResult = serde_json::from_str(answer.get()).map_err(unreadable)?;
        Ok(answer.roots)
    }
}

/// Reads the user's response to a form or a page.
fn elicited(answer: &RawValue) -> Result<ElicitResult, AskError> {
    // serde would also accept an array of the struct's field values, which is not a valid answer.
    if !answer.get().starts_with('{') {
        return Err(AskError::Unreadable("the answer to a form must be an object".to_owned()));
    }
    let answer: ElicitResult = serde_json::from_str(answer.get()).map_err(unreadable)?;
    match answer.action {
        ElicitAction::Accept => Ok(answer),
        ElicitAction::Decline => Err(AskError::Declined),
        ElicitAction::Cancel => Err(AskError::Cancelled),
        other => Err(AskError::Unreadable(format!("unknown action {other:?}"))),
    }
}

fn raw(params: impl Serialize) -> Result<Option<Box<RawValue>>, AskError> {
    serde_json::value::to_raw_value(&params).map(Some).map_err(|error| AskError::Misuse(error.to_string()))
}

fn unreadable(error: serde_json::Error) -> AskError {
    AskError::Unreadable(error.to_string())
}

const ELICITATION_CREATE: &str = "elicitation/create";
