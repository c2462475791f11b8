//! Tracks the outstanding requests in both directions: our calls to the peer, and the peer's requests to us.
//!
//! A session is one state and one transition function: [`Session::step`] takes an event and returns the effect that the
//! caller must carry out. The caller is the driver: it does the I/O and passes the time as an argument, because a
//! session does no I/O and reads no clock. Clients and servers use the same type. Ids are scoped per sender, so our ids
//! and the peer's never collide.
//!
//! ```
//! use barewire_proto::rpc::Id;
//! use barewire_proto::session::{CallTimeout, Effect, Session, SessionEvent};
//!
//! let mut session = Session::default();
//! let start = SessionEvent::StartCall { now: Default::default(), timeout: CallTimeout::default(), batch: None };
//! let Effect::SendRequest(call) = session.step(start) else { panic!() };
//! assert_eq!(session.step(SessionEvent::Response(&Id::from("unknown"))), Effect::Unknown);
//! assert_eq!(session.step(SessionEvent::Response(&call.id())), Effect::Settle(call));
//! assert_eq!(session.step(SessionEvent::Response(&call.id())), Effect::Unknown);
//! ```

mod calls;
mod conventions;
mod requests;
mod step;

use std::time::Duration;

pub use calls::{BatchId, CallId, CallTimeout};
pub use conventions::{
    CancelConvention, Conventions, ProgressConvention, ProgressTokenFinder, Signal, progress_params, progress_value,
    signal, with_progress_token, write_cancel,
};
pub use requests::{SessionLimits, Ticket};
pub use step::{Effect, Refusal, SessionEvent};

use crate::rpc::{Code, Id, Invalid, Shape};
use calls::OutstandingCalls;
use requests::InFlightRequests;

/// The state of one connection: its settings, its phase, and the outstanding requests in both directions.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    calls: OutstandingCalls,
    requests: InFlightRequests,
    phase: Phase,
}

/// The settings of a session. They do not change during the session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Whether invalid frames without an id are answered, with the id null. A server answers them; a client only
    /// reports them, because a server that prints a banner to its stdout cannot make use of an error response on its
    /// stdin.
    pub answer_unreadable: bool,
    /// The error code of the response to a cancelled request; `None` if cancelled requests are not answered.
    pub cancelled: Option<Code>,
    /// The limits on the peer's requests in flight.
    pub limits: SessionLimits,
    /// The number before the id of our first call; later calls have the numbers after it. Several sessions with one
    /// peer use different ranges of numbers.
    pub calls_after: i64,
}

/// The phase of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Both peers can send requests.
    Open,
    /// The peer has closed its stream. Messages received before that are still handled.
    Ended,
    /// The session is closing: requests in flight are finished, and no new requests are started.
    Closing,
}

impl Default for Settings {
    fn default() -> Self {
        let cancelled = Conventions::JSON_RPC.cancel.answer;
        Self { answer_unreadable: true, cancelled, limits: SessionLimits::default(), calls_after: 0 }
    }
}

setters! {
    Settings { answer_unreadable: bool, cancelled: impl Into<Option<Code>>, limits: SessionLimits, calls_after: i64 }
}

impl Default for Session {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Session {
    /// Creates a new session.
    pub fn new(settings: Settings) -> Self {
        let requests = InFlightRequests::new(settings.limits);
        let calls = OutstandingCalls::after(settings.calls_after);
        Self { settings, calls, requests, phase: Phase::Open }
    }

    /// Applies an event and returns the effect that the caller must carry out.
    #[inline]
    pub fn step(&mut self, event: SessionEvent<'_>) -> Effect {
        match event {
            // Requests of the peer.
            SessionEvent::Request { id, bytes, room, stalled } => match self.phase {
                Phase::Open | Phase::Ended => {
                    self.requests.request(id, bytes, room, stalled || self.calls.is_waiting())
                }
                Phase::Closing => Effect::Refuse(Refusal::Closing),
            },
            SessionEvent::Defer { ticket, id, bytes } => self.requests.defer(ticket, id, bytes),
            SessionEvent::Answer { ticket, id } => self.requests.answer(ticket, id),
            SessionEvent::Cancelled(id) => match self.requests.cancel(id) {
                Some(ticket) => Effect::Cancel { ticket, answer: self.settings.cancelled },
                // The request was already answered, or it never existed.
                None => Effect::Nothing,
            },
            // Our calls.
            SessionEvent::StartCall { now, timeout, batch } => match self.phase {
                Phase::Open => Effect::SendRequest(self.calls.start(now, timeout, batch)),
                Phase::Ended | Phase::Closing => Effect::Closed,
            },
            SessionEvent::Response(id) => self.calls.settle(id),
            SessionEvent::StartOfBatch => {
                self.calls.start_of_batch();
                Effect::Nothing
            }
            SessionEvent::EndOfBatch => self.calls.take_missing().map_or(Effect::Nothing, Effect::Missing),
            SessionEvent::Progress { call, now } => self.calls.progress(call, now),
            SessionEvent::AbandonCall(call) => self.calls.abandon_call(call),
            SessionEvent::Tick(now) => self.calls.take_timed_out(now).map_or(Effect::Nothing, Effect::TimedOut),
            // Both directions.
            SessionEvent::Invalid(invalid) => self.invalid(invalid),
            SessionEvent::Eof => {
                if self.phase == Phase::Open {
                    self.phase = Phase::Ended;
                }
                Effect::Nothing
            }
            SessionEvent::Close => {
                self.phase = Phase::Closing;
                Effect::Nothing
            }
        }
    }

    fn invalid(&mut self, invalid: &Invalid<'_>) -> Effect {
        match (invalid.shape, &invalid.id) {
            // No other response to this call will arrive, so the invalid response settles it.
            (Shape::Response, Some(id)) => match self.calls.settle(id) {
                Effect::Settle(call) => Effect::SettleInvalid(call),
                other => other,
            },
            (Shape::Response | Shape::Notification, _) => Effect::Nothing,
            (Shape::Request | Shape::Unknown, Some(_)) => Effect::RejectFrame,
            (Shape::Request | Shape::Unknown, None) if self.settings.answer_unreadable => Effect::RejectFrame,
            (Shape::Request | Shape::Unknown, None) => Effect::Nothing,
        }
    }

    /// Returns the time at which the next call times out. The driver must pass [`SessionEvent::Tick`] then.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.calls.next_deadline()
    }

    /// Whether any of our calls is waiting for its response.
    pub fn is_waiting(&self) -> bool {
        self.calls.is_waiting()
    }

    /// Whether a response to an abandoned call can still arrive.
    pub fn expects_late_response(&self) -> bool {
        self.calls.expects_late_response()
    }

    /// Whether a request of this many bytes would be started, parked or refused now, and not held back because too much
    /// is in flight.
    pub fn has_room_for(&self, bytes: usize, stalled: bool) -> bool {
        stalled || self.calls.is_waiting() || !self.requests.is_full(bytes)
    }

    /// Whether a request of the peer with this id is in flight. A second request with the same id must be answered with
    /// the id null.
    pub fn is_in_flight(&self, id: &Id<'_>) -> bool {
        self.requests.is_in_flight(id)
    }

    /// Returns the number of the peer's requests in flight.
    pub fn in_flight(&self) -> usize {
        self.requests.count()
    }

    /// Whether no request is in flight in either direction.
    pub fn is_idle(&self) -> bool {
        self.requests.count() == 0 && !self.calls.is_waiting()
    }
}
