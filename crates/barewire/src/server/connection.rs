//! One connection of a server: determines the era of each incoming request, checks that the handshake allows it at this
//! point, and starts the method that serves it.

use std::sync::Arc;
#[cfg(feature = "http")]
use std::sync::atomic::Ordering;

use barewire_proto::json::{Json, Kind as JsonKind, Text};
use barewire_proto::mcp::legacy::{HandshakeEffect, HandshakeEvent, HandshakePolicy};
use barewire_proto::mcp::modern::{self, ModernMeta};
use barewire_proto::mcp::{
    CallToolResult, ClientCapabilities, Handshake, InitializeParams, InitializeResult, RequestParams, Revision,
    ServerCapability, SetLevelParams, key,
};
use barewire_proto::rpc::{Notification, Params};
use tracing::Span;

use super::handler_work::{EmptyResult, ResultFormat, ready};
use super::layer::{InvocationTarget, serve_layered};
#[cfg(feature = "http")]
use super::legacy_client::HandshakeFacts;
use super::legacy_client::LegacyClient;
use super::registry::RegistryEntries;
use super::{CachePolicy, ServerShared, Tool, listen, methods, task};
use crate::Failure;
use crate::log::quoted;
use crate::peer::{BoxedHandler, Context, IncomingParams, Service};

/// The service of one connection.
pub(super) struct ConnectionService {
    shared: Arc<ServerShared>,
    legacy: Handshake,
    /// Where the results of the handshake are written.
    #[cfg(feature = "http")]
    facts: Option<Arc<HandshakeFacts>>,
    /// Whether the handshake is complete, but the task that sends change notifications to the client has not been
    /// started yet.
    announcements_pending: bool,
    /// The client of a legacy connection. `None` until `initialize`, or until a lenient server gets a first legacy
    /// request.
    legacy_client: Option<Arc<LegacyClient>>,
    /// Counts the open `subscriptions/listen` requests: each holds a clone, so the reference count is their number plus
    /// one.
    open_listens: Arc<()>,
    /// The entries of the registry at `version`.
    entries: Arc<RegistryEntries>,
    version: u64,
    /// The name and entry of the tool that was called last: a cache, because the next call is often for the same tool.
    last_tool: Option<(Box<str>, Arc<Tool>)>,
}

/// A request that is about to be handled.
pub(super) struct IncomingRequest<'a> {
    pub(super) context: Context,
    pub(super) params: RequestParams<'a>,
    pub(super) revision: Revision,
    pub(super) client: ClientEra<'a>,
    pub(super) shared: &'a Arc<ServerShared>,
    pub(super) entries: &'a RegistryEntries,
    pub(super) open_listens: &'a Arc<()>,
}

/// The client of a request. The state of a legacy client belongs to the connection; a modern client describes itself in
/// each request.
pub(super) enum ClientEra<'a> {
    Legacy(&'a Arc<LegacyClient>),
    Modern(ModernMeta<'a>),
}

impl ConnectionService {
    pub(super) fn new(shared: Arc<ServerShared>) -> Self {
        let (version, entries) = (shared.registry.version(), shared.registry.entries());
        Self {
            shared,
            legacy: Handshake::default(),
            #[cfg(feature = "http")]
            facts: None,
            announcements_pending: false,
            legacy_client: None,
            open_listens: Arc::default(),
            entries,
            version,
            last_tool: None,
        }
    }

    /// Writes the results of the handshake to `facts`.
    #[cfg(feature = "http")]
    pub(super) fn with_facts(mut self, facts: Arc<HandshakeFacts>) -> Self {
        self.facts = Some(facts);
        self
    }

    fn policy(shared: &ServerShared) -> HandshakePolicy<'_> {
        HandshakePolicy::new(&shared.settings.revisions).lenient(shared.settings.lenient)
    }

    /// Updates this connection's copy of the registry's entries if they have changed.
    #[inline]
    fn refresh(&mut self) {
        let version = self.shared.registry.version();
        if version != self.version {
            (self.version, self.entries, self.last_tool) = (version, self.shared.registry.entries(), None);
        }
    }

    /// Serves `initialize`, the only request that changes the state of the connection.
    fn initialize(&mut self, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
        let init: InitializeParams = crate::params::read(params)?;
        let event = HandshakeEvent::Initialize(&init.protocol_version);
        let revision = self.step(event)?;
        // Subscriptions that a lenient server accepted before `initialize` stay active.
        let watch = self.legacy_client.take().map(|client| Arc::clone(&client.watch));
        let client = LegacyClient::new(Some(init.client_info), init.capabilities, watch);
        #[cfg(feature = "http")]
        let client = client.with_shared_owner(self.facts.as_ref().and_then(|facts| facts.shared_owner.as_ref()));
        let client = Arc::new(client);
        #[cfg(feature = "http")]
        if let Some(facts) = &self.facts {
            let _ = (facts.client.set(Arc::clone(&client)), facts.revision.set(revision));
        }
        self.legacy_client = Some(client);
        let capabilities = self.shared.capabilities(&self.entries, revision);
        let mut result = InitializeResult::new(revision, capabilities, self.shared.info(revision));
        result.instructions.clone_from(&self.shared.settings.instructions);
        Ok(ready(result, ResultFormat::new(revision, Arc::clone(&self.shared), None)))
    }

    /// Advances the legacy handshake. Returns the revision in which this message is served, or an error if the message
    /// is refused.
    #[inline]
    fn step(&mut self, event: HandshakeEvent<'_>) -> Result<Revision, Failure> {
        match self.legacy.step(event, Self::policy(&self.shared)) {
            HandshakeEffect::Serve(revision) => Ok(revision),
            HandshakeEffect::Refuse(rule) => Err(rule.error(&self.shared.settings.revisions).into()),
            HandshakeEffect::Ignore => Err(Failure::method_not_found()),
        }
    }

    /// Handles a notification, in the order of arrival. After the handshake, starts the task that sends change
    /// notifications.
    fn handle_notification(&mut self, context: &Context) -> Result<BoxedHandler, Failure> {
        if std::mem::take(&mut self.announcements_pending)
            && let Some(client) = &self.legacy_client
        {
            self.shared.registry.add_watch(&client.watch);
            tokio::spawn(listen::announce_to_legacy_client(Arc::clone(&client.watch), context.clone()));
        }
        // The engine handles cancellation and progress. All other notifications are ignored.
        Err(Failure::method_not_found())
    }
}

impl Drop for ConnectionService {
    fn drop(&mut self) {
        if let Some(owner) = self.legacy_client.as_ref().and_then(|client| client.ending_task_owner()) {
            task::connection_ended(&self.shared.settings.tasks, owner);
        }
    }
}

impl Service for ConnectionService {
    fn start(&mut self, context: Context, incoming: IncomingParams<'_>) -> Result<BoxedHandler, Failure> {
        let params = incoming.written;
        if context.id().is_none() {
            return self.handle_notification(&context);
        }
        if params.is_some_and(|params| params.json().kind() != JsonKind::Object) {
            return Err(Failure::invalid_params("params must be an object"));
        }
        self.refresh();
        let members = incoming.members();
        record_trace_context(&members);
        let supported = &self.shared.settings.revisions;
        let modern = modern::check_meta(context.method(), &members.meta, supported);
        if !matches!(modern, Ok(None)) {
            self.legacy.record_modern_request();
        }
        let modern = modern.map_err(|bad| bad.error())?;
        let (revision, event) = match (&modern, context.method()) {
            (Some(modern), _) => (Some(modern.revision), HandshakeEvent::Request),
            (None, "initialize") => return self.initialize(params),
            (None, "ping") => {
                let revision = self.step(HandshakeEvent::Ping)?;
                let shared = Arc::clone(&self.shared);
                return Ok(ready(EmptyResult::default(), ResultFormat::new(revision, shared, None)));
            }
            (None, _) => (None, HandshakeEvent::Request),
        };
        let revision = match revision {
            Some(revision) => revision,
            None => self.step(event)?,
        };
        let legacy_client;
        let client = match modern {
            Some(modern) => ClientEra::Modern(modern),
            None => {
                // The client state is missing only if a lenient server serves a request before `initialize`.
                legacy_client = self
                    .legacy_client
                    .get_or_insert_with(|| Arc::new(LegacyClient::new(None, ClientCapabilities::default(), None)));
                ClientEra::Legacy(legacy_client)
            }
        };
        let request = IncomingRequest {
            context,
            params: members,
            revision,
            client,
            shared: &self.shared,
            entries: &self.entries,
            open_listens: &self.open_listens,
        };
        if request.context.method() == "tools/call" {
            return request.call_tool(&mut self.last_tool);
        }
        methods::serve_method(&request, params)
    }

    /// Handles `notifications/initialized` as soon as it arrives, even if earlier notifications are still queued:
    /// requests that arrive after it must not be refused.
    fn notification_arrived(&mut self, notification: &Notification<'_>) {
        if notification.method == INITIALIZED {
            // A notification has no response, so an `initialized` that comes too early or a second time is ignored.
            let effect = self.legacy.step(HandshakeEvent::Initialized, Self::policy(&self.shared));
            self.announcements_pending |= matches!(effect, HandshakeEffect::Serve(_));
            #[cfg(feature = "http")]
            if let Some(facts) = &self.facts {
                facts.is_complete.fetch_or(self.announcements_pending, Ordering::AcqRel);
            }
        }
    }

    fn batch_limit(&self, limit: Option<usize>) -> Option<usize> {
        limit.filter(|_| self.legacy.revision().is_some_and(Revision::has_batches))
    }
}

impl IncomingRequest<'_> {
    /// Returns the format in which the result is written.
    #[inline]
    pub(super) fn format(&self, cache: Option<CachePolicy>) -> ResultFormat {
        ResultFormat::new(self.revision, Arc::clone(self.shared), cache)
    }

    /// Returns the arguments, if there are any, or an error if they are not an object.
    #[inline]
    pub(super) fn arguments(&self) -> Result<Option<Json<'_>>, Failure> {
        require_object(self.params.arguments)
    }

    /// Returns this member of the params, or an error if it is missing or not a string.
    pub(super) fn required_string(
        &self,
        name: &str,
        member: Option<Json<'_>>,
    ) -> Result<std::borrow::Cow<'_, str>, Failure> {
        let text = member.and_then(Text::from_json).and_then(Text::to_str);
        text.map(|text| text.into_owned().into())
            .ok_or_else(|| Failure::invalid_params(format!("{name} must be there, and a string")))
    }

    #[inline]
    fn call_tool(&self, last: &mut Option<(Box<str>, Arc<Tool>)>) -> Result<BoxedHandler, Failure> {
        if !self.offers(ServerCapability::Tools) {
            return Err(Failure::method_not_found());
        }
        let name = self.params.name.and_then(Text::from_json).and_then(Text::to_str);
        let name = name.ok_or_else(|| Failure::invalid_params("name must be there, and a string"))?;
        if let Some((known, tool)) = last
            && **known == *name
        {
            return self.start_tool(tool);
        }
        let Some(tool) = self.entries.tools.find(&name) else {
            return Err(Failure::invalid_params(format!("Unknown tool: {}", quoted(name.as_bytes()))));
        };
        *last = Some((name.into(), Arc::clone(tool)));
        self.start_tool(tool)
    }

    #[inline]
    fn start_tool(&self, tool: &Arc<Tool>) -> Result<BoxedHandler, Failure> {
        if tool.task_support().is_some() || self.params.task.is_some() {
            return task::serve_tool(self, tool);
        }
        self.start_directly(tool)
    }

    /// Starts a call that is answered with the result of the tool.
    #[inline]
    pub(super) fn start_directly(&self, tool: &Arc<Tool>) -> Result<BoxedHandler, Failure> {
        if self.shared.settings.layers.is_empty() {
            return tool.start(self);
        }
        serve_layered::<CallToolResult>(self, InvocationTarget::Tool(Arc::clone(tool)), self.format(None))
    }

    /// Whether the server has declared this capability.
    pub(super) fn offers(&self, capability: ServerCapability) -> bool {
        self.shared.offers(self.entries, capability)
    }
}

/// Returns the arguments, or an error if they are not an object.
#[inline]
pub(super) fn require_object(arguments: Option<Json<'_>>) -> Result<Option<Json<'_>>, Failure> {
    match arguments {
        Some(arguments) if arguments.kind() != JsonKind::Object => {
            Err(Failure::invalid_params("arguments must be an object"))
        }
        arguments => Ok(arguments),
    }
}

/// Records the trace context of a request, if it has one, on the current span.
#[inline]
fn record_trace_context(params: &RequestParams<'_>) {
    let meta = &params.meta;
    if meta.traceparent.is_none() && meta.tracestate.is_none() && meta.baggage.is_none() {
        return;
    }
    let span = Span::current();
    let members =
        [(key::TRACEPARENT, meta.traceparent), (key::TRACESTATE, meta.tracestate), (key::BAGGAGE, meta.baggage)];
    for (name, value) in members {
        if let Some(text) = value.and_then(Text::from_json).and_then(Text::to_str) {
            span.record(name, &*text);
        }
    }
}

/// Handles `logging/setLevel`: sets the lowest level of log messages that a legacy client wants.
pub(super) fn set_level(client: &LegacyClient, params: Option<Params<'_>>) -> Result<EmptyResult, Failure> {
    let SetLevelParams { level, .. } = crate::params::read(params)?;
    client.set_log_level(level);
    Ok(EmptyResult::default())
}

const INITIALIZED: &str = "notifications/initialized";
