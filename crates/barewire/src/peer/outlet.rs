//! The destination of outgoing messages: one stream of bytes, or the HTTP exchange that each message belongs to.

use std::time::Duration;

use barewire_proto::rpc::Code;
use barewire_proto::session::CallId;

/// The destination of a connection's outgoing messages. It writes them in the order in which they are sent.
pub(crate) trait Outlet: Send {
    /// Whether an error response to a frame without a usable id contains an id of null, as JSON-RPC requires. Over
    /// HTTP, MCP leaves the id out.
    const WRITES_NULL_ID: bool;

    /// Sends one message: `write` appends the message to the buffer and returns its kind. `exchange` is the exchange
    /// that the message belongs to; a byte stream ignores it.
    fn send(&mut self, exchange: Exchange, write: impl FnOnce(&mut Vec<u8>) -> MessageKind);

    /// Attaches permits for output bytes to the message sent last. They are returned after that message is written.
    fn hold_permits(&mut self, permits: usize);

    /// The number of bytes that wait to be written.
    fn len(&self) -> usize;

    /// Called when a call of ours was abandoned without sending a cancellation to the peer.
    fn forget_call(&mut self, call: CallId) {
        let _ = call;
    }

    /// Ends an exchange without an answer, because its request was cancelled.
    fn end_exchange(&mut self, exchange: Exchange) {
        let _ = exchange;
    }

    /// Closes the stream of the exchange, if the peer can resume it. The peer reconnects after `retry`.
    fn hang_up(&mut self, exchange: Exchange, retry: Duration) {
        let _ = (exchange, retry);
    }
}

/// The number of an exchange, which is one message of the peer over HTTP, together with all messages sent in return. On
/// a byte stream, all messages have [`Self::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Exchange(pub(crate) u64);

impl Exchange {
    /// The number for messages that belong to no exchange.
    pub(crate) const NONE: Self = Self(0);
}

/// The kind of an outgoing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// A response to the request of the exchange, with the error code if the response is an error.
    Answer(Option<Code>),
    /// An error response without an id, to a frame whose own id is missing, unusable or already in flight.
    AnswerWithoutId,
    /// A notification.
    Notification,
    /// A call of ours, with its id; `None` for a batch of calls.
    Call(Option<CallId>),
    /// The cancellation of a call of ours.
    Cancel(CallId),
}

#[cfg(feature = "http")]
impl MessageKind {
    /// Whether the message answers the request of its exchange.
    pub(crate) fn is_answer(self) -> bool {
        matches!(self, Self::Answer(_) | Self::AnswerWithoutId)
    }
}
