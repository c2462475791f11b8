//! One difference between a replay and its capture, as a sentence and as JSON.

use std::borrow::Cow;
use std::fmt;

use barewire_proto::transcript::Escaped;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::diff::Change;
use crate::frames::ExitStatus;

/// One difference between a replay and its capture.
///
/// In JSON it is an object with `kind` ([`DifferenceKind::as_str`]), `detail` (the sentence), and, if they apply,
/// `method`, `name`, `id`, `frame`, `answer_frame`, `changes` and `came` (the received bytes).
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
    /// The number of the frame in the capture that contains the request or notification.
    pub frame: Option<u64>,
    /// The number of the frame in the capture that contains the server's message.
    pub answer_frame: Option<u64>,
    /// The received bytes, if there is no recorded message to compare them with.
    pub received: Option<Vec<u8>>,
    /// The places that differ.
    pub changes: Vec<Change>,
}

/// The kind of a [`Difference`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "Display describes each kind in a sentence")]
pub enum DifferenceKind {
    Answer,
    /// No response came, for this reason.
    Unanswered(String),
    UnexpectedAnswer,
    AnsweredAgain,
    AnsweredOnce,
    StrayAnswer,
    MissingStrayAnswer,
    Request,
    UnexpectedRequest,
    MissingRequest,
    Notification,
    UnexpectedNotification,
    MissingNotification,
    NoMessage,
    MissingNoMessage,
    /// The server ended in this way, so some messages could not be sent.
    Ended {
        how: String,
        unsent: usize,
    },
    /// The server process ended with a different status than in the capture.
    Exit {
        recorded: ExitStatus,
        received: ExitStatus,
    },
}

impl DifferenceKind {
    /// Returns the name of this kind in JSON.
    pub fn as_str(&self) -> &'static str {
        self.words().0
    }

    /// Returns the name for JSON, and the sentence.
    fn words(&self) -> (&'static str, Cow<'static, str>) {
        let (word, sentence) = match self {
            Self::Answer => ("answer", "the response differs"),
            Self::Unanswered(why) => return ("unanswered", format!("no response: {why}").into()),
            Self::UnexpectedAnswer => ("unexpected-answer", "a response came, and the capture has none"),
            Self::AnsweredAgain => ("answered-again", "answered once more than in the capture"),
            Self::AnsweredOnce => ("answered-once", "answered once less than in the capture"),
            Self::StrayAnswer => ("answer-to-nobody", "a response that matches no request"),
            Self::MissingStrayAnswer => {
                ("missing-answer-to-nobody", "the capture has this response, which matches no request; it did not come")
            }
            Self::Request => ("request", "the server's request differs"),
            Self::UnexpectedRequest => ("unexpected-request", "a request of the server that is not in the capture"),
            Self::MissingRequest => ("missing-request", "the capture has this request of the server; it did not come"),
            Self::Notification => ("notification", "the notification differs"),
            Self::UnexpectedNotification => ("unexpected-notification", "a notification that is not in the capture"),
            Self::MissingNotification => ("missing-notification", "the capture has this notification; it did not come"),
            Self::NoMessage => ("no-message", "not a message"),
            Self::MissingNoMessage => {
                ("missing-no-message", "the capture has this frame, which is not a message; it did not come")
            }
            Self::Ended { how, unsent } => {
                let messages = if *unsent == 1 { "message" } else { "messages" };
                return (
                    "ended",
                    format!("{how}: {unsent} {messages} of the client could not be sent after that").into(),
                );
            }
            Self::Exit { recorded, received } => {
                return ("exit", format!("the server ended with {received}; in the capture with {recorded}").into());
            }
        };
        (word, sentence.into())
    }
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped::new(self.words().1).fmt(f)
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
        let id = self.id.as_deref().and_then(|id| serde_json::from_str::<&RawValue>(id).ok());
        let received = self.received.as_deref().map(String::from_utf8_lossy);
        let (kind, detail) = self.kind.words();
        let mut object = serializer.serialize_map(None)?;
        entry(&mut object, "answer_frame", self.answer_frame.as_ref())?;
        entry(&mut object, "came", received.as_ref())?;
        entry(&mut object, "changes", Some(&self.changes).filter(|changes| !changes.is_empty()))?;
        entry(&mut object, "detail", Some(&detail))?;
        entry(&mut object, "frame", self.frame.as_ref())?;
        entry(&mut object, "id", id)?;
        entry(&mut object, "kind", Some(kind))?;
        entry(&mut object, "method", self.method.as_ref())?;
        entry(&mut object, "name", self.name.as_ref())?;
        object.end()
    }
}

fn entry<M: SerializeMap, T: Serialize + ?Sized>(map: &mut M, key: &str, value: Option<&T>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}
