//! The code that the echo servers share: the tool call, its result, and the loop of the hand-written servers.

pub mod lines;

use serde::{Deserialize, Serialize};

/// The parameters of `tools/call` as all servers here read them. The text is owned, because a tool that keeps its
/// arguments has to own them.
#[derive(Debug, Deserialize)]
pub struct Params<'a> {
    /// The name of the tool.
    pub name: &'a str,
    /// The arguments of the tool.
    pub arguments: Arguments,
}

/// The arguments of the tool `echo`.
#[derive(Debug, Deserialize)]
pub struct Arguments {
    /// The text that the tool returns.
    pub text: String,
}

/// The result of a tool call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    content: [Content; 1],
    is_error: bool,
}

/// One part of a result.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Content {
    /// Text.
    Text {
        /// The text itself.
        text: String,
    },
}

impl ToolResult {
    /// A result with one text.
    pub fn text(text: String) -> Self {
        Self { content: [Content::Text { text }], is_error: false }
    }
}
