//! The messages of MCP as Rust types, named as in the specification, and the revisions of the protocol.
//!
//! Handlers and clients use these types. The [`Tool`] in this module is the definition that a client sees in a list;
//! the tool of a server, with its handler, is [`server::Tool`](crate::server::Tool). The same is true for prompts and
//! resources.

// The re-exported names are listed one by one, because the other items of `barewire-proto` are not part of this crate's
// public interface and can change.

// The revisions of the protocol, and the descriptions of clients and servers.
#[doc(inline)]
pub use barewire_proto::mcp::{Era, Icon, Implementation, Meta, Object, Revision, Theme, UnknownRevision};

// The capabilities that each side declares.
#[doc(inline)]
pub use barewire_proto::mcp::{
    ClientCapabilities, ClientCapability, ElicitationCapability, ListCapability, ResourcesCapability, RootsCapability,
    SamplingCapability, ServerCapabilities, ServerCapability,
};

// The content of results, messages and resources.
#[doc(inline)]
pub use barewire_proto::mcp::{
    Annotations, AudioContent, BlobResourceContents, Content, EmbeddedResource, ImageContent, ResourceContents, Role,
    TextContent, TextResourceContents,
};

// The results and parameters of a server's features: tools, resources, prompts, completion.
#[doc(inline)]
pub use barewire_proto::mcp::{
    CacheScope, CallToolResult, CompleteArgument, CompleteContext, CompleteParams, CompleteReference, CompleteResult,
    Completion, DiscoverResult, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, Prompt, PromptArgument, PromptMessage, ReadResourceResult, Resource, ResourceTemplate, Task,
    TaskStatus, TaskSupport, Tool, ToolAnnotations, ToolExecution,
};

// The requests of a server to its client: elicitation, sampling, roots.
#[doc(inline)]
pub use barewire_proto::mcp::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitForm, ElicitParams, ElicitResult, ElicitUrl,
    IncludeContext, ListRootsResult, ModelHint, ModelPreferences, Root, SamplingContent, SamplingMessage, ToolChoice,
    ToolChoiceMode, ToolResultContent, ToolUseContent,
};

// Notifications.
#[doc(inline)]
pub use barewire_proto::mcp::{
    ElicitationComplete, LogMessage, LoggingLevel, ProgressParams, ResourceUpdated, SubscriptionFilter,
};

/// The error codes that MCP defines in addition to the codes of JSON-RPC.
pub mod code {
    #[doc(inline)]
    pub use barewire_proto::mcp::code::{
        HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, RESOURCE_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION,
        URL_ELICITATION_REQUIRED, USER_REJECTED,
    };
}
