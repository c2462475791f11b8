//! The Model Context Protocol on top of JSON-RPC: revisions, methods, error codes, message types, and the rules of both
//! eras.
//!
//! [`legacy`] is the handshake of the legacy era as one table. [`modern`] checks the `_meta` of modern requests.
//!
//! [`Revision`] tells which features a revision has. [`METHODS`] and [`CODES`] are the tables of methods and error
//! codes. They list the revisions that have each method or code. [`Template`] matches and expands URI templates.
//!
//! The message types are owned and use serde. Unknown members are ignored on reading; optional members without a value
//! are omitted on writing. Schemas and other JSON of unknown shape are kept as text
//! ([`RawValue`](serde_json::value::RawValue)). "Since 2025-06-18" in the description of a member means that the member
//! exists from that revision on.
//!
//! Every revision adds members, so the types are `#[non_exhaustive]`: `new` takes the required members, and each
//! optional member has a setter method of the same name. Types without required members implement `Default`.
//!
//! ```
//! use barewire_proto::mcp::{ClientCapabilities, SamplingCapability, Tool, ToolAnnotations};
//! use serde_json::value::{RawValue, to_raw_value};
//!
//! # fn main() -> serde_json::Result<()> {
//! let schema = RawValue::from_string(r#"{"type":"object"}"#.into())?;
//! let tool = Tool::new("forecast", schema)
//!     .description("The weather of tomorrow")
//!     .annotations(ToolAnnotations::default().read_only_hint(true));
//! assert_eq!(
//!     to_raw_value(&tool)?.get(),
//!     r#"{"name":"forecast","description":"The weather of tomorrow","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#
//! );
//!
//! let can = ClientCapabilities::default().sampling(SamplingCapability::default());
//! assert_eq!(to_raw_value(&can)?.get(), r#"{"sampling":{}}"#);
//! # Ok(())
//! # }
//! ```

mod cache;
mod capability;
pub mod code;
mod completion;
mod content;
mod discover;
mod elicitation;
mod implementation;
mod initialize;
mod input;
mod parsed_message;
pub mod legacy;
mod logging;
mod matching;
mod member;
mod meta;
pub mod method;
pub mod modern;
mod progress;
mod prompt;
mod resource;
mod revision;
mod roots;
mod sampling;
mod subscription;
mod task;
pub mod task_rules;
mod template;
mod timestamp;
mod tool;

pub use cache::CacheScope;
pub use capability::{
    Capability, ClientCapabilities, ClientCapability, ElicitationCapability, ListCapability,
    ResourcesCapability, RootsCapability, SamplingCapability, ServerCapabilities, ServerCapability,
};
pub use code::CODES;
pub use completion::{
    CompleteArgument, CompleteContext, CompleteParams, CompleteReference, CompleteResult, Completion,
};
pub use content::{
    Annotations, AudioContent, BlobResourceContents, Content, EmbeddedResource, ImageContent,
    ResourceContents, Role, TextContent, TextResourceContents,
};
pub use discover::DiscoverResult;
pub use elicitation::{ElicitAction, ElicitForm, ElicitParams, ElicitResult, ElicitUrl, ElicitationComplete};
pub use implementation::{Icon, Implementation, Theme};
pub use initialize::{InitializeParams, InitializeResult};
pub use input::{InputRequest, InputRequests, InputRequiredResult, InputResponses};
pub use parsed_message::ParsedMessage;
pub use legacy::Handshake;
pub use logging::{LogMessage, LoggingLevel, SetLevelParams};
pub use meta::{RequestMeta, RequestParams, key};
pub use method::{MethodKind, METHODS, Method, Availability, Side};
pub use progress::ProgressParams;
pub use prompt::{GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage};
pub use resource::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceTemplate,
    ResourceUpdated,
};
pub use revision::{Era, Revision, UnknownRevision};
pub use roots::{ListRootsResult, Root};
pub use sampling::{
    CreateMessageParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingContent,
    SamplingMessage, ToolChoice, ToolChoiceMode, ToolResultContent, ToolUseContent,
};
pub use subscription::{SubscriptionFilter, SubscriptionParams};
pub use task::{Task, TaskDetails, TaskError, TaskMembers, TaskStatus};
pub use template::{Template, TemplateError, TemplateFault};
pub use timestamp::timestamp;
pub use tool::{CallToolResult, ListToolsResult, TaskSupport, Tool, ToolAnnotations, ToolExecution};

/// A JSON object with any members.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// A `_meta` member: metadata of a message.
pub type Meta = Object;
