//! Parses the lines of a transcript into entries.

use std::fmt;
use std::time::Duration;

use super::VERSION;
use super::entry::{Bytes, Channel, End, Entry, Event, Header, Marks, Stream, Truncated, Word};
use super::note::Note;
use crate::escape::unescape;

/// A line that is not valid in a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireError {
    /// The number of the line, from 1.
    pub line: u64,
    /// The offset of the fault in the line, in bytes.
    pub at: usize,
    /// The fault.
    pub fault: WireFault,
}

/// A fault in a line of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "Display describes each variant")]
pub enum WireFault {
    NotUtf8,
    UnknownSigil,
    NoSpace,
    OpenMarks,
    BadTime,
    BadTruncation,
    BadEscape,
    BadHeader,
    NewerVersion,
    BadNote,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, byte {}: {}", self.line, self.at, self.fault)
    }
}

impl std::error::Error for WireError {}

impl fmt::Display for WireFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUtf8 => "a .wire file must be UTF-8 text",
            Self::UnknownSigil => "expected a line that begins with one of > < ! @ = #",
            Self::NoSpace => "expected a space before the content",
            Self::OpenMarks => "the marks have no closing parenthesis",
            Self::BadTime => "expected a time as +SECONDS.FRACTION",
            Self::BadTruncation => "expected a truncation as truncated=LENGTH:SHA256",
            Self::BadEscape => "expected an escape as \\\\ or \\xNN",
            Self::BadHeader => "expected a header as wire VERSION KEY=VALUE …",
            Self::NewerVersion => "unknown version of the format: this program reads version 1",
            Self::BadNote => "the event does not have the form that its first word requires",
        })
    }
}

/// Parses a whole transcript.
pub fn read(text: &[u8]) -> Result<Vec<Entry>, WireError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    (1..).zip(text.split(|b| *b == b'\n')).map(|(number, line)| read_line(line, number)).collect()
}

/// Parses one line, given without its line break. `number` is the number of the line in its file.
pub fn read_line(line: &[u8], number: u64) -> Result<Entry, WireError> {
    // A BOM at the start of the file is ignored.
    let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
    parse(line).map_err(|(at, fault)| WireError { line: number, at, fault })
}

type LineFault = (usize, WireFault);

fn parse(line: &[u8]) -> Result<Entry, LineFault> {
    // A checkout by version control can turn the line ends into CRLF. Content never ends in an unescaped CR, so the CR
    // can be stripped.
    let returns = line.iter().rev().take_while(|b| **b == b'\r').count();
    let line = &line[..line.len() - returns];
    let line = std::str::from_utf8(line).map_err(|bad| (bad.valid_up_to(), WireFault::NotUtf8))?;
    let mut chars = line.chars();
    match chars.next() {
        None => Ok(Entry::Blank),
        Some('>') => bytes(line, Stream::ToServer),
        Some('<') => bytes(line, Stream::ToClient),
        Some('!') => bytes(line, Stream::Stderr),
        Some('@') => event(line),
        Some('=') => Ok(Entry::Expect(strip_space(chars.as_str()))),
        Some('#') => Ok(Entry::Comment(strip_space(chars.as_str()))),
        Some(_) if line == "wire" || line.starts_with("wire ") => header(line),
        Some(_) => Err((0, WireFault::UnknownSigil)),
    }
}

fn strip_space(text: &str) -> String {
    text.strip_prefix(' ').unwrap_or(text).replace('\r', " ")
}

fn header(line: &str) -> Result<Entry, LineFault> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let version: u32 =
        words.next().and_then(|word| word.parse().ok()).ok_or((line.len().min(5), WireFault::BadHeader))?;
    if version > VERSION || version == 0 {
        return Err((5, WireFault::NewerVersion));
    }
    let facts = words
        .map(|word| {
            let bad = (offset(line, word), WireFault::BadHeader);
            let (key, value) = word.split_once('=').ok_or(bad)?;
            let value = unescape(value).map_err(|at| (offset(line, value) + at, WireFault::BadEscape))?;
            Ok((Word::new(key).ok_or(bad)?, value))
        })
        .collect::<Result<_, LineFault>>()?;
    Ok(Entry::Header(Header { version, facts }))
}

/// Returns the offset of `part`, a slice of `line`.
fn offset(line: &str, part: &str) -> usize {
    part.as_ptr().addr() - line.as_ptr().addr()
}

/// The parts of a `>`, `<`, `!` or `@` line.
struct LineParts {
    channel: Channel,
    marks: Marks,
    end: End,
    payload: Vec<u8>,
    /// The offset of the content in the line.
    at: usize,
}

fn parts(line: &str) -> Result<LineParts, LineFault> {
    let rest = &line[1..];
    let (channel, mut rest) = rest.split_at(rest.find(|c| !Channel::allows(c)).unwrap_or(rest.len()));
    let mut marks = Marks::default();
    let mut end = End::Lf;
    let mut escaped = false;
    if let Some(behind) = rest.strip_prefix('(') {
        let (words, behind) = behind.split_once(')').ok_or((offset(line, rest), WireFault::OpenMarks))?;
        rest = behind;
        for word in words.split_ascii_whitespace() {
            match word {
                "esc" => escaped = true,
                "crlf" => end = End::CrLf,
                "noeol" => end = End::None,
                "redacted" => marks.redacted = true,
                _ => mark(word, &mut marks).map_err(|fault| (offset(line, word), fault))?,
            }
        }
    }
    let content = match rest.strip_prefix(' ') {
        Some(content) => content,
        None if rest.is_empty() => rest,
        None => return Err((offset(line, rest), WireFault::NoSpace)),
    };
    let at = offset(line, content);
    let payload = if escaped {
        unescape(content).map_err(|bad| (at + bad, WireFault::BadEscape))?
    } else {
        content.as_bytes().to_vec()
    };
    let channel = Channel::new(channel).expect("the line was split at the first character not allowed");
    Ok(LineParts { channel, marks, end, payload, at })
}

fn mark(word: &str, marks: &mut Marks) -> Result<(), WireFault> {
    if let Some(time) = word.strip_prefix('+') {
        marks.time = Some(seconds(time).ok_or(WireFault::BadTime)?);
    } else if let Some(truncated) = word.strip_prefix("truncated=") {
        marks.truncated = Some(truncation(truncated).ok_or(WireFault::BadTruncation)?);
    } else {
        marks.other.push(word.to_owned());
    }
    Ok(())
}

fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanos))
}

fn truncation(text: &str) -> Option<Truncated> {
    let (length, sha256) = text.split_once(':')?;
    let whole = sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then_some(Truncated { length: length.parse().ok()?, sha256: sha256.to_owned() })
}

fn bytes(line: &str, stream: Stream) -> Result<Entry, LineFault> {
    let LineParts { channel, marks, end, payload, .. } = parts(line)?;
    Ok(Entry::Bytes(Bytes { stream, channel, payload, end, marks }))
}

fn event(line: &str) -> Result<Entry, LineFault> {
    let LineParts { channel, marks, payload, at, .. } = parts(line)?;
    let note = Note::parse(&payload).ok_or((at, WireFault::BadNote))?;
    Ok(Entry::Event(Event { channel, note, marks }))
}
