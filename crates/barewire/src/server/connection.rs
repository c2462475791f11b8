//! One connection of a server: what comes -> which era it is of, whether it may be served, and who serves it.

use std::sync::Arc;
#[cfg(feature = "http")]
use std::sync::OnceLock;

use barewire_proto::json::{Json, Kind as JsonKind, Text};
use barewire_proto::mcp::legacy::{HandshakeEffect, HandshakeEvent, HandshakePolicy};
use barewire_proto::mcp::modern::{self, ModernMeta};
use barewire_proto::mcp::{
    CallToolResult, ClientCapabilities, Handshake, InitializeParams, InitializeResult, RequestParams, Revision,
    ServerCapability, SetLevelParams, key,
};
use barewire_proto::rpc::{Notification, Params};
use tracing::Span;

use super::layer::{Entry, serve_layered};
use super::registry::Offer;
use super::serving::{Empty, Style, ready};
use super::session::Session;
use super::{Cache, Shared, Tool, listen, methods};
use crate::Failure;
use crate::log::quoted;
use crate::peer::{BoxedWork, Context, IncomingParams, Service};

/// What serves one connection.
pub(super) struct Connected {
    shared: Arc<Shared>,
    legacy: Handshake,
    /// Is told the revision that was agreed on.
    #[cfg(feature = "http")]
    agreed: Option<Arc<OnceLock<Revision>>>,
    /// The handshake is complete, and the client has not been promised yet to be told of changes.
    is_new: bool,
    /// What a legacy client has said of itself.
    session: Option<Arc<Session>>,
    /// Held by each listen that is open.
    listens: Arc<()>,
    /// What was offered when it was last looked at.
    offer: Arc<Offer>,
    version: u64,
    /// The tool that was called last: it is often the next as well.
    last: Option<(Box<str>, Arc<Tool>)>,
}

/// A request that is about to be handled.
pub(super) struct Calling<'a> {
    pub(super) context: Context,
    pub(super) params: RequestParams<'a>,
    pub(super) revision: Revision,
    pub(super) client: Side<'a>,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) offer: &'a Offer,
    pub(super) listens: &'a Arc<()>,
}

/// The client, as its era has it.
pub(super) enum Side<'a> {
    Legacy(&'a Arc<Session>),
    Modern(ModernMeta<'a>),
}

impl Connected {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (version, offer) = (shared.registry.version(), shared.registry.offer());
        Self {
            shared,
            legacy: Handshake::default(),
            #[cfg(feature = "http")]
            agreed: None,
            is_new: false,
            session: None,
            listens: Arc::default(),
            offer,
            version,
            last: None,
        }
    }

    /// Tells the revision that is agreed on.
    #[cfg(feature = "http")]
    pub(super) fn telling(mut self, agreed: Arc<OnceLock<Revision>>) -> Self {
        self.agreed = Some(agreed);
        self
    }

    fn policy(shared: &Shared) -> HandshakePolicy<'_> {
        HandshakePolicy::new(&shared.settings.revisions).lenient(shared.settings.lenient)
    }

    /// Looks again if something has changed.
    #[inline]
    fn refresh(&mut self) {
        let version = self.shared.registry.version();
        if version != self.version {
            (self.version, self.offer, self.last) = (version, self.shared.registry.offer(), None);
        }
    }

    /// The one request that changes what a connection is.
    fn initialize(&mut self, params: Option<Params<'_>>) -> Result<BoxedWork, Failure> {
        let asked: InitializeParams = crate::params::read(params)?;
        let event = HandshakeEvent::Initialize(&asked.protocol_version);
        let revision = self.step(event)?;
        // What it has subscribed to before it introduced itself, where that is allowed, stays.
        let watch = self.session.take().map(|session| Arc::clone(&session.watch));
        self.session = Some(Arc::new(Session::new(Some(asked.client_info), asked.capabilities, watch)));
        #[cfg(feature = "http")]
        if let Some(agreed) = &self.agreed {
            let _ = agreed.set(revision);
        }
        let capabilities = self.shared.capabilities(&self.offer, revision);
        let mut result = InitializeResult::new(revision, capabilities, self.shared.info(revision));
        result.instructions.clone_from(&self.shared.settings.instructions);
        Ok(ready(result, Style::new(revision, Arc::clone(&self.shared), None)))
    }

    /// What the handshake says of something that came: the revision it is served in.
    #[inline]
    fn step(&mut self, event: HandshakeEvent<'_>) -> Result<Revision, Failure> {
        match self.legacy.step(event, Self::policy(&self.shared)) {
            HandshakeEffect::Serve(revision) => Ok(revision),
            HandshakeEffect::Refuse(rule) => Err(rule.error(&self.shared.settings.revisions).into()),
            HandshakeEffect::Ignore => Err(Failure::method_not_found()),
        }
    }

    /// A notification whose turn it is.
    fn notified(&mut self, context: &Context) -> Result<BoxedWork, Failure> {
        if std::mem::take(&mut self.is_new)
            && let Some(session) = &self.session
        {
            self.shared.registry.watch(&session.watch);
            tokio::spawn(listen::announce(Arc::clone(&session.watch), context.clone()));
        }
        // The others are told to the engine, or to nobody.
        Err(Failure::method_not_found())
    }
}

impl Service for Connected {
    fn start(&mut self, context: Context, incoming: IncomingParams<'_>) -> Result<BoxedWork, Failure> {
        let params = incoming.written;
        if context.id().is_none() {
            return self.notified(&context);
        }
        if params.is_some_and(|params| params.json().kind() != JsonKind::Object) {
            return Err(Failure::invalid_params("params must be an object"));
        }
        self.refresh();
        let read = incoming.members();
        trace(&read);
        let supported = &self.shared.settings.revisions;
        let judged = modern::check_meta(context.method(), &read.meta, supported).map_err(|bad| bad.error())?;
        let (revision, event) = match (&judged, context.method()) {
            (Some(modern), _) => (Some(modern.revision), HandshakeEvent::Request),
            (None, "initialize") => return self.initialize(params),
            (None, "ping") => {
                let revision = self.step(HandshakeEvent::Ping)?;
                let shared = Arc::clone(&self.shared);
                return Ok(ready(Empty::default(), Style::new(revision, shared, None)));
            }
            (None, _) => (None, HandshakeEvent::Request),
        };
        let revision = match revision {
            Some(revision) => revision,
            None => self.step(event)?,
        };
        let session;
        let client = match judged {
            Some(modern) => Side::Modern(modern),
            None => {
                // Only a client that is served before it has introduced itself has none.
                session = self
                    .session
                    .get_or_insert_with(|| Arc::new(Session::new(None, ClientCapabilities::default(), None)));
                Side::Legacy(session)
            }
        };
        let calling = Calling {
            context,
            params: read,
            revision,
            client,
            shared: &self.shared,
            offer: &self.offer,
            listens: &self.listens,
        };
        if calling.context.method() == "tools/call" {
            return calling.call_tool(&mut self.last);
        }
        methods::serve_method(&calling, params)
    }

    /// Now, and not when its turn comes: what follows it may be served.
    fn arrived(&mut self, notification: &Notification<'_>) {
        if notification.method == INITIALIZED {
            // Nobody is answered, so nobody is told if it came too early or twice.
            let effect = self.legacy.step(HandshakeEvent::Initialized, Self::policy(&self.shared));
            self.is_new |= matches!(effect, HandshakeEffect::Serve(_));
        }
    }

    fn batch(&self, most: Option<usize>) -> Option<usize> {
        most.filter(|_| self.legacy.revision().is_some_and(Revision::has_batches))
    }
}

impl Calling<'_> {
    /// How the result is written.
    #[inline]
    pub(super) fn style(&self, cache: Option<Cache>) -> Style {
        Style::new(self.revision, Arc::clone(self.shared), cache)
    }

    /// The arguments, if there are any: an object.
    #[inline]
    pub(super) fn arguments(&self) -> Result<Option<Json<'_>>, Failure> {
        object(self.params.arguments)
    }

    /// A member that must be there, and a string.
    pub(super) fn text(&self, name: &str, member: Option<Json<'_>>) -> Result<std::borrow::Cow<'_, str>, Failure> {
        let text = member.and_then(Text::from_json).and_then(Text::to_str);
        text.map(|text| text.into_owned().into())
            .ok_or_else(|| Failure::invalid_params(format!("{name} must be there, and a string")))
    }

    /// Calls a tool.
    #[inline]
    fn call_tool(&self, last: &mut Option<(Box<str>, Arc<Tool>)>) -> Result<BoxedWork, Failure> {
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
        let Some(tool) = self.offer.tools.find(&name) else {
            return Err(Failure::invalid_params(format!("Unknown tool: {}", quoted(name.as_bytes()))));
        };
        *last = Some((name.into(), Arc::clone(tool)));
        self.start_tool(tool)
    }

    #[inline]
    fn start_tool(&self, tool: &Arc<Tool>) -> Result<BoxedWork, Failure> {
        if self.shared.settings.layers.is_empty() {
            return tool.start(self);
        }
        serve_layered::<CallToolResult>(self, Entry::Tool(Arc::clone(tool)), self.style(None))
    }

    /// Whether this has been declared.
    pub(super) fn offers(&self, capability: ServerCapability) -> bool {
        self.shared.offers(self.offer, capability)
    }
}

/// Arguments, which must be an object if there are any.
#[inline]
pub(super) fn object(arguments: Option<Json<'_>>) -> Result<Option<Json<'_>>, Failure> {
    match arguments {
        Some(arguments) if arguments.kind() != JsonKind::Object => {
            Err(Failure::invalid_params("arguments must be an object"))
        }
        arguments => Ok(arguments),
    }
}

/// Puts the caller's trace context on the span.
#[inline]
fn trace(params: &RequestParams<'_>) {
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

/// What a legacy client asks to be told of.
pub(super) fn set_level(session: &Session, params: Option<Params<'_>>) -> Result<Empty, Failure> {
    let SetLevelParams { level, .. } = crate::params::read(params)?;
    session.set_log_level(level);
    Ok(Empty::default())
}

const INITIALIZED: &str = "notifications/initialized";
