//! A frame that is not a valid message: the rule it breaks, the offset of the fault, and the error response to its
//! sender.

use std::fmt;

use super::{Code, ErrorObject, Id, Reply};
use crate::frame::{FrameError, HeaderFault, Outline, OutlineMember, TooLong};
use crate::json::{Expected, Text};

/// A frame or batch element that is not a valid message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalid<'a> {
    /// The rule that the frame breaks.
    pub rule: Rule,
    /// The offset in the frame of the first byte that breaks the rule.
    pub at: usize,
    /// The id of the message; `None` if no valid id could be read.
    pub id: Option<Id<'a>>,
    /// The method of the message; `None` if no method could be read.
    pub method: Option<Text<'a>>,
    /// The kind of message that the members of the frame suggest.
    pub shape: Shape,
}

/// The kind of message that the members of an invalid frame suggest. The kind decides whether the frame is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the kinds are those of JSON-RPC 2.0")]
pub enum Shape {
    /// A request, or a frame that might be meant as a request. It is answered.
    Request,
    /// A notification. It is never answered.
    Notification,
    /// A response, with `result` or `error` and without `method`. It is never answered.
    Response,
    /// An unknown kind. The frame is answered, with the id null.
    Unknown,
}

/// A rule that frames and messages must follow. Each variant is named after a violation of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// The frame is not JSON.
    Syntax(Expected),
    /// A string in the frame is not UTF-8.
    BadUtf8,
    /// The frame has more bytes than the limit.
    TooLong {
        /// The maximum number of bytes.
        limit: usize,
    },
    /// The message is nested deeper than the limit.
    TooDeep {
        /// The maximum nesting depth.
        limit: usize,
    },
    /// The headers of the frame do not state the length of its body.
    BadHeader(HeaderFault),
    /// The stream ended inside the frame.
    Truncated,
    /// The frame is neither an object nor an array.
    NotAnObject,
    /// The frame is a batch without elements.
    EmptyBatch,
    /// The frame is a batch with more elements than the limit.
    BatchTooLong {
        /// The maximum number of elements.
        limit: usize,
    },
    /// A batch inside a batch.
    NestedBatch,
    /// A batch where batches are not allowed.
    BatchNotAllowed,
    /// A member that JSON-RPC defines occurs twice.
    Duplicate(MemberName),
    /// The message has no `jsonrpc`.
    NoVersion,
    /// `jsonrpc` is not the string `2.0`.
    BadVersion,
    /// The message has no `method`, no `result` and no `error`.
    NothingToDo,
    /// `method` is not a string.
    BadMethod,
    /// The message has a `method` together with a `result` or an `error`.
    MethodAndOutcome,
    /// The message has both a `result` and an `error`.
    ResultAndError,
    /// `params` is neither an object nor an array.
    BadParams,
    /// `id` is null.
    NullId,
    /// `id` is neither a string nor a number.
    BadId,
    /// The message has a `result` but no `id`.
    NoId,
    /// `error` is not an error object.
    BadError(ErrorFault),
}

/// A fault in an error object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "Display describes each variant")]
pub enum ErrorFault {
    NotAnObject,
    NoCode,
    BadCode,
    NoMessage,
    BadMessage,
    Duplicate,
}

/// A member of a message that JSON-RPC defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of JSON-RPC")]
#[expect(clippy::exhaustive_enums, reason = "the members are those of JSON-RPC 2.0")]
pub enum MemberName {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
}

impl<'a> Invalid<'a> {
    /// Creates an `Invalid` for a frame whose kind of message is unknown.
    pub fn shapeless(rule: Rule, at: usize) -> Self {
        Self { rule, at, id: None, method: None, shape: Shape::Unknown }
    }

    /// Returns the reply to the sender, or `None` if the frame must not be answered.
    pub fn reply(&self) -> Option<Reply<'_>> {
        match (self.shape, &self.id) {
            (Shape::Notification | Shape::Response, _) => None,
            (Shape::Request | Shape::Unknown, Some(id)) => Some(Reply::to(id.borrow())),
            (Shape::Request | Shape::Unknown, None) => Some(Reply::to_unreadable()),
        }
    }

    /// Returns the error of the reply: the code with its standard message, and the rule, offset and limit as data.
    pub fn error(&self) -> ErrorObject {
        #[derive(serde::Serialize)]
        struct InvalidData {
            rule: &'static str,
            offset: usize,
            #[serde(skip_serializing_if = "Option::is_none")]
            limit: Option<usize>,
            detail: String,
        }
        let data = InvalidData {
            rule: self.rule.name(),
            offset: self.at,
            limit: self.rule.limit(),
            detail: self.rule.to_string(),
        };
        ErrorObject::standard(self.rule.code()).with_data(&data)
    }

    /// Converts an error of the decoder to an `Invalid`.
    pub fn from_frame(error: &'a FrameError) -> Self {
        match error {
            FrameError::TooLong(long) => Self::from_too_long(long),
            FrameError::BadHeader { fault, .. } => Self::shapeless(Rule::BadHeader(*fault), 0),
            FrameError::Truncated { .. } => Self::shapeless(Rule::Truncated, 0),
        }
    }

    fn from_too_long(long: &'a TooLong) -> Self {
        let rule = Rule::TooLong { limit: long.limit };
        let Outline::Object { id, method, is_response } = &long.outline else {
            return Self::shapeless(rule, long.limit);
        };
        let text = |member: &'a OutlineMember| match member {
            OutlineMember::Text(text) => Some(&**text),
            OutlineMember::Absent | OutlineMember::Unreadable => None,
        };
        let method_text = text(method).and_then(|text| crate::json::Json::parse(text).ok()).and_then(Text::from_json);
        let shape = match (method, method_text, id, is_response) {
            (OutlineMember::Absent, _, _, true) => Shape::Response,
            (_, Some(_), OutlineMember::Absent, false) => Shape::Notification,
            _ => Shape::Request,
        };
        Self { rule, at: long.limit, id: text(id).and_then(Id::parse), method: method_text, shape }
    }
}

impl fmt::Display for Invalid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.rule, self.at)
    }
}

impl std::error::Error for Invalid<'_> {}

impl Rule {
    /// Returns the error code for a frame that breaks this rule. No other code maps rules to error codes.
    pub fn code(self) -> Code {
        match self {
            Self::Syntax(_) | Self::BadUtf8 | Self::BadHeader(_) | Self::Truncated => Code::PARSE_ERROR,
            Self::TooLong { .. }
            | Self::TooDeep { .. }
            | Self::NotAnObject
            | Self::EmptyBatch
            | Self::BatchTooLong { .. }
            | Self::NestedBatch
            | Self::BatchNotAllowed
            | Self::Duplicate(_)
            | Self::NoVersion
            | Self::BadVersion
            | Self::NothingToDo
            | Self::BadMethod
            | Self::MethodAndOutcome
            | Self::ResultAndError
            | Self::BadParams
            | Self::NullId
            | Self::BadId
            | Self::NoId
            | Self::BadError(_) => Code::INVALID_REQUEST,
        }
    }

    /// Returns the short name of the rule, for use by programs. Names never change.
    pub fn name(self) -> &'static str {
        match self {
            Self::Syntax(_) => "syntax",
            Self::BadUtf8 => "bad-utf8",
            Self::TooLong { .. } => "too-long",
            Self::TooDeep { .. } => "too-deep",
            Self::BadHeader(_) => "bad-header",
            Self::Truncated => "truncated",
            Self::NotAnObject => "not-an-object",
            Self::EmptyBatch => "empty-batch",
            Self::BatchTooLong { .. } => "batch-too-long",
            Self::NestedBatch => "nested-batch",
            Self::BatchNotAllowed => "batch-not-allowed",
            Self::Duplicate(_) => "duplicate-member",
            Self::NoVersion => "no-version",
            Self::BadVersion => "bad-version",
            Self::NothingToDo => "nothing-to-do",
            Self::BadMethod => "bad-method",
            Self::MethodAndOutcome => "method-and-outcome",
            Self::ResultAndError => "result-and-error",
            Self::BadParams => "bad-params",
            Self::NullId => "null-id",
            Self::BadId => "bad-id",
            Self::NoId => "no-id",
            Self::BadError(_) => "bad-error",
        }
    }

    fn limit(self) -> Option<usize> {
        match self {
            Self::TooLong { limit } | Self::TooDeep { limit } | Self::BatchTooLong { limit } => Some(limit),
            _ => None,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax(expected) => return expected.fmt(f),
            Self::BadHeader(fault) => return fault.fmt(f),
            Self::BadError(fault) => return fault.fmt(f),
            Self::TooLong { limit } => return write!(f, "longer than {limit} bytes"),
            Self::TooDeep { limit } => return write!(f, "nested deeper than {limit} levels"),
            Self::BatchTooLong { limit } => return write!(f, "a batch of more than {limit} elements"),
            Self::Duplicate(name) => return write!(f, "member \"{}\" stands twice", name.as_str()),
            Self::BadUtf8 => "a string that is not valid UTF-8",
            Self::Truncated => "the rest of the frame is missing",
            Self::NotAnObject => "a message must be an object",
            Self::EmptyBatch => "a batch must not be empty",
            Self::NestedBatch => "a batch must not contain a batch",
            Self::BatchNotAllowed => "a batch is not allowed here",
            Self::NoVersion => "member \"jsonrpc\" is missing",
            Self::BadVersion => "member \"jsonrpc\" must be the string \"2.0\"",
            Self::NothingToDo => "neither \"method\" nor \"result\" nor \"error\"",
            Self::BadMethod => "member \"method\" must be a string",
            Self::MethodAndOutcome => "\"method\" must not stand beside \"result\" or \"error\"",
            Self::ResultAndError => "\"result\" must not stand beside \"error\"",
            Self::BadParams => "member \"params\" must be an object or an array",
            Self::NullId => "member \"id\" must not be null",
            Self::BadId => "member \"id\" must be a string or a number",
            Self::NoId => "a result must have an \"id\"",
        })
    }
}

impl fmt::Display for ErrorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnObject => "member \"error\" must be an object",
            Self::NoCode => "the error object has no \"code\"",
            Self::BadCode => "the error's \"code\" must be an integer of 64 bits",
            Self::NoMessage => "the error object has no \"message\"",
            Self::BadMessage => "the error's \"message\" must be a string",
            Self::Duplicate => "a member of the error object stands twice",
        })
    }
}

impl MemberName {
    /// All members, each at the index that equals its discriminant.
    pub const ALL: [Self; 6] = [Self::Jsonrpc, Self::Id, Self::Method, Self::Params, Self::Result, Self::Error];

    /// Returns the member with this name, or `None` if JSON-RPC does not define one. Undefined members are ignored.
    pub fn of(name: Text<'_>) -> Option<Self> {
        Self::ALL.into_iter().find(|known| name == known.as_str())
    }

    /// Returns the member's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jsonrpc => "jsonrpc",
            Self::Id => "id",
            Self::Method => "method",
            Self::Params => "params",
            Self::Result => "result",
            Self::Error => "error",
        }
    }
}
