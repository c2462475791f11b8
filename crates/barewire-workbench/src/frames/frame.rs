//! A frame with the message in it, and the facts that every output format shows.

use std::time::Duration;

use barewire_proto::frame::{Codec, Frame, FrameError, Lines, Outline};
use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::rpc::{ErrorRef, Id, Invalid, MemberName, Message, Parsed, Rule, Shape, parse};
use barewire_proto::transcript::Stream;

use super::json_text::JsonText;

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
    pub(super) fn truncated(
        number: u64,
        offset: u64,
        length: u64,
        beginning: &'a FrameBeginning<'a>,
        place: FramePosition<'a>,
    ) -> Self {
        let (begins, parsed) = (beginning.bytes, Parsed::Invalid(beginning.invalid()));
        Self { number, offset, length, bytes: Some(begins), parsed, too_deep: None, place: Some(place) }
    }

    /// Returns the same frame as part of a stream that is not in a transcript.
    #[must_use]
    pub fn on_stream(&self, stream: Stream) -> Self {
        let place = FramePosition { stream, channel: "", time: None, before: 0, redacted: false };
        Self { parsed: self.parsed.clone(), place: Some(place), ..*self }
    }

    /// Whether the transcript contains only the beginning of the frame.
    pub fn is_cut(&self) -> bool {
        matches!(&self.parsed, Parsed::Invalid(invalid) if invalid.rule == Rule::Truncated) && self.bytes.is_some()
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

/// The beginning of a frame, with the id and the method in it.
pub(super) struct FrameBeginning<'a> {
    bytes: &'a [u8],
    outline: Option<FrameError>,
}

impl<'a> FrameBeginning<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let mut json = JsonText::default();
        json.line(bytes);
        let closing = json.closing();
        // The frame can end within a name, after a name, before a value or within a value.
        let ends = closing.iter().flat_map(|closing| ENDS.map(|end| format!("{closing}{end}\n")));
        let outline = ends.map(|end| outline(bytes, &end)).find(|outline| has_members(outline.as_ref())).flatten();
        Self { bytes, outline }
    }

    fn invalid(&'a self) -> Invalid<'a> {
        let shapeless = Invalid::shapeless(Rule::Truncated, self.bytes.len());
        let Some(outline) = &self.outline else { return shapeless };
        let mut invalid = Invalid::from_frame(outline);
        (invalid.rule, invalid.at) = (Rule::Truncated, self.bytes.len());
        invalid.id = invalid.id.filter(|id| !self.may_continue(id.as_str()));
        invalid.method = invalid.method.filter(|method| !self.may_continue(method.raw()));
        let name = invalid.method.map(Text::to_name);
        invalid.shape = match (invalid.shape, &invalid.id, name) {
            (Shape::Response, Some(_), _) => Shape::Response,
            (_, Some(_), Some(_)) => Shape::Request,
            (_, None, Some(name)) if name.starts_with("notifications/") => Shape::Notification,
            // The id or the method, or that it is a response, can be in the part that is missing.
            _ => Shape::Unknown,
        };
        invalid
    }

    /// Whether this value is at the end, so that more of it can be in the part that is missing.
    fn may_continue(&self, value: &str) -> bool {
        let begins = value.strip_suffix('"').unwrap_or(value);
        self.bytes.ends_with(begins.as_bytes())
    }
}

/// Returns the id and the method of a frame. A decoder finds them in a frame that is too long, which every frame is for
/// this one.
fn outline(bytes: &[u8], end: &str) -> Option<FrameError> {
    let mut lines = Lines::new(1);
    [bytes, end.as_bytes()].into_iter().find_map(|mut piece| lines.next_frame(&mut piece)?.err())
}

fn has_members(outline: Option<&FrameError>) -> bool {
    matches!(outline, Some(FrameError::TooLong(long)) if matches!(long.outline, Outline::Object { .. }))
}

/// The texts that make an object complete.
const ENDS: [&str; 4] = ["}", ":0}", "0}", "\"\":0}"];

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
    /// The kind: request, notification, result, error, batch, invalid, or cut if the transcript contains only the
    /// beginning.
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
        let is_cut = invalid.rule == Rule::Truncated && text.is_some();
        Self {
            kind: if is_cut { "cut" } else { "invalid" },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_frame_has_an_id_and_a_method() {
        let read = |text: &str| {
            let beginning = FrameBeginning::of(text.as_bytes());
            let invalid = beginning.invalid();
            let method = invalid.method.map(|method| method.to_name().into_owned());
            (invalid.shape, invalid.id.map(|id| id.to_string()), method)
        };
        let (id, method) = (|id: &str| Some(id.to_owned()), |name: &str| Some(name.to_owned()));
        let call = r#"{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"#;
        assert_eq!(read(call), (Shape::Request, id("12"), method("tools/call")));
        assert_eq!(
            read(&call[..call.find(",\"params").expect("params")]),
            (Shape::Request, id("12"), method("tools/call"))
        );
        let result = r#"{"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"x\"#;
        assert_eq!(read(result), (Shape::Response, id("\"a\""), None));
        // The rest of the id or method may be missing.
        assert_eq!(read(r#"{"jsonrpc":"2.0","method":"ping","id":1"#), (Shape::Unknown, None, method("ping")));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"method":"tools/"#), (Shape::Unknown, id("1"), None));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":7,"resu"#), (Shape::Unknown, id("7"), None));
        assert_eq!(read(r#"{"method":"tools/call","params":{"a":"#), (Shape::Unknown, None, method("tools/call")));
        let progress = r#"{"method":"notifications/progress","params":{"#;
        assert_eq!(read(progress), (Shape::Notification, None, method("notifications/progress")));
        for end in 0..result.len() {
            read(&result[..end]);
        }
        assert_eq!(read("["), (Shape::Unknown, None, None));
    }
}
