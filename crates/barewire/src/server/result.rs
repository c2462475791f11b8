//! Converts the return value of a tool's handler into the result of `tools/call`, and defines a tool's two error types.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Display};

use barewire_proto::mcp::{CallToolResult, Content, Revision};
use barewire_proto::rpc::{Code, ErrorObject, ReservedCode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{Failure, schema};

/// A value that the handler of a tool can return: text, numbers, JSON, [`Content`], [`Structured`], a whole
/// [`CallToolResult`], `()`, or a `Result` of any of these.
///
/// An `Err` becomes a result with `isError`: the model reads its text and may try again. Only [`ProtocolError`] becomes
/// a JSON-RPC error, which most hosts do not show to a model.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    label = "returns a type that is not a result of a tool",
    note = "a tool returns text, a number, a `bool`, `()`, `serde_json::Value`, `Content`, several `Content`s or \
            `CallToolResult`; or a `Result` of one of these, with any error that can be displayed",
    note = "a type that derives `Serialize` and `JsonSchema` is returned as `Structured(value)`"
)]
pub trait IntoToolResult {
    /// Converts the value into the result of `tools/call`.
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError>;

    /// Returns the JSON Schema of the structured content, for types whose structured content has a schema.
    fn output_schema() -> Option<Box<RawValue>> {
        None
    }
}

/// Structured content: a value that is sent as JSON, with the schema of its type in the tool's definition.
///
/// Clients of revisions without structured content get the same JSON as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "it will always wrap exactly one value")]
pub struct Structured<T>(pub T);

/// The reason why a tool failed, for the model to read. `?` converts any error into a `ToolError`.
///
/// A `ToolError` has no error code, because it is sent as a result with `isError`, not as a JSON-RPC error.
pub struct ToolError(String);

/// A JSON-RPC error with a code, for a request that cannot be served at all.
///
/// This type does not implement [`Error`], and `?` does not convert errors into it. So the failure of a tool does not
/// become a protocol error by accident.
#[derive(Debug)]
pub struct ProtocolError(pub(super) Failure);

impl ToolError {
    /// Creates an error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl<E: Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Self(text)
    }
}

impl Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ProtocolError {
    /// Creates the error -32602: the params of the request are invalid.
    pub fn invalid_params(what: impl Into<String>) -> Self {
        Self(Failure::invalid_params(what))
    }

    /// Creates the error -32603: something failed inside the server. The client gets `exception`; `what` is only
    /// logged.
    pub fn internal(exception: impl Into<String>, what: impl Into<String>) -> Self {
        Self(Failure::internal(exception, what))
    }

    /// Returns the error code that the client gets.
    pub fn code(&self) -> Code {
        self.0.code()
    }

    /// Creates an error with an application-defined code, which must be outside the range that JSON-RPC reserves.
    pub fn application(code: i64, message: impl Into<String>) -> Result<Self, ReservedCode> {
        Ok(Self(ErrorObject::new(Code::application(code)?, message).into()))
    }
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Self {
        error.0
    }
}

/// Returns image content with these bytes.
pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Content {
    Content::image(BASE64_STANDARD.encode(bytes), mime_type)
}

/// Returns audio content with these bytes.
pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Content {
    Content::audio(BASE64_STANDARD.encode(bytes), mime_type)
}

/// Returns the value as JSON text and, if `is_structured`, also as structured content.
fn structured(value: &impl Serialize, is_structured: bool) -> Result<CallToolResult, ProtocolError> {
    let raw = serde_json::value::to_raw_value(value);
    let raw = raw.map_err(|error| ProtocolError(Failure::unserializable(&error)))?;
    let mut result = CallToolResult::text(raw.get());
    result.structured_content = is_structured.then_some(raw);
    Ok(result)
}

impl IntoToolResult for CallToolResult {
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        Ok(self)
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        Ok(CallToolResult::new(Vec::new()))
    }
}

impl IntoToolResult for Content {
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        Ok(CallToolResult::new(vec![self]))
    }
}

impl IntoToolResult for Vec<Content> {
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        Ok(CallToolResult::new(self))
    }
}

impl<const N: usize> IntoToolResult for [Content; N] {
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        Ok(CallToolResult::new(self.into()))
    }
}

impl IntoToolResult for Cow<'static, str> {
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        self.into_owned().into_tool_result()
    }
}

/// The result is the JSON as text, and also as structured content if the value is an object. A tool that returns a
/// `Value` has no output schema.
impl IntoToolResult for Value {
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        structured(&self, self.is_object())
    }
}

macro_rules! text_results {
    ($($text:ty)*) => {$(
        impl IntoToolResult for $text {
            #[inline]
            fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
                Ok(CallToolResult::new(vec![Content::text(self)]))
            }
        }
    )*};
}

macro_rules! displayed_results {
    ($($value:ty)*) => {$(
        impl IntoToolResult for $value {
            #[inline]
            fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
                Ok(CallToolResult::new(vec![Content::text(self.to_string())]))
            }
        }
    )*};
}

text_results!(String &'static str);
displayed_results!(bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

impl<T: Serialize + JsonSchema> IntoToolResult for Structured<T> {
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        structured(&self.0, true)
    }

    fn output_schema() -> Option<Box<RawValue>> {
        Some(schema::output_of::<T>())
    }
}

impl<T: IntoToolResult, E: Display> IntoToolResult for Result<T, E> {
    #[inline]
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        match self {
            Ok(value) => value.into_tool_result(),
            Err(error) => Ok(CallToolResult::error(error.to_string())),
        }
    }

    fn output_schema() -> Option<Box<RawValue>> {
        T::output_schema()
    }
}

impl<T: IntoToolResult> IntoToolResult for Result<T, ProtocolError> {
    #[inline]
    fn into_tool_result(self) -> Result<CallToolResult, ProtocolError> {
        self?.into_tool_result()
    }

    fn output_schema() -> Option<Box<RawValue>> {
        T::output_schema()
    }
}

/// Removes or replaces the parts of a result that this revision does not support.
pub(super) fn remove_unsupported(result: &mut CallToolResult, revision: Revision) {
    if let Some(content) = &result.structured_content
        && !(revision.has_structured_scalars() || revision.has_structured_content() && content.get().starts_with('{'))
    {
        result.structured_content = None;
    }
    if revision < Revision::V2025_06_18 {
        for content in &mut result.content {
            replace_unsupported(content, revision);
        }
    }
}

/// Replaces content of a type that this revision does not support with text.
pub(super) fn replace_unsupported(content: &mut Content, revision: Revision) {
    match content {
        Content::Audio(audio) if !revision.has_audio() => {
            *content = Content::text(format!("[audio: {}]", audio.mime_type));
        }
        Content::ResourceLink(link) if !revision.has_resource_links() => {
            *content = Content::text(format!("[{}]({})", link.name, link.uri));
        }
        _ => {}
    }
}
