//! The settings of a connection (transport, methods, limits), and the functions that start it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::frame::{ContentLength, Lines};
use barewire_proto::session::Conventions;

use super::dispatch::Dispatcher;
use super::driver::Driver;
use super::output::StreamOutput;
use super::queue::Queue;
use super::{ConnectionEnd, ConnectionLimits, Methods, Peer, Service};
use crate::Error;
use crate::log::Log;
use crate::transport::{Framing, Parts, Transport};

/// A connection over a [transport](crate::transport).
///
/// [`Self::run`] serves until the peer closes the connection. [`Self::spawn`] serves on a new task, and returns a
/// [`Peer`] to call. [`Self::open`] returns both the [`Peer`] and the future that drives the connection.
pub struct Connection<T> {
    transport: T,
    settings: ConnectionSettings,
}

/// The settings of a connection.
pub(crate) struct ConnectionSettings {
    pub(crate) service: Box<dyn Service>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) conventions: Conventions,
    pub(super) grace: Duration,
    pub(crate) answer_unreadable: Option<bool>,
    pub(crate) log: Log,
    pub(crate) trace: Option<Arc<dyn Trace>>,
    /// The number before the id of the first call.
    pub(crate) calls_after: i64,
}

impl ConnectionSettings {
    /// Creates settings that serve `service`, with the default limits and the conventions of plain JSON-RPC.
    pub(crate) fn new(service: Box<dyn Service>, log: Log) -> Self {
        Self {
            service,
            limits: ConnectionLimits::default(),
            conventions: Conventions::JSON_RPC,
            grace: DEFAULT_GRACE,
            answer_unreadable: None,
            log,
            trace: None,
            calls_after: 0,
        }
    }
}

impl<T: Transport> Connection<T> {
    /// Creates a connection without methods, with the default limits.
    pub fn new(transport: T) -> Self {
        let service = Box::new(Methods::new().finish());
        Self { transport, settings: ConnectionSettings::new(service, Log::default()) }
    }

    /// Handles requests and notifications with these methods.
    #[must_use]
    pub fn methods(self, methods: Methods) -> Self {
        self.service(methods.finish())
    }

    /// Handles requests and notifications with a service.
    #[must_use]
    pub(crate) fn service(mut self, service: impl Service + 'static) -> Self {
        self.settings.service = Box::new(service);
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: ConnectionLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Sets the format of cancellation and progress messages. The default is the format of the Language Server
    /// Protocol.
    #[must_use]
    pub fn conventions(mut self, conventions: Conventions) -> Self {
        self.settings.conventions = conventions;
        self
    }

    /// Sets how long requests in flight may take to finish when the connection shuts down. The default is 2 seconds.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Sets whether invalid frames without a usable id are answered with an error whose id is null, or only logged. By
    /// default they are answered if the peer opened the connection, and only logged if this side opened it: a server
    /// that prints a banner on its stdout must not get error responses on its stdin.
    #[must_use]
    pub fn answer_unreadable(mut self, answer: bool) -> Self {
        self.settings.answer_unreadable = Some(answer);
        self
    }

    /// Logs to `log`. Connections that share a log share its limit on events per second.
    pub(crate) fn log(mut self, log: Log) -> Self {
        self.settings.log = log;
        self
    }

    /// Reads trace context from incoming messages and adds it to outgoing messages, if `trace` is not `None`.
    #[cfg(feature = "http")]
    pub(crate) fn traced(mut self, trace: Option<Arc<dyn Trace>>) -> Self {
        self.settings.trace = trace;
        self
    }

    /// Reads trace context from incoming messages and adds it to outgoing messages, with the hooks of `trace`.
    #[must_use]
    pub fn trace(mut self, trace: impl Trace) -> Self {
        self.settings.trace = Some(Arc::new(trace));
        self
    }

    /// Returns the future that drives the connection until the peer closes it.
    pub fn run(self) -> RunningConnection {
        self.start().1
    }

    /// Returns a handle for the peer, and the future that drives the connection. The connection shuts down when the
    /// last [`Peer`] is dropped.
    pub fn open(self) -> (Peer, RunningConnection) {
        let (queue, running) = self.start();
        (Peer::guarded(queue), running)
    }

    /// Drives the connection on a new task, and returns a handle for the peer. The connection shuts down when the last
    /// [`Peer`] is dropped.
    #[must_use = "the connection shuts down when the peer is dropped"]
    pub fn spawn(self) -> Peer {
        let (peer, running) = self.open();
        tokio::spawn(running);
        peer
    }

    fn start(self) -> (Arc<Queue>, RunningConnection) {
        let Self { transport, mut settings } = self;
        let parts = transport.into_parts();
        settings.answer_unreadable.get_or_insert(!parts.opened_by_us);
        let queue = Arc::new(Queue::new(&settings.limits, settings.trace.clone()));
        let limit = settings.limits.frame;
        let future = match parts.framing {
            Framing::Lines => drive::<Lines, _, _>(Lines::new(limit), parts, settings, &queue),
            Framing::ContentLength => drive::<ContentLength, _, _>(ContentLength::new(limit), parts, settings, &queue),
        };
        (queue, RunningConnection(future))
    }
}

fn drive<C, R, W>(codec: C, parts: Parts<R, W>, settings: ConnectionSettings, queue: &Arc<Queue>) -> Driving
where
    C: barewire_proto::frame::Codec + Send + 'static,
    R: tokio::io::AsyncRead + Unpin + Send + 'static,
    W: tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let grace = settings.grace;
    let dispatcher = Dispatcher::new(StreamOutput::<C>::default(), settings, Arc::clone(queue));
    Box::pin(Driver::new(codec, parts, dispatcher, grace).run())
}

impl<T> fmt::Debug for Connection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("limits", &self.settings.limits).finish_non_exhaustive()
    }
}

/// The future that drives a connection. Dropping it ends the connection immediately.
#[must_use = "the connection does nothing until this future is awaited"]
pub struct RunningConnection(Driving);

type Driving = Pin<Box<dyn Future<Output = ConnectionEnd> + Send>>;

impl Future for RunningConnection {
    /// `Ok` if the connection was closed cleanly. See [`ConnectionEnd::is_orderly`].
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context).map(ConnectionEnd::into_result)
    }
}

impl fmt::Debug for RunningConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunningConnection")
    }
}

/// Hooks that read trace context from incoming messages and add it to outgoing messages. The default implementations do
/// nothing.
pub trait Trace: Send + Sync + 'static {
    /// Called for each incoming request and notification. `span` is the span in which the message's handler runs, and
    /// `params` is the JSON text of its parameters.
    fn incoming(&self, span: &tracing::Span, method: &str, params: Option<&str>) {
        let _ = (span, method, params);
    }

    /// Called for each outgoing call and notification, in the span of its sender. Returns the parameters to send, with
    /// the trace context added.
    fn outgoing(&self, method: &str, params: Option<String>) -> Option<String> {
        let _ = method;
        params
    }
}

/// The default grace period: long enough for requests that are about to finish, short enough for a host that is waiting
/// to restart the program.
const DEFAULT_GRACE: Duration = Duration::from_secs(2);
