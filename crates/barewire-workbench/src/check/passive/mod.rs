//! What passes by -> findings: the checks that need no stimulus. On captures, on the recording of a live run, and inside a tap.

mod blame;
mod envelope;
mod flow;
mod http;
mod meaning;
mod modern;
mod pages;
mod pieces;
mod privacy;
mod process;
mod shape;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::HashMap;
use std::collections::HashSet;
use std::time::Duration;

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::{Era, RequestParams, Revision, Side};
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Note, Stream};

use super::catalogue::Check;
use super::finding::{Finding, Location, Party};
use super::ledger::Ledger;
use crate::frames::WireItem;
use crate::operations::{Handshake, OperationTracker, Relation, TrackedMessage, member};

/// All passive checks, and what they remember.
pub(crate) struct Judge {
    setting: Setting,
    /// What is known of requests that are not answered yet, by the number of their operation.
    asked: HashMap<u64, Asked>,
    envelope: envelope::Envelope,
    tools: tools::Tools,
    flow: flow::Flow,
    http: http::Http,
    modern: modern::Modern,
    process: process::Process,
    privacy: privacy::Privacy,
}

/// Where it looks on.
pub(crate) struct Setting {
    /// The client is ourselves: what it does is meant.
    client_is_ours: bool,
    /// An answer that comes so long after its cancel has not just crossed it.
    late_after: Duration,
    /// Channels on which things are done that nobody does: how the process ends there is told by whoever does them.
    rough: HashSet<String>,
    /// Requests whose silence is told by whoever sent them: channel and id.
    claimed: HashSet<(String, String)>,
    /// When something was seen last.
    last: Option<Duration>,
    /// When stdin was closed, by channel.
    closed: HashMap<String, Duration>,
}

/// What is remembered of a request until it is answered.
struct Asked {
    /// By its own metadata, or by the handshake.
    revision: Option<Revision>,
    is_modern: bool,
    /// As JSON text.
    capabilities: Option<String>,
}

/// A message, and what is known of it.
struct Case<'a> {
    watched: &'a TrackedMessage<'a>,
    /// The revision that this message is to be judged by.
    revision: Option<Revision>,
    /// What is known of the request, for answers.
    asked: Option<&'a Asked>,
    setting: &'a Setting,
}

impl Judge {
    /// For captures and taps.
    pub(crate) fn new() -> Self {
        Self::with(Setting {
            client_is_ours: false,
            late_after: Duration::from_secs(2),
            rough: HashSet::new(),
            claimed: HashSet::new(),
            last: None,
            closed: HashMap::new(),
        })
    }

    /// For what we drive ourselves.
    pub(crate) fn of_our_own() -> Self {
        Self::with(Setting {
            client_is_ours: true,
            late_after: Duration::from_millis(100),
            rough: HashSet::new(),
            claimed: HashSet::new(),
            last: None,
            closed: HashMap::new(),
        })
    }

    fn with(setting: Setting) -> Self {
        Self {
            setting,
            asked: HashMap::new(),
            envelope: envelope::Envelope::default(),
            tools: tools::Tools::default(),
            flow: flow::Flow::default(),
            http: http::Http::default(),
            modern: modern::Modern::default(),
            process: process::Process::default(),
            privacy: privacy::Privacy::new(),
        }
    }

    /// How the process of this channel ends is told by somebody else.
    pub(crate) fn is_rough(&mut self, channel: &str) {
        self.setting.rough.insert(channel.to_owned());
    }

    /// That this request is not answered is told by somebody else.
    pub(crate) fn claim(&mut self, channel: &str, id: &str) {
        self.setting.claimed.insert((channel.to_owned(), id.to_owned()));
    }

    /// Takes what is no message: what happens, and what is written to stderr. `watch` has been told of it.
    pub(crate) fn sight(&mut self, sight: &WireItem<'_>, watch: &OperationTracker, ledger: &mut Ledger) {
        let time = match sight {
            WireItem::Header(_) | WireItem::Endpoint { .. } => None,
            WireItem::Frame(seen) => seen.place.and_then(|place| place.time),
            WireItem::Stderr(bytes) => bytes.marks.time,
            WireItem::Event(event) => event.marks.time,
        };
        self.setting.last = time.or(self.setting.last);
        if let (WireItem::Event(event), Some(time)) = (sight, time)
            && event.note == Note::Eof(Stream::ToServer)
            && watch.exchange(event.channel.as_str()).is_none()
            && self.setting.closed.len() < MOST_ASKED
        {
            self.setting.closed.insert(event.channel.as_str().to_owned(), time);
        }
        match sight {
            WireItem::Header(_) | WireItem::Frame(_) | WireItem::Endpoint { .. } => {}
            WireItem::Stderr(bytes) => {
                self.process.stderr(bytes, ledger);
                self.privacy.stderr(bytes, ledger);
            }
            WireItem::Event(event) => {
                self.process.event(event, &self.setting, ledger);
                let channel = event.channel.as_str();
                self.http.event(event, watch.exchange(channel), &mut self.setting, ledger);
                if let Note::Eof(Stream::ToClient) = event.note {
                    // Whatever has a session goes on in another exchange.
                    if watch.exchange(channel).is_some_and(|exchange| exchange.session.is_none()) {
                        self.envelope.over(channel);
                        self.modern.over(channel);
                    }
                }
            }
        }
    }

    /// Takes a message.
    pub(crate) fn message(&mut self, watched: &TrackedMessage<'_>, ledger: &mut Ledger) {
        if let Relation::Request { operation, .. } = watched.relation {
            self.process.asked(watched, operation);
            let asked = Asked::of(watched);
            if self.asked.len() >= MOST_ASKED {
                self.asked.clear();
            }
            self.asked.insert(operation.number, asked);
        }
        let asked = match watched.relation {
            Relation::Response { operation, .. }
            | Relation::Request { operation, .. }
            | Relation::Progress { operation } => self.asked.get(&operation.number),
            _ => None,
        };
        let revision = match asked {
            Some(asked) => asked.revision,
            None => revision_of(watched),
        };
        let case = Case { watched, revision, asked, setting: &self.setting };
        self.envelope.message(&case, ledger);
        meaning::message(&case, &self.tools, self.modern.is_proven(watched.conversation), ledger);
        shape::message(&case, ledger);
        self.tools.message(&case, ledger);
        self.flow.message(&case, ledger);
        self.modern.message(&case, ledger);
        self.http.message(&case, &self.tools, ledger);
        self.privacy.message(&case, ledger);
        if let Relation::Response { operation, .. } = watched.relation {
            self.asked.remove(&operation.number);
        }
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self, watch: &OperationTracker, ledger: &mut Ledger) {
        self.envelope.finish(watch, &self.setting, ledger);
    }
}

impl Asked {
    fn of(watched: &TrackedMessage<'_>) -> Self {
        let Ok(Message::Request(request)) = watched.message else {
            return Self { revision: None, is_modern: false, capabilities: None };
        };
        let meta = RequestParams::read(request.params).meta;
        let is_modern = meta.protocol_version.is_some();
        let talk = watched.conversation;
        let revision = match talk.handshake {
            _ if is_modern => talk.revision(),
            Handshake::None | Handshake::Asked if watched.sender == Side::Client => None,
            _ => talk.revision(),
        };
        let capabilities = if is_modern {
            meta.client_capabilities.map(|it| it.as_str().to_owned())
        } else {
            talk.client_capabilities.clone()
        };
        let is_modern = is_modern || revision.is_some_and(Revision::is_modern);
        Self { revision, is_modern, capabilities }
    }
}

/// What a message without a request is to be judged by.
fn revision_of(watched: &TrackedMessage<'_>) -> Option<Revision> {
    watched.conversation.revision()
}

impl Case<'_> {
    /// Notes a violation of the sender.
    fn fail(&self, ledger: &mut Ledger, check: &'static Check, detail: impl Into<String>) {
        self.fail_at(ledger, check, 0, detail);
    }

    /// The same, of a byte of the frame.
    fn fail_at(&self, ledger: &mut Ledger, check: &'static Check, at: usize, detail: impl Into<String>) {
        self.note(ledger, self.finding(check, at, detail));
    }

    /// The same, of a member.
    fn fail_in(&self, ledger: &mut Ledger, check: &'static Check, path: &str, detail: impl Into<String>) {
        self.note(ledger, self.finding(check, 0, detail).at(path));
    }

    fn finding(&self, check: &'static Check, at: usize, detail: impl Into<String>) -> Finding {
        let TrackedMessage { frame: seen, text, sender, .. } = self.watched;
        let finding = Finding::new(check, Party::from(*sender), Location::of(seen, at), detail);
        match text.or(seen.bytes) {
            Some(text) => finding.seen(text),
            None => finding,
        }
    }

    fn note(&self, ledger: &mut Ledger, finding: Finding) {
        if finding.party == Party::Client && self.setting.client_is_ours {
            return;
        }
        ledger.fail(finding);
    }

    /// Where what a server says of itself holds: in its session, and over HTTP without one at its address.
    fn scope(&self) -> String {
        match self.watched.exchange {
            Some(exchange) if exchange.session.is_none() && !exchange.is_sse_transport => {
                let host = exchange.request_header("host").unwrap_or_default();
                let path = exchange.target().and_then(|target| target.split('?').next());
                format!("{host}{}", path.unwrap_or_default())
            }
            _ => self.watched.conversation.name.clone(),
        }
    }

    fn is_modern(&self) -> bool {
        match self.asked {
            Some(asked) => asked.is_modern,
            None => self.watched.conversation.era() == Some(Era::Modern),
        }
    }

    fn by_server(&self) -> bool {
        self.watched.sender == Side::Server
    }
}

/// Whether a result is one, and no question.
fn is_complete(result: Json<'_>) -> bool {
    let kind = member(Some(result), "resultType");
    kind.is_none_or(|kind| Text::from_json(kind).is_some_and(|text| text == "complete"))
}

/// More than any client has in flight.
const MOST_ASKED: usize = 65_536;
