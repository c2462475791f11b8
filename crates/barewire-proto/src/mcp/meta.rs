//! Reads the members that MCP defines in the params of a request and in its `_meta`, in one pass.

use crate::json::Json;
use crate::rpc::Params;

/// The names that MCP reserves in `_meta`.
pub mod key {
    /// The revision of a modern request.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The name and version of the client of a modern request.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// The capabilities of the client of a modern request.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The minimum level of the log messages that the client of a modern request wants.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The name and version of the server that sent a modern result.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The id of the `subscriptions/listen` request that asked for a notification.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// The task that a message of 2025-11-25 belongs to.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// The token for progress notifications.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// The W3C trace context. MCP allows this name without a prefix.
    pub const TRACEPARENT: &str = "traceparent";
    /// The W3C trace state. MCP allows this name without a prefix.
    pub const TRACESTATE: &str = "tracestate";
    /// The W3C baggage. MCP allows this name without a prefix.
    pub const BAGGAGE: &str = "baggage";
}

/// The params of a request. If a member occurs twice, the last value is used, as in a serde_json map.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct RequestParams<'a> {
    /// The name of a tool or prompt.
    pub name: Option<Json<'a>>,
    /// The URI of a resource.
    pub uri: Option<Json<'a>>,
    /// The arguments of a tool or prompt.
    pub arguments: Option<Json<'a>>,
    /// The cursor of a list request.
    pub cursor: Option<Json<'a>>,
    /// The responses to the input requests of the previous result.
    pub input_responses: Option<Json<'a>>,
    /// The state that the server sent with its input requests, and that the client sends back.
    pub request_state: Option<Json<'a>>,
    /// The id of a task.
    pub task_id: Option<Json<'a>>,
    /// The member `task`, with which a client of 2025-11-25 asks for a task.
    pub task: Option<Json<'a>>,
    /// The `_meta` member.
    pub meta: RequestMeta<'a>,
}

impl<'a> RequestParams<'a> {
    /// Reads the members. Params that are absent or an array have no members.
    #[inline]
    pub fn read(params: Option<Params<'a>>) -> Self {
        let mut read = Self::default();
        let Some(params) = params else { return read };
        for member in params.json().members() {
            let Some(known) = member.name.find(PARAM_NAMES) else { continue };
            let slot = match known {
                ParamName::Name => &mut read.name,
                ParamName::Uri => &mut read.uri,
                ParamName::Arguments => &mut read.arguments,
                ParamName::Cursor => &mut read.cursor,
                ParamName::InputResponses => &mut read.input_responses,
                ParamName::RequestState => &mut read.request_state,
                ParamName::TaskId => &mut read.task_id,
                ParamName::Task => &mut read.task,
                ParamName::Meta => {
                    read.meta = RequestMeta::read(member.value);
                    continue;
                }
            };
            *slot = Some(member.value);
        }
        read
    }
}

/// The `_meta` of a request.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct RequestMeta<'a> {
    /// The whole `_meta` object, exactly as the peer wrote it.
    pub json: Option<Json<'a>>,
    /// See [`key::PROTOCOL_VERSION`].
    pub protocol_version: Option<Json<'a>>,
    /// See [`key::CLIENT_INFO`].
    pub client_info: Option<Json<'a>>,
    /// See [`key::CLIENT_CAPABILITIES`].
    pub client_capabilities: Option<Json<'a>>,
    /// See [`key::LOG_LEVEL`].
    pub log_level: Option<Json<'a>>,
    /// See [`key::TRACEPARENT`].
    pub traceparent: Option<Json<'a>>,
    /// See [`key::TRACESTATE`].
    pub tracestate: Option<Json<'a>>,
    /// See [`key::BAGGAGE`].
    pub baggage: Option<Json<'a>>,
}

impl<'a> RequestMeta<'a> {
    /// Reads the members of a `_meta`. A `_meta` that is not an object has no members.
    #[inline]
    pub fn read(meta: Json<'a>) -> Self {
        let mut read = Self { json: Some(meta), ..Self::default() };
        for member in meta.members() {
            let Some(known) = member.name.find(META_KEYS) else { continue };
            let slot = match known {
                MetaKey::ProtocolVersion => &mut read.protocol_version,
                MetaKey::ClientInfo => &mut read.client_info,
                MetaKey::ClientCapabilities => &mut read.client_capabilities,
                MetaKey::LogLevel => &mut read.log_level,
                MetaKey::Traceparent => &mut read.traceparent,
                MetaKey::Tracestate => &mut read.tracestate,
                MetaKey::Baggage => &mut read.baggage,
            };
            *slot = Some(member.value);
        }
        read
    }
}

#[derive(Clone, Copy)]
enum ParamName {
    Name,
    Uri,
    Arguments,
    Cursor,
    InputResponses,
    RequestState,
    Meta,
    TaskId,
    Task,
}

#[derive(Clone, Copy)]
enum MetaKey {
    ProtocolVersion,
    ClientInfo,
    ClientCapabilities,
    LogLevel,
    Traceparent,
    Tracestate,
    Baggage,
}

// The names are bytes, because they are compared before they are unescaped.
const PARAM_NAMES: &[(&[u8], ParamName)] = &[
    (b"name", ParamName::Name),
    (b"uri", ParamName::Uri),
    (b"arguments", ParamName::Arguments),
    (b"cursor", ParamName::Cursor),
    (b"inputResponses", ParamName::InputResponses),
    (b"requestState", ParamName::RequestState),
    (b"_meta", ParamName::Meta),
    // The names that no plain call has are compared last.
    (b"taskId", ParamName::TaskId),
    (b"task", ParamName::Task),
];
const META_KEYS: &[(&[u8], MetaKey)] = &[
    (key::PROTOCOL_VERSION.as_bytes(), MetaKey::ProtocolVersion),
    (key::CLIENT_INFO.as_bytes(), MetaKey::ClientInfo),
    (key::CLIENT_CAPABILITIES.as_bytes(), MetaKey::ClientCapabilities),
    (key::LOG_LEVEL.as_bytes(), MetaKey::LogLevel),
    (key::TRACEPARENT.as_bytes(), MetaKey::Traceparent),
    (key::TRACESTATE.as_bytes(), MetaKey::Tracestate),
    (key::BAGGAGE.as_bytes(), MetaKey::Baggage),
];
