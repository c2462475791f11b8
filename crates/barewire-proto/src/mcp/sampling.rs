//! Sampling: a server asks the client's model. The parameters of `sampling/createMessage` and its result.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::member::{is_false, known, one_or_many, or_default};
use super::{AudioContent, Content, ImageContent, Meta, Object, Role, TextContent, Tool};

/// What the model is asked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// Which model would be good. The client decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// What the model is told first. The client may change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// What of the servers' context is to be added. The client decides.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// How free the model is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How long the answer may be.
    pub max_tokens: u64,
    /// What ends the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_sequences: Option<Vec<String>>,
    /// What is passed on to the provider of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// Tools that the model may use. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// Whether it has to. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CreateMessageParams {
    /// A conversation to go on with, in at most so many tokens.
    pub fn new(messages: Vec<SamplingMessage>, max_tokens: u64) -> Self {
        Self { messages, max_tokens, ..Self::default() }
    }
}

setters! { CreateMessageParams {
    model_preferences: Option<ModelPreferences>, system_prompt: Option<impl Into<String>>,
    include_context: Option<IncludeContext>, temperature: Option<f64>,
    stop_sequences: Option<impl Into<Vec<String>>>, metadata: Option<Object>,
    tools: Option<impl Into<Vec<Tool>>>, tool_choice: Option<ToolChoice>, meta: Option<Meta>,
} }

/// A message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// Who says it.
    pub role: Role,
    /// What is said: on the wire one piece, or an array since 2025-11-25.
    #[serde(with = "one_or_many")]
    pub content: Vec<SamplingContent>,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SamplingMessage {
    /// A message of any number of pieces.
    pub fn new(role: Role, content: Vec<SamplingContent>) -> Self {
        Self { role, content, meta: None }
    }

    /// The person says it.
    pub fn user(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::User, vec![content.into()])
    }

    /// The model says it.
    pub fn assistant(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::Assistant, vec![content.into()])
    }
}

setters! { SamplingMessage { meta: Option<Meta> } }

/// A piece of a message, told by its `type`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SamplingContent {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(ImageContent),
    /// Sound. Since 2025-03-26.
    Audio(AudioContent),
    /// The model wants to use a tool. Since 2025-11-25.
    ToolUse(ToolUseContent),
    /// What came of it. Since 2025-11-25.
    ToolResult(ToolResultContent),
    /// A type that is not known here, as it came.
    #[serde(untagged)]
    Other(Value),
}

impl SamplingContent {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Its text, if it is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

impl From<&str> for SamplingContent {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for SamplingContent {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// By hand, as [`Content`] is.
impl<'de> Deserialize<'de> for SamplingContent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let kind = value.get("type").and_then(Value::as_str);
        let content = match kind.ok_or_else(|| D::Error::missing_field("type"))? {
            "text" => serde_json::from_value(value).map(Self::Text),
            "image" => serde_json::from_value(value).map(Self::Image),
            "audio" => serde_json::from_value(value).map(Self::Audio),
            "tool_use" => serde_json::from_value(value).map(Self::ToolUse),
            "tool_result" => serde_json::from_value(value).map(Self::ToolResult),
            _ => Ok(Self::Other(value)),
        };
        content.map_err(D::Error::custom)
    }
}

/// The model wants to use a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolUseContent {
    /// Names this use, for its result.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub input: Object,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ToolUseContent {
    /// A use of a tool with these arguments.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Object) -> Self {
        Self { id: id.into(), name: name.into(), input, meta: None }
    }
}

setters! { ToolUseContent { meta: Option<Meta> } }

/// What came of the use of a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultContent {
    /// The use it came of.
    pub tool_use_id: String,
    /// For the model and the person.
    #[serde(default, deserialize_with = "or_default")]
    pub content: Vec<Content>,
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// The tool failed, and the content says why.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ToolResultContent {
    /// What came of the use with this id.
    pub fn new(tool_use_id: impl Into<String>, content: Vec<Content>) -> Self {
        Self { tool_use_id: tool_use_id.into(), content, ..Self::default() }
    }
}

setters! { ToolResultContent {
    structured_content: Option<Value>, is_error: bool, meta: Option<Meta>,
} }

/// Which model would be good. Priorities go from 0 to 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Names, the best first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<Vec<ModelHint>>,
    /// How much a low price matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How much a quick answer matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How much a good answer matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

setters! { ModelPreferences {
    hints: Option<impl Into<Vec<ModelHint>>>, cost_priority: Option<f64>, speed_priority: Option<f64>,
    intelligence_priority: Option<f64>,
} }

/// A model, or several whose names have this part.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelHint {
    /// A part of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

setters! { ModelHint { name: Option<impl Into<String>> } }

/// What of the servers' context is to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IncludeContext {
    /// Nothing.
    None,
    /// That of the server that asks.
    ThisServer,
    /// That of all servers.
    AllServers,
}

/// Whether the model has to use tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolChoice {
    /// As it likes, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

setters! { ToolChoice { mode: Option<ToolChoiceMode> } }

/// Whether the model has to use tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolChoiceMode {
    /// As it likes.
    Auto,
    /// At least one.
    Required,
    /// None.
    None,
}

/// What the model says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// Who says it.
    pub role: Role,
    /// What is said: on the wire one piece, or an array since 2025-11-25.
    #[serde(with = "one_or_many")]
    pub content: Vec<SamplingContent>,
    /// The model that was asked.
    pub model: String,
    /// Why it ended: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or what the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CreateMessageResult {
    /// The model says this.
    pub fn new(model: impl Into<String>, content: impl Into<SamplingContent>) -> Self {
        Self {
            role: Role::Assistant,
            content: vec![content.into()],
            model: model.into(),
            stop_reason: None,
            meta: None,
        }
    }
}

setters! { CreateMessageResult {
    content: impl Into<Vec<SamplingContent>>, stop_reason: Option<impl Into<String>>, meta: Option<Meta>,
} }
