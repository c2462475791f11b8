//! Items and tracked messages -> the records of an index, without secrets.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use barewire_proto::json::Text;
use barewire_proto::mcp::Side;
use barewire_proto::rpc::{Message, Parsed, parse};
use barewire_proto::transcript::{Bytes, Entry, Event, Header, Note, Stream};

use super::conversations::{ConversationNumbers, move_rows};
use super::heads::{ChannelHeads, OpenHeads, UnfinishedHead};
use super::lanes::Lanes;
use super::names::beginning;
use super::record::{EntryKind, EntryRecord, ExchangeRecord, Flags, OperationRecord, OperationState, RowOutcome, Time};
use super::spool::Span;
use super::{IndexData, IndexedCapture};
use crate::check::Inspector;
use crate::frames::{FrameFacts, WireFrame, WireItem};
use crate::operations::{Operation, OperationTracker, Relation, ResponseOutcome, TrackedMessage};
use crate::pipeline::Observer;
use crate::rows::{MessageRelation, Role, event_parts, status};
use crate::secrets::Redactor;

/// An observer that writes an index.
pub struct IndexWriter {
    index: Arc<IndexedCapture>,
    redactor: Redactor,
    inspector: Inspector,
    conversations: ConversationNumbers,
    heads: OpenHeads,
    lanes: Lanes,
    /// Maps the number that the tracker gives to an unfinished operation to its number in the index. They differ if
    /// there was no room for all messages of a batch.
    numbers: BTreeMap<u64, u32>,
    /// Maps names, as they were on the wire, to their numbers.
    names: HashMap<Box<str>, u32>,
    /// The messages of the current frame.
    messages: Vec<MessageFacts>,
    is_guessing: bool,
}

/// A message of the current frame.
struct MessageFacts {
    kind: EntryKind,
    id: Option<String>,
    method: u32,
    detail: u32,
    code: i32,
    /// The place of the message in its frame.
    at: usize,
    length: u64,
    element: u16,
    role: Role,
    outcome: RowOutcome,
    conversation: u32,
    has_other_id: bool,
    operation: Option<OperationFacts>,
}

/// The state of an operation after a message.
struct OperationFacts {
    /// The number that the tracker gives it.
    number: u64,
    rounds: u16,
    method: u32,
    name: u32,
    is_of_server: bool,
    is_listen: bool,
    is_ping: bool,
}

impl IndexWriter {
    /// Creates a writer. The redactor replaces the secrets in all texts before they are kept.
    pub fn new(index: Arc<IndexedCapture>, redactor: Redactor) -> Self {
        Self {
            index,
            redactor,
            inspector: Inspector::incremental(),
            conversations: ConversationNumbers::default(),
            heads: OpenHeads::default(),
            lanes: Lanes::default(),
            numbers: BTreeMap::new(),
            names: HashMap::new(),
            messages: Vec::new(),
            is_guessing: false,
        }
    }

    /// Notes that the input has no directions, so that those of the following frames are guessed.
    pub(super) fn guesses_directions(&mut self) {
        self.is_guessing = true;
    }

    /// Whether nothing more is to be read: the index is full, or was stopped.
    pub(super) fn is_finished(&self) -> bool {
        self.index.is_stopped() || self.index.data().totals.is_full
    }

    /// Returns the number of a name, in which secrets are replaced first.
    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let clean = self.redactor.text(beginning(name, MAX_NAME));
        let number = self.index.data_mut().names.number(&clean);
        if self.names.len() < MAX_CACHED_NAMES {
            self.names.insert(name.into(), number);
        }
        number
    }

    fn operation(&mut self, operation: &Operation) -> OperationFacts {
        OperationFacts {
            number: operation.number,
            rounds: u16::try_from(operation.rounds.len()).unwrap_or(u16::MAX),
            method: self.name(&operation.method),
            name: operation.name.as_deref().map_or(0, |name| self.name(name)),
            is_of_server: operation.asker == Side::Server,
            is_listen: operation.is_listen(),
            is_ping: operation.method == "ping",
        }
    }

    /// Appends the rows of a frame: its own, and those of the elements of a batch.
    fn frame(&mut self, frame: &WireFrame<'_>) {
        let stream = frame.place.map(|place| place.stream);
        let channel_name = frame.place.map_or("", |place| place.channel);
        self.finish_head(channel_name, None);
        let clean = match (frame.bytes, stream) {
            (Some(bytes), Some(stream)) => self.redactor.frame(stream, channel_name, bytes),
            _ => None,
        };
        let text = clean.as_deref().or(frame.bytes);
        let span = text.map_or(Span::NONE, |text| self.index.spool.add(text));
        let messages = std::mem::take(&mut self.messages);
        let is_batch = matches!(frame.parsed, Parsed::Batch(_));
        // The elements of a frame in which something was replaced are at other places.
        let element_spans = clean.as_deref().filter(|_| is_batch).map(element_places);
        let is_redacted = clean.is_some() || frame.place.is_some_and(|place| place.redacted);
        let channel = self.name(channel_name);
        let exchange = self.heads.get(channel_name).map_or(0, |heads| heads.exchange);
        let flags = Flags::on(stream)
            .with(Flags::REDACTED, is_redacted)
            .with(Flags::GUESSED, self.is_guessing)
            .with(Flags::BAD, !frame.is_well_formed() && !frame.is_cut());
        let base = EntryRecord {
            text: span,
            frame: u32::try_from(frame.number).unwrap_or(u32::MAX),
            offset: frame.offset,
            length: frame.length,
            time: Time::of(frame.place.and_then(|place| place.time)),
            channel,
            exchange,
            flags,
            ..blank()
        };
        let index = Arc::clone(&self.index);
        let mut data = index.data_mut();
        data.totals.is_redacted |= is_redacted;
        data.totals.is_timed |= !self.is_guessing && stream.is_some();
        let mut rows = Vec::new();
        if is_batch {
            let elements = u16::try_from(messages.len()).unwrap_or(u16::MAX);
            let conversation = messages.first().map_or(0, |message| message.conversation);
            let outcome = if flags.has(Flags::BAD) { RowOutcome::Invalid } else { RowOutcome::None };
            rows.push(data.push(EntryRecord {
                kind: EntryKind::Batch,
                elements,
                conversation,
                outcome,
                ..base.clone()
            }));
        }
        for (number, message) in messages.into_iter().enumerate() {
            let place = match &element_spans {
                Some(places) => places.get(number).copied(),
                None => Some((message.at, usize::try_from(message.length).unwrap_or(usize::MAX))),
            };
            let text = match (is_batch, place) {
                (false, _) => span,
                (true, Some((at, length))) => span.part(at, length),
                (true, None) => Span::NONE,
            };
            let has_bad = flags.with(Flags::OTHER_ID, message.has_other_id);
            let mut entry = EntryRecord {
                text,
                length: if is_batch { message.length } else { base.length },
                id: message.id.as_deref().map(|id| data.ids.add(id)).unwrap_or_default(),
                method: message.method,
                detail: message.detail,
                code: message.code,
                element: message.element,
                kind: message.kind,
                role: message.role,
                outcome: message.outcome,
                conversation: message.conversation,
                flags: has_bad,
                ..base.clone()
            };
            if let Some(operation) = &message.operation {
                self.update_operation(operation, &mut entry, &mut data);
            }
            let row = data.push(entry);
            begin(message.role, row, &mut data);
            note_tool_list(message.kind, row, &mut data);
            rows.push(row);
        }
        if let Some(heads) = self.heads.get(channel_name) {
            for row in rows {
                let operation = data.entries[row as usize].operation;
                if heads.operation == 0 && operation > 0 {
                    heads.operation = operation;
                    adopt_heads(heads, row, &mut data);
                }
                heads.conversation = data.entries[row as usize].conversation;
                heads.add_row(row);
            }
        }
        data.totals.is_full = data.entries.len() >= MAX_ROWS;
    }

    /// Sets the operation of a row, and what the row says about it.
    fn update_operation(&mut self, facts: &OperationFacts, entry: &mut EntryRecord, data: &mut IndexData) {
        let OperationFacts { number: tracked, rounds, .. } = *facts;
        let known = self.numbers.get(&tracked).copied();
        let number = known.unwrap_or_else(|| u32::try_from(data.operations.len() + 1).unwrap_or(u32::MAX));
        if let (Role::Request { .. }, None) = (entry.role, known) {
            self.numbers.insert(tracked, number);
            if self.numbers.len() > MAX_OPEN {
                self.numbers.pop_first();
            }
            let parent = match (facts.is_of_server, facts.is_ping) {
                (true, false) => {
                    let of_exchange = self.exchange_call(entry.exchange, data);
                    of_exchange.or_else(|| self.lanes.waiting_call(entry.conversation)).unwrap_or_default()
                }
                _ => 0,
            };
            let above = data.operation(parent).map(|parent| (parent.lane, parent.depth));
            let (lane, depth) = match above {
                Some((lane, depth)) => (lane, depth.saturating_add(1)),
                None => (self.lanes.take(), 0),
            };
            data.lanes = data.lanes.max(lane + 1);
            if !facts.is_of_server && !facts.is_listen && !facts.is_ping {
                self.lanes.begin_call(entry.conversation, number);
            }
            data.operations.push(OperationRecord {
                first: u32::MAX,
                last: u32::MAX,
                open_request: 0,
                method: facts.method,
                name: facts.name,
                conversation: entry.conversation,
                start: entry.time,
                end: Time::NONE,
                parent,
                children: 0,
                lane,
                depth,
                rounds,
                is_of_server: facts.is_of_server,
                state: if facts.is_listen { OperationState::Listening } else { OperationState::Open },
            });
        }
        let Some(operation) = data.operation_mut(number) else { return };
        (entry.operation, entry.round) = (number, rounds);
        operation.rounds = rounds;
        match entry.role {
            Role::Response { .. } => {
                entry.request = operation.open_request;
                operation.open_request = 0;
                operation.end = entry.time;
                let was_open = operation.state.is_open();
                operation.state = match entry.outcome {
                    RowOutcome::Error | RowOutcome::Invalid => OperationState::Failed,
                    RowOutcome::ToolError => OperationState::ToolFailed,
                    RowOutcome::InputRequired => OperationState::Suspended,
                    _ => OperationState::Done,
                };
                if operation.state != OperationState::Suspended {
                    self.numbers.remove(&tracked);
                }
                if was_open && operation.state != OperationState::Suspended {
                    let (lane, depth, conversation) = (operation.lane, operation.depth, operation.conversation);
                    self.release(number, conversation, lane, depth);
                }
            }
            Role::Cancellation if operation.state.is_open() => {
                operation.state = OperationState::Cancelled;
                operation.end = entry.time;
                let (lane, depth, conversation) = (operation.lane, operation.depth, operation.conversation);
                self.release(number, conversation, lane, depth);
            }
            Role::Request { .. } if operation.state == OperationState::Suspended => {
                operation.state = OperationState::Open;
                operation.end = Time::NONE;
            }
            _ => {}
        }
    }

    fn release(&mut self, operation: u32, conversation: u32, lane: u16, depth: u8) {
        self.lanes.end_call(conversation, operation);
        if depth == 0 {
            self.lanes.give_back(lane);
        }
    }

    /// Returns the operation of an exchange that is not answered yet.
    fn exchange_call(&self, exchange: u32, data: &IndexData) -> Option<u32> {
        let operation = data.exchange(exchange)?.operation;
        data.operation(operation).filter(|it| it.state.is_open() && !it.is_of_server).map(|_| operation)
    }

    /// Appends the row of a line of stderr or of an event.
    fn event(&mut self, channel: &str, stream: Option<Stream>, time: Time, event: EventFacts<'_>) {
        let EventFacts { word, text, is_redacted, is_failure, operation } = event;
        let detail = String::from_utf8_lossy(&text[..text.len().min(MAX_NAME)]);
        let index = Arc::clone(&self.index);
        let (method, channel_number) = (self.name(word), self.name(channel));
        let span = index.spool.add(text);
        let mut data = index.data_mut();
        let heads = self.heads.get(channel);
        let (conversation, exchange) = match &heads {
            Some(heads) => (heads.conversation, heads.exchange),
            None => (self.conversations.named(channel, &mut data), 0),
        };
        let entry = EntryRecord {
            text: span,
            length: text.len() as u64,
            time,
            method,
            detail: data.names.number(detail.lines().next().unwrap_or_default()),
            channel: channel_number,
            conversation,
            exchange,
            operation,
            flags: Flags::on(stream).with(Flags::REDACTED, is_redacted).with(Flags::FAILURE, is_failure),
            ..blank()
        };
        data.totals.is_redacted |= is_redacted;
        let row = data.push(entry);
        data.totals.is_full = data.entries.len() >= MAX_ROWS;
        if let Some(heads) = heads {
            heads.add_row(row);
        }
        if word == "exit" {
            let end = String::from_utf8_lossy(text).into_owned();
            if let Some(conversation) = data.conversations.get_mut(conversation as usize) {
                conversation.end = Some(end.clone());
            }
            data.totals.end = Some(end);
        }
        if word == "open" {
            data.totals.program.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
        }
    }

    fn note(&mut self, event: &Event, operations: &OperationTracker) {
        let channel = event.channel.as_str();
        let time = Time::of(event.marks.time);
        if let Note::Head(stream, _) = event.note {
            return self.head_line(channel, stream, time, event, operations);
        }
        self.finish_head(channel, None);
        let is_http = self.heads.get(channel).is_some();
        if let (Note::Eof(Stream::ToClient), true) = (&event.note, is_http) {
            self.end_exchange(channel, time, operations);
        }
        if let Note::Closed(_) | Note::Cut { .. } = event.note {
            self.cancelled(channel, time, operations);
        }
        // Each HTTP exchange has two ends, which say nothing more.
        if matches!(event.note, Note::Eof(_)) && is_http {
            return;
        }
        let mut clean = Vec::new();
        self.redactor.entry(Entry::Event(event.clone()), &mut clean);
        for entry in clean {
            match entry {
                Entry::Event(Event { note, marks, .. }) => {
                    let Some((stream, word, text)) = event_parts(&note) else { continue };
                    let is_failure = word == "exit" && text != "code 0";
                    let (text, is_redacted) = (text.as_bytes(), marks.redacted);
                    self.event(channel, stream, time, EventFacts { word, text, is_redacted, is_failure, operation: 0 });
                }
                Entry::Bytes(bytes) => self.stderr_row(&bytes),
                _ => {}
            }
        }
    }

    fn stderr(&mut self, bytes: &Bytes) {
        let mut clean = Vec::new();
        self.redactor.entry(Entry::Bytes(bytes.clone()), &mut clean);
        for entry in clean {
            if let Entry::Bytes(bytes) = entry {
                self.stderr_row(&bytes);
            }
        }
    }

    fn stderr_row(&mut self, bytes: &Bytes) {
        if bytes.stream == Stream::Stderr {
            let (text, is_redacted) = (&bytes.payload[..], bytes.marks.redacted);
            let facts = EventFacts { word: "stderr", text, is_redacted, is_failure: false, operation: 0 };
            self.event(bytes.channel.as_str(), Some(Stream::Stderr), Time::of(bytes.marks.time), facts);
        }
    }

    /// Adds a line to the head of an exchange.
    fn head_line(&mut self, channel: &str, stream: Stream, time: Time, event: &Event, operations: &OperationTracker) {
        self.finish_head(channel, Some(stream));
        let mut clean = Vec::new();
        self.redactor.entry(Entry::Event(event.clone()), &mut clean);
        let lines = clean.into_iter().filter_map(|entry| match entry {
            Entry::Event(Event { note: Note::Head(_, line), marks, .. }) => Some((line, marks.redacted)),
            _ => None,
        });
        let index = Arc::clone(&self.index);
        let mut data = index.data_mut();
        let Self { heads, conversations, redactor, .. } = self;
        let begun = heads.begin(channel, || {
            let record = ExchangeRecord { request: Span::NONE, response: Span::NONE, operation: 0 };
            let exchange = u32::try_from(data.exchanges.push(record) + 1).unwrap_or_default();
            ChannelHeads { exchange, conversation: conversations.without_session(&mut data), ..ChannelHeads::default() }
        });
        let Some(channel_heads) = begun else { return };
        for (line, is_redacted) in lines {
            let new = || UnfinishedHead { stream, text: Vec::new(), time, is_redacted: false };
            channel_heads.unfinished.get_or_insert_with(new).push(&line, is_redacted);
        }
        // The first answer of a session names it, and what came before belongs to it too.
        if let Some(exchange) = operations.exchange(channel).filter(|exchange| exchange.session.is_some()) {
            let conversation = conversations.of_exchange(exchange, redactor, &mut data);
            if conversation != channel_heads.conversation {
                let from = std::mem::replace(&mut channel_heads.conversation, conversation);
                let participants = data.conversations.get(from as usize).map(|it| (it.client.clone(), it.is_over_http));
                move_rows(&channel_heads.rows, conversation, &mut data);
                if let (Some(to), Some((client, is_over_http))) =
                    (data.conversations.get_mut(conversation as usize), participants)
                {
                    to.client = to.client.take().or(client);
                    to.is_over_http |= is_over_http;
                }
            }
        }
    }

    /// Appends the row of a head of which no more lines follow: all lines, unless the head is of the stream `but`.
    fn finish_head(&mut self, channel: &str, but: Option<Stream>) {
        let Some(heads) = self.heads.get(channel) else { return };
        if heads.unfinished.as_ref().is_none_or(|head| Some(head.stream) == but) {
            return;
        }
        let Some(UnfinishedHead { stream, text, time, is_redacted }) = heads.unfinished.take() else { return };
        let (exchange, operation) = (heads.exchange, heads.operation);
        heads.is_answered |= stream == Stream::ToClient;
        let is_failure = status(text.split(|byte| *byte == b'\n').next().unwrap_or_default()) >= Some(400);
        let facts = EventFacts { word: "http", text: &text, is_redacted, is_failure, operation };
        self.event(channel, Some(stream), time, facts);
        let mut data = self.index.data_mut();
        let row = data.entries.len() - 1;
        let span = data.entries[row].text;
        if let Some(record) = data.exchanges.get_mut((exchange as usize).saturating_sub(1)) {
            *(if stream == Stream::ToServer { &mut record.request } else { &mut record.response }) = span;
        }
    }

    /// Ends an exchange. Operations that its status has refused get no response.
    fn end_exchange(&mut self, channel: &str, time: Time, operations: &OperationTracker) {
        for refused in operations.refused() {
            self.settle(refused.number, OperationState::Failed, time);
            self.numbers.remove(&refused.number);
        }
        self.heads.end(channel);
    }

    /// Notes the operations that the tracker has taken for cancelled when a connection was closed.
    fn cancelled(&mut self, channel: &str, time: Time, operations: &OperationTracker) {
        let cancelled = operations.open().filter(|it| it.channel == channel && it.cancelled.is_some());
        let numbers: Vec<u64> = cancelled.map(|it| it.number).collect();
        for number in numbers {
            self.settle(number, OperationState::Cancelled, time);
        }
    }

    fn settle(&mut self, tracked: u64, state: OperationState, time: Time) {
        let Some(number) = self.numbers.get(&tracked).copied() else { return };
        let index = Arc::clone(&self.index);
        let mut data = index.data_mut();
        let Some(operation) = data.operation_mut(number).filter(|it| it.state.is_open()) else { return };
        (operation.state, operation.end, operation.open_request) = (state, time, 0);
        let (lane, depth, conversation) = (operation.lane, operation.depth, operation.conversation);
        self.release(number, conversation, lane, depth);
    }

    fn header(&mut self, header: &Header) {
        let fact = |name| header.facts.iter().find(|(key, _)| key.as_str() == name);
        let text = |(_, value): &(_, Vec<u8>)| String::from_utf8_lossy(beginning_bytes(value)).into_owned();
        let mut data = self.index.data_mut();
        data.totals.started = fact("started").map(text).or_else(|| fact("started-local").map(text));
    }

    fn keep_findings(&mut self) {
        let findings = self.inspector.take_findings();
        if findings.is_empty() {
            return;
        }
        for mut finding in findings {
            finding.redact(&mut self.redactor);
            let mut data = self.index.data_mut();
            let row = finding.location.frame.and_then(|frame| data.frame(frame));
            let conversation = match row {
                Some(row) => data.entries[row as usize].conversation,
                None => self.conversations.named(&finding.location.channel, &mut data),
            };
            let name = data.conversations.get_mut(conversation as usize).map(|conversation| {
                conversation.findings += 1;
                conversation.name.clone()
            });
            data.findings.add(finding, name.unwrap_or_default());
        }
    }
}

/// What a row shows about an event.
struct EventFacts<'a> {
    word: &'static str,
    text: &'a [u8],
    is_redacted: bool,
    is_failure: bool,
    operation: u32,
}

impl Observer for IndexWriter {
    fn message(&mut self, tracked: &TrackedMessage<'_>) {
        self.inspector.message(tracked);
        if self.messages.len() >= MAX_ELEMENTS {
            return;
        }
        let facts = FrameFacts::element(tracked.message, tracked.text.unwrap_or_default());
        let relation = MessageRelation::of(tracked);
        let kind = if tracked.frame.is_cut() { EntryKind::Cut } else { EntryKind::of(facts.kind) };
        let outcome = outcome(kind, tracked);
        let detail = match (facts.invalid, facts.error) {
            (Some(invalid), _) => self.name(invalid.rule.name()),
            (None, Some(error)) => self.name(&error.message.to_name()),
            (None, None) => 0,
        };
        let method = match tracked.message {
            Ok(Message::Request(request)) => Some(request.method),
            Ok(Message::Notification(notification)) => Some(notification.method),
            Ok(Message::Response(_) | Message::OrphanError(_)) => None,
            Err(invalid) => invalid.method,
        };
        let method = method.map_or(0, |method| self.name(&Text::to_name(method)));
        // A long id may be a token.
        let id = facts.id.map(|id| if id.len() > MAX_PLAIN_ID { self.redactor.text(&id) } else { id });
        let operation = match tracked.relation {
            Relation::Request { operation, .. }
            | Relation::Response { operation, .. }
            | Relation::Progress { operation }
            | Relation::Cancellation { operation } => Some(operation),
            _ => None,
        };
        let round = operation.and_then(|operation| operation.rounds.last());
        let has_other_id =
            matches!(relation.role, Role::Response { .. }) && round.is_some_and(|it| it.other_id().is_some());
        let operation = operation.map(|operation| self.operation(operation));
        let index = Arc::clone(&self.index);
        let Self { conversations, redactor, .. } = self;
        let (conversation, exchange) = (tracked.conversation, tracked.exchange);
        let conversation = conversations.of_message(conversation, exchange, redactor, &mut index.data_mut());
        let at = match (tracked.text, tracked.frame.bytes) {
            (Some(text), Some(frame)) => text.as_ptr().addr().saturating_sub(frame.as_ptr().addr()),
            _ => 0,
        };
        self.messages.push(MessageFacts {
            kind,
            id,
            method,
            detail,
            code: facts.code.and_then(|code| i32::try_from(code).ok()).unwrap_or_default(),
            at,
            length: tracked.text.map_or(tracked.frame.length, |text| text.len() as u64),
            element: tracked.element.map_or(0, |element| u16::try_from(element + 1).unwrap_or(u16::MAX)),
            role: relation.role,
            outcome,
            conversation,
            has_other_id,
            operation,
        });
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        self.inspector.item(item, operations);
        if !self.is_finished() {
            match item {
                WireItem::Header(header) => self.header(header),
                WireItem::Frame(frame) => self.frame(frame),
                WireItem::Stderr(bytes) => self.stderr(bytes),
                WireItem::Event(event) => self.note(event, operations),
                WireItem::Endpoint { .. } => {}
            }
        }
        self.messages.clear();
        self.keep_findings();
    }

    fn end(&mut self, operations: &OperationTracker) {
        for channel in self.heads.channels() {
            self.finish_head(&channel, None);
        }
        self.inspector.end(operations);
        self.keep_findings();
        let omitted: u64 = self.inspector.omitted().map(|(_, count)| count).sum();
        self.index.data_mut().findings.total += omitted;
        self.index.complete();
    }
}

/// Notes the row of a request in its operation.
fn begin(role: Role, row: u32, data: &mut IndexData) {
    let number = data.entries[row as usize].operation;
    if let (Role::Request { .. }, Some(operation)) = (role, data.operation_mut(number)) {
        operation.open_request = row + 1;
        if operation.first == u32::MAX {
            operation.first = row;
        }
    }
}

/// Notes the row of a result that lists tools.
fn note_tool_list(kind: EntryKind, row: u32, data: &mut IndexData) {
    let entry = &data.entries[row as usize];
    if kind != EntryKind::Result || !matches!(entry.role, Role::Response { .. }) {
        return;
    }
    let method = data.operation(entry.operation).and_then(|it| data.names.get(it.method));
    if method == Some("tools/list") && data.tool_lists.len() < MAX_TOOL_LISTS {
        data.tool_lists.push(row);
    }
}

/// Gives the heads of an exchange to the operation of its first message, which is in this row, after the heads.
fn adopt_heads(heads: &ChannelHeads, first: u32, data: &mut IndexData) {
    let operation = data.entries[first as usize].operation;
    if let Some(record) = data.exchanges.get_mut((heads.exchange as usize).saturating_sub(1)) {
        record.operation = operation;
    }
    for row in &heads.rows {
        let Some(entry) = data.entries.get_mut(*row as usize) else { continue };
        if entry.kind == EntryKind::Event && entry.operation == 0 {
            entry.operation = operation;
            let before = std::mem::replace(&mut data.entries[first as usize].previous, row + 1);
            data.entries[*row as usize].previous = before;
            if let Some(operation) = data.operation_mut(operation) {
                operation.children += 1;
            }
        }
    }
}

fn outcome(kind: EntryKind, tracked: &TrackedMessage<'_>) -> RowOutcome {
    match (kind, tracked.message) {
        (EntryKind::Cut, _) => RowOutcome::Cut,
        (_, Err(_)) => RowOutcome::Invalid,
        (_, Ok(Message::OrphanError(_))) => RowOutcome::Error,
        (_, Ok(Message::Response(response))) => match ResponseOutcome::of(response) {
            ResponseOutcome::Result => RowOutcome::Ok,
            ResponseOutcome::ToolFailed => RowOutcome::ToolError,
            ResponseOutcome::InputRequired => RowOutcome::InputRequired,
            ResponseOutcome::Error { .. } => RowOutcome::Error,
            ResponseOutcome::Unreadable => RowOutcome::Invalid,
            ResponseOutcome::Cut => RowOutcome::Cut,
        },
        (_, Ok(Message::Request(_) | Message::Notification(_))) => RowOutcome::None,
    }
}

/// Returns the place of each element of a batch: its offset and its length.
fn element_places(text: &[u8]) -> Vec<(usize, usize)> {
    let Parsed::Batch(batch) = parse(text, usize::MAX) else { return Vec::new() };
    let place = |element: &[u8]| (element.as_ptr().addr() - text.as_ptr().addr(), element.len());
    batch.texts().take(MAX_ELEMENTS).map(place).collect()
}

fn beginning_bytes(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(MAX_NAME)]
}

fn blank() -> EntryRecord {
    EntryRecord {
        text: Span::NONE,
        frame: 0,
        offset: 0,
        length: 0,
        time: Time::NONE,
        id: super::names::IndexedId::default(),
        operation: 0,
        method: 0,
        detail: 0,
        channel: 0,
        conversation: 0,
        exchange: 0,
        previous: 0,
        request: 0,
        code: 0,
        round: 0,
        element: 0,
        elements: 0,
        flags: Flags::default(),
        kind: EntryKind::Event,
        role: Role::None,
        outcome: RowOutcome::None,
    }
}

/// The maximum length of a name or of the beginning of an event, in bytes.
const MAX_NAME: usize = 512;
/// The maximum number of names that are found without redacting them again.
const MAX_CACHED_NAMES: usize = 100_000;
/// The length up to which an id is no secret.
const MAX_PLAIN_ID: usize = 16;
/// The maximum number of unfinished operations; the tracker keeps as many.
const MAX_OPEN: usize = 66_000;
/// The maximum number of elements of a batch that get a row of their own.
const MAX_ELEMENTS: usize = 1000;
/// The maximum number of results that list tools: more than any session has.
const MAX_TOOL_LISTS: usize = 65_536;
/// The maximum number of rows: they take half a gigabyte.
const MAX_ROWS: usize = 4_000_000;
