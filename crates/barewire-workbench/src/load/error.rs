//! The reasons why a load test of a server cannot start, or why the server was disconnected.

use std::fmt;
use std::time::Duration;

use barewire::client::ClientError;
use barewire::transport::{Exit, SpawnError};
use barewire_proto::transcript::Escaped;

use super::judge::BadFirstAnswer;
use crate::Error;
use crate::text::shown;

/// The error if the load test of a server cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub struct ConnectError {
    /// The name of the server.
    pub server: String,
    /// The reason.
    pub reason: ConnectFailure,
}

/// The reason why the load test of a server cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The program could not be started.
    Spawn(SpawnError),
    /// The client could not connect, or its first request failed.
    Client(ClientError),
    /// No request to send to this server could be found.
    Request(Error),
    /// The server closed the connection. If the server is a program that has ended, its exit status is known.
    Closed(Option<Exit>),
    /// The first request was not answered in time.
    TimedOut {
        /// The method of the request.
        method: String,
        /// The time after which the wait was given up.
        timeout: Duration,
    },
    /// The first answer is not a success, so other answers cannot be compared with it.
    BadFirstAnswer {
        /// The method of the request.
        method: String,
        /// The answer.
        answer: BadFirstAnswer,
    },
}

/// The reason why a connection ended during the load.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Disconnect {
    /// The server closed the connection. If the server is a program that has ended, its exit status is known.
    Closed(Option<Exit>),
    /// No connection to the URL can be opened any more, for this reason if it is known.
    Unreachable(Option<String>),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped::new(format_args!("{}: {}", self.server, self.reason)).fmt(f)
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = |text: &str| shown(text.as_bytes(), EXCERPT_LENGTH);
        match self {
            Self::Spawn(error) => error.fmt(f),
            Self::Client(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Closed(exit) => {
                f.write_str("the server closed the connection")?;
                exit.as_ref().map_or(Ok(()), |exit| write!(f, "; {exit}"))
            }
            Self::TimedOut { method, timeout } => {
                write!(f, "no response to {} within {timeout:?}", cut(method))
            }
            Self::BadFirstAnswer { method, answer: BadFirstAnswer::Error(why) } => {
                write!(f, "the server answered {} with an error: {}", cut(method), cut(why))
            }
            Self::BadFirstAnswer { answer: BadFirstAnswer::ToolError(why), .. } => {
                write!(f, "the tool failed: {}", cut(why))
            }
            Self::BadFirstAnswer { answer: BadFirstAnswer::InputRequired, .. } => {
                f.write_str("the server requires input before it answers")
            }
        }
    }
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, why) = match self {
            Self::Closed(exit) => ("the server closed the connection", exit.as_ref().map(ToString::to_string)),
            Self::Unreachable(why) => ("the server cannot be reached any more", why.clone()),
        };
        f.write_str(what)?;
        why.map_or(Ok(()), |why| write!(f, ": {}", Escaped::new(why)))
    }
}

impl std::error::Error for ConnectError {}

impl std::error::Error for ConnectFailure {}

/// The maximum number of characters of a peer's text in a message: about two lines.
const EXCERPT_LENGTH: usize = 160;
