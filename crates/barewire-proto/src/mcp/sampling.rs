//! Sampling: a server calls the model of the client. These are the parameters and the result of
//! `sampling/createMessage`.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::member::{is_false, known, one_or_many, or_default};
use super::{AudioContent, Content, ImageContent, Meta, Object, Role, TextContent, Tool};

/// The parameters of `sampling/createMessage`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The messages of the conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// The preferences for a model. The client decides which model it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// The system prompt. The client can change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The servers whose context should be included in the prompt. The client decides whether to include it.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// The temperature of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The maximum length of the response, in tokens.
    pub max_tokens: u64,
    /// The sequences that end the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_sequences: Option<Vec<String>>,
    /// Metadata for the provider of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// The tools that the model can use. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// Whether the model must use tools. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CreateMessageParams {
    /// Creates parameters to continue this conversation, in at most `max_tokens` tokens.
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
    /// The role of the speaker.
    pub role: Role,
    /// The content. On the wire it is a single piece of content; since 2025-11-25 it can also be an array.
    #[serde(with = "one_or_many")]
    pub content: Vec<SamplingContent>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SamplingMessage {
    /// Creates a message with any number of pieces of content.
    pub fn new(role: Role, content: Vec<SamplingContent>) -> Self {
        Self { role, content, meta: None }
    }

    /// Creates a message from the user.
    pub fn user(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::User, vec![content.into()])
    }

    /// Creates a message from the model.
    pub fn assistant(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::Assistant, vec![content.into()])
    }
}

setters! { SamplingMessage { meta: Option<Meta> } }

/// A piece of content of a message. On the wire, the member `type` tells the variants apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SamplingContent {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
    /// Audio. Since 2025-03-26.
    Audio(AudioContent),
    /// A call of a tool by the model. Since 2025-11-25.
    ToolUse(ToolUseContent),
    /// The result of a tool call. Since 2025-11-25.
    ToolResult(ToolResultContent),
    /// Content of a type that this crate does not know, kept unchanged.
    #[serde(untagged)]
    Other(Value),
}

impl SamplingContent {
    /// Creates text content.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Returns the text, or `None` if the content is not text.
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

/// Reads the member `type` first, and then the members of that type, as [`Content`] does.
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

/// A call of a tool by the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolUseContent {
    /// The id of the call, which its result repeats.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments of the call.
    pub input: Object,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ToolUseContent {
    /// Creates a call of a tool with these arguments.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Object) -> Self {
        Self { id: id.into(), name: name.into(), input, meta: None }
    }
}

setters! { ToolUseContent { meta: Option<Meta> } }

/// The result of a tool call by the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultContent {
    /// The id of the tool call.
    pub tool_use_id: String,
    /// The content for the model and the user.
    #[serde(default, deserialize_with = "or_default")]
    pub content: Vec<Content>,
    /// The structured content, for use by programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Whether the tool failed. If it failed, the content holds the reason.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ToolResultContent {
    /// Creates the result of the tool call with this id.
    pub fn new(tool_use_id: impl Into<String>, content: Vec<Content>) -> Self {
        Self { tool_use_id: tool_use_id.into(), content, ..Self::default() }
    }
}

setters! { ToolResultContent {
    structured_content: Option<Value>, is_error: bool, meta: Option<Meta>,
} }

/// The preferences for a model. Priorities range from 0 to 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// The preferred models, the most preferred first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<Vec<ModelHint>>,
    /// The priority of a low price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// The priority of a fast response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// The priority of a capable model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

setters! { ModelPreferences {
    hints: Option<impl Into<Vec<ModelHint>>>, cost_priority: Option<f64>, speed_priority: Option<f64>,
    intelligence_priority: Option<f64>,
} }

/// A preference for models whose name contains a text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelHint {
    /// The text that the name of the model contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

setters! { ModelHint { name: Option<impl Into<String>> } }

/// The servers whose context is included in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IncludeContext {
    /// No server.
    None,
    /// The server that sends the request.
    ThisServer,
    /// All servers.
    AllServers,
}

/// Whether the model must use tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolChoice {
    /// The mode; [`ToolChoiceMode::Auto`] if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

setters! { ToolChoice { mode: Option<ToolChoiceMode> } }

/// Whether the model must use tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolChoiceMode {
    /// The model decides.
    Auto,
    /// The model must use at least one tool.
    Required,
    /// The model must not use tools.
    None,
}

/// The result of `sampling/createMessage`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// The role of the speaker.
    pub role: Role,
    /// The content. On the wire it is a single piece of content; since 2025-11-25 it can also be an array.
    #[serde(with = "one_or_many")]
    pub content: Vec<SamplingContent>,
    /// The name of the model that wrote the content.
    pub model: String,
    /// The reason why the model stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or a reason that the
    /// provider defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CreateMessageResult {
    /// Creates a result with this content.
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
