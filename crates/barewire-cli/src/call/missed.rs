//! Why there is no answer -> a word for scripts, a sentence, and what to do about it.

use std::io;

use barewire::peer::{CallError, Closed, Reason as End};
use barewire::transport::SpawnError;

use super::target::Address;
use super::{Args, Framing};
use crate::Failure;

/// A call without an answer.
pub(super) struct Missed {
    pub(super) reason: Reason,
    pub(super) what: String,
    pub(super) hint: Option<&'static str>,
}

#[derive(Clone, Copy)]
pub(super) enum Reason {
    NotStarted,
    NotConnected,
    Closed,
    ContentLength,
    BadAnswer,
    TimedOut,
    Cancelled,
}

impl Reason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NotStarted => "not-started",
            Self::NotConnected => "not-connected",
            Self::Closed => "closed",
            Self::ContentLength => "content-length",
            Self::BadAnswer => "bad-answer",
            Self::TimedOut => "timed-out",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Missed {
    pub(super) fn not_started(error: &SpawnError) -> Self {
        let hint = match error {
            SpawnError::NotFound { program } if program.contains(' ') => {
                Some("the program and its arguments are words of their own: do not quote them together")
            }
            SpawnError::NotFound { program } if program.contains('/') => Some("check the path"),
            SpawnError::NotFound { .. } => {
                Some("is it installed? a program of this directory is named ./PROGRAM")
            }
            SpawnError::NotExecutable { .. } => {
                Some("chmod +x makes a script a program; or name what runs it: -- python3 server.py")
            }
            SpawnError::NoInterpreter { .. } => Some("install it, or name another: -- python3 server.py"),
            _ => None,
        };
        Self { reason: Reason::NotStarted, what: error.to_string(), hint }
    }

    pub(super) fn not_connected(address: &Address, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Some("is the server running?"),
            io::ErrorKind::PermissionDenied => Some("ls -l shows who may connect"),
            _ => None,
        };
        Self { reason: Reason::NotConnected, what: format!("cannot connect to {address}: {error}"), hint }
    }

    pub(super) fn cancelled(signal: &str) -> Self {
        Self { reason: Reason::Cancelled, what: format!("cancelled by {signal}"), hint: None }
    }

    pub(super) fn unanswered(error: &CallError, args: &Args) -> Self {
        match error {
            CallError::TimedOut => Self {
                reason: Reason::TimedOut,
                what: format!("no answer within {:?}", args.timeout),
                hint: Some(match args.framing {
                    Framing::Lines => {
                        "--timeout waits longer; a language server needs --framing content-length"
                    }
                    Framing::ContentLength => "--timeout waits longer; an MCP server needs --framing lines",
                }),
            },
            CallError::Closed(closed) => Self::closed(closed),
            error => Self { reason: Reason::BadAnswer, what: error.to_string(), hint: None },
        }
    }

    fn closed(closed: &Closed) -> Self {
        let (reason, hint) = match (closed.reason(), closed.noise()) {
            (End::ContentLength, _) => (Reason::ContentLength, Some("--framing content-length speaks it")),
            (_, Some(noise)) if noise.begins.starts_with("HTTP/") => {
                (Reason::Closed, Some("it speaks HTTP, and call does not"))
            }
            (_, Some(_)) if closed.exit().is_some() => {
                (Reason::Closed, Some("stdout is for messages alone; all else belongs on stderr"))
            }
            _ => (Reason::Closed, None),
        };
        Self { reason, what: closed.to_string(), hint }
    }
}

impl From<Missed> for Failure {
    fn from(missed: Missed) -> Self {
        let failure = Self::new(missed.what);
        match missed.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
