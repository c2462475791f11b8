//! Elicitation: a server asks the client's user, by a form or by a page to open.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Meta, Object};

/// What the user is asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ElicitParams {
    /// Values, by a form.
    Form(ElicitForm),
    /// To open a page: for secrets, payments and consent, which must not go through the client. Since 2025-11-25.
    Url(ElicitUrl),
}

/// A form.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitForm {
    /// What the user is told.
    pub message: String,
    /// The JSON Schema of the values: an object whose properties are strings, numbers, booleans or enums.
    pub requested_schema: Box<RawValue>,
    /// What else is said of it.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ElicitForm {
    /// A form for values of this schema.
    pub fn new(message: impl Into<String>, requested_schema: Box<RawValue>) -> Self {
        Self { message: message.into(), requested_schema, meta: None }
    }
}

setters! { ElicitForm { meta: Option<Meta> } }

/// A page to open.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(tag = "mode", rename = "url", rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitUrl {
    /// What the user is told.
    pub message: String,
    /// Where the page is.
    pub url: String,
    /// Names it for `notifications/elicitation/complete`. Needed in 2025-11-25 and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    /// What else is said of it.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ElicitUrl {
    /// A page at this URL.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), url: url.into(), ..Self::default() }
    }
}

setters! { ElicitUrl { elicitation_id: Option<impl Into<String>>, meta: Option<Meta> } }

impl ElicitParams {
    /// A form for values of this schema.
    pub fn form(message: impl Into<String>, requested_schema: Box<RawValue>) -> Self {
        Self::Form(ElicitForm::new(message, requested_schema))
    }

    /// A page to open.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(ElicitUrl::new(message, url))
    }

    /// What the user is told.
    pub fn message(&self) -> &str {
        match self {
            Self::Form(form) => &form.message,
            Self::Url(page) => &page.message,
        }
    }
}

/// A form is written without its mode: 2025-06-18 has none, and later it may be left out.
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
        /// The members of both modes, read once.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Members {
            mode: Option<String>,
            message: String,
            requested_schema: Option<Box<RawValue>>,
            url: Option<String>,
            elicitation_id: Option<String>,
            #[serde(rename = "_meta")]
            meta: Option<Meta>,
        }

        let Members { mode, message, requested_schema, url, elicitation_id, meta } =
            Members::deserialize(from)?;
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

/// What the user did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitResult {
    /// Accepted, declined, or neither.
    pub action: ElicitAction,
    /// The values, if a form was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Object>,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ElicitResult {
    /// A result without values: also the acceptance of a page, which has none.
    pub fn new(action: ElicitAction) -> Self {
        Self { action, content: None, meta: None }
    }

    /// The user has filled in the form.
    pub fn accept(content: Object) -> Self {
        Self::new(ElicitAction::Accept).content(content)
    }

    /// The user said no.
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// The user went away without a decision.
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

setters! { ElicitResult { content: Option<Object>, meta: Option<Meta> } }

/// What the user did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitAction {
    /// Said yes.
    Accept,
    /// Said no.
    Decline,
    /// Went away without a decision.
    Cancel,
}

/// The parameters of `notifications/elicitation/complete`. Only in 2025-11-25.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationComplete {
    /// The one that is done.
    pub elicitation_id: String,
}

impl ElicitationComplete {
    /// The elicitation of this id is done.
    pub fn new(elicitation_id: impl Into<String>) -> Self {
        Self { elicitation_id: elicitation_id.into() }
    }
}
