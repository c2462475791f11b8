//! Groups frames and events into conversations and operations: requests with responses, rounds, progress, cancellation.
//!
//! Nothing is checked here. A request is paired with the response that has its id, even if one of them is malformed;
//! the checks report such errors.

mod conversation;
mod http;
mod operation;
mod pair;
mod request;
mod sessions;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Parsed;
use barewire_proto::transcript::Stream;

use crate::frames::{MessageResult, WireFrame, WireItem};
use pair::{PairResult, PairingContext};
use sessions::PostedRequests;
use state::ConversationState;

pub use conversation::{Conversation, Handshake, Participant, member};
pub use http::HttpExchange;
use http::OpenExchanges;
pub use operation::{MessagePosition, Operation, OperationResponse, ResponseOutcome, Round};

/// Pairs messages as they arrive, and keeps the unfinished operations.
#[derive(Default)]
pub struct OperationTracker {
    conversations: HashMap<String, ConversationState>,
    /// The number of conversations that were kept when idle ones were last forgotten. The next time is when there are
    /// twice as many, so that forgetting takes constant time per message on average.
    busy_conversations: usize,
    exchanges: OpenExchanges,
    /// Maps the number of each unfinished operation to the operation.
    open: BTreeMap<u64, Operation>,
    /// The numbers of operations that wait for a further request with the input that the server asked for.
    suspended: VecDeque<u64>,
    /// Requests whose responses may come in another exchange.
    posted: PostedRequests,
    /// The exchange that ended with the last item, and its channel.
    ended: Option<(String, HttpExchange)>,
    /// The operations in the `ended` exchange, if its response has an error status.
    refused: Vec<Operation>,
    last: u64,
}

/// A message and its context. The message is a whole frame, or one element of a batch.
#[non_exhaustive]
pub struct TrackedMessage<'a> {
    /// The frame that contains the message.
    pub frame: &'a WireFrame<'a>,
    /// The index in the batch, from 0; `None` if the message is not in a batch.
    pub element: Option<usize>,
    /// The text of this message alone; `None` if the message was too long to keep.
    pub text: Option<&'a [u8]>,
    /// The message, or the reason why it is invalid.
    pub message: &'a MessageResult<'a>,
    /// The side that sent the message.
    pub sender: Side,
    /// The conversation of the message; its state already includes this message.
    pub conversation: &'a Conversation,
    /// The HTTP exchange that the message was sent in.
    pub exchange: Option<&'a HttpExchange>,
    /// The relation of this message to earlier messages.
    pub relation: Relation<'a>,
}

/// The relation of a message to earlier messages.
#[derive(Clone, Copy)]
#[expect(clippy::exhaustive_enums, reason = "code that receives messages must handle every relation")]
pub enum Relation<'a> {
    /// The message is related to no earlier message.
    None,
    /// The message begins an operation, or the next round of an operation.
    Request {
        /// The operation.
        operation: &'a Operation,
        /// Whether an earlier request from this sender with the same id is still unanswered.
        id_in_use: bool,
    },
    /// The message answers a request.
    Response {
        /// The operation.
        operation: &'a Operation,
        /// The time since the request in this round.
        latency: Option<Duration>,
        /// Whether the requester had already cancelled the request.
        late: bool,
    },
    /// The message reports the progress of an operation.
    Progress {
        /// The operation.
        operation: &'a Operation,
    },
    /// The message cancels an operation.
    Cancellation {
        /// The operation.
        operation: &'a Operation,
    },
    /// An error without an id, in response to a message without a readable id.
    RefusesUnidentified,
    /// A second response to the same request.
    Duplicate,
    /// A response that matches no earlier request.
    Unsolicited,
}

impl OperationTracker {
    /// Creates a tracker without any operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles the next item, and calls `each` with every message in the item.
    pub fn take(&mut self, item: &WireItem<'_>, each: &mut dyn FnMut(&TrackedMessage<'_>)) {
        self.ended = None;
        self.refused.clear();
        match item {
            WireItem::Header(_) | WireItem::Stderr(_) => {}
            WireItem::Endpoint { channel, uri } => self.exchanges.endpoint(channel, uri),
            WireItem::Event(event) => self.event(event),
            WireItem::Frame(frame) => match &frame.parsed {
                Parsed::Batch(_) => {
                    for (index, (element, text)) in frame.elements().enumerate() {
                        self.message(frame, Some(index), Some(text), &element, each);
                    }
                }
                Parsed::Message(message) => self.message(frame, None, frame.bytes, &Ok(message.clone()), each),
                Parsed::Invalid(invalid) => self.message(frame, None, frame.bytes, &Err(invalid.clone()), each),
            },
        }
    }

    /// Returns the operations that are unanswered or wait for their next round, in the order in which they began.
    pub fn open(&self) -> impl Iterator<Item = &Operation> {
        self.open.values()
    }

    /// Returns the HTTP exchange of a channel, even if the exchange has just ended.
    pub fn exchange(&self, channel: &str) -> Option<&HttpExchange> {
        let ended = self.ended.as_ref().filter(|(name, _)| name == channel).map(|(_, exchange)| exchange);
        self.exchanges.get(channel).or(ended)
    }

    /// Returns the operations in the exchange that has just ended with an error status.
    pub fn refused(&self) -> &[Operation] {
        &self.refused
    }

    fn message(
        &mut self,
        frame: &WireFrame<'_>,
        element: Option<usize>,
        text: Option<&[u8]>,
        message: &MessageResult<'_>,
        each: &mut dyn FnMut(&TrackedMessage<'_>),
    ) {
        let channel = frame.place.map_or("", |place| place.channel);
        let stream = frame.place.map_or(Stream::ToServer, |place| place.stream);
        let sender = if stream == Stream::ToServer { Side::Client } else { Side::Server };
        let length = text.map_or(frame.length, |text| text.len() as u64);
        let at = MessagePosition { frame: frame.number, time: frame.place.and_then(|place| place.time), length };
        let session = self.exchanges.get(channel).and_then(|exchange| exchange.session.as_deref());
        let name = session.unwrap_or(channel).to_owned();
        let over_http = self.exchanges.get(channel).is_some();
        if self.conversations.len() > MAX_CONVERSATIONS.max(2 * self.busy_conversations) {
            self.conversations.retain(|known, conversation| *known == name || !conversation.is_idle());
            self.busy_conversations = self.conversations.len();
        }
        let facts = &mut self.conversations.entry(name.clone()).or_default().facts;
        if facts.name != name {
            facts.name.clone_from(&name);
        }
        facts.over_http = over_http;

        let pair = self.pair(PairingContext { name: &name, channel, sender, at }, message);
        let conversation = &self.conversations[&name].facts;
        let operation = |number: u64| &self.open[&number];
        let relation = match pair {
            PairResult::None => Relation::None,
            PairResult::RefusesUnidentified => Relation::RefusesUnidentified,
            PairResult::Duplicate => Relation::Duplicate,
            PairResult::Unsolicited => Relation::Unsolicited,
            PairResult::Request { number, id_in_use } => Relation::Request { operation: operation(number), id_in_use },
            PairResult::Progress(number) => Relation::Progress { operation: operation(number) },
            PairResult::Cancellation(number) => Relation::Cancellation { operation: operation(number) },
            PairResult::Response { number, late } => {
                let operation = operation(number);
                let latency = operation.rounds.last().and_then(Round::latency);
                Relation::Response { operation, latency, late }
            }
        };
        let exchange = self.exchanges.get(channel);
        each(&TrackedMessage { frame, element, text, message, sender, conversation, exchange, relation });
        if let PairResult::Response { number, .. } = pair {
            self.settle(number);
        }
    }
}

/// The maximum number of conversations before idle ones are forgotten. Few clients end their sessions.
const MAX_CONVERSATIONS: usize = 4096;
