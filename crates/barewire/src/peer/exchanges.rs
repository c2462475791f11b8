//! A connection without a stream: each message of theirs comes by itself, and each of ours goes where its exchange goes.
//!
//! There is no loop that reads. Whoever brings a message handles it, unless somebody else is handling one at that moment:
//! then it is left for them, so that nobody ever waits for a handler of another. One task per connection does what time and
//! handlers that have become tasks bring about.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::frame::Frame;
use barewire_proto::rpc::{Message, Parsed, parse};
use barewire_proto::session::{CallId, Refusal};
use bytes::Bytes;
use tokio::time::{Instant, Sleep};

use super::connection::Settings;
use super::dispatch::{AnyCaller, Dispatcher, Wants, later};
use super::outlet::{Exchange, Outlet};
use super::queue::Queue;
use super::{CallError, ConnectionEnd, EndReason, Peer};

/// A message that has come.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// What it came in, and what the answer belongs to.
    pub(crate) exchange: Exchange,
    pub(crate) caller: Option<AnyCaller>,
    pub(crate) message: Bytes,
}

/// A connection whose messages come and go in exchanges.
pub(crate) struct Exchanges<O> {
    state: Mutex<State<O>>,
    /// What is to be done by whoever has the state.
    inbox: Mutex<VecDeque<Input<O>>>,
    /// When the driver has to look at the time next. Only changed by whoever has the state.
    due: Mutex<Option<Instant>>,
    queue: Arc<Queue>,
    grace: Duration,
}

struct State<O> {
    dispatcher: Dispatcher<O>,
    /// What is not finished by then is given up.
    ends: Option<Instant>,
}

enum Input<O> {
    Message(Delivery),
    Do(Wish<O>),
}

type Wish<O> = Box<dyn FnOnce(&mut Dispatcher<O>) + Send>;

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
    /// A dispatcher without a stream, and whose output `outlet` makes.
    pub(crate) fn alone(settings: Settings, outlet: impl FnOnce(Room) -> O) -> Self {
        let queue = Arc::new(Queue::new(&settings.limits, settings.trace.clone()));
        Self::new(outlet(Room(Arc::clone(&queue))), settings, queue)
    }

    /// Handles a message that came by itself.
    pub(crate) fn deliver(
        &mut self,
        exchange: Exchange,
        caller: Option<AnyCaller>,
        bytes: &[u8],
        parsed: Parsed<'_>,
    ) {
        self.start_watch();
        (self.exchange, self.caller) = (exchange, caller);
        self.take(Frame { offset: 0, bytes, event: None }, parsed);
        // There is no stream that could be held back: what cannot be begun now is refused.
        if let Some(held) = self.held.take() {
            self.refuse_all(&held.frame);
        }
        (self.exchange, self.caller) = (Exchange::NONE, None);
        self.take_commands();
        self.start_waiting();
    }

    fn refuse_all(&mut self, frame: &[u8]) {
        match parse(frame, self.limits.depth) {
            Parsed::Message(Message::Request(request)) => {
                self.refuse(&request, Refusal::Busy, self.exchange.into());
            }
            Parsed::Batch(batch) => {
                let (group, place) = self.open_group();
                for element in batch.elements() {
                    if let Ok(Message::Request(request)) = element {
                        self.refuse(&request, Refusal::Busy, place);
                    }
                }
                self.close_entry(group);
            }
            _ => self.report("dropped a notification: too many wait to be handled"),
        }
    }

    /// Does what handlers want that have become tasks; pending until there is more of it.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.take_commands();
        self.start_waiting();
        self.queue.poll(context)
    }

    /// Begins nothing new, and tells handlers that would go on for ever.
    pub(crate) fn begin_end(&mut self) {
        self.close(EndReason::Shutdown);
    }

    /// Whether it is as if nothing had ever happened, and nobody is left who could say something through it.
    pub(crate) fn is_new(&self) -> bool {
        let nobody = Arc::strong_count(&self.queue) == HOLDERS && self.queue.closed().is_none();
        nobody && self.closing.is_none() && self.is_done() && self.output.len() == 0
    }

    /// Whether nothing is in flight either way.
    fn is_done(&self) -> bool {
        self.is_idle() && !self.session.is_waiting()
    }

    /// Where messages go.
    pub(crate) fn outlet(&mut self) -> &mut O {
        &mut self.output
    }
}

impl<O: Outlet + 'static> Exchanges<O> {
    /// A connection that serves `settings`, and whose output `outlet` makes.
    pub(crate) fn new(settings: Settings, outlet: impl FnOnce(Room) -> O) -> Self {
        let grace = settings.grace;
        let dispatcher = Dispatcher::alone(settings, outlet);
        let queue = Arc::clone(&dispatcher.queue);
        let state = Mutex::new(State { dispatcher, ends: None });
        Self { state, inbox: Mutex::default(), due: Mutex::default(), queue, grace }
    }

    /// The other side. The connection shuts down when the last one is dropped.
    pub(crate) fn peer(&self) -> Peer {
        Peer::guarded(Arc::clone(&self.queue))
    }

    /// Handles a message, or leaves it to whoever is handling one.
    pub(crate) fn deliver(&self, delivery: Delivery) {
        self.put(Input::Message(delivery));
    }

    /// Waits until all that has been brought so far is handled: whoever reads from a stream reads no faster than that.
    pub(crate) async fn caught_up(&self) {
        if self.inbox().is_empty() {
            return;
        }
        let (done, handled) = tokio::sync::oneshot::channel();
        self.put(Input::Do(Box::new(move |_| {
            let _ = done.send(());
        })));
        let _ = handled.await;
    }

    /// A call of ours will not be answered, for this reason.
    pub(crate) fn fail(&self, call: CallId, why: CallError) {
        self.put(Input::Do(Box::new(move |dispatcher| dispatcher.fail(call, why))));
    }

    /// Ends at once: handlers are stopped, and all who wait are told.
    pub(crate) fn end(&self, reason: EndReason) {
        self.put(Input::Do(Box::new(move |dispatcher| {
            dispatcher.give_up();
            drop(dispatcher.finish(reason, None));
        })));
    }

    /// Begins nothing new, and tells handlers that would go on for ever.
    pub(crate) fn begin_end(&self) {
        self.put(Input::Do(Box::new(Dispatcher::begin_end)));
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.queue.closed().is_some()
    }

    /// There may be room for what could not be begun.
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

    /// Does what there is to do. `false` if somebody else is at it: they look again before they go.
    fn work(&self) -> bool {
        loop {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(state)) => state.into_inner(),
                Err(TryLockError::WouldBlock) => return false,
            };
            let all = self.some(&mut state);
            let due = self.see_to_the_end(&mut state);
            let changed = std::mem::replace(&mut *self.due(), due) != due;
            drop(state);
            // Not before, so that the driver finds the state free.
            if changed || !all {
                self.queue.wake();
            }
            // The driver goes on with the rest, so that nobody works for others for ever.
            if !all || (self.inbox().is_empty() && (self.queue.is_empty() || self.is_over())) {
                return true;
            }
        }
    }

    /// Does some of it; `true` if that was all.
    fn some(&self, state: &mut State<O>) -> bool {
        let dispatcher = &mut state.dispatcher;
        if !self.is_over() {
            dispatcher.take_commands();
            dispatcher.start_waiting();
        }
        for _ in 0..SOME {
            let Some(input) = self.inbox().pop_front() else { return true };
            match input {
                Input::Message(Delivery { exchange, .. }) if self.is_over() => {
                    dispatcher.output.over(exchange)
                }
                Input::Message(Delivery { exchange, caller, message }) => {
                    let parsed = parse(&message, dispatcher.limits.depth);
                    dispatcher.deliver(exchange, caller, &message, parsed);
                }
                Input::Do(run) => run(dispatcher),
            }
        }
        false
    }

    /// Ends what is to end, and says when to look again.
    fn see_to_the_end(&self, state: &mut State<O>) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        let State { dispatcher, ends } = state;
        let call = dispatcher.session.next_deadline().map(|at| dispatcher.at(at));
        if dispatcher.wants != Wants::Shutdown {
            return call;
        }
        let end = *ends.get_or_insert_with(|| {
            dispatcher.begin_end();
            later(Instant::now(), self.grace)
        });
        if dispatcher.is_done() || Instant::now() >= end {
            dispatcher.finish(EndReason::Shutdown, None);
            return None;
        }
        Some(call.map_or(end, |call| call.min(end)))
    }

    /// Does what time and handlers bring about, until the connection is over.
    pub(crate) async fn drive(&self) -> ConnectionEnd {
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|context| self.poll(context, &mut timer)).await;
        self.queue.ended().await
    }

    fn poll(&self, context: &mut Context<'_>, timer: &mut Option<Pin<Box<Sleep>>>) -> Poll<()> {
        loop {
            // First, so that what others change while we look wakes us.
            self.queue.register(context);
            let looked = self.work();
            if self.is_over() {
                return Poll::Ready(());
            }
            let due = *self.due();
            // Whoever is at it wakes us if there is something left for us.
            let Some(at) = due.filter(|_| looked) else { return Poll::Pending };
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            std::task::ready!(timer.as_mut().poll(context));
            // Until somebody has seen to it, it is not due again.
            *self.due() = None;
            self.put(Input::Do(Box::new(Dispatcher::tick)));
        }
    }
}

/// Who holds the queue of a dispatcher that stands alone: the dispatcher itself, and its outlet for the room.
const HOLDERS: usize = 2;

/// So many messages are handled before others on this thread have their turn.
const SOME: usize = 32;
