//! Tools: the results of `tools/list` and `tools/call`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::member::{is_false, known, or_default, present, whole_or_zero};
use super::{CacheScope, Content, Icon, Meta};

/// A tool of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// The name that programs and models use.
    pub name: String,
    /// The name to display to people. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the tool's arguments, which are an object.
    pub input_schema: Box<RawValue>,
    /// The JSON Schema of the tool's structured content. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
    /// Hints about the behaviour of the tool. Since 2025-03-26.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Icons. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// The ways in which the tool can be run: directly or as a task. Only in 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ToolExecution>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Tool {
    /// Creates a tool whose arguments have this schema.
    pub fn new(name: impl Into<String>, input_schema: Box<RawValue>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            annotations: None,
            icons: None,
            execution: None,
            meta: None,
        }
    }
}

setters! { Tool {
    title: Option<impl Into<String>>, description: Option<impl Into<String>>,
    output_schema: Option<Box<RawValue>>, annotations: Option<ToolAnnotations>,
    icons: Option<impl Into<Vec<Icon>>>, execution: Option<ToolExecution>, meta: Option<Meta>,
} }

/// Hints about the behaviour of a tool. Clients should not rely on the hints of a server that they do not trust.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// The name to display to people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the tool only reads and changes nothing. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// Whether the tool can delete or overwrite data. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Whether a second call with the same arguments has no further effect. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// Whether the tool interacts with the world outside the server. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

setters! { ToolAnnotations {
    title: Option<impl Into<String>>, read_only_hint: Option<bool>, destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>, open_world_hint: Option<bool>,
} }

/// The ways in which a tool can be run: directly or as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolExecution {
    /// Whether a call can run as a task. If absent, a call must not run as a task.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
}

setters! { ToolExecution { task_support: Option<TaskSupport> } }

/// Whether a call of a tool can or must run as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TaskSupport {
    /// A call must not run as a task.
    Forbidden,
    /// A call can run as a task.
    Optional,
    /// A call must run as a task.
    Required,
}

/// The result of `tools/list`: a page of tools.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListToolsResult {
    /// The tools.
    pub tools: Vec<Tool>,
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

impl ListToolsResult {
    /// Creates the last page of the list, with these tools.
    pub fn new(tools: Vec<Tool>) -> Self {
        Self { tools, ..Self::default() }
    }
}

setters! { ListToolsResult {
    next_cursor: Option<impl Into<String>>, ttl_ms: Option<u64>, cache_scope: Option<CacheScope>,
    meta: Option<Meta>,
} }

/// The result of `tools/call`. A failed call also has a result, so that the model can see the reason.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// The content for the model and the user.
    #[serde(default, deserialize_with = "or_default")]
    pub content: Vec<Content>,
    /// The structured content, for use by programs. It must match `outputSchema`. Since 2025-06-18 it is an object;
    /// since 2026-07-28 it can be any JSON value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Box<RawValue>>,
    /// Whether the tool failed. If it failed, the content holds the reason.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CallToolResult {
    /// Creates a result with this content.
    pub fn new(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }

    /// Creates a result with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![Content::text(text)])
    }

    /// Creates the result of a failed call, with this text for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Deserializes the structured content. Returns `None` if the result has none.
    pub fn structured<'de, T: Deserialize<'de>>(&'de self) -> Option<serde_json::Result<T>> {
        self.structured_content.as_ref().map(|raw| serde_json::from_str(raw.get()))
    }
}

setters! { CallToolResult { structured_content: Option<Box<RawValue>>, is_error: bool, meta: Option<Meta> } }
