//! Converts the text after `@` to an event, and back. An event that is read and written again has the same bytes.

use super::entry::{Framing, Stream, Word};
use super::note::{CutReason, InjectedFault, Note, StreamClose, UnknownNote, UnreadReason};

impl Note {
    /// Returns the text of the event, as it is written in a transcript.
    pub fn text(&self) -> Vec<u8> {
        match self {
            Self::Open(what) => join("open ", what),
            Self::Failed(why) => join("failed ", why),
            Self::Head(stream, line) => join(&format!("head {} ", stream.sigil()), line),
            Self::Changed(line) => join("changed > ", line),
            Self::Informational(line) => join("informational < ", line),
            Self::Unasked => UNASKED.into(),
            Self::Refused(why) => join("refused > ", why),
            Self::Unread { stream, why } => join(&format!("unread {} ", stream.sigil()), &why.text()),
            Self::Framing(framing) => format!("framing {}", framing.as_str()).into(),
            Self::Read(stream) => format!("read {}", stream.sigil()).into(),
            Self::Gap(stream, bytes) => format!("gap {} {bytes}", stream.sigil()).into(),
            Self::Eof(stream) => format!("eof {}", stream.sigil()).into(),
            Self::Closed(closed) => join(&format!("closed {} ", closed.stream().sigil()), &closed.text()),
            Self::Cut { stream, why } => join(&format!("cut {} ", stream.sigil()), &why.text(*stream)),
            Self::Left => LEFT.into(),
            Self::Signal(signal) => format!("signal {signal}").into(),
            Self::SignalReceived(signal) => format!("signal {signal}{RECEIVED}").into(),
            Self::Fault(fault) => join("fault ", &fault.text()),
            Self::Log(line) => join("log ", line),
            Self::ExitCode(code) => format!("exit code {code}").into(),
            Self::ExitSignal(signal) => format!("exit signal {signal}").into(),
            Self::Other(text) => text.as_bytes().to_vec(),
        }
    }

    /// Parses the text of an event. Returns `None` if the text does not have the form that its first word requires.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (word, rest) = split_word(text);
        let (second, behind) = split_word(rest);
        let stream = || Stream::from_sigil(second);
        Some(match word {
            b"open" => Self::Open(rest.to_vec()),
            b"framing" => Self::Framing(Framing::from_word(rest)?),
            b"head" => Self::Head(stream()?, behind.to_vec()),
            b"read" => Self::Read(stream().filter(|_| behind.is_empty())?),
            b"eof" => Self::Eof(stream().filter(|_| behind.is_empty())?),
            b"gap" => Self::Gap(stream()?, number(behind)?),
            b"exit" if second == b"code" => Self::ExitCode(number(behind)?),
            b"exit" if second == b"signal" => Self::ExitSignal(number(behind)?),
            b"exit" | b"" => return None,
            _ => match Self::parse_tap_event(word, rest) {
                // If the text differs, for example because a number has a leading zero, the original text is kept.
                Some(note) if note.text() == text => note,
                _ => Self::Other(UnknownNote(text.to_vec())),
            },
        })
    }

    /// Parses the events that only a tap writes. Returns `None` for an event that this version does not know.
    fn parse_tap_event(word: &[u8], rest: &[u8]) -> Option<Self> {
        let (second, behind) = split_word(rest);
        let stream = || Stream::from_sigil(second);
        let only = |wanted| (stream() == Some(wanted)).then(|| behind.to_vec());
        Some(match word {
            b"failed" => Self::Failed(rest.to_vec()),
            b"changed" => Self::Changed(only(Stream::ToServer)?),
            b"informational" => Self::Informational(only(Stream::ToClient)?),
            b"unasked" => Self::Unasked,
            b"refused" => Self::Refused(only(Stream::ToServer)?),
            b"unread" => Self::Unread { stream: stream()?, why: UnreadReason::parse(behind) },
            b"closed" => Self::Closed(StreamClose::parse(stream()?, behind)?),
            b"cut" => {
                let stream = stream()?;
                Self::Cut { stream, why: CutReason::parse(stream, behind)? }
            }
            b"left" => Self::Left,
            b"signal" => match rest.strip_suffix(RECEIVED.as_bytes()) {
                Some(signal) => Self::SignalReceived(number(signal)?),
                None => Self::Signal(number(rest)?),
            },
            b"fault" => Self::Fault(InjectedFault::parse(rest)?),
            b"log" => Self::Log(rest.to_vec()),
            _ => return None,
        })
    }
}

impl StreamClose {
    fn text(&self) -> Vec<u8> {
        match self {
            Self::Pipe { stream, error: None } => format!("by the {}", receiver(*stream)).into(),
            Self::Pipe { stream, error: Some(error) } => {
                join(&format!("the {} cannot be written to: ", receiver(*stream)), error)
            }
            Self::Connection => CLIENT_CLOSED.into(),
        }
    }

    fn parse(stream: Stream, text: &[u8]) -> Option<Self> {
        let connection = Self::Connection;
        if stream == connection.stream() && text == connection.text() {
            return Some(connection);
        }
        let closed = Self::Pipe { stream, error: None };
        if text == closed.text() {
            return Some(closed);
        }
        let unwritable = Self::Pipe { stream, error: Some(Vec::new()) };
        let error = text.strip_prefix(&unwritable.text()[..])?;
        Some(Self::Pipe { stream, error: Some(error.to_vec()) })
    }
}

/// Returns the name of the party that reads the stream on stdio.
fn receiver(stream: Stream) -> &'static str {
    match stream {
        Stream::ToServer => "program",
        Stream::ToClient | Stream::Stderr => "host",
    }
}

impl CutReason {
    /// Returns the text of the reason, as it is written in an event of `stream`.
    pub fn text(&self, stream: Stream) -> Vec<u8> {
        match self {
            Self::ClientClosed { error } => with_error(CLIENT_CLOSED, error.as_deref()),
            Self::ClientRefused(why) => join(CLIENT_REFUSED, why),
            Self::ServerClosed { error, client_status } => {
                with_status(with_error(SERVER_CLOSED, error.as_deref()), client_status.as_deref())
            }
            Self::Failed { error, client_status } => with_status(error.clone(), client_status.as_deref()),
            Self::TapStopped => TAP_STOPPED.into(),
            Self::HeldOpen => held_open(stream).into(),
            Self::Dropped(bytes) => format!("{bytes}{DROPPED}").into(),
        }
    }

    fn parse(stream: Stream, text: &[u8]) -> Option<Self> {
        if text == TAP_STOPPED.as_bytes() {
            return Some(Self::TapStopped);
        }
        if text == held_open(stream).as_bytes() {
            return Some(Self::HeldOpen);
        }
        let dropped = text.strip_suffix(DROPPED.as_bytes()).and_then(number).map(Self::Dropped);
        if let Some(dropped) = dropped.filter(|dropped| dropped.text(stream) == text) {
            return Some(dropped);
        }
        if let Some(why) = text.strip_prefix(CLIENT_REFUSED.as_bytes()) {
            return Some(Self::ClientRefused(why.to_vec()));
        }
        if let Some(error) = split_error(text, CLIENT_CLOSED) {
            return Some(Self::ClientClosed { error });
        }
        let (text, client_status) = split_status(text);
        if let Some(error) = split_error(text, SERVER_CLOSED) {
            return Some(Self::ServerClosed { error, client_status });
        }
        (!text.is_empty()).then(|| Self::Failed { error: text.to_vec(), client_status })
    }
}

fn held_open(stream: Stream) -> String {
    let name = match stream {
        Stream::ToServer => "stdin",
        Stream::ToClient => "stdout",
        Stream::Stderr => "stderr",
    };
    format!("the program has ended, and somebody still holds its {name}")
}

fn with_error(what: &str, error: Option<&[u8]>) -> Vec<u8> {
    error.map_or_else(|| what.into(), |error| [what.as_bytes(), b": ", error].concat())
}

/// Strips `what` from `text` and returns the error message after it: `Some(None)` if nothing follows, `None` if `text`
/// does not have this form.
fn split_error(text: &[u8], what: &str) -> Option<Option<Vec<u8>>> {
    match text.strip_prefix(what.as_bytes())? {
        b"" => Some(None),
        rest => Some(Some(rest.strip_prefix(b": ")?.to_vec())),
    }
}

fn with_status(text: Vec<u8>, client_status: Option<&[u8]>) -> Vec<u8> {
    match client_status {
        None => text,
        Some(status) => [&text, CLIENT_STATUS.as_bytes(), status].concat(),
    }
}

fn split_status(text: &[u8]) -> (&[u8], Option<Vec<u8>>) {
    match memchr::memmem::rfind(text, CLIENT_STATUS.as_bytes()) {
        Some(at) => (&text[..at], Some(text[at + CLIENT_STATUS.len()..].to_vec())),
        None => (text, None),
    }
}

impl UnreadReason {
    fn text(&self) -> Vec<u8> {
        match self {
            Self::Encoded(coding) => join(ENCODED, coding),
            Self::NotHttp(error) => error.clone(),
        }
    }

    fn parse(text: &[u8]) -> Self {
        match text.strip_prefix(ENCODED.as_bytes()) {
            Some(coding) => Self::Encoded(coding.to_vec()),
            None => Self::NotHttp(text.to_vec()),
        }
    }
}

impl InjectedFault {
    fn text(&self) -> Vec<u8> {
        match self {
            Self::Seed(seed) => format!("seed {seed}").into(),
            Self::Applied { stream, message, name, detail } => {
                let applied = format!("{} {message} {}", stream.sigil(), name.as_str());
                if detail.is_empty() { applied.into() } else { [applied.as_bytes(), b" ", detail].concat() }
            }
            Self::ReorderUndone { stream, message } => format!("{} {message} {REORDER_UNDONE}", stream.sigil()).into(),
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (first, rest) = split_word(text);
        if first == b"seed" {
            return Some(Self::Seed(number(rest)?));
        }
        let stream = Stream::from_sigil(first)?;
        let (message, what) = split_word(rest);
        let message = number(message)?;
        if what == REORDER_UNDONE.as_bytes() {
            return Some(Self::ReorderUndone { stream, message });
        }
        let (name, detail) = split_word(what);
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty()).and_then(Word::new)?;
        Some(Self::Applied { stream, message, name, detail: detail.to_vec() })
    }
}

const UNASKED: &str = "unasked < the server answers what was not asked";
const LEFT: &str = "left somebody whom the program has started still holds its stdout";
const CLIENT_CLOSED: &str = "the client closed the connection";
const SERVER_CLOSED: &str = "the server closed the connection";
const CLIENT_REFUSED: &str = "the client sent what is not passed on: ";
const CLIENT_STATUS: &str = "; the client is told ";
const TAP_STOPPED: &str = "the tap was stopped";
const DROPPED: &str = " bytes were there already";
const ENCODED: &str = "the body is encoded: ";
const REORDER_UNDONE: &str = "reorder undone";
const RECEIVED: &str = " received";

fn join(begin: &str, rest: &[u8]) -> Vec<u8> {
    [begin.as_bytes(), rest].concat()
}

fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', text) {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (text, b""),
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
