//! Assigns HTTP exchanges to conversations.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::transcript::{Event, Note, Party, Stream, StreamClose};

use super::state::RequestKey;
use super::{HttpExchange, MessagePosition, Operation, OperationTracker};

/// The request in another exchange that a response answers.
pub(super) enum OtherExchange {
    Operation(u64),
    /// Several outstanding requests have the id of the response.
    Ambiguous,
    None,
}

impl OperationTracker {
    pub(super) fn event(&mut self, event: &Event) {
        let channel = event.channel.as_str();
        match &event.note {
            Note::Head(stream, line) if self.exchanges.head(channel, *stream, line) => self.join_session(channel),
            Note::Closed(StreamClose::Connection) => self.cancel_on_close(channel, event.marks.time),
            Note::Cut { stream: Stream::ToClient, why } if why.by() == Some(Party::Client) => {
                self.cancel_on_close(channel, event.marks.time);
            }
            Note::Eof(Stream::ToClient) => {
                let Some(exchange) = self.exchanges.close(channel) else { return };
                if exchange.code() >= Some(400) {
                    self.refuse(channel, &exchange.operations);
                }
                if exchange.session.is_none() {
                    // Another exchange may still answer its operations.
                    self.conversations.remove(channel);
                }
                self.ended = Some((channel.to_owned(), exchange));
            }
            _ => {}
        }
    }

    /// Forgets the operations in an exchange with an error status. They get no response, and their ids can be reused.
    fn refuse(&mut self, channel: &str, operations: &[u64]) {
        // A later round of an operation may be in another exchange, and a suspended operation is answered.
        let is_here = |operation: &Operation| operation.channel == channel && operation.answer().is_none();
        let here = operations.iter().copied().filter(|number| self.open.get(number).is_some_and(is_here));
        let here: Vec<u64> = here.collect();
        self.refused = here.into_iter().filter_map(|number| self.forget(number)).collect();
    }

    /// Marks the operations in an exchange as cancelled, because the client closed the connection. Only modern clients
    /// cancel by closing the connection.
    fn cancel_on_close(&mut self, channel: &str, time: Option<Duration>) {
        let is_modern = |exchange: &HttpExchange| exchange.request_header("mcp-method").is_some();
        if !self.exchanges.get(channel).is_some_and(is_modern) {
            return;
        }
        let Some(conversation) = self.conversations.get(channel) else { return };
        for number in conversation.numbers() {
            if let Some(operation) = self.open.get_mut(&number).filter(|it| it.asker == Side::Client) {
                let frame = operation.asked().frame;
                operation.cancelled.get_or_insert(MessagePosition { frame, time, length: 0 });
            }
        }
    }

    /// Moves the messages of an exchange to its session, whose id has just become known.
    fn join_session(&mut self, channel: &str) {
        let session = self.exchanges.get(channel).and_then(|exchange| exchange.session.clone());
        let Some(session) = session else { return };
        let Some(mut conversation) = self.conversations.remove(channel) else { return };
        for number in conversation.numbers() {
            if let Some(operation) = self.open.get_mut(&number) {
                operation.conversation.clone_from(&session);
            }
        }
        match self.conversations.get_mut(&session) {
            Some(known) => known.join(conversation),
            None => {
                conversation.facts.name.clone_from(&session);
                self.conversations.insert(session, conversation);
            }
        }
    }

    /// Finds the request that a response in the stream of a GET answers. Over HTTP+SSE, the request was posted in
    /// another exchange. If no `endpoint` event connects the POST with the stream, the id must belong to only one
    /// outstanding request.
    pub(super) fn other_exchange(&mut self, channel: &str, key: &RequestKey) -> OtherExchange {
        let is_stream =
            |exchange: &HttpExchange| exchange.session.is_none() && matches!(exchange.method(), None | Some("GET"));
        if !self.exchanges.get(channel).is_some_and(is_stream) {
            return OtherExchange::None;
        }
        let Self { open, posted, conversations, exchanges, .. } = self;
        let is_outstanding = |operation: &&Operation| {
            operation.answer().is_none() && operation.rounds.last().is_some_and(|round| round.id == key.1)
        };
        // The exchange of the POST may have ended or still be open, but it must not belong to a session.
        let has_no_session = |operation: &&Operation| {
            exchanges.get(&operation.channel).is_none_or(|exchange| exchange.session.is_none())
        };
        let posted = posted.with_key(key).filter_map(|number| open.get(&number));
        let mut outstanding = posted.filter(is_outstanding).filter(has_no_session);
        let Some(oldest) = outstanding.next() else { return OtherExchange::None };
        if outstanding.any(|other| other.channel != oldest.channel) {
            return OtherExchange::Ambiguous;
        }
        if let Some(conversation) = conversations.get_mut(&oldest.conversation) {
            conversation.take(key);
        }
        OtherExchange::Operation(oldest.number)
    }

    /// Remembers a request that was posted in an exchange without a session: the response may come in another exchange.
    pub(super) fn remember_posted(&mut self, channel: &str, key: RequestKey, number: u64) {
        if self.exchanges.get(channel).is_some_and(|exchange| exchange.session.is_none()) {
            self.posted.add(key, number);
        }
    }
}

/// The last operations that began in HTTP exchanges without a session.
#[derive(Default)]
pub(super) struct PostedRequests {
    /// Maps the id of each request to its operations, the oldest first.
    numbers: HashMap<RequestKey, VecDeque<u64>>,
    /// The ids of all these requests, the oldest first.
    order: VecDeque<RequestKey>,
}

impl PostedRequests {
    fn add(&mut self, key: RequestKey, number: u64) {
        self.numbers.entry(key.clone()).or_default().push_back(number);
        self.order.push_back(key);
        if self.order.len() > MAX_POSTED
            && let Some(oldest) = self.order.pop_front()
            && let Some(same) = self.numbers.get_mut(&oldest)
        {
            same.pop_front();
            if same.is_empty() {
                self.numbers.remove(&oldest);
            }
        }
    }

    fn with_key(&self, key: &RequestKey) -> impl Iterator<Item = u64> {
        self.numbers.get(key).into_iter().flatten().copied()
    }
}

/// The maximum number of requests that are remembered. A response arrives soon after its POST, or never.
const MAX_POSTED: usize = 1024;
