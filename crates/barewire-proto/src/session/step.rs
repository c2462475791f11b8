//! The events that a session takes, and the effects that it returns.

use std::time::Duration;

use super::{BatchId, CallId, CallTimeout, Ticket};
use crate::rpc::{Code, ErrorObject, Id, Invalid};

/// An event that the driver, which does the I/O, passes to a session.
///
/// The variants have public fields and no constructors, so that every driver must provide a new field.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SessionEvent<'a> {
    /// The peer has sent a request.
    Request {
        /// The id of the request.
        id: &'a Id<'a>,
        /// The length of the request's frame, in bytes.
        bytes: usize,
        /// Whether there is room for the response, because the output buffer is below its limit.
        room: bool,
        /// Whether the peer has not read our output for a while. We must then continue to read, because the peer might
        /// be blocked on writing to us.
        stalled: bool,
    },
    /// The request that was started last is not answered immediately. From now on that request is in flight.
    Defer {
        /// The ticket with which the request was started.
        ticket: Ticket,
        /// The id of the request.
        id: &'a Id<'a>,
        /// The length of the request's frame, in bytes.
        bytes: usize,
    },
    /// The response to a request in flight is about to be written.
    Answer {
        /// The ticket with which the request was started.
        ticket: Ticket,
        /// The id of the request.
        id: &'a Id<'a>,
    },
    /// The peer has cancelled its request with this id.
    Cancelled(&'a Id<'a>),
    /// We want to send a request.
    StartCall {
        /// The current time.
        now: Duration,
        /// The timeout of the call.
        timeout: CallTimeout,
        /// The batch that the request is part of; `None` if it is sent alone.
        batch: Option<BatchId>,
    },
    /// The peer has sent a response with this id.
    Response(&'a Id<'a>),
    /// A batch of the peer begins.
    StartOfBatch,
    /// The batch of the peer has ended. The driver repeats this event until the effect is [`Effect::Nothing`].
    EndOfBatch,
    /// The peer has reported progress on one of our calls.
    Progress {
        /// The call that the progress is about.
        call: CallId,
        /// The current time.
        now: Duration,
    },
    /// We no longer wait for the response to this call.
    AbandonCall(CallId),
    /// The current time, to check the timeouts. The driver repeats this event until the effect is [`Effect::Nothing`].
    Tick(Duration),
    /// The peer has sent a frame that is not a message.
    Invalid(&'a Invalid<'a>),
    /// The peer has closed its stream, so no response to a new call can arrive.
    Eof,
    /// We are closing: from now on no new request is started.
    Close,
}

/// The effect of an event: the action that the driver must carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Do nothing.
    Nothing,
    /// Run the request's handler. The driver must answer the request before the next event, or pass
    /// [`SessionEvent::Defer`].
    Start(Ticket),
    /// Keep the request, and run its handler when there is room for the response. The request counts as in flight.
    Park(Ticket),
    /// Do not accept the request yet, and do not read past it. Pass it again when the state of the session or the
    /// output has changed.
    Hold,
    /// Refuse the request.
    Refuse(Refusal),
    /// Refuse the invalid frame with [`Invalid::reply`] and [`Invalid::error`].
    RejectFrame,
    /// Write the response. The peer can then reuse the id.
    Answer,
    /// Stop the handler of this request, which is no longer in flight.
    #[non_exhaustive]
    Cancel {
        /// The ticket with which the request was started.
        ticket: Ticket,
        /// The error code of the response, or `None` if the request is not answered.
        answer: Option<Code>,
    },
    /// Send the request with this id.
    SendRequest(CallId),
    /// Do not send the request: the session is closing or the peer has closed its stream.
    Closed,
    /// Complete this call with the response.
    Settle(CallId),
    /// Complete this call with an error, because the response to it is invalid.
    SettleInvalid(CallId),
    /// Drop the response, because the call was abandoned.
    Late,
    /// Report and drop the response, because its id matches no call.
    Unknown,
    /// Complete this call with an error, because the batch that has ended contains no response to it.
    Missing(CallId),
    /// Send the peer a cancel notification for this call.
    SendCancel(CallId),
    /// Complete this call as timed out, and send the peer a cancel notification for it.
    TimedOut(CallId),
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Another request with the same id is in flight.
    Duplicate,
    /// Too many requests, or too many bytes of requests, are in flight.
    Busy,
    /// The session is closing.
    Closing,
}

impl Refusal {
    /// Returns the error for a request with this id. For a duplicate, the data holds the id, because the response is
    /// sent [with the id null](crate::rpc::Reply::unnamed): the other request has this id.
    pub fn error(self, id: &Id<'_>) -> ErrorObject {
        #[derive(serde::Serialize)]
        #[serde(untagged)]
        enum RefusalData<'a> {
            Duplicate { rule: &'static str, id: &'a serde_json::value::RawValue, detail: &'static str },
            Reason { reason: &'static str },
        }
        match self {
            Self::Duplicate => {
                let id = serde_json::from_str(id.as_str()).expect("an id is JSON");
                let detail = "a request with this id is still in flight";
                ErrorObject::standard(Code::INVALID_REQUEST).with_data(&RefusalData::Duplicate {
                    rule: "duplicate-id",
                    id,
                    detail,
                })
            }
            Self::Busy => {
                ErrorObject::standard(Code::INTERNAL_ERROR).with_data(&RefusalData::Reason { reason: "busy" })
            }
            Self::Closing => {
                ErrorObject::standard(Code::INTERNAL_ERROR).with_data(&RefusalData::Reason { reason: "closing" })
            }
        }
    }
}
