//! Messages -> who owes whom: what we asked, what we owe, what was cancelled, whether we are closing.
//!
//! One state and one transition function: [`Session::step`] takes what happened and says what is to be done about it. It
//! is symmetric and knows no roles; ids are scoped per sender, so ours and theirs never meet. Nothing here writes, waits or
//! looks at a clock: whoever drives it does the writing, and time comes in as an argument where it matters.
//!
//! ```
//! use barewire_proto::rpc::Id;
//! use barewire_proto::session::{Effect, SessionEvent, CallTimeout, Session};
//!
//! let mut session = Session::default();
//! let Effect::SendRequest(call) = session.step(SessionEvent::StartCall { now: Default::default(), timeout: CallTimeout::default(), batch: None })
//! else { panic!() };
//! assert_eq!(session.step(SessionEvent::Response(&Id::from("who?"))), Effect::Unknown);
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

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    calls: OutstandingCalls,
    requests: InFlightRequests,
    phase: Phase,
}

/// What does not change while a session lasts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Whether frames that name nobody to answer are answered, with an id of null. A server does; a client only reports
    /// them, because writing errors into a server's stdin for its banner lines helps nobody.
    pub answer_unreadable: bool,
    /// What a request that its sender has cancelled is answered with, if it is answered at all.
    pub cancelled: Option<Code>,
    /// How much of theirs may be in flight.
    pub limits: SessionLimits,
}

/// How far the session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Both sides may ask.
    Open,
    /// Nothing more comes from them, but something that came may still have to be taken.
    Ended,
    /// What is in flight is finished, nothing new is begun.
    Closing,
}

impl Default for Settings {
    fn default() -> Self {
        let cancelled = Conventions::JSON_RPC.cancel.answer;
        Self { answer_unreadable: true, cancelled, limits: SessionLimits::default() }
    }
}

setters! { Settings { answer_unreadable: bool, cancelled: impl Into<Option<Code>>, limits: SessionLimits } }

impl Default for Session {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Session {
    /// A session in which nothing has happened yet.
    pub fn new(settings: Settings) -> Self {
        let requests = InFlightRequests::new(settings.limits);
        Self { settings, calls: OutstandingCalls::default(), requests, phase: Phase::Open }
    }

    /// The transition: something has happened, and this is to be done about it.
    #[inline]
    pub fn step(&mut self, event: SessionEvent<'_>) -> Effect {
        match event {
            // Theirs.
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
                // It has been answered in the meantime, or never was.
                None => Effect::Nothing,
            },
            // Ours.
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
            // Neither's.
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
            // An answer that cannot be read is still the only one there will be.
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

    /// When the next call of ours runs out of time: [`SessionEvent::Tick`] is due then.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.calls.next_deadline()
    }

    /// Whether a call of ours waits for its answer.
    pub fn is_waiting(&self) -> bool {
        self.calls.is_waiting()
    }

    /// Whether an answer may still come to a call that we gave up.
    pub fn expects_late_response(&self) -> bool {
        self.calls.expects_late_response()
    }

    /// Whether a request of so many bytes would not be held back because too much is in flight.
    pub fn has_room_for(&self, bytes: usize, stalled: bool) -> bool {
        stalled || self.calls.is_waiting() || !self.requests.is_full(bytes)
    }

    /// Whether a request of theirs with this id is in flight: whatever else comes under it is not answered under it.
    pub fn is_in_flight(&self, id: &Id<'_>) -> bool {
        self.requests.is_in_flight(id)
    }

    /// How many requests of theirs are in flight.
    pub fn in_flight(&self) -> usize {
        self.requests.count()
    }

    /// Whether nothing is in flight, in either direction.
    pub fn is_idle(&self) -> bool {
        self.requests.count() == 0 && !self.calls.is_waiting()
    }
}
