//! What can happen to a session, and what can follow from it.

use std::time::Duration;

use super::{BatchId, CallId, CallTimeout, Ticket};
use crate::rpc::{Code, ErrorObject, Id, Invalid};

/// Something that happened.
///
/// Its variants are built by their fields: a fact that is added to one is a fact that every driver has to give.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SessionEvent<'a> {
    /// A request of theirs came.
    Request {
        /// Its id.
        id: &'a Id<'a>,
        /// The length of its frame.
        bytes: usize,
        /// Whether an answer could be written: no more waits than may.
        room: bool,
        /// Whether reading has to go on in any case: they have not read for a while, and may be waiting for us to.
        stalled: bool,
    },
    /// The request that was started last is not answered at once: from now on it is in flight.
    Defer {
        /// What it was started with.
        ticket: Ticket,
        /// Its id.
        id: &'a Id<'a>,
        /// The length of its frame.
        bytes: usize,
    },
    /// A request in flight has its answer, which is about to be written.
    Answer {
        /// What it was started with.
        ticket: Ticket,
        /// Its id.
        id: &'a Id<'a>,
    },
    /// They no longer wait for the answer to this one.
    Cancelled(&'a Id<'a>),
    /// We want to ask.
    StartCall {
        /// The time.
        now: Duration,
        /// How long we would wait.
        timeout: CallTimeout,
        /// The batch it is part of.
        batch: Option<BatchId>,
    },
    /// A response came.
    Response(&'a Id<'a>),
    /// An array begins.
    StartOfBatch,
    /// It has ended. To be repeated until nothing follows from it.
    EndOfBatch,
    /// One of our calls is being worked on.
    Progress {
        /// Which.
        call: CallId,
        /// The time.
        now: Duration,
    },
    /// We no longer wait for the answer to this one.
    AbandonCall(CallId),
    /// Time has passed. To be repeated until nothing follows from it.
    Tick(Duration),
    /// A frame came that is no message.
    Invalid(&'a Invalid<'a>),
    /// They have sent their last byte: nothing we ask could be answered.
    Eof,
    /// From now on nothing new is begun.
    Close,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Run the request's handler. Either answer before the next event, or say [`SessionEvent::Defer`].
    Start(Ticket),
    /// Keep the request and run its handler when there is room. It is in flight.
    Park(Ticket),
    /// Do not take the request yet, and read nothing behind it; offer it again when something has changed.
    Hold,
    /// Refuse the request.
    Refuse(Refusal),
    /// Refuse the frame that is no message, as [`Invalid::reply`] and [`Invalid::error`] have it.
    RejectFrame,
    /// Write the answer: the id is free again.
    Answer,
    /// Stop the handler of this request. It is forgotten already.
    #[non_exhaustive]
    Cancel {
        /// What it was started with.
        ticket: Ticket,
        /// What to answer, if anything.
        answer: Option<Code>,
    },
    /// Ask under this id.
    SendRequest(CallId),
    /// It is too late to ask.
    Closed,
    /// This call has its answer.
    Settle(CallId),
    /// This call has been answered with something that is no response.
    SettleInvalid(CallId),
    /// An answer to what we no longer wait for. Drop it.
    Late,
    /// An answer to nothing we asked. Report and drop it.
    Unknown,
    /// An answer to this call should have been in the array that has just ended, and was not.
    Missing(CallId),
    /// Tell them that we no longer wait for this call.
    SendCancel(CallId),
    /// This call has waited long enough. Tell them too.
    TimedOut(CallId),
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its id is in flight.
    Duplicate,
    /// Too much is in flight.
    Busy,
    /// We are closing.
    Closing,
}

impl Refusal {
    /// What the sender of a request with this id is told. Of a duplicate the id is in the data, because the answer goes out
    /// [without it](crate::rpc::Reply::unnamed): it belongs to the other request.
    pub fn error(self, id: &Id<'_>) -> ErrorObject {
        #[derive(serde::Serialize)]
        #[serde(untagged)]
        enum Data<'a> {
            Duplicate { rule: &'static str, id: &'a serde_json::value::RawValue, detail: &'static str },
            Reason { reason: &'static str },
        }
        match self {
            Self::Duplicate => {
                let id = serde_json::from_str(id.as_str()).expect("an id is JSON");
                let detail = "a request with this id is still in flight";
                ErrorObject::standard(Code::INVALID_REQUEST).with_data(&Data::Duplicate {
                    rule: "duplicate-id",
                    id,
                    detail,
                })
            }
            Self::Busy => ErrorObject::standard(Code::INTERNAL_ERROR).with_data(&Data::Reason { reason: "busy" }),
            Self::Closing => ErrorObject::standard(Code::INTERNAL_ERROR).with_data(&Data::Reason { reason: "closing" }),
        }
    }
}
