//! Prompts: the results of `prompts/list` and `prompts/get`.

use serde::{Deserialize, Serialize};

use super::member::{is_false, known, or_default, whole_or_zero};
use super::{CacheScope, Content, Icon, Meta, Role};

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Prompt {
    /// The name that programs use.
    pub name: String,
    /// The name to display to people. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Vec<PromptArgument>>,
    /// Icons. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Prompt {
    /// Creates a prompt without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

setters! { Prompt {
    title: Option<impl Into<String>>, description: Option<impl Into<String>>,
    arguments: Option<impl Into<Vec<PromptArgument>>>, icons: Option<impl Into<Vec<Icon>>>,
    meta: Option<Meta>,
} }

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptArgument {
    /// The name that programs use.
    pub name: String,
    /// The name to display to people. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the argument is required.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub required: bool,
}

impl PromptArgument {
    /// Creates an optional argument.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Creates a required argument.
    pub fn required(name: impl Into<String>) -> Self {
        Self { required: true, ..Self::new(name) }
    }
}

setters! { PromptArgument { title: Option<impl Into<String>>, description: Option<impl Into<String>> } }

/// The result of `prompts/list`: a page of prompts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListPromptsResult {
    /// The prompts.
    pub prompts: Vec<Prompt>,
    /// The cursor of the next page; `None` on the last page. An empty string is a valid cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// The number of milliseconds for which the result may be cached. Since 2026-07-28.
    #[serde(default, deserialize_with = "whole_or_zero", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The clients for which a cached result may be used. Since 2026-07-28.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ListPromptsResult {
    /// Creates the last page of the list, with these prompts.
    pub fn new(prompts: Vec<Prompt>) -> Self {
        Self { prompts, ..Self::default() }
    }
}

setters! { ListPromptsResult {
    next_cursor: Option<impl Into<String>>, ttl_ms: Option<u64>, cache_scope: Option<CacheScope>,
    meta: Option<Meta>,
} }

/// The result of `prompts/get`: a prompt with its arguments filled in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GetPromptResult {
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The messages to the model.
    pub messages: Vec<PromptMessage>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl GetPromptResult {
    /// Creates a result with these messages.
    pub fn new(messages: Vec<PromptMessage>) -> Self {
        Self { messages, ..Self::default() }
    }
}

setters! { GetPromptResult { description: Option<impl Into<String>>, meta: Option<Meta> } }

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptMessage {
    /// The role of the speaker.
    pub role: Role,
    /// The content.
    pub content: Content,
}

impl PromptMessage {
    /// Creates a message with this role.
    pub fn new(role: Role, content: impl Into<Content>) -> Self {
        Self { role, content: content.into() }
    }

    /// Creates a message from the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message from the model.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Role::Assistant, content)
    }
}
