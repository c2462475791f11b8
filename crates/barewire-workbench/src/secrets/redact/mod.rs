//! What is to be written down -> the same without secrets: each is replaced by `<redacted-N>`, equal ones by the same number.
//!
//! How it is used: whoever records makes one [`Redactor`] a file and hands all entries through [`Redactor::entry`], which knows heads
//! of HTTP, bodies, lines in pieces and what goes on in the next line. What is not an entry has a method of its own: the
//! command line ([`Redactor::argv`]), and what is quoted in a line ([`Redactor::shown`]).
//! The text stays what it is but for the secrets: JSON stays JSON, and everything else is byte for byte the same.

mod argv;
mod head;
mod numbers;

use std::collections::HashMap;

use barewire_proto::transcript::{Bytes, Channel, End, Entry, Event, Note, Stream};

use super::{Continuation, Detector, LineScanner, SecretKind, SecretVisitor};
use crate::frames::ended;
use crate::text::shown;
use memchr::memmem;
use numbers::{Numbers, Reading};

pub(crate) use numbers::REPLACEMENT_PREFIX;
pub(super) use numbers::is_replacement;

/// Replaces secrets, or leaves everything as it is.
pub struct Redactor(Option<Secrets>);

struct Secrets {
    detector: Detector,
    numbers: Numbers,
    /// Texts of which a piece or a line was seen, and more is to come.
    unfinished: HashMap<(Stream, Channel), Unfinished>,
}

struct Unfinished {
    line: LineScanner,
    /// The secret that it has come to, as far as it was read.
    secret: Reading,
    /// How many lines a private key has gone on for: it has a hundred at most.
    lines: usize,
    /// The last piece, as far as it can be written; without its bytes if it is written already. What is held back of it is written
    /// like it.
    last: Bytes,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

impl Redactor {
    /// One that knows the secrets in our own environment, which the program that is started has as well.
    pub fn new() -> Self {
        Self::knowing([])
    }

    /// One that knows these as well.
    pub fn knowing(secrets: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::with(Detector::new(secrets))
    }

    fn with(detector: Detector) -> Self {
        Self(Some(Secrets { detector, numbers: Numbers::default(), unfinished: HashMap::new() }))
    }

    /// One that leaves everything as it is.
    pub fn off() -> Self {
        Self(None)
    }

    /// Appends the entry, and what belongs before it, with `redacted` on it where something was replaced.
    ///
    /// Of a line that comes in pieces the last piece is held back, as a secret may go on in the next one; that, or a [`Note::Gap`] or
    /// the end of its stream, brings it out.
    pub fn entry(&mut self, entry: Entry, out: &mut Vec<Entry>) {
        let Some(secrets) = &mut self.0 else { return out.push(entry) };
        match entry {
            Entry::Bytes(bytes) => secrets.bytes(bytes, out),
            Entry::Event(Event { channel, note, mut marks }) => {
                let over = match note {
                    Note::Gap(stream, _) => Some(stream),
                    _ => ended(&note),
                };
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

    /// Returns a text without the secrets in it: a JSON value, a URL, a header, a line of a log. Equal secrets get equal numbers.
    pub fn text(&mut self, text: &str) -> String {
        let Some(secrets) = &mut self.0 else { return text.to_owned() };
        let (clean, _) = secrets.text(text.as_bytes());
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// What a peer has written, for one line: redacted, escaped, and no wider than `most` columns. In this order: of a secret that is
    /// cut, or escaped, nobody could say that it is one.
    pub fn shown(&mut self, text: &[u8], most: usize) -> String {
        let Some(secrets) = &mut self.0 else { return shown(text, most) };
        if is_line_of_a_key(text) {
            return shown(&secrets.value(text).0, most);
        }
        let begin = &text[..text.len().min(EXCERPT_LIMIT)];
        let more = begin.len() < text.len();
        if !more && secrets.detector.finds_nothing(begin) && memmem::find(begin, CUT).is_none() {
            return shown(begin, most);
        }
        // What is held back at its end may be part of a secret.
        let (mut clean, _) = secrets.read(begin, if more { Continuation::Piece } else { Continuation::Nothing });
        if more {
            clean.extend_from_slice(CUT);
        }
        shown(&secrets.without_beginnings(clean), most)
    }
}

impl Secrets {
    fn bytes(&mut self, mut bytes: Bytes, entries: &mut Vec<Entry>) {
        let next = match bytes.end {
            End::None => Continuation::Piece,
            _ if stands_alone(&bytes.payload) => Continuation::Nothing,
            _ => Continuation::Line,
        };
        let key = |bytes: &Bytes| (bytes.stream, bytes.channel.clone());
        // As almost all lines are.
        if next == Continuation::Nothing
            && (self.unfinished.is_empty() || !self.unfinished.contains_key(&key(&bytes)))
            && self.detector.finds_nothing(&bytes.payload)
        {
            return entries.push(Entry::Bytes(bytes));
        }
        let key = key(&bytes);
        let (mut line, secret, lines) = match self.unfinished.remove(&key) {
            None => (LineScanner::default(), self.numbers.read(), 0),
            Some(Unfinished { line, secret, lines, last }) => {
                if !last.payload.is_empty() {
                    entries.push(Entry::Bytes(last));
                }
                (line, secret, lines)
            }
        };
        let out = Vec::with_capacity(bytes.payload.len());
        let mut pen = Pen { numbers: &mut self.numbers, secret, out, redacted: false };
        line.push(&bytes.payload, next, &self.detector, &mut pen);
        let Pen { secret, out, redacted, .. } = pen;
        bytes.marks.redacted |= redacted;
        bytes.payload = out;
        if next == Continuation::Piece {
            self.unfinished.insert(key, Unfinished { line, secret, lines, last: bytes });
            return;
        }
        let lines = if line.is_in_a_key() { lines + 1 } else { 0 };
        let goes_on = next == Continuation::Line || lines > 0;
        if goes_on && lines <= MOST_LINES && self.unfinished.len() < MOST_TEXTS {
            let (stream, channel, marks) = (bytes.stream, bytes.channel.clone(), bytes.marks.clone());
            let last = Bytes { stream, channel, payload: Vec::new(), end: bytes.end, marks };
            self.unfinished.insert(key, Unfinished { line, secret, lines, last });
        }
        entries.push(Entry::Bytes(bytes));
    }

    /// What was held back of a line that does not go on.
    fn rest(&mut self, stream: Stream, channel: &Channel) -> Option<Bytes> {
        let Unfinished { mut line, secret, mut last, .. } = self.unfinished.remove(&(stream, channel.clone()))?;
        let out = std::mem::take(&mut last.payload);
        let mut pen = Pen { numbers: &mut self.numbers, secret, out, redacted: false };
        line.push(b"", Continuation::Nothing, &self.detector, &mut pen);
        last.marks.redacted |= pen.redacted;
        last.payload = pen.out;
        last.end = End::None;
        (!last.payload.is_empty()).then_some(last)
    }

    fn text(&mut self, text: &[u8]) -> (Vec<u8>, bool) {
        self.read(text, Continuation::Nothing)
    }

    /// Without what is held back, if there is more of it.
    fn read(&mut self, text: &[u8], next: Continuation) -> (Vec<u8>, bool) {
        let secret = self.numbers.read();
        let out = Vec::with_capacity(text.len());
        let mut pen = Pen { numbers: &mut self.numbers, secret, out, redacted: false };
        LineScanner::default().push(text, next, &self.detector, &mut pen);
        (pen.out, pen.redacted)
    }

    /// Without what a secret of the environment begins with, where the rest of it was cut off: names in what is told of a message
    /// are cut before all of it comes here.
    fn without_beginnings(&mut self, text: Vec<u8>) -> Vec<u8> {
        let (mut out, mut from) = (Vec::new(), 0);
        for cut in memmem::find_iter(&text, CUT) {
            let length = self.detector.begun(&text[from..cut]);
            out.extend_from_slice(&text[from..cut - length]);
            out.extend(self.value(&text[cut - length..cut]).0);
            from = cut;
        }
        out.extend_from_slice(&text[from..]);
        out
    }

    /// All of it is a secret.
    fn value(&mut self, value: &[u8]) -> (Vec<u8>, bool) {
        if value.is_empty() || is_replacement(value.trim_ascii()) {
            return (value.to_vec(), false);
        }
        let mut secret = self.numbers.read();
        secret.push(value);
        let mut out = Vec::new();
        self.numbers.put(&secret, &mut out);
        (out, true)
    }
}

/// Writes what is plain, and numbers in the place of secrets.
struct Pen<'a> {
    numbers: &'a mut Numbers,
    secret: Reading,
    out: Vec<u8>,
    /// Something was replaced.
    redacted: bool,
}

impl SecretVisitor for Pen<'_> {
    fn plain(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    fn secret(&mut self, part: &[u8], _: SecretKind) {
        self.secret.push(part);
        // Also a piece of which nothing is left is one with a secret in it.
        self.redacted |= !part.is_empty();
    }

    fn end(&mut self, _: SecretKind) {
        if !self.secret.is_empty() {
            self.numbers.put(&self.secret, &mut self.out);
            self.secret = self.numbers.read();
        }
    }

    fn number(&mut self, quote: &[u8], number: &[u8], kind: SecretKind) {
        self.out.extend_from_slice(quote);
        self.secret(number, kind);
        self.end(kind);
        self.out.extend_from_slice(quote);
    }
}

/// Whether the next line cannot belong to this one, which is a message as it stands on stdio or in an event.
fn stands_alone(line: &[u8]) -> bool {
    let text = match line.strip_prefix(b"data:") {
        Some(data) => data.strip_prefix(b" ").unwrap_or(data),
        None => line,
    };
    // One of JSON over many lines is indented.
    let text = text.trim_ascii_end();
    matches!(text, [b'{', .., b'}'] | [b'[', .., b']'])
}

/// Whether all of it is Base64, as a line of a private key is. Where a line stands alone nobody knows what stood before it.
fn is_line_of_a_key(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    let has = |part: fn(&u8) -> bool| text.iter().any(part);
    text.len() >= 40
        && text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

/// Stands where something was cut off.
const CUT: &[u8] = "…".as_bytes();

/// More than is ever shown of a line, and than is held back at its end: what stands behind it is not looked at.
pub const EXCERPT_LIMIT: usize = 16 * 1024;

/// Of a private key; one of 16384 bits has 200 or so.
const MOST_LINES: usize = 256;

/// Streams that are open at once; of each the end of its last line is kept.
const MOST_TEXTS: usize = 4096;

#[cfg(test)]
mod tests;
