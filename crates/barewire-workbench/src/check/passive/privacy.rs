//! Messages and lines of stderr -> what in them is a secret or says who somebody is: its kind and its path, and nothing of it.

mod people;

use std::collections::HashSet;

use barewire_proto::json::Json;
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Bytes, Stream};
use memchr::memmem;
use serde_json::Value;

use super::Case;
use crate::check::catalogue::privacy::PAYLOAD_EXPOSURE;
use crate::check::finding::{Finding, Location, Party, stream_spot};
use crate::check::ledger::Ledger;
use crate::secrets::{Continuation, Detector, LineScanner, NameContext, REPLACEMENT_PREFIX, SecretKind, SecretVisitor, looks_generated};

/// Looks at everything that is not too long.
pub(super) struct Privacy {
    detector: Detector,
    /// Where a private key goes on in the next line of stderr.
    keys: HashSet<String>,
}

impl Privacy {
    pub(super) fn new() -> Self {
        Self { detector: Detector::new([]), keys: HashSet::new() }
    }

    pub(super) fn message(&mut self, case: &Case<'_>, ledger: &mut Ledger) {
        let Ok(message) = case.watched.message else { return };
        let Some(text) = case.watched.text.filter(|text| text.len() <= LONGEST) else { return };
        if !case.by_server() && case.setting.client_is_ours {
            return;
        }
        // Version and capabilities are no secrets, and a request without params says nothing.
        if let Message::Request(request) = message
            && request.params.is_none()
        {
            return;
        }
        ledger.look(&PAYLOAD_EXPOSURE);
        let is_redacted = case.watched.frame.place.is_some_and(|place| place.redacted);
        let mut found: Vec<(String, String)> = Vec::new();
        let mut spans = self.spans(text, is_redacted).spans;
        spans.sort_by_key(|span| span.start);
        if let (false, Ok(whole)) = (spans.is_empty(), Json::parse(text)) {
            Path { text, name: String::new(), spans: &spans, found: &mut found }.walk(whole);
        }
        if people::may_be_in(text)
            && let Ok(value) = serde_json::from_slice::<Value>(text)
        {
            walk(&value, &mut String::new(), &mut found);
        }
        for (path, told) in found {
            // Without the text, which would show what is not told here.
            let spot = Location::of(case.watched.frame, 0);
            let finding = Finding::new(&PAYLOAD_EXPOSURE, Party::from(case.watched.sender), spot, told);
            case.note(ledger, finding.at(path));
        }
    }

    pub(super) fn stderr(&mut self, bytes: &Bytes, ledger: &mut Ledger) {
        ledger.look(&PAYLOAD_EXPOSURE);
        let channel = bytes.channel.as_str();
        let line = bytes.payload.as_slice();
        // It was told where it began.
        if self.keys.contains(channel) && bytes.marks.redacted && line.starts_with(REPLACEMENT_PREFIX.as_bytes()) {
            return;
        }
        self.keys.remove(channel);
        // Where a program lies and who runs it is in every log and every stack trace, so only secrets are looked for.
        let Spans { spans, key_goes_on, .. } = self.spans(line, bytes.marks.redacted);
        if key_goes_on && self.keys.len() < MOST_CHANNELS {
            self.keys.insert(channel.to_owned());
        }
        if let Some(span) = spans.iter().find(|span| span.is_one(line, "")) {
            let spot = stream_spot(channel, Stream::Stderr);
            let detail = format!("on stderr: {}", span.told());
            ledger.fail(Finding::new(&PAYLOAD_EXPOSURE, Party::Server, spot, detail));
        }
    }

    /// What is a secret in a text, and what has been one before it was recorded.
    fn spans(&self, text: &[u8], is_redacted: bool) -> Spans {
        let mut spans = Spans::default();
        let mut line = LineScanner::default();
        line.push(text, Continuation::Nothing, &self.detector, &mut spans);
        spans.key_goes_on = line.ends_in_private_key();
        if is_redacted {
            let replaced = |start| Span { start, end: start, kind: None };
            spans.spans.extend(memmem::find_iter(text, REPLACEMENT_PREFIX).map(replaced));
        }
        spans
    }
}

/// Where secrets stand in a text.
#[derive(Default)]
struct Spans {
    at: usize,
    begin: Option<usize>,
    spans: Vec<Span>,
    key_goes_on: bool,
}

struct Span {
    start: usize,
    end: usize,
    /// `None` if it was redacted when it was recorded.
    kind: Option<SecretKind>,
}

impl SecretVisitor for Spans {
    fn plain(&mut self, text: &[u8]) {
        self.at += text.len();
    }

    fn secret(&mut self, part: &[u8], _: SecretKind) {
        self.begin.get_or_insert(self.at);
        self.at += part.len();
    }

    fn end(&mut self, kind: SecretKind) {
        let start = self.begin.take().unwrap_or(self.at);
        self.spans.push(Span { start, end: self.at, kind: Some(kind) });
    }

    fn number(&mut self, _: &[u8], number: &[u8], kind: SecretKind) {
        self.secret(number, kind);
        self.end(kind);
    }
}

impl Span {
    fn told(&self) -> String {
        match self.kind {
            Some(kind) => kind.description(),
            None => "a secret, which was redacted when it was recorded".to_owned(),
        }
    }

    /// Whether it is certain enough to tell. What is only named like a secret is better redacted once too often; but examples, words
    /// of a language and what is said of a password are under such names as well.
    fn is_one(&self, text: &[u8], path: &str) -> bool {
        let value = &text[self.start..self.end];
        match self.kind {
            None | Some(SecretKind::Known) => true,
            // That of a private key is all there is of it in its first line.
            Some(SecretKind::Shaped { .. }) => !value.is_empty() || self.end == text.len(),
            Some(SecretKind::Named(NameContext::Member)) if path.ends_with("/token") || path.ends_with("/pass") => {
                looks_generated(value)
            }
            Some(SecretKind::Named(NameContext::Member)) => {
                value.len() >= SHORTEST && !value.contains(&b' ') && !DESCRIBED.contains(&value)
            }
            Some(SecretKind::Named(_)) => looks_generated(value),
        }
    }
}

/// A walk through a message along the secrets in it, to say in which member each of them stands. It goes once from the beginning to
/// the end, and down only where there is one.
struct Path<'a> {
    text: &'a [u8],
    /// A JSON Pointer.
    name: String,
    /// What is still ahead, in its order.
    spans: &'a [Span],
    found: &'a mut Vec<(String, String)>,
}

impl Path<'_> {
    fn walk(&mut self, value: Json<'_>) {
        let length = self.name.len();
        for member in value.members() {
            if self.leads_into(member.value) {
                let name = member.name.to_name();
                if is_schema(&name) {
                    // It names what it takes, and holds nothing of it.
                    self.pass(self.end(member.value));
                    continue;
                }
                push(&mut self.name, &name);
                self.walk(member.value);
                self.name.truncate(length);
            }
        }
        for (index, element) in value.elements().enumerate() {
            if self.leads_into(element) {
                push(&mut self.name, &index.to_string());
                self.walk(element);
                self.name.truncate(length);
            }
        }
        let end = self.end(value);
        while let Some((span, rest)) = self.spans.split_first()
            && span.start < end
        {
            self.spans = rest;
            if self.found.len() < MOST_FOUND && span.is_one(self.text, &self.name) {
                let one = (self.name.clone(), span.told());
                if !self.found.contains(&one) {
                    self.found.push(one);
                }
            }
        }
    }

    /// Whether the next secret is in this part; what stands before it is in none.
    fn leads_into(&mut self, part: Json<'_>) -> bool {
        self.pass(self.end(part) - part.as_bytes().len());
        self.found.len() < MOST_FOUND && self.spans.first().is_some_and(|span| span.start < self.end(part))
    }

    /// Leaves out what begins before this byte.
    fn pass(&mut self, at: usize) {
        let ahead = self.spans.iter().position(|span| span.start >= at).unwrap_or(self.spans.len());
        self.spans = &self.spans[ahead..];
    }

    /// The byte of the message behind a part of it.
    fn end(&self, part: Json<'_>) -> usize {
        part.as_bytes().as_ptr().addr() - self.text.as_ptr().addr() + part.as_bytes().len()
    }
}

fn is_schema(name: &str) -> bool {
    matches!(name, "inputSchema" | "outputSchema" | "requestedSchema")
}

fn push(path: &mut String, name: &str) {
    path.push('/');
    path.push_str(&name.replace('~', "~0").replace('/', "~1"));
}

/// Who is named in the strings below `value`. Values are at most 128 levels deep: no deeper text is read into one.
fn walk(value: &Value, path: &mut String, found: &mut Vec<(String, String)>) {
    if found.len() >= MOST_FOUND {
        return;
    }
    let length = path.len();
    match value {
        Value::String(text) => {
            // What stands before the @ of a URL is told already, as a password.
            let is_told = found.iter().any(|(known, _)| known == path);
            if let (Some(told), false) = (people::in_text(text), is_told) {
                found.push((path.clone(), told));
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                push(path, &index.to_string());
                walk(element, path, found);
                path.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, member) in members.iter().filter(|(name, _)| !is_schema(name)) {
                push(path, name);
                walk(member, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// What is longer is a file or a picture; looking through it would slow down whoever waits for it.
const LONGEST: usize = 1024 * 1024;
/// Enough of one message.
const MOST_FOUND: usize = 8;
/// What is said of a secret that is not there.
const DESCRIBED: &[&[u8]] = &[b"string", b"number", b"required", b"optional", b"missing", b"invalid"];
/// Under the name of a secret; what is shorter is `none` or `yes`.
const SHORTEST: usize = 6;
/// More processes than a host has.
const MOST_CHANNELS: usize = 4096;
