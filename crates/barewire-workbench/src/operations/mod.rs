//! What went over a wire -> who asked whom what, and what came of it: operations, in conversations.
//!
//! Nothing is judged here. What one side asked under an id, and what the other answered under it, belongs together, also if one
//! of the two is malformed; the checks say what is wrong with it.

mod asked;
mod conversation;
mod http;
mod operation;
mod pair;
mod sessions;
mod talk;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Parsed;
use barewire_proto::transcript::Stream;

use crate::frames::{Element, Seen, Sight};
use pair::{Here, Knot};
use talk::Talk;

pub use conversation::{Conversation, Handshake, Who, member};
pub use http::Exchange;
use http::Exchanges;
pub use operation::{Answered, At, Operation, Outcome, Round};

/// Looks on, and remembers what is not finished.
#[derive(Default)]
pub struct Watch {
    conversations: HashMap<String, Talk>,
    exchanges: Exchanges,
    /// What is not finished, by number.
    open: BTreeMap<u64, Operation>,
    /// Those that wait for the same to be asked again, with what the server wants to know.
    suspended: VecDeque<u64>,
    /// What was asked in an exchange that is over, and not answered there.
    left: VecDeque<u64>,
    /// The exchange that what was told last has ended.
    ended: Option<(String, Exchange)>,
    /// What was asked in it, if its status says no.
    refused: Vec<Operation>,
    last: u64,
}

/// One message, in its place: a frame, or an element of a batch.
pub struct Watched<'a> {
    pub seen: &'a Seen<'a>,
    /// Its place in a batch, from 0.
    pub element: Option<usize>,
    /// Its own text, unless it was too long to keep.
    pub text: Option<&'a [u8]>,
    pub message: &'a Element<'a>,
    /// Who has sent it.
    pub sender: Side,
    /// As it is with this message.
    pub conversation: &'a Conversation,
    /// The HTTP around it.
    pub exchange: Option<&'a Exchange>,
    pub tie: Tie<'a>,
}

/// What a message has to do with those before it.
#[derive(Clone, Copy)]
pub enum Tie<'a> {
    /// Nothing.
    None,
    /// It begins an operation, or its next round.
    Asks {
        operation: &'a Operation,
        /// The same sender waits for another answer under the same id.
        id_in_use: bool,
    },
    Answers {
        operation: &'a Operation,
        /// Since the request of this round.
        latency: Option<Duration>,
        /// Its asker had given it up.
        late: bool,
    },
    Progress {
        operation: &'a Operation,
    },
    Cancels {
        operation: &'a Operation,
    },
    /// An error without an id, for something that had none.
    Refuses,
    /// A second answer to the same request.
    Again,
    /// An answer to nothing that was asked.
    Nobody,
}

impl Watch {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next thing that is told of a wire, and calls `each` with every message in it.
    pub fn take(&mut self, sight: &Sight<'_>, each: &mut dyn FnMut(&Watched<'_>)) {
        self.ended = None;
        self.refused.clear();
        match sight {
            Sight::Header(_) | Sight::Stderr(_) => {}
            Sight::Endpoint { channel, uri } => self.exchanges.endpoint(channel, uri),
            Sight::Event(event) => self.event(event),
            Sight::Frame(seen) => match &seen.parsed {
                Parsed::Batch(_) => {
                    for (index, (element, text)) in seen.elements().enumerate() {
                        self.message(seen, Some(index), Some(text), &element, each);
                    }
                }
                Parsed::Message(message) => {
                    self.message(seen, None, seen.bytes, &Ok(message.clone()), each);
                }
                Parsed::Invalid(invalid) => {
                    self.message(seen, None, seen.bytes, &Err(invalid.clone()), each);
                }
            },
        }
    }

    /// What is not finished: not answered, or waiting to be asked again. In the order in which it began.
    pub fn open(&self) -> impl Iterator<Item = &Operation> {
        self.open.values()
    }

    /// The HTTP of a channel; of one that has just ended as well.
    pub fn exchange(&self, channel: &str) -> Option<&Exchange> {
        let ended = self.ended.as_ref().filter(|(name, _)| name == channel).map(|(_, exchange)| exchange);
        self.exchanges.get(channel).or(ended)
    }

    /// What was asked in the exchange that has just ended, if its status says no.
    pub fn refused(&self) -> &[Operation] {
        &self.refused
    }

    fn message(
        &mut self,
        seen: &Seen<'_>,
        element: Option<usize>,
        text: Option<&[u8]>,
        message: &Element<'_>,
        each: &mut dyn FnMut(&Watched<'_>),
    ) {
        let channel = seen.place.map_or("", |place| place.channel);
        let stream = seen.place.map_or(Stream::ToServer, |place| place.stream);
        let sender = if stream == Stream::ToServer { Side::Client } else { Side::Server };
        let length = text.map_or(seen.length, |text| text.len() as u64);
        let at = At { frame: seen.number, time: seen.place.and_then(|place| place.time), length };
        let session = self.exchanges.get(channel).and_then(|exchange| exchange.session.as_deref());
        let name = session.unwrap_or(channel).to_owned();
        let over_http = self.exchanges.get(channel).is_some();
        if self.conversations.len() > MOST_CONVERSATIONS {
            self.conversations.retain(|known, talk| *known == name || !talk.is_idle());
        }
        let talk = self.conversations.entry(name.clone()).or_default();
        if talk.about.name != name {
            talk.about.name.clone_from(&name);
        }
        talk.about.over_http = over_http;

        let knot = self.tie(Here { name: &name, channel, sender, at }, message);
        let conversation = &self.conversations[&name].about;
        let operation = |number: u64| &self.open[&number];
        let tie = match knot {
            Knot::None => Tie::None,
            Knot::Refuses => Tie::Refuses,
            Knot::Again => Tie::Again,
            Knot::Nobody => Tie::Nobody,
            Knot::Asks { number, id_in_use } => Tie::Asks { operation: operation(number), id_in_use },
            Knot::Progress(number) => Tie::Progress { operation: operation(number) },
            Knot::Cancels(number) => Tie::Cancels { operation: operation(number) },
            Knot::Answers { number, late } => {
                let operation = operation(number);
                let latency = operation.rounds.last().and_then(Round::latency);
                Tie::Answers { operation, latency, late }
            }
        };
        let exchange = self.exchanges.get(channel);
        each(&Watched { seen, element, text, message, sender, conversation, exchange, tie });
        if let Knot::Answers { number, .. } = knot {
            self.settle(number);
        }
    }
}

/// Sessions are seldom ended by anybody; what is idle is forgotten beyond this.
const MOST_CONVERSATIONS: usize = 4096;
