//! A question to the user or the model behind the client: what is asked, what the client must be able to do, and how the
//! answer is read.

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

/// Something that [`Call::ask`](super::Call::ask) can ask: [`Elicit`], [`ElicitForm`] with a schema of your own,
/// [`Visit`], [`CreateMessageParams`] to ask the model, [`Roots`].
pub trait Question: sealed::Askable {}

impl<Q: sealed::Askable> Question for Q {}

pub(super) mod sealed {
    use super::*;

    /// What the engine needs to know of a question.
    pub trait Askable: Send {
        /// What the answer is.
        type Answer: Send;
        /// The method that it is asked with.
        fn method(&self) -> &'static str;
        /// The params.
        fn params(&self, revision: Revision) -> Result<Option<Box<RawValue>>, AskError>;
        /// What a client must have declared.
        fn needs(&self) -> ClientCapability;
        /// Whether one with these capabilities has.
        fn may_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool;
        /// Reads the answer.
        fn read(&self, answer: &RawValue) -> Result<Self::Answer, AskError>;
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AskError {
    /// The user said no.
    Declined,
    /// The user went away without a choice.
    Cancelled,
    /// The client answered with an error.
    Refused(ErrorObject),
    /// The answer is not what was asked for.
    Unreadable(String),
    /// The question cannot be asked in this way.
    Misuse(String),
    /// There was no answer: the connection is over, or it took too long.
    Unanswered(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declined => f.write_str("the user declined to answer"),
            Self::Cancelled => f.write_str("the user dismissed the question"),
            // Without its code: this is read by a model.
            Self::Refused(error) => write!(f, "the client could not answer: {}", error.message),
            Self::Unreadable(what) => write!(f, "the answer is not what was asked for: {what}"),
            Self::Misuse(what) => write!(f, "this cannot be asked: {what}"),
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

/// A form for the user to fill in: one field for each of `T`'s.
#[derive(Debug, Clone)]
pub struct Elicit<T> {
    message: String,
    answer: PhantomData<fn() -> T>,
}

impl<T: JsonSchema + DeserializeOwned> Elicit<T> {
    /// A form with this text above it.
    pub fn form(message: impl Into<String>) -> Self {
        Self { message: message.into(), answer: PhantomData }
    }
}

impl<T: JsonSchema + DeserializeOwned + Send> sealed::Askable for Elicit<T> {
    type Answer = T;

    fn method(&self) -> &'static str {
        ELICIT
    }

    fn params(&self, revision: Revision) -> Result<Option<Box<RawValue>>, AskError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            mode: Option<&'static str>,
            message: &'a str,
            requested_schema: Box<RawValue>,
        }
        let Form { schema: requested_schema, has_multi_select } = form_of::<T>().map_err(AskError::Misuse)?;
        if has_multi_select && !revision.has_url_elicitation() {
            return Err(AskError::Misuse(format!("a form of {revision} holds no choice of several")));
        }
        raw(&Params { mode: mode(revision), message: &self.message, requested_schema })
    }

    fn needs(&self) -> ClientCapability {
        ClientCapability::ElicitationForm
    }

    fn may_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool {
        revision.has_elicitation() && client.has(ClientCapability::ElicitationForm)
    }

    fn read(&self, answer: &RawValue) -> Result<T, AskError> {
        let content = elicited(answer)?.content.map(raw).transpose()?.flatten();
        let content = content.as_deref().and_then(|content| Json::parse(content.get().as_bytes()).ok());
        let constraints = Constraints::of::<T>().map_err(AskError::Misuse)?;
        schema::read(content, &constraints).map_err(|bad| AskError::Unreadable(bad.to_string()))
    }
}

/// A form whose schema is written by hand. The answer is the values, as they came: nothing but the handler checks them.
impl sealed::Askable for ElicitForm {
    type Answer = Object;

    fn method(&self) -> &'static str {
        ELICIT
    }

    fn params(&self, revision: Revision) -> Result<Option<Box<RawValue>>, AskError> {
        raw(&WithMode { mode: mode(revision), params: self })
    }

    fn needs(&self) -> ClientCapability {
        ClientCapability::ElicitationForm
    }

    fn may_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool {
        revision.has_elicitation() && client.has(ClientCapability::ElicitationForm)
    }

    fn read(&self, answer: &RawValue) -> Result<Object, AskError> {
        Ok(elicited(answer)?.content.unwrap_or_default())
    }
}

/// The params of a form, with what tells it from a page.
#[derive(Serialize)]
struct WithMode<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(flatten)]
    params: T,
}

/// The only mode there was has no name.
fn mode(revision: Revision) -> Option<&'static str> {
    revision.has_url_elicitation().then_some("form")
}

/// A page for the user to visit. The answer says only that they are willing to; what they do there does not come this way.
#[derive(Debug, Clone)]
pub struct Visit {
    message: String,
    url: String,
}

impl Visit {
    /// The page at this address, and why.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), url: url.into() }
    }
}

impl sealed::Askable for Visit {
    type Answer = ();

    fn method(&self) -> &'static str {
        ELICIT
    }

    fn params(&self, revision: Revision) -> Result<Option<Box<RawValue>>, AskError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Url<'a> {
            mode: &'static str,
            message: &'a str,
            url: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            elicitation_id: Option<String>,
        }
        let elicitation_id = revision.has_elicitation_ids().then(seal::random_name).transpose();
        let elicitation_id = elicitation_id.map_err(|error| AskError::Misuse(error.to_string()))?;
        raw(&Url { mode: "url", message: &self.message, url: &self.url, elicitation_id })
    }

    fn needs(&self) -> ClientCapability {
        ClientCapability::ElicitationUrl
    }

    fn may_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool {
        revision.has_url_elicitation() && client.has(ClientCapability::ElicitationUrl)
    }

    fn read(&self, answer: &RawValue) -> Result<(), AskError> {
        elicited(answer).map(drop)
    }
}

/// The model behind the client is asked.
impl sealed::Askable for CreateMessageParams {
    type Answer = CreateMessageResult;

    fn method(&self) -> &'static str {
        "sampling/createMessage"
    }

    fn params(&self, _: Revision) -> Result<Option<Box<RawValue>>, AskError> {
        raw(self)
    }

    fn needs(&self) -> ClientCapability {
        match wants_tools(self) {
            true => ClientCapability::SamplingTools,
            false => ClientCapability::Sampling,
        }
    }

    fn may_ask(&self, client: &ClientCapabilities, revision: Revision) -> bool {
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

/// Which folders the client works in.
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

    fn needs(&self) -> ClientCapability {
        ClientCapability::Roots
    }

    fn may_ask(&self, client: &ClientCapabilities, _: Revision) -> bool {
        client.has(ClientCapability::Roots)
    }

    fn read(&self, answer: &RawValue) -> Result<Vec<Root>, AskError> {
        let answer: ListRootsResult = serde_json::from_str(answer.get()).map_err(unreadable)?;
        Ok(answer.roots)
    }
}

/// What the user did with a form or a page.
fn elicited(answer: &RawValue) -> Result<ElicitResult, AskError> {
    // An array of the values of its members would do for serde.
    if !answer.get().starts_with('{') {
        return Err(AskError::Unreadable("the answer to a form must be an object".to_owned()));
    }
    let answer: ElicitResult = serde_json::from_str(answer.get()).map_err(unreadable)?;
    match answer.action {
        ElicitAction::Accept => Ok(answer),
        ElicitAction::Decline => Err(AskError::Declined),
        ElicitAction::Cancel => Err(AskError::Cancelled),
        other => Err(AskError::Unreadable(format!("the action {other:?} is not known"))),
    }
}

fn raw(params: impl Serialize) -> Result<Option<Box<RawValue>>, AskError> {
    serde_json::value::to_raw_value(&params).map(Some).map_err(|error| AskError::Misuse(error.to_string()))
}

fn unreadable(error: serde_json::Error) -> AskError {
    AskError::Unreadable(error.to_string())
}

const ELICIT: &str = "elicitation/create";
