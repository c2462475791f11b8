//! The entries of a transcript, one per line.

use std::time::Duration;

use super::note::Note;

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// `wire 1 …`: the first line of a capture.
    Header(Header),
    /// `>`, `<` or `!`: bytes of a stream.
    Bytes(Bytes),
    /// `@`: an event on a connection, other than bytes of a stream.
    Event(Event),
    /// `=`: the expectation of a test. Only test runners read it.
    Expect(String),
    /// `#`: a comment.
    Comment(String),
    /// An empty line.
    Blank,
}

/// The first line of a capture: the version of the format, and facts as `key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "new properties of a capture become facts")]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// The facts in the order they were written. The values can be any bytes. The fact `started` is the wall-clock time
    /// at the start of the capture, in RFC 3339.
    pub facts: Vec<(Word, Vec<u8>)>,
}

/// Bytes of a stream: one line, or a piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the format fixes the parts of a line; new properties become marks")]
pub struct Bytes {
    /// The stream.
    pub stream: Stream,
    /// The name of the connection, if the transcript has several; empty otherwise.
    pub channel: Channel,
    /// The bytes, without the line break at their end.
    pub payload: Vec<u8>,
    /// The line break at the end of the bytes, if any.
    pub end: End,
    /// The time of the entry and its other marks.
    pub marks: Marks,
}

/// The name of a connection, if a transcript has several; empty otherwise.
pub type Channel = Word;

/// A word of ASCII letters, digits, `.`, `_` and `-`. It can be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Word(String);

impl Word {
    /// Returns `name` as a word, or `None` if `name` has a character that a word cannot have.
    pub fn new(name: &str) -> Option<Self> {
        name.chars().all(Self::allows).then(|| Self(name.to_owned()))
    }

    pub(super) fn allows(c: char) -> bool {
        c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
    }

    /// Returns the word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One of the byte streams of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "a reader of streams must handle all of them")]
pub enum Stream {
    /// `>`: from the client to the server.
    ToServer,
    /// `<`: from the server to the client.
    ToClient,
    /// `!`: the stderr of the server.
    Stderr,
}

impl Stream {
    /// Returns the character that represents the stream in a transcript.
    pub const fn sigil(self) -> char {
        match self {
            Self::ToServer => '>',
            Self::ToClient => '<',
            Self::Stderr => '!',
        }
    }

    pub(super) fn from_sigil(sigil: &[u8]) -> Option<Self> {
        match sigil {
            b">" => Some(Self::ToServer),
            b"<" => Some(Self::ToClient),
            b"!" => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// The line break at the end of a line of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a line has no other ends")]
pub enum End {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
    /// No line break: the next bytes of the stream belong to the same line, or the stream ended.
    None,
}

impl End {
    /// Returns the bytes of the line break.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
            Self::None => b"",
        }
    }
}

/// The marks of an entry: facts about the entry besides its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Marks {
    /// The time since the start of the capture.
    pub time: Option<Duration>,
    /// Set if the payload is only the first part of the bytes that were sent.
    pub truncated: Option<Truncated>,
    /// Whether a secret in the payload was replaced.
    pub redacted: bool,
    /// Marks that this version of the crate does not know, kept unchanged.
    pub other: Vec<String>,
}

impl Marks {
    /// Creates marks that hold only the time, which can be unknown.
    pub fn at(time: Option<Duration>) -> Self {
        Self { time, ..Self::default() }
    }
}

/// The length and hash of a payload before it was truncated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the mark `truncated` has these two values")]
pub struct Truncated {
    /// The length of the whole payload in bytes.
    pub length: u64,
    /// The SHA-256 of the whole payload, in hexadecimal.
    pub sha256: String,
}

/// An event on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the format fixes the parts of a line; new properties become marks")]
pub struct Event {
    /// The name of the connection, if the transcript has several; empty otherwise.
    pub channel: Channel,
    /// The content of the event.
    pub note: Note,
    /// The time of the event and its other marks.
    pub marks: Marks,
}

/// The framing of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a reader of streams must handle all of them")]
pub enum Framing {
    /// One message per line.
    Lines,
    /// Server-sent events.
    Sse,
    /// `Content-Length` headers, each followed by a body.
    ContentLength,
    /// The whole stream is one frame.
    Body,
    /// No framing: the stream does not hold messages.
    None,
}

impl Framing {
    /// Returns the word that represents the framing in a transcript.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Sse => "sse",
            Self::ContentLength => "content-length",
            Self::Body => "body",
            Self::None => "none",
        }
    }

    pub(super) fn from_word(word: &[u8]) -> Option<Self> {
        [Self::Lines, Self::Sse, Self::ContentLength, Self::Body, Self::None]
            .into_iter()
            .find(|f| f.as_str().as_bytes() == word)
    }
}
