//! One thing in which a replay is not as the capture was.

use super::diff::Change;
use super::script::Ended;

#[derive(Debug)]
pub(super) struct Difference {
    pub(super) differs: Differs,
    /// What it is about: the request, or what was said without being asked.
    pub(super) method: Option<String>,
    pub(super) name: Option<String>,
    pub(super) id: Option<String>,
    /// The frame of the capture in which that stands.
    pub(super) asked_in: Option<u64>,
    /// The frame of the capture in which the server's part of it stands.
    pub(super) recorded_in: Option<u64>,
    /// What came, where nothing in the capture can be set beside it.
    pub(super) came: Option<Vec<u8>>,
    pub(super) changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Differs {
    /// The answer has other values.
    Answer,
    /// There is no answer, for this reason.
    Unanswered(String),
    /// There is an answer, and none in the capture.
    Unexpected,
    /// It is answered once more than in the capture.
    Again,
    /// It is answered once less than in the capture.
    Once,
    /// An answer to nothing that was asked.
    Nobody,
    /// What was an answer to nothing in the capture has not come.
    NotNobody,
    /// The server asks with other params.
    Request,
    /// The server asks what it did not ask in the capture.
    Asks,
    /// The server does not ask what it asked in the capture.
    NotAsked,
    /// A notification has other params.
    Notification,
    /// A notification that is not in the capture.
    Tells,
    /// A notification of the capture has not come.
    NotTold,
    /// Something that is no message, and not in the capture.
    Noise,
    /// What was no message in the capture has not come.
    NoNoise,
    /// The server has ended too early.
    Ended { how: String, unsent: usize },
    /// The server has ended with something else.
    Exit { recorded: Ended, came: Ended },
}

impl Differs {
    /// A word for scripts.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Unanswered(_) => "unanswered",
            Self::Unexpected => "unexpected-answer",
            Self::Again => "answered-again",
            Self::Once => "answered-once",
            Self::Nobody => "answer-to-nobody",
            Self::NotNobody => "missing-answer-to-nobody",
            Self::Request => "request",
            Self::Asks => "unexpected-request",
            Self::NotAsked => "missing-request",
            Self::Notification => "notification",
            Self::Tells => "unexpected-notification",
            Self::NotTold => "missing-notification",
            Self::Noise => "no-message",
            Self::NoNoise => "missing-no-message",
            Self::Ended { .. } => "ended",
            Self::Exit { .. } => "exit",
        }
    }

    /// In words, for people.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Answer => "another answer".into(),
            Self::Unanswered(why) => format!("no answer: {why}"),
            Self::Unexpected => "an answer, and none in the capture".into(),
            Self::Again => "answered again".into(),
            Self::Once => "answered twice in the capture, and only once now".into(),
            Self::Nobody => "an answer to nothing that was asked".into(),
            Self::NotNobody => {
                "an answer to nothing that was asked in the capture either, and it has not come".into()
            }
            Self::Request => "the server asks otherwise".into(),
            Self::Asks => "the server asks something, and not in the capture".into(),
            Self::NotAsked => "the server asks this in the capture, and not now".into(),
            Self::Notification => "another notification".into(),
            Self::Tells => "a notification that is not in the capture".into(),
            Self::NotTold => "a notification of the capture that has not come".into(),
            Self::Noise => "not a message".into(),
            Self::NoNoise => "no message in the capture either, and it has not come".into(),
            Self::Ended { how, unsent } => {
                let messages = if *unsent == 1 { "1 message".into() } else { format!("{unsent} messages") };
                format!("{how}: {messages} of the client could not be sent after that")
            }
            Self::Exit { recorded, came } => {
                format!("the server ended with {came}, and in the capture with {recorded}")
            }
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}
