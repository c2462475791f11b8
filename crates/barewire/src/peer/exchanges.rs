//! A connection without a byte stream, for HTTP: each incoming message arrives separately, and each outgoing message is
//! sent to the exchange that it belongs to.
//!
//! There is no read loop. The thread that delivers a message also handles it. No thread waits for the lock on the
//! state: if another thread holds it, the message stays in the inbox, and that thread handles the inbox before it
//! returns. One task for each connection handles timeouts and the commands of handlers that have become tasks.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::mcp::ParsedMessage;
use barewire_proto::session::CallId;
use bytes::Bytes;
use tokio::time::{Instant, Sleep};

use super::connection::ConnectionSettings;
use super::dispatch::{AnyCaller, Dispatcher, EndRequest, later};
use super::outlet::{Exchange, Outlet};
use super::queue::Queue;
use super::{CallError, ConnectionEnd, EndReason, Peer};
use crate::sync::{Mutex, MutexGuard};

/// An incoming message.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The exchange in which the message arrived. The answer is sent to the same exchange.
    pub(crate) exchange: Exchange,
    pub(crate) caller: Option<AnyCaller>,
    /// The message, already parsed, so that it is not parsed again.
    pub(crate) message: ParsedMessage<Bytes>,
}

/// A connection whose messages belong to exchanges. An exchange is one incoming message and the messages that are sent
/// in return.
pub(crate) struct Exchanges<O> {
    state: Mutex<ExchangeState<O>>,
    /// Messages and tasks for the thread that holds the lock on `state`.
    inbox: Mutex<VecDeque<InboxItem<O>>>,
    /// The time of the next timeout. Set by the thread that holds the lock on `state`, and cleared when it fires.
    due: Mutex<Option<Instant>>,
    queue: Arc<Queue>,
    grace: Duration,
}

struct ExchangeState<O> {
    dispatcher: Dispatcher<O>,
    /// The deadline after which unfinished work is abandoned; `None` until the shutdown begins.
    give_up_at: Option<Instant>,
}

/// A message to handle, or a task to run with the dispatcher.
#[expect(clippy::large_enum_variant, reason = "almost all items are messages, and a box would allocate for each")]
enum InboxItem<O> {
    Message(Delivery),
    Run(DispatcherTask<O>),
}

type DispatcherTask<O> = Box<dyn FnOnce(&mut Dispatcher<O>) + Send>;

/// The budget of output bytes for this side's own calls and notifications.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Queue>);

/// Permits for some bytes of a [`Room`]. Dropping them returns them to the room.
#[derive(Debug)]
pub(crate) struct Permits {
    room: Room,
    count: usize,
}

impl Room {
    /// Wraps `count` permits that were acquired before, so that dropping the wrapper returns them.
    pub(crate) fn hold(&self, count: usize) -> Permits {
        Permits { room: self.clone(), count }
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        self.room.0.room.add_permits(self.count);
    }
}

impl<O: Outlet> Dispatcher<O> {
    /// Creates a dispatcher for a connection without a byte stream. `outlet` creates the dispatcher's outlet.
    pub(crate) fn without_stream(settings: ConnectionSettings, outlet: impl FnOnce(Room) -> O) -> Self {
        let queue = Arc::new(Queue::new(&settings.limits, settings.trace.clone()));
        Self::new(outlet(Room(Arc::clone(&queue))), settings, queue)
    }

    /// Executes the commands of handlers that have become tasks. Returns `Ready` if there are more commands.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.take_commands();
        self.start_waiting();
        self.queue.poll(context)
    }

    /// Begins the shutdown: no new work is started, and handlers that wait in
    /// [`Context::closing`](super::Context::closing) are woken.
    pub(crate) fn begin_end(&mut self) {
        self.close(EndReason::Shutdown);
    }

    /// Whether the dispatcher can be reused for another request: nothing is in flight, no output is pending, and no
    /// [`Peer`] or handler refers to the connection.
    pub(crate) fn is_reusable(&self) -> bool {
        let no_handle = Arc::strong_count(&self.queue) == QUEUE_HOLDERS && self.queue.closed().is_none();
        no_handle && !self.is_closing() && self.is_done() && self.output.len() == 0
    }

    /// Whether nothing is in flight in either direction.
    fn is_done(&self) -> bool {
        self.is_idle() && !self.session.is_waiting()
    }

    /// Returns the outlet, to which messages are sent.
    pub(crate) fn outlet(&mut self) -> &mut O {
        &mut self.output
    }
}

impl<O: Outlet + 'static> Exchanges<O> {
    /// Creates a connection with these settings. `outlet` creates the connection's outlet.
    pub(crate) fn new(settings: ConnectionSettings, outlet: impl FnOnce(Room) -> O) -> Self {
        let grace = settings.grace;
        let dispatcher = Dispatcher::without_stream(settings, outlet);
        let queue = Arc::clone(&dispatcher.queue);
        let state = Mutex::new(ExchangeState { dispatcher, give_up_at: None });
        // Room for one message, because the inbox of most sessions never contains more.
        let inbox = Mutex::new(VecDeque::with_capacity(1));
        Self { state, inbox, due: Mutex::default(), queue, grace }
    }

    /// Returns a handle for the peer. The connection shuts down when the last clone of the handle is dropped.
    pub(crate) fn peer(&self) -> Peer {
        Peer::guarded(Arc::clone(&self.queue))
    }

    /// Handles a message, or leaves it in the inbox for the thread that holds the lock on the state.
    pub(crate) fn deliver(&self, delivery: Delivery) {
        self.submit(InboxItem::Message(delivery));
    }

    /// Waits until every message delivered so far was taken from the inbox. A stream reader calls this so that it does
    /// not read faster than messages are handled.
    pub(crate) async fn inbox_drained(&self) {
        if self.inbox().is_empty() {
            return;
        }
        let (done, handled) = tokio::sync::oneshot::channel();
        self.submit(InboxItem::Run(Box::new(move |_| {
            let _ = done.send(());
        })));
        let _ = handled.await;
    }

    /// Fails a call of ours that will get no answer.
    pub(crate) fn fail(&self, call: CallId, error: CallError) {
        self.submit(InboxItem::Run(Box::new(move |dispatcher| dispatcher.fail(call, error))));
    }

    /// Ends the connection immediately: stops handlers and fails all calls.
    pub(crate) fn end(&self, reason: EndReason) {
        self.submit(InboxItem::Run(Box::new(move |dispatcher| {
            dispatcher.give_up();
            drop(dispatcher.finish(reason, None));
        })));
    }

    /// Begins the shutdown: no new work is started, and handlers that wait in
    /// [`Context::closing`](super::Context::closing) are woken.
    pub(crate) fn begin_end(&self) {
        self.submit(InboxItem::Run(Box::new(Dispatcher::begin_end)));
    }

    /// Whether the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.queue.closed().is_some()
    }

    /// Whether nothing is in flight in either direction, no message waits to be handled, and exactly this many
    /// [`Context`](super::Context)s and [`Peer`]s refer to the connection.
    pub(crate) fn is_quiet(&self, handles: usize) -> bool {
        let Ok(state) = self.state.try_lock() else { return false };
        // One more reference is that of this value.
        let is_quiet = state.dispatcher.is_done() && Arc::strong_count(&self.queue) == QUEUE_HOLDERS + 1 + handles;
        drop(state);
        // What another thread has added while this one held the lock is left to the driver. The driver may also have
        // failed to get the lock when it was to wait for a timeout of what is in flight.
        let is_left = !self.inbox().is_empty() || !self.queue.is_empty();
        if !is_quiet || is_left {
            self.queue.wake();
        }
        is_quiet && !is_left
    }

    /// Wakes the driver, because there may now be room for a request that could not be started before.
    pub(crate) fn wake_for_room(&self) {
        self.queue.wake();
    }

    fn submit(&self, item: InboxItem<O>) {
        self.inbox().push_back(item);
        self.work();
    }

    fn inbox(&self) -> MutexGuard<'_, VecDeque<InboxItem<O>>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self) -> MutexGuard<'_, Option<Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles the inbox and the queue. Returns `false` if another thread holds the lock on the state; that thread
    /// checks the inbox before it returns.
    fn work(&self) -> bool {
        loop {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(state)) => state.into_inner(),
                Err(TryLockError::WouldBlock) => return false,
            };
            let is_empty = self.drain_inbox(&mut state);
            let due = self.end_if_due(&mut state);
            let changed = std::mem::replace(&mut *self.due(), due) != due;
            drop(state);
            // The driver is woken after the state is unlocked, so that the driver can lock the state.
            if changed || !is_empty {
                self.queue.wake();
            }
            // The remaining items are left to the driver, so that the thread of one request does not have to handle the
            // messages of all others.
            if !is_empty || (self.inbox().is_empty() && (self.queue.is_empty() || self.is_over())) {
                return true;
            }
        }
    }

    /// Handles up to 32 items of the inbox, or all of them after the end of the connection, when there is no driver to
    /// which they could be left. Returns `true` if the inbox is now empty.
    fn drain_inbox(&self, state: &mut ExchangeState<O>) -> bool {
        let dispatcher = &mut state.dispatcher;
        if !self.is_over() {
            dispatcher.take_commands();
            dispatcher.start_waiting();
        }
        let mut handled = 0;
        while handled < ITEMS_AT_ONCE || self.is_over() {
            let Some(item) = self.inbox().pop_front() else { return true };
            handled += 1;
            match item {
                InboxItem::Message(Delivery { exchange, .. }) if self.is_over() => {
                    dispatcher.output.end_exchange(exchange)
                }
                InboxItem::Message(Delivery { exchange, caller, message }) => {
                    dispatcher.deliver(exchange, caller.as_ref(), &message);
                }
                InboxItem::Run(run) => run(dispatcher),
            }
        }
        false
    }

    /// During a shutdown, ends the connection when nothing is in flight or the grace period is over. Returns the time
    /// of the next timeout.
    fn end_if_due(&self, state: &mut ExchangeState<O>) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        let ExchangeState { dispatcher, give_up_at } = state;
        let call = dispatcher.session.next_deadline().map(|at| dispatcher.at(at));
        if dispatcher.end_request() != Some(EndRequest::Shutdown) {
            return call;
        }
        let end = *give_up_at.get_or_insert_with(|| {
            dispatcher.begin_end();
            later(Instant::now(), self.grace)
        });
        if dispatcher.is_done() || Instant::now() >= end {
            dispatcher.finish(EndReason::Shutdown, None);
            return None;
        }
        Some(call.map_or(end, |call| call.min(end)))
    }

    /// Handles timeouts and the commands of handlers, until the connection has ended.
    pub(crate) async fn drive(&self) -> ConnectionEnd {
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|context| self.poll(context, &mut timer)).await;
        self.queue.ended().await
    }

    fn poll(&self, context: &mut Context<'_>, timer: &mut Option<Pin<Box<Sleep>>>) -> Poll<()> {
        loop {
            // The task is registered first, so that a change from another thread during the work wakes the task.
            self.queue.register(context);
            let has_lock = self.work();
            if self.is_over() {
                return Poll::Ready(());
            }
            let due = *self.due();
            // If another thread holds the lock on the state, that thread wakes this task when work is left for it.
            let Some(at) = due.filter(|_| has_lock) else { return Poll::Pending };
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            std::task::ready!(timer.as_mut().poll(context));
            // The timeout is cleared so that it does not fire again before it is handled.
            *self.due() = None;
            self.submit(InboxItem::Run(Box::new(Dispatcher::tick)));
        }
    }
}

/// The number of references to the queue that always exist: one in the dispatcher, and one in the outlet's [`Room`].
const QUEUE_HOLDERS: usize = 2;

/// The maximum number of items that are handled before other tasks on this thread get a turn. In the model, a second
/// message is already left to the driver.
const ITEMS_AT_ONCE: usize = if cfg!(all(test, barewire_loom)) { 1 } else { 32 };
