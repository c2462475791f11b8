//! The fixed-size records of an index: frames, elements of batches, events, operations, and HTTP exchanges.

use std::time::Duration;

use barewire_proto::transcript::Stream;

use super::names::IndexedId;
use super::spool::Span;
use crate::frames::FrameKind;
use crate::rows::Role;

/// A row of an index: a frame, an element of a batch, or an event.
#[derive(Debug, Clone)]
pub(crate) struct EntryRecord {
    /// The text; for an element, its part of the frame.
    pub(crate) text: Span,
    /// The number of the frame; 0 for an event.
    pub(crate) frame: u32,
    /// The offset in the stream.
    pub(crate) offset: u64,
    /// The length on the wire.
    pub(crate) length: u64,
    /// The time, in microseconds.
    pub(crate) time: Time,
    pub(crate) id: IndexedId,
    /// The number of the operation; 0 if there is none.
    pub(crate) operation: u32,
    /// The name of the method; for an event, the word that names its kind.
    pub(crate) method: u32,
    /// The name of the error message, or of the broken rule.
    pub(crate) detail: u32,
    /// The name of the channel; 0 for the channel of the exchange.
    pub(crate) channel: u32,
    pub(crate) conversation: u32,
    /// The number of the HTTP exchange, from 1; 0 if there is none.
    pub(crate) exchange: u32,
    /// The row before this one in the same operation, plus 1.
    pub(crate) previous: u32,
    /// For a response, the row of its request, plus 1.
    pub(crate) request: u32,
    /// The error code.
    pub(crate) code: i32,
    pub(crate) round: u16,
    /// The index in the batch, plus 1; 0 if the row is not an element.
    pub(crate) element: u16,
    /// For a batch, the number of its elements.
    pub(crate) elements: u16,
    pub(crate) flags: Flags,
    pub(crate) kind: EntryKind,
    pub(crate) role: Role,
    pub(crate) outcome: RowOutcome,
}

impl EntryRecord {
    /// Returns the row of an event of which nothing is known.
    pub(super) fn blank() -> Self {
        Self {
            text: Span::NONE,
            frame: 0,
            offset: 0,
            length: 0,
            time: Time::NONE,
            id: IndexedId::default(),
            operation: 0,
            method: 0,
            detail: 0,
            channel: 0,
            conversation: 0,
            exchange: 0,
            previous: 0,
            request: 0,
            code: 0,
            round: 0,
            element: 0,
            elements: 0,
            flags: Flags::default(),
            kind: EntryKind::Event,
            role: Role::None,
            outcome: RowOutcome::None,
        }
    }
}

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A frame, or an element of a batch.
    Frame(FrameKind),
    Event,
}

impl EntryKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Frame(kind) => kind.name(),
            Self::Event => "event",
        }
    }
}

/// The outcome that a row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RowOutcome {
    #[default]
    None,
    Ok,
    Error,
    ToolError,
    InputRequired,
    Invalid,
    Cut,
}

impl RowOutcome {
    pub(crate) const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Ok => Some("ok"),
            Self::Error => Some("error"),
            Self::ToolError => Some("tool-error"),
            Self::InputRequired => Some("input-required"),
            Self::Invalid => Some("invalid"),
            Self::Cut => Some("cut"),
        }
    }

    /// Whether the outcome is a failure.
    pub(crate) const fn is_failure(self) -> bool {
        matches!(self, Self::Error | Self::ToolError | Self::Invalid)
    }
}

/// Facts of a row that are true or false, and its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u8);

impl Flags {
    /// The frame is not well formed.
    pub(crate) const BAD: Self = Self(1 << 2);
    /// A secret in the text was replaced.
    pub(crate) const REDACTED: Self = Self(1 << 3);
    /// The id of the response differs from that of its request.
    pub(crate) const OTHER_ID: Self = Self(1 << 4);
    /// The event is a failure: an exit with another code than 0, or a status of 400 or more.
    pub(crate) const FAILURE: Self = Self(1 << 5);
    /// The direction was guessed.
    pub(crate) const GUESSED: Self = Self(1 << 6);

    pub(crate) fn on(stream: Option<Stream>) -> Self {
        Self(match stream {
            None => 0,
            Some(Stream::ToServer) => 1,
            Some(Stream::ToClient) => 2,
            Some(Stream::Stderr) => 3,
        })
    }

    #[must_use]
    pub(crate) fn with(self, flag: Self, is_set: bool) -> Self {
        if is_set { Self(self.0 | flag.0) } else { self }
    }

    pub(crate) fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    /// Returns the stream, even if it was guessed.
    pub(crate) fn stream(self) -> Option<Stream> {
        match self.0 & 3 {
            1 => Some(Stream::ToServer),
            2 => Some(Stream::ToClient),
            3 => Some(Stream::Stderr),
            _ => None,
        }
    }
}

/// A time since the start of a capture, or none, in eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

impl Time {
    pub(crate) const NONE: Self = Self(u64::MAX);

    pub(crate) fn of(time: Option<Duration>) -> Self {
        time.map_or(Self::NONE, |time| Self(u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1)))
    }

    pub(crate) fn micros(self) -> Option<u64> {
        (self != Self::NONE).then_some(self.0)
    }

    pub(crate) fn seconds(self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a capture of 285 years still has exact microseconds")]
        self.micros().map(|micros| micros as f64 / 1e6)
    }

    /// Returns the time from `earlier` to this one.
    pub(crate) fn since(self, earlier: Self) -> Option<Duration> {
        Some(Duration::from_micros(self.micros()?.saturating_sub(earlier.micros()?)))
    }
}

/// An operation.
#[derive(Debug, Clone)]
pub(crate) struct OperationRecord {
    /// The row of the first request.
    pub(crate) first: u32,
    /// The last row; `u32::MAX` if there is none yet.
    pub(crate) last: u32,
    /// The last request, plus 1; 0 if it is answered.
    pub(crate) open_request: u32,
    pub(crate) method: u32,
    pub(crate) name: u32,
    pub(crate) conversation: u32,
    pub(crate) start: Time,
    /// The time of the last response or of the cancellation.
    pub(crate) end: Time,
    /// The operation that waits for this one; 0 if there is none.
    pub(crate) parent: u32,
    /// The number of rows that a folded list leaves out.
    pub(crate) children: u32,
    pub(crate) lane: u16,
    pub(crate) depth: u8,
    pub(crate) rounds: u16,
    pub(crate) is_of_server: bool,
    /// The time at which its lane was free for another operation: of its last response, or of its cancellation.
    pub(crate) released: Option<Time>,
    pub(crate) state: OperationState,
}

/// The state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationState {
    /// No response yet.
    Open,
    /// The server has asked for input.
    Suspended,
    Cancelled,
    /// The requester listens to a subscription, so there is no response for a long time.
    Listening,
    Done,
    Failed,
    ToolFailed,
}

impl OperationState {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Suspended => "input-required",
            Self::Cancelled => "cancelled",
            Self::Listening => "listening",
            Self::Done => "ok",
            Self::Failed => "error",
            Self::ToolFailed => "tool-error",
        }
    }

    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Suspended | Self::Listening)
    }

    pub(crate) const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::ToolFailed)
    }
}

/// An HTTP exchange.
#[derive(Debug, Clone)]
pub(crate) struct ExchangeRecord {
    /// The name of its channel.
    pub(crate) channel: IndexedId,
    /// The lines of the request's head, separated by line breaks.
    pub(crate) request: Span,
    /// The lines of the response's head.
    pub(crate) response: Span,
    /// The first operation whose request is in this exchange.
    pub(crate) operation: u32,
    /// The row that the heads are listed below, plus 1: that of a batch, or of a message without an operation. 0 if the
    /// heads are part of an operation, or if nothing was sent yet.
    pub(crate) message: u32,
    /// The last row of a head that is not part of an operation, plus 1; `previous` leads to the one before.
    pub(crate) last_head: u32,
    /// The number of these heads.
    pub(crate) heads: u32,
}

impl ExchangeRecord {
    /// Returns an exchange of which nothing but the name of its channel is known.
    pub(super) fn new(channel: IndexedId) -> Self {
        Self { channel, request: Span::NONE, response: Span::NONE, operation: 0, message: 0, last_head: 0, heads: 0 }
    }
}
