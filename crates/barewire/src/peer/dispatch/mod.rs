//! One message -> what is done about it: handlers run, calls settled, answers put where they are written from.
//!
//! Nothing here reads, writes or waits. [`Driver`](super::driver::Driver) does, and calls in here for each frame and for each
//! command of the queue.
//!
//! ```text
//! received   a frame of the peer        ─┐                 ┌─ in_flight  calls, handlers, what waits
//! batch      an array of them            ├─ Dispatcher ────┼─ timing     clocks
//! handlers   the code that answers it    │                 ├─ closing    how far the end has come
//! commands   what we send                ─┘                 └─ opening    the first bytes of the peer
//! ```

mod batch;
mod closing;
mod commands;
mod handlers;
mod in_flight;
mod opening;
mod received;
mod timing;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::RequestParams;
use barewire_proto::session::{Conventions, ProgressTokenFinder, Session, Settings as SessionSettings};
use tokio::time::Instant;

use super::connection::Settings;
use super::context::Incoming;
use super::outlet::{Exchange, Outlet, Sent};
use super::queue::{Command, Queue};
use super::{ConnectionLimits, Service, Trace};
use crate::log::Log;
use batch::{BatchNumber, Batches};
use closing::Closing;
pub(super) use closing::EndRequest;
use in_flight::{HeldFrame, InFlight};
use opening::Opening;
use timing::Timing;
pub(crate) use timing::later;

/// The messages of one connection, in both directions.
pub(crate) struct Dispatcher<O> {
    pub(super) session: Session,
    pub(super) output: O,
    pub(super) queue: Arc<Queue>,
    pub(super) limits: ConnectionLimits,
    service: Box<dyn Service>,
    conventions: Conventions,
    tokens: ProgressTokenFinder,
    answer_unreadable: bool,
    trace: Option<Arc<dyn Trace>>,
    log: Log,
    in_flight: InFlight,
    batches: Batches,
    timing: Timing,
    closing: Closing,
    opening: Opening,
    /// The context of the last handler, to be used again if the handler is done with it.
    spare: Option<Arc<Incoming>>,
    /// The memory of the last commands, to be used again.
    commands: Vec<Command>,
}

/// The sender of a message, as the carrier of messages knows it.
pub(crate) type AnyCaller = Arc<dyn Any + Send + Sync>;

/// The origin of a frame.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// The exchange it came in, which its answer belongs to.
    pub(crate) exchange: Exchange,
    /// The sender, if the carrier knows it.
    pub(crate) caller: Option<&'a AnyCaller>,
    /// The members of its params, if the carrier has read them. See [`IncomingParams`](super::IncomingParams).
    pub(crate) params: Option<&'a RequestParams<'a>>,
}

impl Source<'_> {
    /// A stream of bytes, on which there are no exchanges.
    pub(super) const STREAM: Self = Self { exchange: Exchange::NONE, caller: None, params: None };
}

/// The place that an answer goes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Destination {
    exchange: Exchange,
    /// The batch whose array it is part of.
    batch: Option<BatchNumber>,
}

impl From<Exchange> for Destination {
    fn from(exchange: Exchange) -> Self {
        Self { exchange, batch: None }
    }
}

impl From<Source<'_>> for Destination {
    fn from(source: Source<'_>) -> Self {
        source.exchange.into()
    }
}

impl<O: Outlet> Dispatcher<O> {
    pub(super) fn new(output: O, settings: Settings, queue: Arc<Queue>) -> Self {
        let Settings { service, limits, conventions, answer_unreadable, log, trace, .. } = settings;
        let (limits, answer_unreadable) = (limits.with_room(), answer_unreadable.unwrap_or(true));
        let session = SessionSettings::default()
            .answer_unreadable(answer_unreadable)
            .cancelled(conventions.cancel.answer)
            .limits(limits.session());
        let session = Session::new(session);
        Self {
            session,
            output,
            queue,
            limits,
            service,
            conventions,
            tokens: ProgressTokenFinder::new(conventions.progress),
            answer_unreadable,
            trace,
            log,
            in_flight: InFlight::default(),
            batches: Batches::default(),
            timing: Timing::new(),
            closing: Closing::default(),
            opening: Opening::default(),
            spare: None,
            commands: Vec::new(),
        }
    }

    /// The moment of a time of the session.
    pub(super) fn at(&self, time: Duration) -> Instant {
        self.timing.at(time)
    }

    /// Starts a slice: handlers are timed from now on.
    pub(super) fn start_slice(&mut self) {
        self.timing.start_slice();
    }

    /// The time that handlers have run in this slice.
    pub(super) fn slice_elapsed(&self) -> Duration {
        self.timing.slice_elapsed()
    }

    /// The peer has taken something of what is written.
    pub(super) fn write_progressed(&mut self) {
        self.timing.set_write_stalled(false);
    }

    /// The peer has taken nothing of what is written for a while.
    pub(super) fn write_stalled(&mut self) {
        self.timing.set_write_stalled(true);
    }

    /// Whether [`Self::write_stalled`] was the last to be called.
    pub(super) fn is_write_stalled(&self) -> bool {
        self.timing.is_write_stalled()
    }

    /// Whether no frame may be taken.
    pub(super) fn is_blocked(&self) -> bool {
        self.in_flight.held.is_some() || {
            let waiting = self.output.len();
            waiting >= self.limits.hard() || (waiting >= self.limits.output && !self.must_read())
        }
    }

    /// Whether reading goes on although nothing new may be started: while a call of ours waits, its answer may stand behind what
    /// we would rather not read.
    fn must_read(&self) -> bool {
        self.session.is_waiting() || self.is_stalled()
    }

    /// Whether both sides may be waiting for each other to read: nothing of what we write has been taken for a while, and the
    /// bytes that keep the peer from it may be answers to calls that we gave up.
    fn is_stalled(&self) -> bool {
        self.timing.is_write_stalled() && self.session.expects_late_response()
    }

    /// Whether [`Self::start_waiting`] has something to start.
    pub(super) fn can_start(&self) -> bool {
        let InFlight { parked, notifications, held, .. } = &self.in_flight;
        (!parked.is_empty() && self.has_room())
            || notifications.can_start()
            || held.as_ref().is_some_and(|held| self.has_room_for(held))
    }

    /// Whether a frame that is held can be taken.
    fn has_room_for(&self, held: &HeldFrame) -> bool {
        let (bytes, waiting) = (held.len(), self.must_read());
        self.session.has_room_for(bytes, self.is_stalled())
            && (waiting || (self.has_room() && !self.in_flight.notifications.is_full(bytes, &self.limits)))
            && (waiting || !held.is_batch || self.has_room_for_batch(bytes))
    }

    /// Whether another batch may be started.
    fn has_room_for_batch(&self, bytes: usize) -> bool {
        self.batches.has_room(bytes, self.limits.request_bytes)
    }

    /// Whether something new may be started that will be answered.
    fn has_room(&self) -> bool {
        self.output.len() + self.queue.bytes() < self.limits.output
    }

    /// Whether nothing of the peer is being worked on.
    pub(super) fn is_idle(&self) -> bool {
        self.session.in_flight() == 0 && !self.in_flight.has_waiting() && self.queue.is_empty()
    }

    /// Logs something about the connection as a whole.
    pub(super) fn report(&mut self, what: &str) {
        self.log.report(format_args!("connection {what}"));
    }

    /// Puts one message where it is written from: on the wire, or into the array that it is part of.
    #[inline]
    fn send(&mut self, destination: Destination, write: impl FnOnce(&mut Vec<u8>) -> Sent) {
        match destination.batch {
            None => self.output.send(destination.exchange, write),
            Some(number) => self.batches.push(number, write),
        }
    }
}
