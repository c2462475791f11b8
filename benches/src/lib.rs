//! What the echo servers share: the tool call they read, the result they answer with, and the loop of those written by
//! hand.

pub mod lines;

use serde::{Deserialize, Serialize};

/// The parameters of `tools/call` as every server of ours reads them. The text is owned, because a tool that keeps what
/// it was given has to own it.
#[derive(Debug, Deserialize)]
pub struct Params<'a> {
    /// Which tool.
    pub name: &'a str,
    /// What it is given.
    pub arguments: Arguments,
}

/// The arguments of the tool `echo`.
#[derive(Debug, Deserialize)]
pub struct Arguments {
    /// What it says back.
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
    /// What is to be read.
    Text {
        /// The text itself.
        text: String,
    },
}

impl ToolResult {
    /// A result of one text.
    pub fn text(text: String) -> Self {
        Self { content: [Content::Text { text }], is_error: false }
    }
}
