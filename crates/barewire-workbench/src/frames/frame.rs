//! A frame with the message in it, and the facts that every output format shows.

use std::time::Duration;

use barewire_proto::frame::{Frame, FrameError};
use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::{ErrorRef, Id, Invalid, MemberName, Message, Parsed, Rule, parse};
use barewire_proto::transcript::Stream;

/// One parsed frame.
#[non_exhaustive]
pub struct WireFrame<'a> {
    /// The number of the frame, from 1.
    pub number: u64,
    /// The offset in its stream at which the frame begins.
    pub offset: u64,
    /// The length of the frame in bytes.
    pub length: u64,
    /// The bytes of the frame; `None` if it was too long to keep.
    pub bytes: Option<&'a [u8]>,
    /// The message or batch in the frame, or the reason why it is invalid.
    pub parsed: Parsed<'a>,
    /// The place where the frame is nested deeper than the limit. Such a frame was parsed again without the limit.
    pub too_deep: Option<TooDeep>,
    /// The position of the frame in a transcript; `None` if the frame is not from a transcript.
    pub place: Option<FramePosition<'a>>,
}

/// The place where a frame is nested deeper than the limit.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct TooDeep {
    /// The maximum nesting depth.
    pub limit: usize,
    /// The offset in the frame at which the limit is exceeded.
    pub at: usize,
}

/// The stream and the time of a frame in a transcript.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct FramePosition<'a> {
    /// The stream that the frame is part of.
    pub stream: Stream,
    /// The name of the channel; empty if the transcript has only one channel.
    pub channel: &'a str,
    /// The time since the start of the capture.
    pub time: Option<Duration>,
    /// The number of earlier bytes of the stream that the decoder of this frame did not see.
    pub before: u64,
    /// Whether a secret in the frame was replaced.
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

    /// Makes a frame of which the transcript contains only the beginning.
    pub(super) fn truncated(number: u64, offset: u64, length: u64, begins: &'a [u8], place: FramePosition<'a>) -> Self {
        let parsed = Parsed::Invalid(Invalid::shapeless(Rule::Truncated, begins.len()));
        Self { number, offset, length, bytes: Some(begins), parsed, too_deep: None, place: Some(place) }
    }

    /// Returns the same frame as part of a stream that is not in a transcript.
    #[must_use]
    pub fn on_stream(&self, stream: Stream) -> Self {
        let place = FramePosition { stream, channel: "", time: None, before: 0, redacted: false };
        Self { parsed: self.parsed.clone(), place: Some(place), ..*self }
    }

    /// Whether the frame is a valid message, or a batch of valid messages.
    pub fn is_well_formed(&self) -> bool {
        match &self.parsed {
            Parsed::Message(_) => true,
            Parsed::Invalid(_) => false,
            Parsed::Batch(batch) => batch.elements().all(|element| element.is_ok()),
        }
    }

    /// Returns the facts that every output format shows.
    pub fn facts(&self) -> FrameFacts<'_> {
        match &self.parsed {
            Parsed::Message(message) => FrameFacts::message(message, self.bytes),
            Parsed::Batch(_) => FrameFacts { kind: "batch", ..FrameFacts::default() },
            Parsed::Invalid(invalid) => FrameFacts::invalid(invalid, self.bytes),
        }
    }

    /// Returns the elements of a batch, each with its text; none if the frame is not a batch.
    pub fn elements(&self) -> impl Iterator<Item = (MessageResult<'a>, &'a [u8])> {
        let batch = if let Parsed::Batch(batch) = self.parsed { Some(batch) } else { None };
        batch.into_iter().flat_map(|batch| batch.elements().zip(batch.texts()))
    }
}

/// A message, or the reason why it is invalid.
pub type MessageResult<'a> = Result<Message<'a>, Invalid<'a>>;

/// Parses a frame. If the frame is nested too deeply, parses it again without the depth limit.
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

/// The facts about a frame or a batch element that every output format shows.
#[derive(Default)]
#[non_exhaustive]
pub struct FrameFacts<'a> {
    /// The kind: request, notification, result, error, batch or invalid.
    pub kind: &'static str,
    /// The id as written, whether valid or not.
    pub id: Option<String>,
    /// The method as written, including its quotes.
    pub method: Option<&'a str>,
    /// The error code: of an error response, or of the error that an invalid frame is answered with.
    pub code: Option<i64>,
    /// The reason why the frame is invalid.
    pub invalid: Option<&'a Invalid<'a>>,
    /// The error in an error response.
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
            // An orphan error has a null id or none; the facts show which.
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

/// Returns the `id` of an object as written, whatever its type; `None` if the member occurs twice.
fn written_id(text: &[u8]) -> Option<String> {
    // Invalid UTF-8 elsewhere in the text does not matter for the id.
    let text = String::from_utf8_lossy(text);
    let object = Json::parse(text.as_bytes()).ok().filter(|json| json.kind() == Kind::Object)?;
    let mut ids = object.members().filter(|member| MemberName::of(member.name) == Some(MemberName::Id));
    if let (Some(id), None) = (ids.next(), ids.next()) { Some(id.value.as_str().to_owned()) } else { None }
}
