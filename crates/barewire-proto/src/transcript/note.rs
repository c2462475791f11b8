//! The events of a transcript: everything that happened on a connection and is not bytes of a stream.

use std::fmt;

use super::entry::{Framing, Stream, Word};

/// What happened. Its text is in `docs/wire-format.md`, a row for each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// `open …`: the connection began, to this program or address.
    Open(Vec<u8>),
    /// `failed …`: the program could not be started, and why.
    Failed(Vec<u8>),
    /// `framing …`: how the streams of the channel are cut into frames.
    Framing(Framing),
    /// `head > …`: one line of an HTTP head; the first is the request or status line.
    Head(Stream, Vec<u8>),
    /// `changed > …`: a line of the request's head as the client wrote it, where the server got another one.
    Changed(Vec<u8>),
    /// `informational < …`: the status line of a response such as `100 Continue`, before the one that counts.
    Informational(Vec<u8>),
    /// `unasked < …`: the server sent a response although no request was open.
    Unasked,
    /// `refused > …`: a request of the client was not passed on, and why.
    Refused(Vec<u8>),
    /// `unread < …`: the bytes of the stream were passed on and not recorded.
    Unread {
        /// The stream that they went over.
        stream: Stream,
        /// The reason.
        why: UnreadReason,
    },
    /// `read >`: a read of the stream ended here.
    Read(Stream),
    /// `gap > N`: so many bytes of the stream are missing here.
    Gap(Stream, u64),
    /// `eof >`: the sender closed the stream.
    Eof(Stream),
    /// `closed > …`: the receiver closed the stream, or the client its connection.
    Closed(StreamClose),
    /// `cut < …`: the stream ended before it was complete, or what was left of it was not passed on.
    Cut {
        /// The stream that ended.
        stream: Stream,
        /// The reason.
        why: CutReason,
    },
    /// `left …`: the program ended, and another process still holds its stdout.
    Left,
    /// `signal N`: this signal was passed on to the program.
    Signal(i32),
    /// `fault …`: something was done to the bytes on purpose.
    Fault(InjectedFault),
    /// `exit code N`: the program ended by itself.
    ExitCode(i32),
    /// `exit signal N`: the program was ended by a signal.
    ExitSignal(i32),
    /// Something this version does not know, kept as it is. Only reading a transcript makes one.
    Other(UnknownNote),
}

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "a connection has two ends")]
pub enum Party {
    /// The client; on stdio, the host that started the program.
    Client,
    /// The server; on stdio, the program.
    Server,
}

/// The receiving end of a stream that was closed while the sender might have gone on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamClose {
    /// `by the program`, `by the host`: on stdio, the receiver closed its end of the pipe or ended. With an error:
    /// `the program cannot be written to: …`.
    Pipe {
        /// The stream. Its receiver is the party that closed it.
        stream: Stream,
        /// The error of writing to it, if it is another one than that the pipe is closed.
        error: Option<Vec<u8>>,
    },
    /// `the client closed the connection`: over HTTP, before it had its response.
    Connection,
}

impl StreamClose {
    /// Returns the stream that ended with it.
    pub const fn stream(&self) -> Stream {
        match self {
            Self::Pipe { stream, .. } => *stream,
            Self::Connection => Stream::ToServer,
        }
    }

    /// Returns the party that closed it.
    pub const fn by(&self) -> Party {
        match self {
            Self::Pipe { stream: Stream::ToServer, .. } => Party::Server,
            Self::Pipe { stream: Stream::ToClient | Stream::Stderr, .. } | Self::Connection => Party::Client,
        }
    }
}

/// The reason why a stream ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutReason {
    /// Over HTTP, the client closed the connection.
    ClientClosed {
        /// The error that client_status so, if it was one.
        error: Option<Vec<u8>>,
    },
    /// Over HTTP, the client sent something that is not passed on, and why it is not.
    ClientRefused(Vec<u8>),
    /// Over HTTP, the server closed the connection.
    ServerClosed {
        /// The error that client_status so, if it was one.
        error: Option<Vec<u8>>,
        /// The status that the client was sent in place of the response.
        client_status: Option<Vec<u8>>,
    },
    /// Over HTTP, anything else failed.
    Failed {
        /// The failure.
        error: Vec<u8>,
        /// The status that the client was sent in place of the response.
        client_status: Option<Vec<u8>>,
    },
    /// Over HTTP, the tap ended before the exchange did.
    TapStopped,
    /// On stdio, the program ended, and another process still held the stream.
    HeldOpen,
    /// On stdio, a fault ended the stream, and so many bytes that had been read were dropped.
    Dropped(u64),
}

impl CutReason {
    /// Returns a failure that the client was not client_status of.
    pub fn failed(error: impl Into<Vec<u8>>) -> Self {
        Self::Failed { error: error.into(), client_status: None }
    }

    /// Returns the party that ended the stream, if it was one of the two.
    pub const fn by(&self) -> Option<Party> {
        match self {
            Self::ClientClosed { .. } | Self::ClientRefused(_) => Some(Party::Client),
            Self::ServerClosed { .. } => Some(Party::Server),
            Self::Failed { .. } | Self::TapStopped | Self::HeldOpen | Self::Dropped(_) => None,
        }
    }
}

/// The reason why bytes were passed on and not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnreadReason {
    /// The body has this `Content-Encoding`.
    Encoded(Vec<u8>),
    /// The bytes are not HTTP, and what is wrong with them.
    NotHttp(Vec<u8>),
}

/// Something that a tap did to the bytes on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InjectedFault {
    /// `seed N`: with this seed the same faults come again.
    Seed(u64),
    /// `< N NAME …`: a fault was applied to a message.
    Applied {
        /// The stream of the message.
        stream: Stream,
        /// The number of the message on its stream, from 1.
        message: u64,
        /// The name of the fault.
        name: Word,
        /// The values that were chosen, as the places of a `split`. Empty for most.
        detail: Vec<u8>,
    },
    /// `< N reorder undone`: the message that should have overtaken this one did not come.
    ReorderUndone {
        /// The stream of the message.
        stream: Stream,
        /// The number of the message on its stream, from 1.
        message: u64,
    },
}

/// The text of an event that this version does not know. It comes only from a transcript: what is to be said has a variant.
///
/// ```compile_fail
/// use barewire_proto::transcript::{Note, UnknownNote};
/// let note = Note::Other(UnknownNote(b"closed > by the program".to_vec()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownNote(pub(super) Vec<u8>);

impl UnknownNote {
    /// The text, as it was read.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for UnknownNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl Note {
    /// The text in the event that the format does not fix: names, lines of heads, errors.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        let (first, second) = match self {
            Self::Open(text)
            | Self::Failed(text)
            | Self::Head(_, text)
            | Self::Changed(text)
            | Self::Informational(text)
            | Self::Refused(text)
            | Self::Unread { why: UnreadReason::Encoded(text) | UnreadReason::NotHttp(text), .. }
            | Self::Cut { why: CutReason::ClientRefused(text), .. }
            | Self::Fault(InjectedFault::Applied { detail: text, .. })
            | Self::Other(UnknownNote(text)) => (Some(text), None),
            Self::Closed(StreamClose::Pipe { error, .. })
            | Self::Cut { why: CutReason::ClientClosed { error }, .. } => (error.as_mut(), None),
            Self::Cut { why: CutReason::ServerClosed { error, client_status }, .. } => {
                (error.as_mut(), client_status.as_mut())
            }
            Self::Cut { why: CutReason::Failed { error, client_status }, .. } => (Some(error), client_status.as_mut()),
            Self::Cut { why: CutReason::TapStopped | CutReason::HeldOpen | CutReason::Dropped(_), .. }
            | Self::Closed(StreamClose::Connection)
            | Self::Fault(InjectedFault::Seed(_) | InjectedFault::ReorderUndone { .. })
            | Self::Framing(_)
            | Self::Unasked
            | Self::Read(_)
            | Self::Gap(..)
            | Self::Eof(_)
            | Self::Left
            | Self::Signal(_)
            | Self::ExitCode(_)
            | Self::ExitSignal(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}
