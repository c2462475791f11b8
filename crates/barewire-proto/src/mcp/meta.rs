//! The params of a request -> the members that MCP gives a meaning to, in one pass; and the same for their `_meta`.

use crate::json::Json;
use crate::rpc::Params;

/// The names that MCP reserves in `_meta`.
pub mod key {
    /// The revision that a modern request is written in.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Who sends a modern request.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// What the sender of a modern request can do.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// From which level on a modern request wants log messages.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Who sends a modern result.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The id of the `subscriptions/listen` that a notification belongs to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// Under which token progress is to be reported.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// W3C trace context, without a prefix by exception.
    pub const TRACEPARENT: &str = "traceparent";
    /// W3C trace context, without a prefix by exception.
    pub const TRACESTATE: &str = "tracestate";
    /// W3C baggage, without a prefix by exception.
    pub const BAGGAGE: &str = "baggage";
}

/// What a request of MCP may have in its params. Of a member that stands twice the last counts, as for a map.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct RequestParams<'a> {
    /// Whom it is about: a tool or a prompt.
    pub name: Option<Json<'a>>,
    /// Whom it is about: a resource.
    pub uri: Option<Json<'a>>,
    /// What a tool or a prompt is to be run with.
    pub arguments: Option<Json<'a>>,
    /// Where a list goes on.
    pub cursor: Option<Json<'a>>,
    /// What was asked of the client in the last round.
    pub input_responses: Option<Json<'a>>,
    /// What the server gave along with its questions.
    pub request_state: Option<Json<'a>>,
    /// What is said about the request itself.
    pub meta: RequestMeta<'a>,
}

impl<'a> RequestParams<'a> {
    /// Reads the members; absent params have none, and so have those that are an array.
    #[inline]
    pub fn read(params: Option<Params<'a>>) -> Self {
        let mut read = Self::default();
        let Some(params) = params else { return read };
        for member in params.json().members() {
            let Some(known) = member.name.find(PARAMS) else { continue };
            let place = match known {
                Param::Name => &mut read.name,
                Param::Uri => &mut read.uri,
                Param::Arguments => &mut read.arguments,
                Param::Cursor => &mut read.cursor,
                Param::InputResponses => &mut read.input_responses,
                Param::RequestState => &mut read.request_state,
                Param::Meta => {
                    read.meta = RequestMeta::read(member.value);
                    continue;
                }
            };
            *place = Some(member.value);
        }
        read
    }
}

/// What a request says about itself.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct RequestMeta<'a> {
    /// The whole of it, as it was written.
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
    /// Reads the members of a `_meta`. One that is no object has none.
    #[inline]
    pub fn read(meta: Json<'a>) -> Self {
        let mut read = Self { json: Some(meta), ..Self::default() };
        for member in meta.members() {
            let Some(known) = member.name.find(META) else { continue };
            let place = match known {
                Key::ProtocolVersion => &mut read.protocol_version,
                Key::ClientInfo => &mut read.client_info,
                Key::ClientCapabilities => &mut read.client_capabilities,
                Key::LogLevel => &mut read.log_level,
                Key::Traceparent => &mut read.traceparent,
                Key::Tracestate => &mut read.tracestate,
                Key::Baggage => &mut read.baggage,
            };
            *place = Some(member.value);
        }
        read
    }
}

#[derive(Clone, Copy)]
enum Param {
    Name,
    Uri,
    Arguments,
    Cursor,
    InputResponses,
    RequestState,
    Meta,
}

#[derive(Clone, Copy)]
enum Key {
    ProtocolVersion,
    ClientInfo,
    ClientCapabilities,
    LogLevel,
    Traceparent,
    Tracestate,
    Baggage,
}

// As bytes, because names are compared as they stand before anybody asks what their escapes mean.
const PARAMS: &[(&[u8], Param)] = &[
    (b"name", Param::Name),
    (b"uri", Param::Uri),
    (b"arguments", Param::Arguments),
    (b"cursor", Param::Cursor),
    (b"inputResponses", Param::InputResponses),
    (b"requestState", Param::RequestState),
    (b"_meta", Param::Meta),
];
const META: &[(&[u8], Key)] = &[
    (key::PROTOCOL_VERSION.as_bytes(), Key::ProtocolVersion),
    (key::CLIENT_INFO.as_bytes(), Key::ClientInfo),
    (key::CLIENT_CAPABILITIES.as_bytes(), Key::ClientCapabilities),
    (key::LOG_LEVEL.as_bytes(), Key::LogLevel),
    (key::TRACEPARENT.as_bytes(), Key::Traceparent),
    (key::TRACESTATE.as_bytes(), Key::Tracestate),
    (key::BAGGAGE.as_bytes(), Key::Baggage),
];
