//! Messages -> who owes whom: what we asked, what we owe, what was cancelled, whether we are closing.
//!
//! One state and one transition function: [`Session::step`] takes what happened and says what is to be done about it. It
//! is symmetric and knows no roles; ids are scoped per sender, so ours and theirs never meet. Nothing here writes, waits or
//! looks at a clock: whoever drives it does the writing, and time comes in as an argument where it matters.
//!
//! ```
//! use barewire_proto::rpc::Id;
//! use barewire_proto::session::{Effect, Event, Patience, Session};
//!
//! let mut session = Session::default();
//! let Effect::Asked(call) = session.step(Event::Ask { now: Default::default(), patience: Patience::default(), batch: None })
//! else { panic!() };
//! assert_eq!(session.step(Event::Response(&Id::from("who?"))), Effect::Unknown);
//! assert_eq!(session.step(Event::Response(&call.id())), Effect::Settle(call));
//! assert_eq!(session.step(Event::Response(&call.id())), Effect::Unknown);
//! ```

mod asked;
mod conventions;
mod event;
mod owed;

use std::time::Duration;

pub use asked::{BatchId, CallId, Patience};
pub use conventions::{
    CancelConvention, Conventions, ProgressConvention, Signal, Tokens, progress_params, progress_value, signal,
    with_progress_token, write_cancel,
};
pub use event::{Effect, Event, Refusal};
pub use owed::{SessionLimits, Ticket};

use crate::rpc::{Code, Id, Invalid, Shape};
use asked::Asked;
use owed::Owed;

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    asked: Asked,
    owed: Owed,
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
        let owed = Owed::new(settings.limits);
        Self { settings, asked: Asked::default(), owed, phase: Phase::Open }
    }

    /// The transition: something has happened, and this is to be done about it.
    #[inline]
    pub fn step(&mut self, event: Event<'_>) -> Effect {
        match event {
            // Theirs.
            Event::Request { id, bytes, room, stalled } => match self.phase {
                Phase::Open | Phase::Ended => self.owed.request(id, bytes, room, stalled || self.asked.is_waiting()),
                Phase::Closing => Effect::Refuse(Refusal::Closing),
            },
            Event::Defer { ticket, id, bytes } => self.owed.defer(ticket, id, bytes),
            Event::Answer { ticket, id } => self.owed.answer(ticket, id),
            Event::Cancelled(id) => match self.owed.cancel(id) {
                Some(ticket) => Effect::Cancel { ticket, answer: self.settings.cancelled },
                // It has been answered in the meantime, or never was.
                None => Effect::Nothing,
            },
            // Ours.
            Event::Ask { now, patience, batch } => match self.phase {
                Phase::Open => Effect::Asked(self.asked.ask(now, patience, batch)),
                Phase::Ended | Phase::Closing => Effect::Closed,
            },
            Event::Response(id) => self.asked.settle(id),
            Event::StartOfBatch => {
                self.asked.start_of_batch();
                Effect::Nothing
            }
            Event::EndOfBatch => self.asked.missing().map_or(Effect::Nothing, Effect::Missing),
            Event::Progress { call, now } => self.asked.progress(call, now),
            Event::Forget(call) => self.asked.forget(call),
            Event::Tick(now) => self.asked.late(now).map_or(Effect::Nothing, Effect::TimedOut),
            // Neither's.
            Event::Invalid(invalid) => self.invalid(invalid),
            Event::Eof => {
                if self.phase == Phase::Open {
                    self.phase = Phase::Ended;
                }
                Effect::Nothing
            }
            Event::Close => {
                self.phase = Phase::Closing;
                Effect::Nothing
            }
        }
    }

    fn invalid(&mut self, invalid: &Invalid<'_>) -> Effect {
        match (invalid.shape, &invalid.id) {
            // An answer that cannot be read is still the only one there will be.
            (Shape::Response, Some(id)) => match self.asked.settle(id) {
                Effect::Settle(call) => Effect::Fault(call),
                other => other,
            },
            (Shape::Response | Shape::Notification, _) => Effect::Nothing,
            (Shape::Request | Shape::Unknown, Some(_)) => Effect::Reject,
            (Shape::Request | Shape::Unknown, None) if self.settings.answer_unreadable => Effect::Reject,
            (Shape::Request | Shape::Unknown, None) => Effect::Nothing,
        }
    }

    /// When the next call of ours runs out of time: [`Event::Tick`] is due then.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.asked.next_deadline()
    }

    /// Whether a call of ours waits for its answer.
    pub fn is_waiting(&self) -> bool {
        self.asked.is_waiting()
    }

    /// Whether an answer may still come to a call that we gave up.
    pub fn expects_late(&self) -> bool {
        self.asked.expects_late()
    }

    /// Whether a request of so many bytes would not be held back because too much is in flight.
    pub fn would_take(&self, bytes: usize, stalled: bool) -> bool {
        stalled || self.asked.is_waiting() || !self.owed.is_full(bytes)
    }

    /// Whether a request of theirs with this id is in flight: whatever else comes under it is not answered under it.
    pub fn is_in_flight(&self, id: &Id<'_>) -> bool {
        self.owed.is_in_flight(id)
    }

    /// How many requests of theirs are in flight.
    pub fn owes(&self) -> usize {
        self.owed.count()
    }

    /// Whether nothing is in flight, in either direction.
    pub fn is_idle(&self) -> bool {
        self.owed.count() == 0 && !self.asked.is_waiting()
    }
}
