//! Handles one message at a time: starts a handler, completes a call, or adds an answer to the output.
//!
//! This module does no IO and never waits. [`Driver`](super::driver::Driver) does the IO and the waiting, and calls the
//! dispatcher for each frame and for the commands of the queue.
//!
//! ```text
//! received   a frame of the peer        ─┐                 ┌─ in_flight     calls, handlers, waiting messages
//! batch      an array of messages        ├─ Dispatcher ────┼─ timing        clocks
//! handlers   the handler of a message    │                 ├─ closing       the end of the connection
//! commands   messages of ours           ─┘                 └─ first_output  the first output of the peer
//! ```

mod batch;
mod closing;
mod commands;
mod first_output;
mod handlers;
mod in_flight;
mod received;
mod timing;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::RequestParams;
use barewire_proto::session::{Conventions, ProgressTokenFinder, Session, Settings as SessionSettings};
use tokio::time::Instant;

use super::connection::ConnectionSettings;
use super::context::IncomingMessage;
use super::outlet::{Exchange, MessageKind, Outlet};
use super::queue::{Command, Queue};
use super::{ConnectionLimits, Service, Trace};
use crate::log::Log;
use batch::{BatchNumber, Batches};
use closing::ClosingState;
pub(super) use closing::EndRequest;
use first_output::FirstOutput;
use in_flight::{HeldFrame, InFlight};
use timing::Timing;
pub(crate) use timing::later;

/// The state of one connection's messages, in both directions.
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
    closing: ClosingState,
    first_output: FirstOutput,
    /// The message of the last handler. The value is reused for the next message if the handler has dropped it.
    spare: Option<Arc<IncomingMessage>>,
    /// An empty list, kept to reuse its memory for the next commands.
    commands: Vec<Command>,
}

/// Information about the sender of a message. The carrier, such as HTTP, chooses its type.
pub(crate) type AnyCaller = Arc<dyn Any + Send + Sync>;

/// The origin of a frame.
#[derive(Clone, Copy)]
pub(super) struct FrameSource<'a> {
    /// The exchange in which the frame arrived. The answer is sent to the same exchange.
    pub(crate) exchange: Exchange,
    /// Information about the sender, if the carrier provides it.
    pub(crate) caller: Option<&'a AnyCaller>,
    /// The params that MCP defines, if the carrier has already read them. See
    /// [`IncomingParams`](super::IncomingParams).
    pub(crate) params: Option<&'a RequestParams<'a>>,
}

impl FrameSource<'_> {
    /// The source of all frames of a byte stream, which has no exchanges.
    pub(super) const STREAM: Self = Self { exchange: Exchange::NONE, caller: None, params: None };
}

/// The destination of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Destination {
    exchange: Exchange,
    /// The batch to whose array of answers the answer is added, if any.
    batch: Option<BatchNumber>,
}

impl From<Exchange> for Destination {
    fn from(exchange: Exchange) -> Self {
        Self { exchange, batch: None }
    }
}

impl From<FrameSource<'_>> for Destination {
    fn from(source: FrameSource<'_>) -> Self {
        source.exchange.into()
    }
}

impl<O: Outlet> Dispatcher<O> {
    pub(super) fn new(output: O, settings: ConnectionSettings, queue: Arc<Queue>) -> Self {
        let ConnectionSettings { service, limits, conventions, answer_unreadable, log, trace, calls_after, .. } =
            settings;
        let (limits, answer_unreadable) = (limits.with_minimums(), answer_unreadable.unwrap_or(true));
        let session = SessionSettings::default()
            .answer_unreadable(answer_unreadable)
            .cancelled(conventions.cancel.answer)
            .limits(limits.session())
            .calls_after(calls_after);
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
            closing: ClosingState::default(),
            first_output: FirstOutput::default(),
            spare: None,
            commands: Vec::new(),
        }
    }

    /// Converts a session time, which counts from the start of the session, to an instant.
    pub(super) fn at(&self, time: Duration) -> Instant {
        self.timing.at(time)
    }

    /// Starts a time slice, which limits how long handlers run before output is written.
    pub(super) fn start_slice(&mut self) {
        self.timing.start_slice();
    }

    /// Whether handlers have used up this time slice.
    pub(super) fn is_slice_over(&self) -> bool {
        self.timing.is_slice_over()
    }

    /// Records that the peer has read some output.
    pub(super) fn write_progressed(&mut self) {
        self.timing.set_write_stalled(false);
    }

    /// Records that the peer has read no output for a while.
    pub(super) fn write_stalled(&mut self) {
        self.timing.set_write_stalled(true);
    }

    /// Whether the peer has read no output for a while.
    pub(super) fn is_write_stalled(&self) -> bool {
        self.timing.is_write_stalled()
    }

    /// Whether no frame may be handled now, because an earlier frame is held back or too much output is pending.
    pub(super) fn is_blocked(&self) -> bool {
        self.in_flight.held.is_some() || {
            let waiting = self.output.len();
            waiting >= self.limits.hard_output_limit() || (waiting >= self.limits.output && !self.must_read())
        }
    }

    /// Whether frames must be handled even if no new work may be started. While a call of ours waits, its answer might
    /// arrive after other frames.
    fn must_read(&self) -> bool {
        self.session.is_waiting() || self.is_stalled()
    }

    /// Whether both sides might be waiting for each other to read: the peer has read nothing for a while, and might be
    /// blocked writing answers to calls that this side has abandoned.
    fn is_stalled(&self) -> bool {
        self.timing.is_write_stalled() && self.session.expects_late_response()
    }

    /// Whether [`Self::start_waiting`] has work to start.
    pub(super) fn can_start(&self) -> bool {
        let InFlight { parked, notifications, held, .. } = &self.in_flight;
        (!parked.is_empty() && self.has_room())
            || notifications.can_start()
            || held.as_ref().is_some_and(|held| self.has_room_for(held))
    }

    /// Whether a held frame can be handled now.
    fn has_room_for(&self, held: &HeldFrame) -> bool {
        let (bytes, waiting) = (held.len(), self.must_read());
        self.session.has_room_for(bytes, self.is_stalled())
            && (waiting || (self.has_room() && !self.in_flight.notifications.is_full(bytes, &self.limits)))
            && (waiting || !held.is_batch || self.has_room_for_batch(bytes))
    }

    /// Whether another batch of `bytes` bytes may be started.
    fn has_room_for_batch(&self, bytes: usize) -> bool {
        self.batches.has_room(bytes, self.limits.request_bytes)
    }

    /// Whether so little output is pending that a new request may be started.
    fn has_room(&self) -> bool {
        self.output.len() + self.queue.bytes() < self.limits.output
    }

    /// Whether no message of the peer is in progress and the queue is empty.
    pub(super) fn is_idle(&self) -> bool {
        self.session.in_flight() == 0 && !self.in_flight.has_waiting() && self.queue.is_empty()
    }

    /// Logs a message about the connection, not about a single frame.
    pub(super) fn report(&mut self, what: &str) {
        self.log.report(format_args!("connection {what}"));
    }

    /// Adds one message to the output, or to the array of its batch.
    #[inline]
    fn send(&mut self, destination: Destination, write: impl FnOnce(&mut Vec<u8>) -> MessageKind) {
        match destination.batch {
            None => self.output.send(destination.exchange, write),
            Some(number) => self.batches.push(number, write),
        }
    }
}
