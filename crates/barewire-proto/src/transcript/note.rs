//! The events of a transcript: everything that happens on a connection besides bytes on its streams.

use std::fmt;

use super::entry::{Framing, Stream, Word};

/// The content of an event. `docs/wire-format.md` describes the text of each event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// `open …`: the connection began. Holds the program or address.
    Open(Vec<u8>),
    /// `failed …`: the program could not be started. Holds the reason.
    Failed(Vec<u8>),
    /// `framing …`: the framing of the channel's streams.
    Framing(Framing),
    /// `head > …`: one line of an HTTP head. The first line is the request line or status line.
    Head(Stream, Vec<u8>),
    /// `changed > …`: a line of the request's head as the client sent it, if the server received a different line.
    Changed(Vec<u8>),
    /// `informational < …`: the status line of an informational response such as `100 Continue`, before the final
    /// response.
    Informational(Vec<u8>),
    /// `unasked < …`: the server sent an HTTP response without a request.
    Unasked,
    /// `refused > …`: a request of the client was not passed on to the server. Holds the reason.
    Refused(Vec<u8>),
    /// `unread < …`: the bytes of the stream were passed on to the receiver, but not recorded.
    Unread {
        /// The stream.
        stream: Stream,
        /// The reason.
        why: UnreadReason,
    },
    /// `read >`: a read of the stream ended here.
    Read(Stream),
    /// `gap > N`: N bytes of the stream are missing here.
    Gap(Stream, u64),
    /// `eof >`: the sender closed the stream.
    Eof(Stream),
    /// `closed > …`: the receiver closed the stream, or the client closed its connection.
    Closed(StreamClose),
    /// `cut < …`: the stream ended before it was complete, or the rest of it was not passed on to the receiver.
    Cut {
        /// The stream that ended.
        stream: Stream,
        /// The reason.
        why: CutReason,
    },
    /// `left …`: the program ended, but another process still holds its stdout open.
    Left,
    /// `signal N`: the tap passed this signal on to the program.
    Signal(i32),
    /// `signal N received`: the tap got this signal. The program got it without the tap, or had already ended.
    SignalReceived(i32),
    /// `fault …`: the tap changed the bytes on purpose.
    Fault(InjectedFault),
    /// `log …`: a line about the connection in the log of the host.
    Log(Vec<u8>),
    /// `exit code N`: the program exited with this code.
    ExitCode(i32),
    /// `exit signal N`: a signal ended the program.
    ExitSignal(i32),
    /// An event that this version of the crate does not know, kept unchanged. Only the reader of a transcript creates
    /// such events.
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

/// The closing of a stream by its receiver, while the sender could still have sent more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamClose {
    /// `by the program`, `by the host`: on stdio, the receiver closed its end of the pipe or ended. With an error:
    /// `the program cannot be written to: …`.
    Pipe {
        /// The stream. Its receiver is the party that closed it.
        stream: Stream,
        /// The error of writing to the pipe; `None` if the pipe was closed without an error.
        error: Option<Vec<u8>>,
    },
    /// `the client closed the connection`: over HTTP, before the client received its response.
    Connection,
}

impl StreamClose {
    /// Returns the stream that was closed.
    pub const fn stream(&self) -> Stream {
        match self {
            Self::Pipe { stream, .. } => *stream,
            Self::Connection => Stream::ToServer,
        }
    }

    /// Returns the party that closed the stream.
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
        /// The I/O error by which the tap noticed that the connection was closed, if there was one.
        error: Option<Vec<u8>>,
    },
    /// Over HTTP, the client sent something that the tap did not pass on, for this reason.
    ClientRefused(Vec<u8>),
    /// Over HTTP, the server closed the connection.
    ServerClosed {
        /// The I/O error by which the tap noticed that the connection was closed, if there was one.
        error: Option<Vec<u8>>,
        /// The status that the client received instead of the response; `None` if it received none.
        client_status: Option<Vec<u8>>,
    },
    /// Over HTTP, another failure.
    Failed {
        /// The failure.
        error: Vec<u8>,
        /// The status that the client received instead of the response; `None` if it received none.
        client_status: Option<Vec<u8>>,
    },
    /// Over HTTP, the tap was stopped before the exchange ended.
    TapStopped,
    /// On stdio, the program ended, but another process still held the stream open.
    HeldOpen,
    /// On stdio, an injected fault ended the stream, and this many bytes that had been read were dropped.
    Dropped(u64),
}

impl CutReason {
    /// Returns a failure for which the client received no status.
    pub fn failed(error: impl Into<Vec<u8>>) -> Self {
        Self::Failed { error: error.into(), client_status: None }
    }

    /// Returns the party that ended the stream, or `None` if neither party did.
    pub const fn by(&self) -> Option<Party> {
        match self {
            Self::ClientClosed { .. } | Self::ClientRefused(_) => Some(Party::Client),
            Self::ServerClosed { .. } => Some(Party::Server),
            Self::Failed { .. } | Self::TapStopped | Self::HeldOpen | Self::Dropped(_) => None,
        }
    }
}

/// The reason why bytes were passed on to the receiver, but not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnreadReason {
    /// The body has this `Content-Encoding`.
    Encoded(Vec<u8>),
    /// The bytes are not HTTP, for this reason.
    NotHttp(Vec<u8>),
}

/// A fault that a tap injected into the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InjectedFault {
    /// `seed N`: the seed that reproduces the same faults.
    Seed(u64),
    /// `< N NAME …`: the fault was applied to a message.
    Applied {
        /// The stream of the message.
        stream: Stream,
        /// The number of the message on its stream, from 1.
        message: u64,
        /// The name of the fault.
        name: Word,
        /// The values that the fault chose, such as the positions of a `split`. Empty for most faults.
        detail: Vec<u8>,
    },
    /// `< N reorder undone`: this message was held back so that the next message could overtake it, but no message
    /// followed.
    ReorderUndone {
        /// The stream of the message.
        stream: Stream,
        /// The number of the message on its stream, from 1.
        message: u64,
    },
}

/// The text of an event that this version of the crate does not know. Only the reader of a transcript creates an
/// `UnknownNote`; a new event needs a variant of [`Note`].
///
/// ```compile_fail
/// use barewire_proto::transcript::{Note, UnknownNote};
/// let note = Note::Other(UnknownNote(b"closed > by the program".to_vec()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownNote(pub(super) Vec<u8>);

impl UnknownNote {
    /// Returns the text exactly as it was read.
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
    /// Returns the parts of the event that are free text: names, lines of HTTP heads, errors.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        let (first, second) = match self {
            Self::Open(text)
            | Self::Failed(text)
            | Self::Head(_, text)
            | Self::Changed(text)
            | Self::Informational(text)
            | Self::Refused(text)
            | Self::Log(text)
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
            | Self::SignalReceived(_)
            | Self::ExitCode(_)
            | Self::ExitSignal(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}
