//! Replaces each secret in a text with `<redacted-N>`. Equal secrets get the same number.
//!
//! A recorder creates one [`Redactor`] for each file and passes all entries through [`Redactor::entry`], which handles
//! HTTP heads, bodies, lines in pieces, and secrets that span several lines. Other texts have their own methods: the
//! command line ([`Redactor::argv`]), and excerpts within a line ([`Redactor::shown`]). JSON stays JSON, and all bytes
//! outside secrets stay unchanged.

mod argv;
mod head;
mod numbers;
mod parts;

use std::collections::HashMap;

use barewire_proto::transcript::{Bytes, Channel, End, Entry, Event, Marks, Note, Stream};

use super::{Continuation, Detector, LineScanner, SecretKind, SecretVisitor};
use crate::frames::ended_stream;
use crate::text::shown;
use memchr::memmem;
use numbers::{SecretHash, SecretNumbers};

pub(crate) use numbers::REPLACEMENT_PREFIX;
pub(super) use numbers::is_replacement;

/// Replaces secrets, or, if switched off, leaves everything unchanged.
pub struct Redactor(Option<ActiveRedactor>);

struct ActiveRedactor {
    detector: Detector,
    numbers: SecretNumbers,
    /// The unfinished text of each stream, whose next line or piece may contain the rest of a secret.
    unfinished: HashMap<(Stream, Channel), UnfinishedText>,
}

struct UnfinishedText {
    line: LineScanner,
    /// The hash of the secret that the text so far ends with.
    secret: SecretHash,
    /// The number of lines in the current private key so far.
    lines: usize,
    /// The redacted part of the last piece; its payload is empty if it was already written. The rest of the piece is
    /// written with the same marks.
    last: Bytes,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

impl Redactor {
    /// Creates a redactor that knows the secrets in our environment variables, which the programs that we start
    /// inherit.
    pub fn new() -> Self {
        Self::knowing([])
    }

    /// Creates a redactor that also knows these secrets.
    pub fn knowing(secrets: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::with(Detector::new(secrets))
    }

    fn with(detector: Detector) -> Self {
        Self(Some(ActiveRedactor { detector, numbers: SecretNumbers::default(), unfinished: HashMap::new() }))
    }

    /// Creates a redactor that leaves everything unchanged.
    pub fn off() -> Self {
        Self(None)
    }

    /// Whether this redactor leaves everything unchanged.
    pub fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Appends the entry to `out` with its secrets replaced, after any text that was held back. A changed entry is
    /// marked `redacted`.
    ///
    /// The last piece of an unfinished line is held back, because a secret may continue in the next piece. It is
    /// written with the next piece, a [`Note::Gap`] or the end of its stream.
    pub fn entry(&mut self, entry: Entry, out: &mut Vec<Entry>) {
        let Some(secrets) = &mut self.0 else { return out.push(entry) };
        match entry {
            Entry::Bytes(bytes) => secrets.bytes(bytes, out),
            Entry::Event(Event { channel, note, mut marks }) => {
                let over = if let Note::Gap(stream, _) = note { Some(stream) } else { ended_stream(&note) };
                out.extend(over.and_then(|stream| secrets.rest(stream, &channel)).map(Entry::Bytes));
                let note = match note {
                    Note::Head(stream, line) if !marks.redacted => {
                        let (line, redacted) = secrets.head(&line);
                        marks.redacted |= redacted;
                        Note::Head(stream, line)
                    }
                    note @ (Note::Head(..) | Note::Open(_)) if marks.redacted => note,
                    mut note => {
                        for text in note.texts_mut() {
                            let (clean, redacted) = secrets.text(text);
                            marks.redacted |= redacted;
                            *text = clean;
                        }
                        note
                    }
                };
                out.push(Entry::Event(Event { channel, note, marks }));
            }
            other => out.push(other),
        }
    }

    /// Returns a frame of a stream with its secrets replaced; `None` if nothing was replaced. A secret that continues in
    /// the next frame, such as a private key of several lines, is found too.
    pub(crate) fn frame(&mut self, stream: Stream, channel: &str, text: &[u8]) -> Option<Vec<u8>> {
        let secrets = self.0.as_mut()?;
        if secrets.unfinished.is_empty() && stands_alone(text) && secrets.detector.finds_nothing(text) {
            return None;
        }
        let channel = Channel::new(channel).unwrap_or_default();
        let bytes = Bytes { stream, channel, payload: text.to_vec(), end: End::Lf, marks: Marks::default() };
        let mut entries = Vec::new();
        secrets.bytes(bytes, &mut entries);
        let mut clean = Vec::with_capacity(text.len());
        for entry in entries {
            if let Entry::Bytes(bytes) = entry {
                clean.extend_from_slice(&bytes.payload);
            }
        }
        (clean != text).then_some(clean)
    }

    /// Returns a text with its secrets replaced: a JSON value, a URL, a header or a log line. Equal secrets get equal
    /// numbers.
    pub fn text(&mut self, text: &str) -> String {
        let Some(secrets) = &mut self.0 else { return text.to_owned() };
        let (clean, _) = secrets.text(text.as_bytes());
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// Returns an excerpt of a peer's text for one line: first redacted, then escaped, then cut to `most` columns. The
    /// order matters because an escaped or cut secret could not be recognized.
    pub fn shown(&mut self, text: &[u8], most: usize) -> String {
        let Some(secrets) = &mut self.0 else { return shown(text, most) };
        if is_line_of_a_key(text) {
            return shown(&secrets.value(text).0, most);
        }
        let begin = &text[..text.len().min(EXCERPT_LIMIT)];
        let more = begin.len() < text.len();
        if !more && secrets.detector.finds_nothing(begin) && memmem::find(begin, ELLIPSIS).is_none() {
            return shown(begin, most);
        }
        // If more text follows, the end is held back because it may be part of a secret.
        let (mut clean, _) = secrets.read(begin, if more { Continuation::Piece } else { Continuation::Nothing });
        if more {
            clean.extend_from_slice(ELLIPSIS);
        }
        shown(&secrets.redact_known_prefixes(clean), most)
    }
}

impl ActiveRedactor {
    fn bytes(&mut self, mut bytes: Bytes, entries: &mut Vec<Entry>) {
        let next = match bytes.end {
            End::None => Continuation::Piece,
            _ if stands_alone(&bytes.payload) => Continuation::Nothing,
            _ => Continuation::Line,
        };
        let key = |bytes: &Bytes| (bytes.stream, bytes.channel.clone());
        // The common case: a message without secrets.
        if next == Continuation::Nothing
            && (self.unfinished.is_empty() || !self.unfinished.contains_key(&key(&bytes)))
            && self.detector.finds_nothing(&bytes.payload)
        {
            return entries.push(Entry::Bytes(bytes));
        }
        let key = key(&bytes);
        let (mut line, secret, lines) = match self.unfinished.remove(&key) {
            None => (LineScanner::default(), self.numbers.start_hash(), 0),
            Some(UnfinishedText { line, secret, lines, last }) => {
                if !last.payload.is_empty() {
                    entries.push(Entry::Bytes(last));
                }
                (line, secret, lines)
            }
        };
        let out = Vec::with_capacity(bytes.payload.len());
        let mut visitor = RedactingVisitor { numbers: &mut self.numbers, secret, out, redacted: false };
        line.push(&bytes.payload, next, &self.detector, &mut visitor);
        let RedactingVisitor { secret, out, redacted, .. } = visitor;
        bytes.marks.redacted |= redacted;
        bytes.payload = out;
        if next == Continuation::Piece {
            self.unfinished.insert(key, UnfinishedText { line, secret, lines, last: bytes });
            return;
        }
        let lines = if line.ends_in_private_key() { lines + 1 } else { 0 };
        let goes_on = next == Continuation::Line || lines > 0;
        if goes_on && lines <= MAX_KEY_LINES && self.unfinished.len() < MAX_OPEN_TEXTS {
            let (stream, channel, marks) = (bytes.stream, bytes.channel.clone(), bytes.marks.clone());
            let last = Bytes { stream, channel, payload: Vec::new(), end: bytes.end, marks };
            self.unfinished.insert(key, UnfinishedText { line, secret, lines, last });
        }
        entries.push(Entry::Bytes(bytes));
    }

    /// Returns the held-back end of a line that is complete now.
    fn rest(&mut self, stream: Stream, channel: &Channel) -> Option<Bytes> {
        let UnfinishedText { mut line, secret, mut last, .. } = self.unfinished.remove(&(stream, channel.clone()))?;
        let out = std::mem::take(&mut last.payload);
        let mut visitor = RedactingVisitor { numbers: &mut self.numbers, secret, out, redacted: false };
        line.push(b"", Continuation::Nothing, &self.detector, &mut visitor);
        last.marks.redacted |= visitor.redacted;
        last.payload = visitor.out;
        last.end = End::None;
        (!last.payload.is_empty()).then_some(last)
    }

    fn text(&mut self, text: &[u8]) -> (Vec<u8>, bool) {
        self.read(text, Continuation::Nothing)
    }

    /// Redacts one text. `next` says what follows the text, so that its end can be held back.
    fn read(&mut self, text: &[u8], next: Continuation) -> (Vec<u8>, bool) {
        let secret = self.numbers.start_hash();
        let out = Vec::with_capacity(text.len());
        let mut visitor = RedactingVisitor { numbers: &mut self.numbers, secret, out, redacted: false };
        LineScanner::default().push(text, next, &self.detector, &mut visitor);
        (visitor.out, visitor.redacted)
    }

    /// Replaces prefixes of known secrets before an ellipsis, because some names are cut before they are redacted.
    fn redact_known_prefixes(&mut self, text: Vec<u8>) -> Vec<u8> {
        let (mut out, mut from) = (Vec::new(), 0);
        for cut in memmem::find_iter(&text, ELLIPSIS) {
            let length = self.detector.known_prefix_length(&text[from..cut]);
            out.extend_from_slice(&text[from..cut - length]);
            out.extend(self.value(&text[cut - length..cut]).0);
            from = cut;
        }
        out.extend_from_slice(&text[from..]);
        out
    }

    /// Replaces a whole value.
    fn value(&mut self, value: &[u8]) -> (Vec<u8>, bool) {
        if value.is_empty() || is_replacement(value.trim_ascii()) {
            return (value.to_vec(), false);
        }
        let mut secret = self.numbers.start_hash();
        secret.push(value);
        let mut out = Vec::new();
        self.numbers.write_replacement(&secret, &mut out);
        (out, true)
    }
}

/// Writes plain text unchanged, and replacement texts for secrets.
struct RedactingVisitor<'a> {
    numbers: &'a mut SecretNumbers,
    secret: SecretHash,
    out: Vec<u8>,
    redacted: bool,
}

impl SecretVisitor for RedactingVisitor<'_> {
    fn plain(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn secret(&mut self, _: &[u8], text: &[u8], _: SecretKind) {
        // Equal secrets have the same number, however they are spelled.
        self.secret.push(text);
        // A piece from the middle of a secret writes nothing, but it is also marked as redacted.
        self.redacted |= !text.is_empty();
    }

    fn end(&mut self, _: SecretKind) {
        if !self.secret.is_empty() {
            self.numbers.write_replacement(&self.secret, &mut self.out);
            self.secret = self.numbers.start_hash();
        }
    }

    fn number(&mut self, quote: &[u8], number: &[u8], kind: SecretKind) {
        self.out.extend_from_slice(quote);
        self.secret(number, number, kind);
        self.end(kind);
        self.out.extend_from_slice(quote);
    }
}

/// Whether this line is a whole message, as on stdio or in a server-sent event, so that the next line does not continue
/// it.
fn stands_alone(line: &[u8]) -> bool {
    let text = match line.strip_prefix(b"data:") {
        Some(data) => data.strip_prefix(b" ").unwrap_or(data),
        None => line,
    };
    // If JSON spans several lines, its lines are indented, so this line would not begin with a bracket.
    let text = text.trim_ascii_end();
    matches!(text, [b'{', .., b'}'] | [b'[', .., b']'])
}

/// Whether a text consists of Base64 only, so that it may be a line of a private key. A single line does not show
/// whether it is part of a key.
fn is_line_of_a_key(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    let has = |part: fn(&u8) -> bool| text.iter().any(part);
    text.len() >= 40
        && text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

/// The ellipsis that marks a cut text.
const ELLIPSIS: &[u8] = "…".as_bytes();

/// The maximum length of text that excerpts are made from: more than is ever shown or held back.
pub const EXCERPT_LIMIT: usize = 16 * 1024;

/// The maximum number of lines in a private key; a key of 16384 bits has about 200.
const MAX_KEY_LINES: usize = 256;

/// The maximum number of streams whose last line is kept.
const MAX_OPEN_TEXTS: usize = 4096;

#[cfg(test)]
mod tests;
