//! A connection without a stream: each message of the peer comes by itself, and each of ours goes to its exchange.
//!
//! There is no loop that reads. The thread that brings a message handles it. The state is only ever `try_lock`ed: on contention the
//! message is left in the inbox, and the lock's holder drains the inbox before it goes. One task per connection handles timeouts
//! and the commands of handlers that have become tasks.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::mcp::ParsedMessage;
use barewire_proto::session::CallId;
use bytes::Bytes;
use tokio::time::{Instant, Sleep};

use super::connection::Settings;
use super::dispatch::{AnyCaller, Dispatcher, EndRequest, later};
use super::outlet::{Exchange, Outlet};
use super::queue::Queue;
use super::{CallError, ConnectionEnd, EndReason, Peer};

/// A message that has come.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The exchange it came in, which its answer belongs to.
    pub(crate) exchange: Exchange,
    pub(crate) caller: Option<AnyCaller>,
    /// Parsed already: nothing behind this parses it again.
    pub(crate) message: ParsedMessage<Bytes>,
}

/// A connection whose messages come and go in exchanges.
pub(crate) struct Exchanges<O> {
    state: Mutex<State<O>>,
    /// The work for the holder of the state.
    inbox: Mutex<VecDeque<Input<O>>>,
    /// The next time at which the driver has to work. Only changed by the holder of the state.
    due: Mutex<Option<Instant>>,
    queue: Arc<Queue>,
    grace: Duration,
}

struct State<O> {
    dispatcher: Dispatcher<O>,
    /// The moment at which unfinished work is given up, once the end has begun.
    give_up_at: Option<Instant>,
}

#[expect(clippy::large_enum_variant, reason = "almost all are messages, and a box would cost each an allocation")]
enum Input<O> {
    Message(Delivery),
    Run(Task<O>),
}

type Task<O> = Box<dyn FnOnce(&mut Dispatcher<O>) + Send>;

/// The room that there is for what we send by ourselves.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Queue>);

/// Some of it, given back when dropped.
#[derive(Debug)]
pub(crate) struct Permits {
    room: Room,
    count: usize,
}

impl Room {
    /// Holds so many bytes of it.
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
    /// A dispatcher without a stream, whose output `outlet` makes.
    pub(crate) fn without_stream(settings: Settings, outlet: impl FnOnce(Room) -> O) -> Self {
        let queue = Arc::new(Queue::new(&settings.limits, settings.trace.clone()));
        Self::new(outlet(Room(Arc::clone(&queue))), settings, queue)
    }

    /// Carries out the commands of handlers that have become tasks; pending until there are more.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.take_commands();
        self.start_waiting();
        self.queue.poll(context)
    }

    /// Starts nothing new, and tells handlers that would go on for ever.
    pub(crate) fn begin_end(&mut self) {
        self.close(EndReason::Shutdown);
    }

    /// Whether it can serve another request: idle, output empty, no live handle.
    pub(crate) fn is_reusable(&self) -> bool {
        let no_handle = Arc::strong_count(&self.queue) == QUEUE_HOLDERS && self.queue.closed().is_none();
        no_handle && !self.is_closing() && self.is_done() && self.output.len() == 0
    }

    /// Whether nothing is in flight either way.
    fn is_done(&self) -> bool {
        self.is_idle() && !self.session.is_waiting()
    }

    /// The place that messages go to.
    pub(crate) fn outlet(&mut self) -> &mut O {
        &mut self.output
    }
}

impl<O: Outlet + 'static> Exchanges<O> {
    /// A connection that serves `settings`, and whose output `outlet` makes.
    pub(crate) fn new(settings: Settings, outlet: impl FnOnce(Room) -> O) -> Self {
        let grace = settings.grace;
        let dispatcher = Dispatcher::without_stream(settings, outlet);
        let queue = Arc::clone(&dispatcher.queue);
        let state = Mutex::new(State { dispatcher, give_up_at: None });
        Self { state, inbox: Mutex::default(), due: Mutex::default(), queue, grace }
    }

    /// A handle for the peer. The connection shuts down when the last one is dropped.
    pub(crate) fn peer(&self) -> Peer {
        Peer::guarded(Arc::clone(&self.queue))
    }

    /// Handles a message, or leaves it to the thread that is handling one.
    pub(crate) fn deliver(&self, delivery: Delivery) {
        self.put(Input::Message(delivery));
    }

    /// Waits until every message so far is handled, so that a stream is read no faster than that.
    pub(crate) async fn caught_up(&self) {
        if self.inbox().is_empty() {
            return;
        }
        let (done, handled) = tokio::sync::oneshot::channel();
        self.put(Input::Run(Box::new(move |_| {
            let _ = done.send(());
        })));
        let _ = handled.await;
    }

    /// Fails a call of ours that will not be answered, for this reason.
    pub(crate) fn fail(&self, call: CallId, why: CallError) {
        self.put(Input::Run(Box::new(move |dispatcher| dispatcher.fail(call, why))));
    }

    /// Ends at once: handlers are stopped, and all callers are told.
    pub(crate) fn end(&self, reason: EndReason) {
        self.put(Input::Run(Box::new(move |dispatcher| {
            dispatcher.give_up();
            drop(dispatcher.finish(reason, None));
        })));
    }

    /// Starts nothing new, and tells handlers that would go on for ever.
    pub(crate) fn begin_end(&self) {
        self.put(Input::Run(Box::new(Dispatcher::begin_end)));
    }

    /// Whether the connection is over.
    pub(crate) fn is_over(&self) -> bool {
        self.queue.closed().is_some()
    }

    /// Wakes the driver, as there may be room for a request that could not be started.
    pub(crate) fn has_room(&self) {
        self.queue.wake();
    }

    fn put(&self, input: Input<O>) {
        self.inbox().push_back(input);
        self.work();
    }

    fn inbox(&self) -> MutexGuard<'_, VecDeque<Input<O>>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self) -> MutexGuard<'_, Option<Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work there is. Returns `false` if another thread holds the state: it looks into the inbox before it goes.
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
            // Not before, so that the driver finds the state free.
            if changed || !is_empty {
                self.queue.wake();
            }
            // The driver goes on with the rest, so that no thread works for others for ever.
            if !is_empty || (self.inbox().is_empty() && (self.queue.is_empty() || self.is_over())) {
                return true;
            }
        }
    }

    /// Handles up to 32 inputs; `true` if the inbox is now empty.
    fn drain_inbox(&self, state: &mut State<O>) -> bool {
        let dispatcher = &mut state.dispatcher;
        if !self.is_over() {
            dispatcher.take_commands();
            dispatcher.start_waiting();
        }
        for _ in 0..INPUTS_AT_ONCE {
            let Some(input) = self.inbox().pop_front() else { return true };
            match input {
                Input::Message(Delivery { exchange, .. }) if self.is_over() => dispatcher.output.over(exchange),
                Input::Message(Delivery { exchange, caller, message }) => {
                    dispatcher.deliver(exchange, caller.as_ref(), &message);
                }
                Input::Run(run) => run(dispatcher),
            }
        }
        false
    }

    /// Ends the connection if it is to end now, and returns the next time at which the driver has to work.
    fn end_if_due(&self, state: &mut State<O>) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        let State { dispatcher, give_up_at } = state;
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

    /// Handles timeouts and the commands of handlers, until the connection is over.
    pub(crate) async fn drive(&self) -> ConnectionEnd {
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|context| self.poll(context, &mut timer)).await;
        self.queue.ended().await
    }

    fn poll(&self, context: &mut Context<'_>, timer: &mut Option<Pin<Box<Sleep>>>) -> Poll<()> {
        loop {
            // First, so that a change from another thread while we look wakes us.
            self.queue.register(context);
            let looked = self.work();
            if self.is_over() {
                return Poll::Ready(());
            }
            let due = *self.due();
            // The holder of the state wakes us if there is something left for us.
            let Some(at) = due.filter(|_| looked) else { return Poll::Pending };
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            std::task::ready!(timer.as_mut().poll(context));
            // It is not due again before it is handled.
            *self.due() = None;
            self.put(Input::Run(Box::new(Dispatcher::tick)));
        }
    }
}

/// The holders of the queue of a dispatcher without a stream: the dispatcher itself, and its outlet for the room.
const QUEUE_HOLDERS: usize = 2;

/// The inputs that are handled before other tasks on this thread have their turn.
const INPUTS_AT_ONCE: usize = 32;
