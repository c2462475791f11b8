//! A frame -> the message in it, and what is said of it.

use std::time::Duration;

use barewire_proto::frame::{Frame, FrameError};
use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::{ErrorRef, Id, Invalid, Message, Name, Parsed, Rule, parse};
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
    /// The message or batch in it, or what is wrong with it.
    pub parsed: Parsed<'a>,
    /// The place where it is nested deeper than the limit. Such a frame is well formed, and noted.
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
    /// Whether something in it was replaced to keep a secret.
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
                let (parsed, too_deep) = judge(bytes, max_depth);
                let (offset, length) = (before.saturating_add(*offset), bytes.len() as u64);
                Self { number, offset, length, bytes: Some(bytes), parsed, too_deep, place }
            }
            Err(error) => {
                let length = match error {
                    FrameError::TooLong(long) => long.length,
                    _ => 0,
                };
                let parsed = Parsed::Invalid(Invalid::from_frame(error));
                let offset = before.saturating_add(error.offset());
                Self { number, offset, length, bytes: None, parsed, too_deep: None, place }
            }
        }
    }

    /// A frame of which a transcript holds only the beginning.
    pub(super) fn cut(number: u64, offset: u64, length: u64, begins: &'a [u8], place: FramePosition<'a>) -> Self {
        let parsed = Parsed::Invalid(Invalid::shapeless(Rule::Truncated, begins.len()));
        Self { number, offset, length, bytes: Some(begins), parsed, too_deep: None, place: Some(place) }
    }

    /// The same frame, as one of a stream that is not in a transcript.
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

    /// What is said of it in any form of output.
    pub fn facts(&self) -> FrameFacts<'_> {
        match &self.parsed {
            Parsed::Message(message) => FrameFacts::message(message, self.bytes),
            Parsed::Batch(_) => FrameFacts { kind: "batch", ..FrameFacts::default() },
            Parsed::Invalid(invalid) => FrameFacts::invalid(invalid, self.bytes),
        }
    }

    /// The elements of a batch, each with its text. Nothing if the frame is no batch.
    pub fn elements(&self) -> impl Iterator<Item = (MessageResult<'a>, &'a [u8])> {
        let batch = match self.parsed {
            Parsed::Batch(batch) => Some(batch),
            _ => None,
        };
        batch.into_iter().flat_map(|batch| batch.elements().zip(batch.texts()))
    }
}

/// A message, or what is wrong with it.
pub type MessageResult<'a> = Result<Message<'a>, Invalid<'a>>;

/// Judges a frame, and again without the limit of depth if nothing but that is wrong with it.
fn judge(bytes: &[u8], max_depth: usize) -> (Parsed<'_>, Option<TooDeep>) {
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

/// What is said of a frame or of an element of a batch, in any form of output.
#[derive(Default)]
#[non_exhaustive]
pub struct FrameFacts<'a> {
    /// The kind: request, notification, result, error, batch or invalid.
    pub kind: &'static str,
    /// The id as it was written, valid or not.
    pub id: Option<String>,
    /// The method as it was written, with its quotes.
    pub method: Option<&'a str>,
    /// The code of an error, or the one that a bad frame is refused with.
    pub code: Option<i64>,
    /// What is wrong with it.
    pub invalid: Option<&'a Invalid<'a>>,
    /// The error.
    pub error: Option<ErrorRef<'a>>,
}

impl<'a> FrameFacts<'a> {
    /// What is said of an element of a batch with this text.
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
            // Null or left out: both are seen.
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

/// The `id` of an object as it was written, whatever it is; `None` if it stands there twice.
fn written_id(text: &[u8]) -> Option<String> {
    // Bad UTF-8 elsewhere does not make the id less readable.
    let text = String::from_utf8_lossy(text);
    let object = Json::parse(text.as_bytes()).ok().filter(|json| json.kind() == Kind::Object)?;
    let mut ids = object.members().filter(|member| Name::of(member.name) == Some(Name::Id));
    match (ids.next(), ids.next()) {
        (Some(id), None) => Some(id.value.as_str().to_owned()),
        _ => None,
    }
}
