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
use super::outlet::{Exchange, Outlet};
use super::queue::Queue;
use super::turn::{AnyCaller, Turn, Wants, later};
use super::{CallError, Closed, Peer, Reason};

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
    turn: Mutex<Turn<O>>,
    /// What is to be done by whoever has the turn.
    inbox: Mutex<VecDeque<Input<O>>>,
    /// When a call of ours runs out of time, as the driver knows it.
    due: Mutex<Option<Instant>>,
    queue: Arc<Queue>,
    grace: Duration,
}

enum Input<O> {
    Message(Delivery),
    Do(Box<dyn FnOnce(&mut Turn<O>) + Send>),
}

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

impl<O: Outlet> Turn<O> {
    /// A turn without a stream, and whose output `outlet` makes.
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
                for element in batch.elements() {
                    if let Ok(Message::Request(request)) = element {
                        self.refuse(&request, Refusal::Busy, self.exchange.into());
                    }
                }
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
        self.close(Reason::Shutdown);
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
        let turn = Turn::alone(settings, outlet);
        let queue = Arc::clone(&turn.queue);
        Self { turn: Mutex::new(turn), inbox: Mutex::default(), due: Mutex::default(), queue, grace }
    }

    /// The other side. The connection shuts down when the last one is dropped.
    pub(crate) fn peer(&self) -> Peer {
        Peer::guarded(Arc::clone(&self.queue))
    }

    /// Handles a message, or leaves it to whoever is handling one.
    pub(crate) fn deliver(&self, delivery: Delivery) {
        self.put(Input::Message(delivery));
    }

    /// A call of ours will not be answered, for this reason.
    pub(crate) fn fail(&self, call: CallId, why: CallError) {
        self.put(Input::Do(Box::new(move |turn| turn.fail(call, why))));
    }

    /// Ends at once: handlers are stopped, and all who wait are told.
    pub(crate) fn end(&self, reason: Reason) {
        self.put(Input::Do(Box::new(move |turn| drop(turn.finish(reason, None)))));
        // The driver holds what the connection was made of.
        self.queue.wake();
    }

    /// Begins nothing new, and tells handlers that would go on for ever.
    pub(crate) fn begin_end(&self) {
        self.put(Input::Do(Box::new(Turn::begin_end)));
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.queue.closed().is_some()
    }

    fn put(&self, input: Input<O>) {
        self.inbox().push_back(input);
        self.work();
    }

    fn inbox(&self) -> MutexGuard<'_, VecDeque<Input<O>>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what there is to do, unless somebody else is at it: they look again before they go.
    fn work(&self) {
        loop {
            let mut turn = match self.turn.try_lock() {
                Ok(turn) => turn,
                Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            if self.queue.closed().is_none() {
                turn.take_commands();
                turn.start_waiting();
            }
            loop {
                let Some(input) = self.inbox().pop_front() else { break };
                match input {
                    Input::Message(_) if self.queue.closed().is_some() => {}
                    Input::Message(Delivery { exchange, caller, message }) => {
                        let parsed = parse(&message, turn.limits.depth);
                        turn.deliver(exchange, caller, &message, parsed);
                    }
                    Input::Do(run) => run(&mut turn),
                }
            }
            self.note_due(&turn);
            drop(turn);
            let is_done = self.inbox().is_empty() && (self.queue.is_empty() || self.is_over());
            if is_done {
                return;
            }
        }
    }

    /// Tells the driver when it has to look at the time next.
    fn note_due(&self, turn: &Turn<O>) {
        let next = turn.session.next_deadline().map(|at| turn.at(at));
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        // It also begins the end, and sees that all is done.
        let ends = turn.wants == Wants::Shutdown && (turn.closing.is_none() || turn.is_done());
        if std::mem::replace(&mut *due, next) != next || ends {
            self.queue.wake();
        }
    }

    /// Does what time and handlers bring about, until the connection is over.
    pub(crate) async fn drive(&self) -> Closed {
        let (mut timer, mut ends): (Option<Pin<Box<Sleep>>>, _) = (None, None);
        poll_fn(|context| self.poll(context, &mut timer, &mut ends)).await;
        self.queue.ended().await
    }

    fn poll(
        &self,
        context: &mut Context<'_>,
        timer: &mut Option<Pin<Box<Sleep>>>,
        ends: &mut Option<Instant>,
    ) -> Poll<()> {
        loop {
            self.work();
            // First, so that what others change while we look wakes us.
            if self.queue.poll(context).is_ready() && !self.is_over() {
                continue;
            }
            if self.is_over() {
                return Poll::Ready(());
            }
            let grace = self.grace;
            let mut due = *self.due.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(mut turn) = self.turn.try_lock()
                && turn.wants == Wants::Shutdown
            {
                let end = *ends.get_or_insert_with(|| {
                    turn.begin_end();
                    later(Instant::now(), grace)
                });
                if turn.is_done() || Instant::now() >= end {
                    turn.finish(Reason::Shutdown, None);
                    return Poll::Ready(());
                }
                due = Some(due.map_or(end, |due| due.min(end)));
            }
            let Some(at) = due else { return Poll::Pending };
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            std::task::ready!(timer.as_mut().poll(context));
            self.put(Input::Do(Box::new(Turn::tick)));
        }
    }
}
