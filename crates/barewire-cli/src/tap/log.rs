//! Messages -> one line of text each: time, direction, kind, id, subject, size, latency.

use std::fmt::Write;
use std::time::Duration;

use barewire_proto::json::Json;
use barewire_proto::rpc::{Message, Params};
use barewire_proto::transcript::{Bytes, Channel, End, Entry, Event, Marks, Note, Stream};

use super::findings;
use super::outlet::Outlet;
use crate::output::{pad, shown, size};
use barewire_workbench::capture::Redactor;
use barewire_workbench::check::Inspector;
use barewire_workbench::frames::{FrameFacts, WireItem};
use barewire_workbench::operations::{Operation, OperationTracker, Relation, ResponseOutcome, TrackedMessage, member};
use barewire_workbench::pipeline::Observer;
use barewire_workbench::secrets::EXCERPT_LIMIT;

pub(super) struct Log {
    outlet: Outlet,
    redactor: Redactor,
    /// Whether the log includes the program's stderr. It does not if the log itself goes to stderr.
    with_stderr: bool,
    inspector: Inspector,
}

impl Observer for Log {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        let line = line(message, &mut self.redactor);
        self.put(&line);
        self.inspector.message(message);
        self.put_findings();
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        self.event_line(item);
        self.inspector.item(item, operations);
        self.put_findings();
    }

    fn caught_up(&mut self) {
        self.outlet.flush();
    }

    fn end(&mut self, operations: &OperationTracker) {
        let mut count = 0;
        for operation in operations.open().filter(|operation| operation.is_unanswered()) {
            count += 1;
            if count <= MAX_UNANSWERED {
                let line = unanswered(operation, &mut self.redactor);
                self.put(&line);
            }
        }
        if count > MAX_UNANSWERED {
            self.put(&format!("{:>11} ? and {} more unanswered", "", count - MAX_UNANSWERED));
        }
        self.inspector.end(operations);
        self.put_findings();
        for (id, more) in self.inspector.omitted() {
            self.outlet.line(&format!("{:>11} * {id}: {more} more", ""));
        }
        self.outlet.finish();
    }
}

impl Log {
    pub(super) fn new(outlet: Outlet, redactor: Redactor, with_stderr: bool) -> Self {
        Self { outlet, redactor, with_stderr, inspector: Inspector::incremental() }
    }

    fn event_line(&mut self, item: &WireItem<'_>) {
        match item {
            WireItem::Stderr(bytes) if self.with_stderr => self.stderr(Entry::Bytes((*bytes).clone())),
            WireItem::Event(event) => {
                let Event { note, marks, channel } = *event;
                if self.with_stderr
                    && let Note::Eof(Stream::Stderr) | Note::Gap(Stream::Stderr, _) = note
                {
                    self.stderr(Entry::Event((*event).clone()));
                }
                let redactor = &mut self.redactor;
                let what = match note {
                    Note::Open(what) => format!("open {}", redactor.shown(what, 200)),
                    // Over HTTP every message ends with this event, so it is not logged.
                    Note::Eof(_) if !channel.as_str().is_empty() => return,
                    Note::Eof(stream) => format!("eof {}", stream.sigil()),
                    Note::Gap(stream, bytes) => format!("gap {} {}", stream.sigil(), size(*bytes)),
                    Note::ExitCode(code) => format!("exit code {code}"),
                    Note::ExitSignal(signal) => format!("exit signal {signal}"),
                    // This event is the same in every exchange, so it is not logged.
                    Note::Changed(_) => return,
                    // HTTP heads without a JSON-RPC message: requests with a method other than POST, and responses with
                    // an error or a redirect.
                    Note::Head(Stream::ToServer, line) if is_bare(line) => redactor.shown(line, 200),
                    Note::Head(Stream::ToClient, line) if is_refusal(line) => redactor.shown(line, 200),
                    Note::Head(..) | Note::Framing(_) | Note::Read(_) => return,
                    note => redactor.shown(&note.text(), 200),
                };
                self.put(&format!("{} @{} {what}", at(marks.time), channel.as_str()));
            }
            _ => {}
        }
    }

    /// Writes lines of stderr, redacted. The redactor keeps state between lines, because a private key spans many
    /// lines.
    fn stderr(&mut self, entry: Entry) {
        let mut entries = Vec::new();
        self.redactor.entry(entry, &mut entries);
        for entry in entries {
            if let Entry::Bytes(Bytes { payload, marks, .. }) = entry {
                self.put(&format!("{} ! {}", at(marks.time), shown(&payload, 200)));
            }
        }
    }

    /// Writes the findings since the last call.
    fn put_findings(&mut self) {
        for finding in self.inspector.take_findings() {
            for line in findings::lines(finding, &mut self.redactor) {
                self.put(&line);
            }
        }
    }

    /// Writes a line that is redacted already.
    fn put(&mut self, line: &str) {
        self.outlet.line(line.trim_end());
    }
}

/// Whether a line of an HTTP head is a request line with a method other than POST.
fn is_bare(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ');
    words.next() != Some(b"POST") && words.nth(1).is_some_and(|version| version.starts_with(b"HTTP/"))
}

/// Whether a line of an HTTP head is the status line of a redirect or an error.
fn is_refusal(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ');
    words.next().is_some_and(|version| version.starts_with(b"HTTP/"))
        && words.next().and_then(|status| status.first()).is_some_and(|digit| (b'3'..=b'9').contains(digit))
}

fn line(message: &TrackedMessage<'_>, redactor: &mut Redactor) -> String {
    let place = message.frame.place;
    let time = place.and_then(|place| place.time);
    let sigil = place.map_or(' ', |place| place.stream.sigil());
    let channel = place.map_or("", |place| place.channel);
    let facts = match message.text {
        Some(text) => FrameFacts::element(message.message, text),
        None => message.frame.facts(),
    };
    let id = facts.id.as_deref().map_or(String::new(), |id| redactor.shown(id.as_bytes(), 20));
    let length = message.text.map_or(message.frame.length, |text| text.len() as u64);
    let (what, note) = subject(message, &facts, redactor);
    let kind = if message.element.is_some() { format!("[{}]", facts.kind) } else { facts.kind.to_owned() };
    let mut line = format!("{} {sigil}{channel} {kind:<12}  {}  ", at(time), pad(&id, 6));
    let _ = write!(line, "{} {:>9}", pad(&what, 40), size(length));
    if !note.is_empty() {
        line.push_str("  ");
        line.push_str(&note);
    }
    line
}

/// Returns the subject of a message, and a remark about it.
fn subject(message: &TrackedMessage<'_>, facts: &FrameFacts<'_>, redactor: &mut Redactor) -> (String, String) {
    let method = facts.method.map_or(String::new(), |method| redactor.shown(method.trim_matches('"').as_bytes(), 40));
    if let Some(invalid) = facts.invalid {
        let text = message.text.map_or(String::new(), |text| noise(message, text, redactor));
        return (format!("{} at {}", invalid.rule.name(), invalid.at), text);
    }
    match message.relation {
        Relation::None => (method, String::new()),
        Relation::Request { operation, id_in_use } => {
            let round = operation.rounds.len();
            let note = match (round > 1, id_in_use) {
                (_, true) => "the id is in use".to_owned(),
                (true, false) => format!("round {round}"),
                (false, false) => String::new(),
            };
            (titled(operation, redactor), note)
        }
        Relation::Response { operation, latency, late } => {
            (titled(operation, redactor), answer(operation, latency, late, redactor))
        }
        Relation::Progress { operation } => {
            (format!("{method} of {}", titled(operation, redactor)), progress(message, redactor))
        }
        Relation::Cancellation { operation } => (format!("{method} of {}", titled(operation, redactor)), String::new()),
        Relation::RefusesUnidentified => (error(facts, redactor), "about a message without an id".to_owned()),
        Relation::Duplicate => (error(facts, redactor), "answered before".to_owned()),
        Relation::Unsolicited => (error(facts, redactor), "matches no request".to_owned()),
    }
}

/// Returns the progress of a progress notification, as the sender wrote it.
fn progress(message: &TrackedMessage<'_>, redactor: &mut Redactor) -> String {
    let Ok(Message::Notification(notification)) = message.message else { return String::new() };
    let named = |name| member(notification.params.map(Params::json), name);
    let mut shown = |json: Json<'_>| redactor.shown(json.as_str().as_bytes(), 20);
    match (named("progress").map(&mut shown), named("total").map(&mut shown)) {
        (Some(progress), Some(total)) => format!("progress {progress} of {total}"),
        (Some(progress), None) => format!("progress {progress}"),
        (None, _) => String::new(),
    }
}

/// Returns the text of an invalid message, redacted. It may be one line of a private key, so the redactor also uses the
/// earlier lines of the stream.
fn noise(message: &TrackedMessage<'_>, text: &[u8], redactor: &mut Redactor) -> String {
    if text.len() > EXCERPT_LIMIT {
        return redactor.shown(text, 60);
    }
    let place = message.frame.place;
    let channel = place.and_then(|place| Channel::new(place.channel)).unwrap_or_default();
    let stream = place.map_or(Stream::ToClient, |place| place.stream);
    let (payload, marks) = (text.to_vec(), Marks::default());
    let mut entries = Vec::new();
    redactor.entry(Entry::Bytes(Bytes { stream, channel, payload, end: End::Lf, marks }), &mut entries);
    if let Some(Entry::Bytes(bytes)) = entries.first() { shown(&bytes.payload, 60) } else { String::new() }
}

fn answer(operation: &Operation, latency: Option<Duration>, late: bool, redactor: &mut Redactor) -> String {
    let mut note = latency.map_or(String::new(), millis);
    let rounds = operation.rounds.len();
    match operation.answer().map(|answer| &answer.outcome) {
        Some(ResponseOutcome::InputRequired) => note.push_str(", input required"),
        Some(ResponseOutcome::ToolFailed) => note.push_str(", isError"),
        Some(ResponseOutcome::Error { code, message }) => {
            let _ = write!(note, ", {code} {}", redactor.shown(message.as_bytes(), 60));
        }
        Some(ResponseOutcome::Unreadable) => note.push_str(", not readable"),
        Some(ResponseOutcome::Result | ResponseOutcome::Cut) | None => {}
    }
    if let Some(asked) = operation.rounds.last().filter(|round| round.other_id().is_some()) {
        let _ = write!(note, ", the request has the id {}", redactor.shown(asked.id.as_str().as_bytes(), 20));
    }
    if rounds > 1
        && let Some(all) = operation.latency()
    {
        let _ = write!(note, ", {rounds} rounds in {}", millis(all));
    }
    if late {
        let answered = operation.answer().and_then(|answer| answer.at.time);
        let since = operation.cancelled.and_then(|at| Some(answered?.saturating_sub(at.time?)));
        let _ = write!(note, ", late: {} after it was cancelled", since.map_or("some time".into(), millis));
    }
    note
}

fn error(facts: &FrameFacts<'_>, redactor: &mut Redactor) -> String {
    match facts.error {
        Some(error) => format!("{} {}", error.code, redactor.shown(error.message.to_name().as_bytes(), 32)),
        None => String::new(),
    }
}

fn unanswered(operation: &Operation, redactor: &mut Redactor) -> String {
    let asked = operation.rounds.last().map(|round| (round.asked.time, round.id.to_string()));
    let (time, id) = asked.unwrap_or_default();
    let who = match operation.asker {
        barewire_proto::mcp::Side::Client => Stream::ToServer.sigil(),
        barewire_proto::mcp::Side::Server => Stream::ToClient.sigil(),
    };
    let id = pad(&redactor.shown(id.as_bytes(), 20), 6);
    format!(
        "{:>11} {who} {:<12}  {id}  {}, asked at {}",
        "",
        "unanswered",
        titled(operation, redactor),
        at(time).trim_start()
    )
}

fn titled(operation: &Operation, redactor: &mut Redactor) -> String {
    format!("#{} {}", operation.number, redactor.shown(operation.title().as_bytes(), 60))
}

/// Formats a time in the same way as in the capture.
fn at(time: Option<Duration>) -> String {
    time.map_or_else(|| " ".repeat(11), |time| format!("{:>+11.6}", time.as_secs_f64()))
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// The maximum number of unanswered requests to list: more than a person reads.
const MAX_UNANSWERED: usize = 100;
