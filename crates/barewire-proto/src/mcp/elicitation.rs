//! Elicitation: a server asks the user of the client for input, with a form to fill in or a web page to open.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Meta, Object};

/// The parameters of `elicitation/create`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form to fill in.
    Form(ElicitForm),
    /// A web page to open, for secrets and other data that must not pass through the client. Since 2025-11-25.
    Url(ElicitUrl),
}

/// A form for the user to fill in.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitForm {
    /// The message to the user.
    pub message: String,
    /// The JSON Schema of the form's values: an object whose properties are strings, numbers, booleans or enums.
    pub requested_schema: Box<RawValue>,
    /// The `_meta` member.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ElicitForm {
    /// Creates a form for values of this schema.
    pub fn new(message: impl Into<String>, requested_schema: Box<RawValue>) -> Self {
        Self { message: message.into(), requested_schema, meta: None }
    }
}

setters! { ElicitForm { meta: Option<Meta> } }

/// A web page for the user to open.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(tag = "mode", rename = "url", rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitUrl {
    /// The message to the user.
    pub message: String,
    /// The URL of the page.
    pub url: String,
    /// The id that `notifications/elicitation/complete` refers to. Required in 2025-11-25; no other revision has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    /// The `_meta` member.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ElicitUrl {
    /// Creates a request to open the page at this URL.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), url: url.into(), ..Self::default() }
    }
}

setters! { ElicitUrl { elicitation_id: Option<impl Into<String>>, meta: Option<Meta> } }

impl ElicitParams {
    /// Creates a form for values of this schema.
    pub fn form(message: impl Into<String>, requested_schema: Box<RawValue>) -> Self {
        Self::Form(ElicitForm::new(message, requested_schema))
    }

    /// Creates a request to open the page at this URL.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(ElicitUrl::new(message, url))
    }

    /// Returns the message to the user.
    pub fn message(&self) -> &str {
        match self {
            Self::Form(form) => &form.message,
            Self::Url(page) => &page.message,
        }
    }
}

/// Writes a form without the member `mode`, which 2025-06-18 does not have and which later revisions do not require.
impl Serialize for ElicitParams {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Form(form) => form.serialize(to),
            Self::Url(page) => page.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// The members of both forms and pages.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ElicitMembers {
            mode: Option<String>,
            message: String,
            requested_schema: Option<Box<RawValue>>,
            url: Option<String>,
            elicitation_id: Option<String>,
            #[serde(rename = "_meta")]
            meta: Option<Meta>,
        }

        let ElicitMembers { mode, message, requested_schema, url, elicitation_id, meta } =
            ElicitMembers::deserialize(from)?;
        match mode.as_deref() {
            None | Some("form") => {
                let requested_schema =
                    requested_schema.ok_or_else(|| D::Error::missing_field("requestedSchema"))?;
                Ok(Self::Form(ElicitForm { message, requested_schema, meta }))
            }
            Some("url") => {
                let url = url.ok_or_else(|| D::Error::missing_field("url"))?;
                Ok(Self::Url(ElicitUrl { message, url, elicitation_id, meta }))
            }
            Some(other) => Err(D::Error::unknown_variant(other, &["form", "url"])),
        }
    }
}

/// The result of `elicitation/create`: the user's decision, and the values of an accepted form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitResult {
    /// The decision of the user.
    pub action: ElicitAction,
    /// The values that the user entered in an accepted form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Object>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ElicitResult {
    /// Creates a result without values. Only an accepted form has values.
    pub fn new(action: ElicitAction) -> Self {
        Self { action, content: None, meta: None }
    }

    /// Creates the result of a user who accepted and filled in the form.
    pub fn accept(content: Object) -> Self {
        Self::new(ElicitAction::Accept).content(content)
    }

    /// Creates the result of a user who declined.
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// Creates the result of a user who dismissed the request without a decision.
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

setters! { ElicitResult { content: Option<Object>, meta: Option<Meta> } }

/// The decision of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitAction {
    /// The user accepted.
    Accept,
    /// The user declined.
    Decline,
    /// The user dismissed the request without a decision.
    Cancel,
}

/// The parameters of `notifications/elicitation/complete`. Only in 2025-11-25.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationComplete {
    /// The id of the elicitation.
    pub elicitation_id: String,
}

impl ElicitationComplete {
    /// Creates a notification that the elicitation with this id is complete.
    pub fn new(elicitation_id: impl Into<String>) -> Self {
        Self { elicitation_id: elicitation_id.into() }
    }
}
