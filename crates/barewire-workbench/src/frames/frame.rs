//! A frame -> the message in it, and the facts that output shows.

use std::time::Duration;

use barewire_proto::frame::{Frame, FrameError};
use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::{ErrorRef, Id, Invalid, MemberName, Message, Parsed, Rule, parse};
use barewire_proto::transcript::Stream;

/// One frame, parsed.
#[non_exhaustive]
pub struct WireFrame<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// The byte of its stream at which it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Its bytes, unless it was too long to keep.
    pub bytes: Option<&'a [u8]>,
    /// The message or batch in it, or the reason why it is invalid.
    pub parsed: Parsed<'a>,
    /// The place where it is nested deeper than the limit. Such a frame is otherwise well formed.
    pub too_deep: Option<TooDeep>,
    /// Its place in a transcript.
    pub place: Option<FramePosition<'a>>,
}

/// The place where a frame is nested deeper than the limit.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct TooDeep {
    /// The limit.
    pub limit: usize,
    /// The byte of the frame.
    pub at: usize,
}

/// The stream of a transcript that a frame is part of, and the time.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct FramePosition<'a> {
    /// The stream.
    pub stream: Stream,
    /// The channel; empty where there is only one.
    pub channel: &'a str,
    /// The time since the start of the capture.
    pub time: Option<Duration>,
    /// The bytes of the stream that are missing before the frame.
    pub before: u64,
    /// Whether a secret in it was replaced.
    pub redacted: bool,
}

impl<'a> WireFrame<'a> {
    pub(super) fn parse(
        number: u64,
        frame: &'a Result<Frame<'a>, FrameError>,
        place: Option<FramePosition<'a>>,
        max_depth: usize,
    ) -> Self {
        let before = place.map_or(0, |place| place.before);
        match frame {
            Ok(Frame { offset, bytes, .. }) => {
                let (parsed, too_deep) = parse_frame(bytes, max_depth);
                let (offset, length) = (before.saturating_add(*offset), bytes.len() as u64);
                Self { number, offset, length, bytes: Some(bytes), parsed, too_deep, place }
            }
            Err(error) => {
                let length = if let FrameError::TooLong(long) = error { long.length } else { 0 };
                let parsed = Parsed::Invalid(Invalid::from_frame(error));
                let offset = before.saturating_add(error.offset());
                Self { number, offset, length, bytes: None, parsed, too_deep: None, place }
            }
        }
    }

    /// A frame of which a transcript holds only the beginning.
    pub(super) fn truncated(number: u64, offset: u64, length: u64, begins: &'a [u8], place: FramePosition<'a>) -> Self {
        let parsed = Parsed::Invalid(Invalid::shapeless(Rule::Truncated, begins.len()));
        Self { number, offset, length, bytes: Some(begins), parsed, too_deep: None, place: Some(place) }
    }

    /// Returns the same frame as part of a stream outside of a transcript.
    #[must_use]
    pub fn on_stream(&self, stream: Stream) -> Self {
        let place = FramePosition { stream, channel: "", time: None, before: 0, redacted: false };
        Self { parsed: self.parsed.clone(), place: Some(place), ..*self }
    }

    /// Whether everything in it is a message.
    pub fn is_well_formed(&self) -> bool {
        match &self.parsed {
            Parsed::Message(_) => true,
            Parsed::Invalid(_) => false,
            Parsed::Batch(batch) => batch.elements().all(|element| element.is_ok()),
        }
    }

    /// Returns the facts that every form of output shows.
    pub fn facts(&self) -> FrameFacts<'_> {
        match &self.parsed {
            Parsed::Message(message) => FrameFacts::message(message, self.bytes),
            Parsed::Batch(_) => FrameFacts { kind: "batch", ..FrameFacts::default() },
            Parsed::Invalid(invalid) => FrameFacts::invalid(invalid, self.bytes),
        }
    }

    /// Returns the elements of a batch, each with its text; none if the frame is no batch.
    pub fn elements(&self) -> impl Iterator<Item = (MessageResult<'a>, &'a [u8])> {
        let batch = if let Parsed::Batch(batch) = self.parsed { Some(batch) } else { None };
        batch.into_iter().flat_map(|batch| batch.elements().zip(batch.texts()))
    }
}

/// A message, or the reason why it is invalid.
pub type MessageResult<'a> = Result<Message<'a>, Invalid<'a>>;

/// Parses a frame, and once more without the limit of depth if only its depth is wrong.
fn parse_frame(bytes: &[u8], max_depth: usize) -> (Parsed<'_>, Option<TooDeep>) {
    let too_deep = |invalid: &Invalid<'_>| match invalid.rule {
        Rule::TooDeep { limit } => Some(TooDeep { limit, at: invalid.at }),
        _ => None,
    };
    let parsed = parse(bytes, max_depth);
    let found = match &parsed {
        Parsed::Message(_) => None,
        Parsed::Invalid(invalid) => too_deep(invalid),
        Parsed::Batch(batch) => batch.elements().filter_map(Result::err).find_map(|invalid| too_deep(&invalid)),
    };
    match found {
        None => (parsed, None),
        found => (parse(bytes, usize::MAX), found),
    }
}

/// The facts about a frame or an element of a batch that every form of output shows.
#[derive(Default)]
#[non_exhaustive]
pub struct FrameFacts<'a> {
    /// The kind: request, notification, result, error, batch or invalid.
    pub kind: &'static str,
    /// The id as written, valid or not.
    pub id: Option<String>,
    /// The method as written, with its quotes.
    pub method: Option<&'a str>,
    /// The code of an error, or the one that an invalid frame is refused with.
    pub code: Option<i64>,
    /// The reason why the frame is invalid.
    pub invalid: Option<&'a Invalid<'a>>,
    /// The error.
    pub error: Option<ErrorRef<'a>>,
}

impl<'a> FrameFacts<'a> {
    /// Returns the facts about an element of a batch with this text.
    pub fn element(element: &'a MessageResult<'a>, text: &[u8]) -> Self {
        match element {
            Ok(message) => Self::message(message, Some(text)),
            Err(invalid) => Self::invalid(invalid, Some(text)),
        }
    }

    fn message(message: &'a Message<'a>, text: Option<&[u8]>) -> Self {
        let id = |id: &Id<'_>| Some(id.to_string());
        let error = |id, error: ErrorRef<'a>| Self {
            kind: "error",
            id,
            code: Some(error.code.get()),
            error: Some(error),
            ..Self::default()
        };
        match message {
            Message::Request(r) => {
                Self { kind: "request", id: id(&r.id), method: Some(r.method.raw()), ..Self::default() }
            }
            Message::Notification(n) => Self { kind: "notification", method: Some(n.method.raw()), ..Self::default() },
            Message::Response(r) => match r.outcome {
                Ok(_) => Self { kind: "result", id: id(&r.id), ..Self::default() },
                Err(e) => error(id(&r.id), e),
            },
            // The id is null or absent; the facts show which.
            Message::OrphanError(e) => error(text.and_then(written_id), *e),
        }
    }

    fn invalid(invalid: &'a Invalid<'a>, text: Option<&[u8]>) -> Self {
        let readable = invalid.id.as_ref().map(ToString::to_string);
        Self {
            kind: "invalid",
            id: readable.or_else(|| text.and_then(written_id)),
            method: invalid.method.map(|method| method.raw()),
            code: Some(invalid.rule.code().get()),
            invalid: Some(invalid),
            ..Self::default()
        }
    }
}

/// Returns the `id` of an object as written, of whatever type; `None` if the member is there twice.
fn written_id(text: &[u8]) -> Option<String> {
    // Bad UTF-8 elsewhere does not make the id less readable.
    let text = String::from_utf8_lossy(text);
    let object = Json::parse(text.as_bytes()).ok().filter(|json| json.kind() == Kind::Object)?;
    let mut ids = object.members().filter(|member| MemberName::of(member.name) == Some(MemberName::Id));
    if let (Some(id), None) = (ids.next(), ids.next()) { Some(id.value.as_str().to_owned()) } else { None }
}
