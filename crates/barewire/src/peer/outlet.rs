//! Where messages go that a connection has to say: onto one stream of bytes, or each to the exchange it belongs to.

use std::time::Duration;

use barewire_proto::rpc::Code;
use barewire_proto::session::CallId;

/// Takes the messages of a connection, in the order in which they are to go out.
pub(crate) trait Outlet: Send {
    /// Whether an answer to what had no id that can be used has one of null, as JSON-RPC has it. MCP leaves it out where
    /// messages are not on a stream of bytes.
    const WRITES_NULL_ID: bool;

    /// Takes one message, which `write` appends and then says what it is. `exchange` is what it belongs to, where messages do
    /// not share one stream.
    fn send(&mut self, exchange: Exchange, write: impl FnOnce(&mut Vec<u8>) -> MessageKind);

    /// The message that was sent last holds so much of the room there is for what we send by ourselves: to be given back
    /// once it is gone.
    fn hold_permits(&mut self, permits: usize);

    /// How many bytes wait.
    fn len(&self) -> usize;

    /// Nobody waits for the answer to this call of ours any more, and the other side is not to be told.
    fn forget_call(&mut self, call: CallId) {
        let _ = call;
    }

    /// The exchange gets no answer: what it asked for was cancelled.
    fn end_exchange(&mut self, exchange: Exchange) {
        let _ = exchange;
    }

    /// Closes what carries the exchange, if it can be taken up again; the other side is to do that after this time.
    fn hang_up(&mut self, exchange: Exchange, retry: Duration) {
        let _ = (exchange, retry);
    }
}

/// Which exchange a message belongs to, where messages come and go in exchanges: one of theirs, and what is said in return.
/// On a stream of bytes all belong to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Exchange(pub(crate) u64);

impl Exchange {
    /// None in particular.
    pub(crate) const NONE: Self = Self(0);
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// The answer to what the exchange asked, and the error's code if it is one.
    Answer(Option<Code>),
    /// An answer that says no, under no id: what it answers could not be entered under its own.
    AnswerWithoutId,
    /// Something that nobody answers.
    Notification,
    /// A call of ours, or several in an array.
    Call(Option<CallId>),
    /// We no longer wait for this call of ours.
    Cancel(CallId),
}

#[cfg(feature = "http")]
impl MessageKind {
    /// Whether it is what the exchange waits for.
    pub(crate) fn is_answer(self) -> bool {
        matches!(self, Self::Answer(_) | Self::AnswerWithoutId)
    }
}
