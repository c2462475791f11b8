//! Messages and lines of stderr -> the kind and path of each secret or personal identifier, but not its value.

mod people;

use std::collections::HashSet;

use barewire_proto::json::Json;
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Bytes, Stream};
use memchr::memmem;

use super::MessageContext;
use crate::check::catalogue::privacy::PAYLOAD_EXPOSURE;
use crate::check::finding::{Finding, Location, Party, stream_location};
use crate::check::ledger::Ledger;
use crate::operations::Relation;
use crate::secrets::{
    Continuation, Detector, LineScanner, NameContext, PASSWORD_IN_URL, REPLACEMENT_PREFIX, SecretKind, SecretVisitor,
    looks_generated,
};

pub(super) struct PrivacyCheck {
    detector: Detector,
    /// Channels on which the last line of stderr is a part of a private key that continues in the next line.
    keys: HashSet<String>,
}

impl Default for PrivacyCheck {
    fn default() -> Self {
        Self { detector: Detector::new([]), keys: HashSet::new() }
    }
}

impl PrivacyCheck {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let Ok(message) = context.tracked.message else { return };
        let Some(text) = context.tracked.text.filter(|text| text.len() <= MAX_TEXT) else { return };
        if !context.by_server() && context.state.client_is_ours {
            return;
        }
        if let Message::Request(request) = message
            && request.params.is_none()
        {
            return;
        }
        // A resource that the probe has read can be any document.
        if let Relation::Response { operation, .. } = context.tracked.relation
            && context.state.client_is_ours
            && operation.method == "resources/read"
        {
            return;
        }
        ledger.inspected(&PAYLOAD_EXPOSURE);
        let is_redacted = context.tracked.frame.place.is_some_and(|place| place.redacted);
        let mut found: Vec<(String, String)> = Vec::new();
        let mut spans = self.spans(text, is_redacted).spans;
        spans.sort_by_key(|span| span.start);
        if let (false, Ok(whole)) = (spans.is_empty(), Json::parse(text)) {
            SecretWalk { text, name: String::new(), in_schema: false, spans: &spans, found: &mut found }.walk(whole);
        }
        if people::may_be_in(text)
            && let Ok(whole) = Json::parse(text)
        {
            walk(whole, &mut String::new(), &mut found);
        }
        for (path, kind) in found {
            // The finding has no evidence, because evidence would show the value.
            let location = Location::of(context.tracked.frame, 0);
            let finding = Finding::new(&PAYLOAD_EXPOSURE, Party::from(context.tracked.sender), location, kind);
            context.note_bare(ledger, finding.at(path));
        }
    }

    pub(super) fn stderr(&mut self, bytes: &Bytes, ledger: &mut Ledger) {
        ledger.inspected(&PAYLOAD_EXPOSURE);
        let channel = bytes.channel.as_str();
        let line = bytes.payload.as_slice();
        // The finding was reported at the first line of the key.
        if self.keys.contains(channel) && bytes.marks.redacted && line.starts_with(REPLACEMENT_PREFIX.as_bytes()) {
            return;
        }
        self.keys.remove(channel);
        // Personal identifiers are not reported: almost every log contains the path of the program, and with it the
        // name of the user.
        let SecretSpans { spans, key_goes_on, .. } = self.spans(line, bytes.marks.redacted);
        if key_goes_on && self.keys.len() < MAX_CHANNELS {
            self.keys.insert(channel.to_owned());
        }
        if let Some(span) = spans.iter().find(|span| span.is_one(line, "")) {
            let location = stream_location(channel, Stream::Stderr);
            let detail = format!("on stderr: {}", span.describe());
            ledger.fail(Finding::new(&PAYLOAD_EXPOSURE, Party::Server, location, detail));
        }
    }

    /// Finds the secrets in a text, including those that were redacted while recording.
    fn spans(&self, text: &[u8], is_redacted: bool) -> SecretSpans {
        let mut spans = SecretSpans::default();
        let mut line = LineScanner::default();
        line.push(text, Continuation::Nothing, &self.detector, &mut spans);
        spans.key_goes_on = line.ends_in_private_key();
        if is_redacted {
            let replaced = |start| SecretSpan { start, end: start, kind: None };
            spans.spans.extend(memmem::find_iter(text, REPLACEMENT_PREFIX).map(replaced));
        }
        spans
    }
}

#[derive(Default)]
struct SecretSpans {
    at: usize,
    begin: Option<usize>,
    spans: Vec<SecretSpan>,
    key_goes_on: bool,
}

struct SecretSpan {
    start: usize,
    end: usize,
    /// The kind of the secret; `None` if it was redacted while recording.
    kind: Option<SecretKind>,
}

impl SecretVisitor for SecretSpans {
    fn plain(&mut self, bytes: &[u8]) {
        self.at += bytes.len();
    }

    fn secret(&mut self, bytes: &[u8], _: &[u8], _: SecretKind) {
        self.begin.get_or_insert(self.at);
        self.at += bytes.len();
    }

    fn end(&mut self, kind: SecretKind) {
        let start = self.begin.take().unwrap_or(self.at);
        self.spans.push(SecretSpan { start, end: self.at, kind: Some(kind) });
    }

    fn number(&mut self, _: &[u8], number: &[u8], kind: SecretKind) {
        self.secret(number, number, kind);
        self.end(kind);
    }
}

impl SecretSpan {
    fn describe(&self) -> String {
        match self.kind {
            Some(kind) => kind.description(),
            None => "a secret, redacted while recording".to_owned(),
        }
    }

    /// Whether the span is certain to be a secret. Redaction may replace too much, but a finding must be right: a
    /// member named like a secret can also contain an example, a word or a description.
    fn is_one(&self, text: &[u8], path: &str) -> bool {
        let value = &text[self.start..self.end];
        match self.kind {
            None | Some(SecretKind::Known) => true,
            // The first line of a private key has only the header, so its value is empty.
            Some(SecretKind::Shaped { .. }) => !value.is_empty() || self.end == text.len(),
            Some(SecretKind::Named(NameContext::Member)) if path.ends_with("/token") || path.ends_with("/pass") => {
                looks_generated(value)
            }
            Some(SecretKind::Named(NameContext::Member)) => {
                value.len() >= MIN_SECRET && !value.contains(&b' ') && !DESCRIPTIONS.contains(&value)
            }
            Some(SecretKind::Named(_)) => looks_generated(value),
        }
    }
}

impl SecretSpan {
    /// Whether the span is a password in a URL. A schema has the names of members that hold secrets, and examples of
    /// secrets, but a generated password in a URL is that of a real account.
    fn is_password_in_schema(&self, text: &[u8]) -> bool {
        matches!(self.kind, Some(PASSWORD_IN_URL)) && looks_generated(&text[self.start..self.end])
    }
}

/// A walk through a message that finds the member of each secret. The walk descends only into members with secrets.
struct SecretWalk<'a> {
    text: &'a [u8],
    /// The JSON Pointer of the current part.
    name: String,
    /// Whether the current part is in a schema.
    in_schema: bool,
    /// The secrets that the walk has not reached yet, in order.
    spans: &'a [SecretSpan],
    found: &'a mut Vec<(String, String)>,
}

impl SecretWalk<'_> {
    fn walk(&mut self, value: Json<'_>) {
        let length = self.name.len();
        for member in value.members() {
            if self.leads_into(member.value) {
                let name = member.name.to_name();
                let was_in_schema = self.in_schema;
                self.in_schema |= is_schema(&name);
                push(&mut self.name, &name);
                self.walk(member.value);
                self.name.truncate(length);
                self.in_schema = was_in_schema;
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
            let is_one = match self.in_schema {
                true => span.is_password_in_schema(self.text),
                false => span.is_one(self.text, &self.name),
            };
            if self.found.len() < MAX_FOUND && is_one {
                let one = (self.name.clone(), span.describe());
                if !self.found.contains(&one) {
                    self.found.push(one);
                }
            }
        }
    }

    /// Skips the secrets before this part of the message, and returns whether the next secret is in the part.
    fn leads_into(&mut self, part: Json<'_>) -> bool {
        self.pass(self.end(part) - part.as_bytes().len());
        self.found.len() < MAX_FOUND && self.spans.first().is_some_and(|span| span.start < self.end(part))
    }

    /// Skips the secrets that begin before this byte.
    fn pass(&mut self, at: usize) {
        let ahead = self.spans.iter().position(|span| span.start >= at).unwrap_or(self.spans.len());
        self.spans = &self.spans[ahead..];
    }

    /// Returns the byte offset in the message at which a part ends.
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

/// Finds personal identifiers in the strings of a value. Recursion is safe: a valid message has at most 128 levels.
fn walk(value: Json<'_>, path: &mut String, found: &mut Vec<(String, String)>) {
    if found.len() >= MAX_FOUND {
        return;
    }
    let length = path.len();
    if let Some(text) = value.string() {
        // A text that looks like an e-mail address may be a URL with a password, which is already reported.
        let is_reported = found.iter().any(|(known, _)| known == path);
        if let (Some(kind), false) = (people::in_text(&text), is_reported) {
            found.push((path.clone(), kind));
        }
    }
    for (index, element) in value.elements().enumerate() {
        push(path, &index.to_string());
        walk(element, path, found);
        path.truncate(length);
    }
    for member in value.members() {
        let name = member.name.to_name();
        if !is_schema(&name) {
            push(path, &name);
            walk(member.value, path, found);
            path.truncate(length);
        }
    }
}

/// The maximum length of a message that is searched, in bytes. A longer message contains a file or a picture; searching
/// it would delay the traffic.
const MAX_TEXT: usize = 1024 * 1024;
/// The maximum number of findings for each message.
const MAX_FOUND: usize = 8;
/// Values that describe a secret, but are not secrets.
const DESCRIPTIONS: &[&[u8]] = &[b"string", b"number", b"required", b"optional", b"missing", b"invalid"];
/// The minimum length, in bytes, of a secret that is recognised by the name of its member. Shorter values are words
/// like `none` or `yes`.
const MIN_SECRET: usize = 6;
/// The maximum number of channels that are tracked; more than any host has processes.
const MAX_CHANNELS: usize = 4096;
