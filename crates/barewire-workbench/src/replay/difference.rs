//! One thing in which a replay is not as the capture was.

use std::fmt;

use serde::{Serialize, Serializer};

use super::diff::Change;
use super::script::ExitStatus;
use super::value::Value;

/// One thing in which a replay is not as the capture was.
///
/// Serialized, it is an object with `kind` ([`DifferenceKind::as_str`]), `detail` (its sentence), and where they apply `method`, `name`,
/// `id`, `frame`, `answer_frame`, `changes` and `came`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// The method of the request or notification that it is about.
    pub method: Option<String>,
    /// The tool, prompt or resource that it is about.
    pub name: Option<String>,
    /// The JSON text of the request's id.
    pub id: Option<String>,
    /// The frame of the capture that holds that request or notification.
    pub frame: Option<u64>,
    /// The frame of the capture that holds the server's part of it.
    pub answer_frame: Option<u64>,
    /// The bytes that came, where nothing in the capture can be compared with them.
    pub came: Option<Vec<u8>>,
    /// The places that differ.
    pub changes: Vec<Change>,
}

/// The kind of a [`Difference`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// The answer has other values.
    Answer,
    /// There is no answer, for this reason.
    Unanswered(String),
    /// There is an answer, and none in the capture.
    UnexpectedAnswer,
    /// The request is answered once more than in the capture.
    AnsweredAgain,
    /// The request is answered once less than in the capture.
    AnsweredOnce,
    /// An answer to no request.
    StrayAnswer,
    /// An answer to no request that is in the capture has not come.
    MissingStrayAnswer,
    /// A request of the server has other params.
    Request,
    /// A request of the server that is not in the capture.
    UnexpectedRequest,
    /// A request of the server that is in the capture has not come.
    MissingRequest,
    /// A notification has other params.
    Notification,
    /// A notification that is not in the capture.
    UnexpectedNotification,
    /// A notification of the capture has not come.
    MissingNotification,
    /// A frame that is no message, and is not in the capture.
    NoMessage,
    /// A frame of the capture that is no message has not come.
    MissingNoMessage,
    /// The server ended too early.
    Ended {
        /// The way in which it ended.
        how: String,
        /// The number of messages that could not be sent.
        unsent: usize,
    },
    /// The server process ended with another status.
    Exit {
        /// The status in the capture.
        recorded: ExitStatus,
        /// The status of this time.
        came: ExitStatus,
    },
}

impl DifferenceKind {
    /// A word for scripts.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Unanswered(_) => "unanswered",
            Self::UnexpectedAnswer => "unexpected-answer",
            Self::AnsweredAgain => "answered-again",
            Self::AnsweredOnce => "answered-once",
            Self::StrayAnswer => "answer-to-nobody",
            Self::MissingStrayAnswer => "missing-answer-to-nobody",
            Self::Request => "request",
            Self::UnexpectedRequest => "unexpected-request",
            Self::MissingRequest => "missing-request",
            Self::Notification => "notification",
            Self::UnexpectedNotification => "unexpected-notification",
            Self::MissingNotification => "missing-notification",
            Self::NoMessage => "no-message",
            Self::MissingNoMessage => "missing-no-message",
            Self::Ended { .. } => "ended",
            Self::Exit { .. } => "exit",
        }
    }
}

/// A sentence for people.
impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answer => "another answer",
            Self::Unanswered(why) => return write!(f, "no answer: {why}"),
            Self::UnexpectedAnswer => "an answer, and none in the capture",
            Self::AnsweredAgain => "answered again",
            Self::AnsweredOnce => "answered twice in the capture, and only once now",
            Self::StrayAnswer => "an answer to nothing that was asked",
            Self::MissingStrayAnswer => {
                "an answer to nothing that was asked in the capture either, and it has not come"
            }
            Self::Request => "the server asks otherwise",
            Self::UnexpectedRequest => "the server asks something, and not in the capture",
            Self::MissingRequest => "the server asks this in the capture, and not now",
            Self::Notification => "another notification",
            Self::UnexpectedNotification => "a notification that is not in the capture",
            Self::MissingNotification => "a notification of the capture that has not come",
            Self::NoMessage => "not a message",
            Self::MissingNoMessage => "no message in the capture either, and it has not come",
            Self::Ended { how, unsent } => {
                let messages = if *unsent == 1 { "message" } else { "messages" };
                return write!(f, "{how}: {unsent} {messages} of the client could not be sent after that");
            }
            Self::Exit { recorded, came } => {
                return write!(f, "the server ended with {came}, and in the capture with {recorded}");
            }
        })
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl Serialize for Difference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Object<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            answer_frame: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            came: Option<std::borrow::Cow<'a, str>>,
            #[serde(skip_serializing_if = "<[Change]>::is_empty")]
            changes: &'a [Change],
            detail: String,
            #[serde(skip_serializing_if = "Option::is_none")]
            frame: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<Value>,
            kind: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            method: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            name: Option<&'a str>,
        }
        let object = Object {
            answer_frame: self.answer_frame,
            came: self.came.as_deref().map(String::from_utf8_lossy),
            changes: &self.changes,
            detail: self.kind.to_string(),
            frame: self.frame,
            id: self.id.as_ref().and_then(|id| Value::parse(id.as_bytes())),
            kind: self.kind.as_str(),
            method: self.method.as_deref(),
            name: self.name.as_deref(),
        };
        object.serialize(serializer)
    }
}
