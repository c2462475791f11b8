//! Text -> the same text with each secret replaced by `<redacted-N>`, equal secrets by the same number.
//!
//! A recorder creates one [`Redactor`] for each file and passes all entries through [`Redactor::entry`], which handles HTTP
//! heads, bodies, lines in pieces and secrets over several lines. Other texts have methods of their own: the command line
//! ([`Redactor::argv`]), and excerpts within a line ([`Redactor::shown`]). JSON stays JSON, and everything but the secrets
//! stays byte for byte the same.

mod argv;
mod head;
mod numbers;

use std::collections::HashMap;

use barewire_proto::transcript::{Bytes, Channel, End, Entry, Event, Note, Stream};

use super::{Continuation, Detector, LineScanner, SecretKind, SecretVisitor};
use crate::frames::ended_stream;
use crate::text::shown;
use memchr::memmem;
use numbers::{SecretHash, SecretNumbers};

pub(crate) use numbers::REPLACEMENT_PREFIX;
pub(super) use numbers::is_replacement;

/// Replaces secrets, or leaves everything unchanged.
pub struct Redactor(Option<ActiveRedactor>);

struct ActiveRedactor {
    detector: Detector,
    numbers: SecretNumbers,
    /// The texts of which more may come.
    unfinished: HashMap<(Stream, Channel), UnfinishedText>,
}

struct UnfinishedText {
    line: LineScanner,
    /// The secret at the end of the text so far.
    secret: SecretHash,
    /// The number of lines of a private key so far.
    lines: usize,
    /// The last piece as far as it is decided; without its bytes if it is written already. The rest is written with its marks.
    last: Bytes,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

impl Redactor {
    /// Creates a redactor that knows the secrets of our environment, which a program that we start has as well.
    pub fn new() -> Self {
        Self::knowing([])
    }

    /// Creates a redactor that knows these secrets as well.
    pub fn knowing(secrets: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::with(Detector::new(secrets))
    }

    fn with(detector: Detector) -> Self {
        Self(Some(ActiveRedactor { detector, numbers: SecretNumbers::default(), unfinished: HashMap::new() }))
    }

    /// Creates a redactor that changes nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Appends the entry without its secrets, after anything that was held back. A changed entry is marked `redacted`.
    ///
    /// The last piece of an unfinished line is held back, because a secret may go on in the next piece. It is written with the
    /// next piece, a [`Note::Gap`] or the end of its stream.
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

    /// Returns a text without its secrets: a JSON value, a URL, a header, a log line. Equal secrets get equal numbers.
    pub fn text(&mut self, text: &str) -> String {
        let Some(secrets) = &mut self.0 else { return text.to_owned() };
        let (clean, _) = secrets.text(text.as_bytes());
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// Returns an excerpt of a peer's text for one line: first redacted, then escaped, then cut to `most` columns. A secret that
    /// is escaped or cut could not be recognized.
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
        // With more to come, the end is held back: it may be part of a secret.
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

    /// Returns the held-back end of a line that does not go on.
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

    /// Redacts one text; the end of it is missing if `next` says that more follows.
    fn read(&mut self, text: &[u8], next: Continuation) -> (Vec<u8>, bool) {
        let secret = self.numbers.start_hash();
        let out = Vec::with_capacity(text.len());
        let mut visitor = RedactingVisitor { numbers: &mut self.numbers, secret, out, redacted: false };
        LineScanner::default().push(text, next, &self.detector, &mut visitor);
        (visitor.out, visitor.redacted)
    }

    /// Replaces the prefixes of known secrets before an ellipsis: some names are cut before they come here.
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

    /// Replaces a value that is a secret as a whole.
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

/// Writes plain text as it is, and replacement texts for secrets.
struct RedactingVisitor<'a> {
    numbers: &'a mut SecretNumbers,
    secret: SecretHash,
    out: Vec<u8>,
    redacted: bool,
}

impl SecretVisitor for RedactingVisitor<'_> {
    fn plain(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    fn secret(&mut self, part: &[u8], _: SecretKind) {
        self.secret.push(part);
        // A piece that is dropped as a whole counts as well.
        self.redacted |= !part.is_empty();
    }

    fn end(&mut self, _: SecretKind) {
        if !self.secret.is_empty() {
            self.numbers.write_replacement(&self.secret, &mut self.out);
            self.secret = self.numbers.start_hash();
        }
    }

    fn number(&mut self, quote: &[u8], number: &[u8], kind: SecretKind) {
        self.out.extend_from_slice(quote);
        self.secret(number, kind);
        self.end(kind);
        self.out.extend_from_slice(quote);
    }
}

/// Whether this line is a whole message, as on stdio or in a server-sent event, so that the next line does not belong to it.
fn stands_alone(line: &[u8]) -> bool {
    let text = match line.strip_prefix(b"data:") {
        Some(data) => data.strip_prefix(b" ").unwrap_or(data),
        None => line,
    };
    // A line of JSON over several lines is indented.
    let text = text.trim_ascii_end();
    matches!(text, [b'{', .., b'}'] | [b'[', .., b']'])
}

/// Whether a text is all Base64, like a line of a private key. In a single line, the head of the key is not seen.
fn is_line_of_a_key(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    let has = |part: fn(&u8) -> bool| text.iter().any(part);
    text.len() >= 40
        && text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

/// The mark of a text that was cut.
const ELLIPSIS: &[u8] = "…".as_bytes();

/// The longest part of a text that excerpts are made from: more than is ever shown, and than is held back.
pub const EXCERPT_LIMIT: usize = 16 * 1024;

/// The most lines of a private key; one of 16384 bits has about 200.
const MAX_KEY_LINES: usize = 256;

/// The most streams of which the end of the last line is kept.
const MAX_OPEN_TEXTS: usize = 4096;

#[cfg(test)]
mod tests;
