//! Exchanges over HTTP -> the conversations that they are part of.

use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::transcript::{Closed, Event, Note, Party, Stream};

use super::state::Key;
use super::{HttpExchange, MessagePosition, OperationTracker};

/// Who waits in another exchange.
pub(super) enum Elsewhere {
    Operation(u64),
    /// Which of them is meant cannot be told.
    Several,
    Nobody,
}

impl OperationTracker {
    pub(super) fn event(&mut self, event: &Event) {
        let channel = event.channel.as_str();
        match &event.note {
            Note::Head(stream, line) if self.exchanges.head(channel, *stream, line) => {
                self.join_session(channel);
            }
            Note::Closed(Closed::Connection) => self.give_up(channel, event.marks.time),
            Note::Cut { stream: Stream::ToClient, why } if why.by() == Some(Party::Client) => {
                self.give_up(channel, event.marks.time);
            }
            Note::Eof(Stream::ToClient) => {
                let Some(exchange) = self.exchanges.close(channel) else { return };
                if exchange.code() >= Some(400) {
                    self.refuse(channel, exchange.session.as_deref().unwrap_or(channel));
                }
                if exchange.session.is_none() {
                    self.leave(channel);
                }
                self.ended = Some((channel.to_owned(), exchange));
            }
            _ => {}
        }
    }

    /// The status of an exchange says no: what was asked in it will not be answered, and its ids are free again.
    fn refuse(&mut self, channel: &str, conversation: &str) {
        let Some(talk) = self.conversations.get(conversation) else { return };
        let is_here = |number: &u64| self.open.get(number).is_some_and(|it| it.channel == channel);
        let here: Vec<u64> = talk.numbers().into_iter().filter(is_here).collect();
        self.refused = here.into_iter().filter_map(|number| self.forget(number)).collect();
    }

    /// The client has closed the connection. In the modern era that cancels what it has asked; before, it says nothing.
    fn give_up(&mut self, channel: &str, time: Option<Duration>) {
        let is_modern = |exchange: &HttpExchange| exchange.request_header("mcp-method").is_some();
        if !self.exchanges.get(channel).is_some_and(is_modern) {
            return;
        }
        let Some(talk) = self.conversations.get(channel) else { return };
        for number in talk.numbers() {
            if let Some(operation) = self.open.get_mut(&number).filter(|it| it.asker == Side::Client) {
                let frame = operation.asked().frame;
                operation.cancelled.get_or_insert(MessagePosition { frame, time, length: 0 });
            }
        }
    }

    /// An exchange without a session is over, and with it its conversation.
    fn leave(&mut self, channel: &str) {
        let Some(talk) = self.conversations.remove(channel) else { return };
        self.left.extend(talk.numbers());
        while self.left.len() > MOST_LEFT {
            self.left.pop_front();
        }
    }

    /// What was said in the exchange so far belongs to the session that is now known.
    fn join_session(&mut self, channel: &str) {
        let Some(session) = self.exchanges.get(channel).and_then(|exchange| exchange.session.clone()) else {
            return;
        };
        let Some(mut talk) = self.conversations.remove(channel) else { return };
        for number in talk.numbers() {
            if let Some(operation) = self.open.get_mut(&number) {
                operation.conversation.clone_from(&session);
            }
        }
        match self.conversations.get_mut(&session) {
            Some(known) => known.join(talk),
            None => {
                talk.about.name.clone_from(&session);
                self.conversations.insert(session, talk);
            }
        }
    }

    /// Over HTTP+SSE a request is posted in one exchange, and its answer comes in another: in the stream of a GET. Which stream is
    /// whose says its `endpoint` event; where that was not seen, only an id that one exchange waits for says anything.
    pub(super) fn elsewhere(&mut self, channel: &str, key: &Key) -> Elsewhere {
        let is_stream =
            |exchange: &HttpExchange| exchange.session.is_none() && matches!(exchange.method(), None | Some("GET"));
        if !self.exchanges.get(channel).is_some_and(is_stream) {
            return Elsewhere::Nobody;
        }
        let Self { open, left, conversations, exchanges, .. } = self;
        left.retain(|number| open.contains_key(number));
        let waits = |number: &u64| {
            let operation = &open[number];
            operation.asker == key.0 && operation.rounds.last().is_some_and(|round| round.id == key.1)
        };
        let over = left.iter().copied().filter(waits).collect::<Vec<_>>();
        // The answer may be there before the POST is answered.
        let alone = |name: &&String| exchanges.get(name).is_some_and(|exchange| exchange.session.is_none());
        let under_way: Vec<String> = conversations
            .iter()
            .filter(|(_, talk)| talk.waiting(key).is_some())
            .map(|(name, _)| name)
            .filter(alone)
            .cloned()
            .collect();
        match (over.as_slice(), under_way.as_slice()) {
            ([], []) => Elsewhere::Nobody,
            ([number], []) => {
                left.retain(|other| other != number);
                Elsewhere::Operation(*number)
            }
            ([], [name]) => {
                let number = conversations.get_mut(name).and_then(|talk| talk.take(key));
                number.map_or(Elsewhere::Nobody, Elsewhere::Operation)
            }
            _ => Elsewhere::Several,
        }
    }
}

/// What is not answered soon after its POST is not answered.
const MOST_LEFT: usize = 1024;
