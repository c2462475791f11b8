//! One difference between a replay and its capture, as a sentence and as JSON.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::diff::Change;
use super::script::ExitStatus;
use super::value::Value;

/// One difference between a replay and its capture.
///
/// Serialized, it is an object with `kind` ([`DifferenceKind::as_str`]), `detail` (its sentence), and where they apply `method`, `name`,
/// `id`, `frame`, `answer_frame`, `changes` and `came` (the received bytes).
#[derive(Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// The method of the request or notification.
    pub method: Option<String>,
    /// The tool, prompt, resource or task that the message names.
    pub name: Option<String>,
    /// The JSON text of the request's id.
    pub id: Option<String>,
    /// The frame of the capture that holds the request or notification.
    pub frame: Option<u64>,
    /// The frame of the capture that holds the server's message.
    pub answer_frame: Option<u64>,
    /// The received bytes, if there is no recorded message to compare them with.
    pub received: Option<Vec<u8>>,
    /// The places that differ.
    pub changes: Vec<Change>,
}

/// The kind of a [`Difference`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// The response has other values.
    Answer,
    /// No response came, for this reason.
    Unanswered(String),
    /// A response came to a request that has none in the capture.
    UnexpectedAnswer,
    /// One more response came than in the capture.
    AnsweredAgain,
    /// One response fewer came than in the capture.
    AnsweredOnce,
    /// A response came that matches no request.
    StrayAnswer,
    /// A recorded response that matches no request did not come.
    MissingStrayAnswer,
    /// A request of the server has other params.
    Request,
    /// A request of the server came that is not in the capture.
    UnexpectedRequest,
    /// A recorded request of the server did not come.
    MissingRequest,
    /// A notification has other params.
    Notification,
    /// A notification came that is not in the capture.
    UnexpectedNotification,
    /// A recorded notification did not come.
    MissingNotification,
    /// A frame came that is not a message, and is not in the capture.
    NoMessage,
    /// A recorded frame that is not a message did not come.
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
        /// The status in the replay.
        received: ExitStatus,
    },
}

impl DifferenceKind {
    /// The word for the kind in JSON.
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

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answer => "the response differs",
            Self::Unanswered(why) => return write!(f, "no response: {why}"),
            Self::UnexpectedAnswer => "a response came, and the capture has none",
            Self::AnsweredAgain => "answered once more than in the capture",
            Self::AnsweredOnce => "answered once less than in the capture",
            Self::StrayAnswer => "a response that matches no request",
            Self::MissingStrayAnswer => "the capture has this response, which matches no request; it did not come",
            Self::Request => "the server's request differs",
            Self::UnexpectedRequest => "a request of the server that is not in the capture",
            Self::MissingRequest => "the capture has this request of the server; it did not come",
            Self::Notification => "the notification differs",
            Self::UnexpectedNotification => "a notification that is not in the capture",
            Self::MissingNotification => "the capture has this notification; it did not come",
            Self::NoMessage => "not a message",
            Self::MissingNoMessage => "the capture has this frame, which is not a message; it did not come",
            Self::Ended { how, unsent } => {
                let messages = if *unsent == 1 { "message" } else { "messages" };
                return write!(f, "{how}: {unsent} {messages} of the client could not be sent after that");
            }
            Self::Exit { recorded, received } => {
                return write!(f, "the server ended with {received}; in the capture with {recorded}");
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
        let id = self.id.as_ref().and_then(|id| Value::parse(id.as_bytes()));
        let received = self.received.as_deref().map(String::from_utf8_lossy);
        let mut object = serializer.serialize_map(None)?;
        entry(&mut object, "answer_frame", self.answer_frame.as_ref())?;
        entry(&mut object, "came", received.as_ref())?;
        entry(&mut object, "changes", Some(&self.changes).filter(|changes| !changes.is_empty()))?;
        entry(&mut object, "detail", Some(&self.kind.to_string()))?;
        entry(&mut object, "frame", self.frame.as_ref())?;
        entry(&mut object, "id", id.as_ref())?;
        entry(&mut object, "kind", Some(self.kind.as_str()))?;
        entry(&mut object, "method", self.method.as_ref())?;
        entry(&mut object, "name", self.name.as_ref())?;
        object.end()
    }
}

fn entry<M: SerializeMap, T: Serialize + ?Sized>(map: &mut M, key: &str, value: Option<&T>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}
