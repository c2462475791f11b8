//! A frame together with the positions of its members, so that the frame is parsed only once.

use super::{Batch, Code, ErrorRef, Id, Invalid, Message, Notification, Params, Parsed, Request, Response};
use super::{Rule, Shape, parse};
use crate::json::{Json, Kind, Text, ValueSpan};

/// A frame with the result of [`parse`]. It can wait in a queue or be passed to a handler without being parsed again.
///
/// ```
/// use barewire_proto::rpc::{DEFAULT_DEPTH, ParsedFrame, Message, Parsed};
///
/// let frame = ParsedFrame::parse(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#.to_vec(), DEFAULT_DEPTH);
/// let Parsed::Message(Message::Request(request)) = frame.parsed() else { panic!() };
/// assert_eq!(request.id.as_str(), "7");
/// ```
#[derive(Debug, Clone)]
pub struct ParsedFrame<B> {
    bytes: B,
    /// Invariant: every span is the position of a JSON value in `bytes` that the scanner has accepted.
    content: FrameContent,
}

#[derive(Debug, Clone)]
enum FrameContent {
    Request { id: ValueSpan, method: ValueSpan, params: Option<ValueSpan> },
    Notification { method: ValueSpan, params: Option<ValueSpan> },
    Result { id: ValueSpan, result: ValueSpan },
    Error { id: ValueSpan, error: ErrorSpans },
    OrphanError(ErrorSpans),
    Batch { len: usize, max_depth: usize },
    Invalid { rule: Rule, at: usize, id: Option<ValueSpan>, method: Option<ValueSpan>, shape: Shape },
}

#[derive(Debug, Clone, Copy)]
struct ErrorSpans {
    code: Code,
    message: ValueSpan,
    data: Option<ValueSpan>,
}

impl<B: AsRef<[u8]>> ParsedFrame<B> {
    /// Parses a frame. See [`parse`].
    pub fn parse(bytes: B, max_depth: usize) -> Self {
        let frame = bytes.as_ref();
        let content = FrameContent::from_parsed(frame, &parse(frame, max_depth));
        Self { bytes, content }
    }

    /// Returns the bytes of the frame.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns the result of parsing, without parsing again.
    pub fn parsed(&self) -> Parsed<'_> {
        self.content.within(self.bytes.as_ref())
    }
}

impl ParsedFrame<Box<[u8]>> {
    /// Copies `frame`, and keeps the result of parsing it.
    ///
    /// # Panics
    ///
    /// Panics if `parsed` was not read from `frame`.
    pub fn copy(frame: &[u8], parsed: &Parsed<'_>) -> Self {
        Self { content: FrameContent::from_parsed(frame, parsed), bytes: frame.into() }
    }
}

impl FrameContent {
    fn from_parsed(frame: &[u8], parsed: &Parsed<'_>) -> Self {
        let json = |json: Json<'_>| span_of(frame, json.as_bytes(), json.kind());
        let text = |text: Text<'_>| span_of(frame, text.raw().as_bytes(), Kind::String);
        let id = |id: &Id<'_>| {
            let text = id.as_str().as_bytes();
            let kind = if text.starts_with(b"\"") { Kind::String } else { Kind::Number };
            span_of(frame, text, kind)
        };
        let error = |error: &ErrorRef<'_>| ErrorSpans {
            code: error.code,
            message: text(error.message),
            data: error.data.map(json),
        };
        match parsed {
            Parsed::Message(Message::Request(request)) => Self::Request {
                id: id(&request.id),
                method: text(request.method),
                params: request.params.map(|params| json(params.json())),
            },
            Parsed::Message(Message::Notification(notification)) => Self::Notification {
                method: text(notification.method),
                params: notification.params.map(|params| json(params.json())),
            },
            Parsed::Message(Message::Response(response)) => match &response.outcome {
                Ok(result) => Self::Result { id: id(&response.id), result: json(*result) },
                Err(it) => Self::Error { id: id(&response.id), error: error(it) },
            },
            Parsed::Message(Message::OrphanError(it)) => Self::OrphanError(error(it)),
            Parsed::Batch(batch) => Self::Batch { len: batch.len(), max_depth: batch.max_depth() },
            Parsed::Invalid(invalid) => Self::Invalid {
                rule: invalid.rule,
                at: invalid.at,
                id: invalid.id.as_ref().map(id),
                method: invalid.method.map(text),
                shape: invalid.shape,
            },
        }
    }

    fn within<'a>(&self, frame: &'a [u8]) -> Parsed<'a> {
        let json = |value| Json::scanned(frame, value);
        let text = |value| Text::from_json(json(value)).expect("the span is that of a string");
        let id = |value| Id::from_json(json(value)).expect("the span is that of a string or a number");
        let params = |value| Params::from_json(json(value)).expect("the span is that of an object or an array");
        let error =
            |error: ErrorSpans| ErrorRef { code: error.code, message: text(error.message), data: error.data.map(json) };
        Parsed::Message(match *self {
            Self::Request { id: it, method, params: given } => {
                Message::Request(Request { id: id(it), method: text(method), params: given.map(params) })
            }
            Self::Notification { method, params: given } => {
                Message::Notification(Notification { method: text(method), params: given.map(params) })
            }
            Self::Result { id: it, result } => Message::Response(Response { id: id(it), outcome: Ok(json(result)) }),
            Self::Error { id: it, error: spans } => {
                Message::Response(Response { id: id(it), outcome: Err(error(spans)) })
            }
            Self::OrphanError(spans) => Message::OrphanError(error(spans)),
            Self::Batch { len, max_depth } => return Parsed::Batch(Batch::scanned(frame, len, max_depth)),
            Self::Invalid { rule, at, id: it, method, shape } => {
                let (id, method) = (it.map(id), method.map(text));
                return Parsed::Invalid(Invalid { rule, at, id, method, shape });
            }
        })
    }
}

/// Returns the position of `part` in `frame`. `part` must be a slice of `frame`.
pub(crate) fn span_of(frame: &[u8], part: &[u8], kind: Kind) -> ValueSpan {
    let start = (part.as_ptr() as usize).checked_sub(frame.as_ptr() as usize);
    let end = start.map(|start| start + part.len()).filter(|end| *end <= frame.len());
    let (start, end) = start.zip(end).expect("the part was read from this frame");
    ValueSpan { start, end, kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::DEFAULT_DEPTH;

    #[test]
    fn a_parsed_frame_returns_what_it_was_parsed_as() {
        let frames: [&[u8]; 12] = [
            br#" {"jsonrpc":"2.0","id":"a\n","method":"tools\/call","params":{"name":"x"}} "#,
            br#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#,
            br#"{"jsonrpc":"2.0","method":"n","params":[1]}"#,
            br#"{"jsonrpc":"2.0","id":1,"result":{"a":[1,2]}}"#,
            br#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":null}}"#,
            br#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#,
            br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}, 7]"#,
            br#"{"jsonrpc":"2.0","id":4,"method":7}"#,
            br#"{"jsonrpc":"1.0","id":"b","method":"m"}"#,
            br#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
            b"{",
            b"7",
        ];
        for frame in frames {
            let parsed = parse(frame, DEFAULT_DEPTH);
            assert_eq!(ParsedFrame::copy(frame, &parsed).parsed(), parsed);
            assert_eq!(ParsedFrame::parse(frame.to_vec(), DEFAULT_DEPTH).parsed(), parsed);
        }
    }

    #[test]
    #[should_panic(expected = "the part was read from this frame")]
    fn a_message_of_another_frame_panics() {
        let (one, other) = (*br#"{"jsonrpc":"2.0","method":"a"}"#, *br#"{"jsonrpc":"2.0","method":"b"}"#);
        ParsedFrame::copy(&one[..1], &parse(&other, DEFAULT_DEPTH));
    }
}
