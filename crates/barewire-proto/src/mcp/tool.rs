//! Tools: what `tools/list` lists, and what `tools/call` gives back.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::member::{is_false, known, or_default, present, whole_or_zero};
use super::{CacheScope, Content, Icon, Meta};

/// A tool of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// Its name, for programs and models.
    pub name: String,
    /// Its name, for people. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments, which are an object.
    pub input_schema: Box<RawValue>,
    /// The JSON Schema of its structured content. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
    /// What kind of thing it does. Since 2025-03-26.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Pictures for it. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// How it can be run. Only in 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ToolExecution>,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Tool {
    /// A tool whose arguments have this schema.
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

/// What kind of thing a tool does. Hints: nobody should rely on those of a server that is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// Its name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing. If not said, it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// What it changes may be lost. If not said, it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more. If not said, it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches things outside of the server's own. If not said, it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

setters! { ToolAnnotations {
    title: Option<impl Into<String>>, read_only_hint: Option<bool>, destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>, open_world_hint: Option<bool>,
} }

/// How a tool can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolExecution {
    /// Whether a call of it may be a task; forbidden, if not said.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
}

setters! { ToolExecution { task_support: Option<TaskSupport> } }

/// Whether a call of a tool may be a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TaskSupport {
    /// It must not.
    Forbidden,
    /// It may.
    Optional,
    /// It must.
    Required,
}

/// A page of the tools there are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListToolsResult {
    /// The tools.
    pub tools: Vec<Tool>,
    /// Where the next page begins, if there is one. An empty string is a place too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many milliseconds it may be kept.
    #[serde(default, deserialize_with = "whole_or_zero", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Who may be given what was kept.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ListToolsResult {
    /// A page of these tools, and the last one.
    pub fn new(tools: Vec<Tool>) -> Self {
        Self { tools, ..Self::default() }
    }
}

setters! { ListToolsResult {
    next_cursor: Option<impl Into<String>>, ttl_ms: Option<u64>, cache_scope: Option<CacheScope>,
    meta: Option<Meta>,
} }

/// What a tool gives back. That it failed is a result as well, so that the model can see why.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// For the model and the person.
    #[serde(default, deserialize_with = "or_default")]
    pub content: Vec<Content>,
    /// For programs, as `outputSchema` has it: an object, and any JSON from 2026-07-28. Since 2025-06-18.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Box<RawValue>>,
    /// The tool failed, and the content says why.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CallToolResult {
    /// A result of this content.
    pub fn new(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }

    /// A result that is text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![Content::text(text)])
    }

    /// A failure that the model is told of.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// The structured content as a type, if there is any.
    pub fn structured<'de, T: Deserialize<'de>>(&'de self) -> Option<serde_json::Result<T>> {
        self.structured_content.as_ref().map(|raw| serde_json::from_str(raw.get()))
    }
}

setters! { CallToolResult { structured_content: Option<Box<RawValue>>, is_error: bool, meta: Option<Meta> } }
