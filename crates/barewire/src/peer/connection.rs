//! A connection that is about to be driven: over which transport, with which methods, within which limits.

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
use super::output::Output;
use super::queue::Queue;
use super::{ConnectionEnd, ConnectionLimits, Methods, Peer, Service};
use crate::Error;
use crate::log::Log;
use crate::transport::{Framing, Parts, Transport};

/// A connection over a [transport](crate::transport).
///
/// [`Self::run`] serves until the other side has finished, [`Self::spawn`] gives a [`Peer`] to ask things of, and
/// [`Self::open`] both.
pub struct Connection<T> {
    transport: T,
    settings: ConnectionSettings,
}

/// What a connection is driven with.
pub(crate) struct ConnectionSettings {
    pub(crate) service: Box<dyn Service>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) conventions: Conventions,
    pub(super) grace: Duration,
    pub(crate) answer_unreadable: Option<bool>,
    pub(crate) log: Log,
    pub(crate) trace: Option<Arc<dyn Trace>>,
}

impl ConnectionSettings {
    /// The default limits, the conventions of plain JSON-RPC, and this to serve.
    pub(crate) fn new(service: Box<dyn Service>, log: Log) -> Self {
        Self {
            service,
            limits: ConnectionLimits::default(),
            conventions: Conventions::JSON_RPC,
            grace: GRACE,
            answer_unreadable: None,
            log,
            trace: None,
        }
    }
}

impl<T: Transport> Connection<T> {
    /// A connection without methods, with the default limits.
    pub fn new(transport: T) -> Self {
        let service = Box::new(Methods::new().finish());
        Self { transport, settings: ConnectionSettings::new(service, Log::default()) }
    }

    /// Answers requests and takes notifications with these.
    #[must_use]
    pub fn methods(self, methods: Methods) -> Self {
        self.service(methods.finish())
    }

    /// Serves this instead of methods.
    #[must_use]
    pub(crate) fn service(mut self, service: impl Service + 'static) -> Self {
        self.settings.service = Box::new(service);
        self
    }

    /// Holds itself to these limits.
    #[must_use]
    pub fn limits(mut self, limits: ConnectionLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Cancels and reports progress in another way than the Language Server Protocol does.
    #[must_use]
    pub fn conventions(mut self, conventions: Conventions) -> Self {
        self.settings.conventions = conventions;
        self
    }

    /// Gives what is in flight this long to finish at the end, instead of 2 seconds.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Whether frames that name nobody to answer are answered, with an id of null, or only reported. By default they are
    /// answered to those who opened the connection, and only reported of those we opened it to: errors in a server's stdin
    /// for the banner it printed would be wrong.
    #[must_use]
    pub fn answer_unreadable(mut self, answer: bool) -> Self {
        self.settings.answer_unreadable = Some(answer);
        self
    }

    /// Logs with others, who count together.
    pub(crate) fn log(mut self, log: Log) -> Self {
        self.settings.log = log;
        self
    }

    /// Passes trace context as others do.
    #[cfg(feature = "http")]
    pub(crate) fn traced(mut self, trace: Option<Arc<dyn Trace>>) -> Self {
        self.settings.trace = trace;
        self
    }

    /// Passes trace context in and out.
    #[must_use]
    pub fn trace(mut self, trace: impl Trace) -> Self {
        self.settings.trace = Some(Arc::new(trace));
        self
    }

    /// Drives the connection when awaited, until the other side has finished.
    pub fn run(self) -> RunningConnection {
        self.start().1
    }

    /// The other side, and what drives the connection when awaited. It shuts down when the last [`Peer`] is dropped.
    pub fn open(self) -> (Peer, RunningConnection) {
        let (queue, running) = self.start();
        (Peer::guarded(queue), running)
    }

    /// The other side, with the connection driven by a task of its own. It shuts down when the last [`Peer`] is dropped.
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
    let dispatcher = Dispatcher::new(Output::<C>::default(), settings, Arc::clone(queue));
    Box::pin(Driver::new(codec, parts, dispatcher, grace).run())
}

impl<T> fmt::Debug for Connection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("limits", &self.settings.limits).finish_non_exhaustive()
    }
}

/// A connection that is driven by being awaited. Dropping it ends the connection at once.
#[must_use = "nothing happens until it is awaited"]
pub struct RunningConnection(Driving);

type Driving = Pin<Box<dyn Future<Output = ConnectionEnd> + Send>>;

impl Future for RunningConnection {
    /// `Ok` if the connection ended in order.
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

/// How trace context travels in messages. Both do nothing unless you say what.
pub trait Trace: Send + Sync + 'static {
    /// A request or notification came, and `span` is what it is handled in. `params` is the JSON text of its parameters.
    fn incoming(&self, span: &tracing::Span, method: &str, params: Option<&str>) {
        let _ = (span, method, params);
    }

    /// A call or notification of ours is about to be sent, from the current span: its params, with whatever the other side
    /// should know.
    fn outgoing(&self, method: &str, params: Option<String>) -> Option<String> {
        let _ = method;
        params
    }
}

/// Long enough for what was about to finish, short enough for a host that waits to start us again.
const GRACE: Duration = Duration::from_secs(2);
