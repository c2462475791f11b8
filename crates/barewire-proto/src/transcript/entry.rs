//! What the lines of a transcript say.

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
    /// `@`: something that happened and is not bytes of a stream.
    Event(Event),
    /// `=`: what a test expects. Only test runners read it.
    Expect(String),
    /// `#`: a remark.
    Comment(String),
    /// An empty line.
    Blank,
}

/// The first line of a capture: the format's version, and facts as `key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "what else there is to say is a fact")]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// Facts in the order they were written; the values may be any bytes. `started` is the wall clock at time 0, in RFC 3339.
    pub facts: Vec<(Word, Vec<u8>)>,
}

/// Bytes that went over a stream: one line of it, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the parts of a line are those of the format; what else there is to say is a mark"
)]
pub struct Bytes {
    /// Where they went.
    pub stream: Stream,
    /// Which connection, where there are several. Empty where there is one.
    pub channel: Channel,
    /// The bytes, without the line break that ended them.
    pub payload: Vec<u8>,
    /// The line break that ended them.
    pub end: End,
    /// What else is known of them.
    pub marks: Marks,
}

/// The name of a connection, where a transcript has several. Empty where it has one.
pub type Channel = Word;

/// Letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Word(String);

impl Word {
    /// Takes `name` if it can be written.
    pub fn new(name: &str) -> Option<Self> {
        name.chars().all(Self::allows).then(|| Self(name.to_owned()))
    }

    pub(super) fn allows(c: char) -> bool {
        c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One of the byte streams of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "a reader of streams has to know all of them")]
pub enum Stream {
    /// `>`
    ToServer,
    /// `<`
    ToClient,
    /// `!`
    Stderr,
}

impl Stream {
    /// The character that stands for it.
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

/// How a line of a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a line ends in one of these ways")]
pub enum End {
    /// With `\n`.
    Lf,
    /// With `\r\n`.
    CrLf,
    /// Not at all: what comes next on the stream belongs to the same line, or the stream ended.
    None,
}

impl End {
    /// The bytes.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
            Self::None => b"",
        }
    }
}

/// What is known of an entry besides its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Marks {
    /// When, since the start of the capture.
    pub time: Option<Duration>,
    /// The payload is only the first part of what was sent.
    pub truncated: Option<Truncated>,
    /// Something in the payload was replaced to keep a secret.
    pub redacted: bool,
    /// Marks that this version does not know, kept as they are.
    pub other: Vec<String>,
}

impl Marks {
    /// Returns the marks of an entry of which only the time is known, if at all.
    pub fn at(time: Option<Duration>) -> Self {
        Self { time, ..Self::default() }
    }
}

/// What a payload was before it was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the mark has these two values")]
pub struct Truncated {
    /// Its length in bytes.
    pub length: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Something that happened on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the parts of a line are those of the format; what else there is to say is a mark"
)]
pub struct Event {
    /// Which connection, where there are several.
    pub channel: Channel,
    /// What happened.
    pub note: Note,
    /// What else is known of it.
    pub marks: Marks,
}

/// How a stream is cut into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a reader of streams has to know all of them")]
pub enum Framing {
    /// A message a line.
    Lines,
    /// Server-sent events.
    Sse,
    /// Bodies behind `Content-Length` headers.
    ContentLength,
    /// One frame, up to the end of the stream.
    Body,
    /// Not at all: what is in it are no messages.
    None,
}

impl Framing {
    /// The word for it.
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
