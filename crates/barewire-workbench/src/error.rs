//! The reason why something could not be done, and what the caller can do about it.

use std::{fmt, io};

use barewire::transport::SpawnError;

/// The reason why something could not be done.
///
/// Its text reads on after a colon: `cannot read session.wire: no such file`. [`hint`](Self::hint) is a sentence about what to do.
#[derive(Debug)]
pub struct Error(Kind);

#[derive(Debug)]
enum Kind {
    /// The output of the caller could not be written.
    Output(io::Error),
    /// Anything else.
    Other { what: String, help: Option<Help> },
}

#[derive(Debug)]
enum Help {
    Hint(String),
    Advice(Advice),
}

/// A setting that would help. A library calls it one name and a command line another, so the caller finds the words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Name a file that can be read.
    NameFile,
    /// Allow longer frames.
    RaiseFrameLimit,
    /// Read it as newline-delimited JSON.
    ReadAsLines,
    /// Look at the frames of the capture.
    ReadCapture,
    /// Name the channel of one conversation.
    NameChannel {
        /// A channel of each conversation, separated by commas.
        channels: String,
    },
    /// Accept frames in which a secret was replaced.
    AllowRedacted,
    /// Record again, with bodies that are not compressed.
    RecordUncompressed,
    /// Check a capture, and nothing else.
    CheckCapture,
    /// Allow more time for the whole check.
    AllowMoreTime,
    /// Allow what no well-behaved client sends.
    AllowHostile,
    /// Allow calls of tools, or name one to be called.
    AllowCalls,
    /// Allow calls of all tools, with any arguments and as often as necessary.
    AllowAllCalls,
    /// Send credentials along.
    SendCredentials,
    /// Write a baseline first.
    WriteBaseline,
    /// Look at the list of all checks.
    ListChecks {
        /// The id that is nearest to the one that was given.
        near: Option<&'static str>,
    },
    /// Look at where a check runs.
    ExplainCheck,
    /// Have all checks named, also those without anything to look at.
    NameAllChecks,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NameFile => "give the path of a file",
            Self::RaiseFrameLimit => "a higher limit for frames takes it",
            Self::ReadAsLines => "it may be newline-delimited JSON, which is another format",
            Self::ReadCapture => "read the capture to see what is in it",
            Self::NameChannel { channels } => return write!(f, "name a channel: {channels}"),
            Self::AllowRedacted => "if replaced secrets are allowed, any answer matches them",
            Self::RecordUncompressed => "record it again, with bodies that are not compressed",
            Self::CheckCapture => "only .wire captures can be checked",
            Self::AllowMoreTime => "`Checks::timeout` gives more",
            Self::AllowHostile => "`Checks::hostile` sends it to a URL as well",
            Self::AllowCalls => "`Checks::call` or `Checks::allow_calls`",
            Self::AllowAllCalls => "`Checks::allow_calls`",
            Self::SendCredentials => "`Checks::header` gives it what it wants",
            Self::WriteBaseline => "`Baseline::write` writes one",
            Self::ListChecks { near: Some(near) } => {
                return write!(f, "did you mean {near}? `catalogue::all` lists them");
            }
            Self::ListChecks { near: None } => "`catalogue::all` lists them",
            Self::ExplainCheck => "`Check::places` says where a check runs",
            Self::NameAllChecks => "{:#} names them",
        })
    }
}

impl Error {
    /// Makes an error of a sentence without a full stop.
    pub fn new(what: impl Into<String>) -> Self {
        Self(Kind::Other { what: what.into(), help: None })
    }

    /// Makes an error of a program that could not be started.
    pub fn not_started(error: SpawnError) -> Self {
        let hint = match &error {
            SpawnError::NotFound { program } if program.contains('/') => "check the path",
            SpawnError::NotFound { .. } => "is it installed? a program of this directory is named ./PROGRAM",
            SpawnError::NotExecutable { .. } => {
                "chmod +x makes a script a program; or name what runs it, as in python3 server.py"
            }
            SpawnError::NoInterpreter { .. } => "install it, or name another, as in python3 server.py",
            _ => return Self::new(error.to_string()),
        };
        Self::new(error.to_string()).with_hint(hint)
    }

    /// Sets the hint: a sentence about what to do.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        self.with_help(Help::Hint(hint.into()))
    }

    /// Sets the setting that would help.
    #[must_use]
    pub fn with_advice(self, advice: Advice) -> Self {
        self.with_help(Help::Advice(advice))
    }

    fn with_help(self, help: Help) -> Self {
        match self.0 {
            Kind::Other { what, .. } => Self(Kind::Other { what, help: Some(help) }),
            output @ Kind::Output(_) => Self(output),
        }
    }

    /// Adds a clause to the text.
    #[must_use]
    pub fn and(self, more: &str) -> Self {
        match self.0 {
            Kind::Other { what, help } => Self(Kind::Other { what: format!("{what}; {more}"), help }),
            output @ Kind::Output(_) => Self(output),
        }
    }

    /// Puts what it is about before the text: `name: text`.
    #[must_use]
    pub fn about(self, name: &str) -> Self {
        match self.0 {
            Kind::Other { what, help } => Self(Kind::Other { what: format!("{name}: {what}"), help }),
            output @ Kind::Output(_) => Self(output),
        }
    }

    /// What the caller can do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        self.hint_in(Advice::to_string)
    }

    /// The same, in the caller's own words for a setting that would help.
    pub fn hint_in(&self, words: impl FnOnce(&Advice) -> String) -> Option<String> {
        match &self.0 {
            Kind::Other { help: Some(Help::Hint(hint)), .. } => Some(hint.clone()),
            Kind::Other { help: Some(Help::Advice(advice)), .. } => Some(words(advice)),
            Kind::Other { help: None, .. } | Kind::Output(_) => None,
        }
    }

    /// The error of the caller's own output, if that is what failed.
    pub fn output(&self) -> Option<&io::Error> {
        match &self.0 {
            Kind::Output(error) => Some(error),
            Kind::Other { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Output(error) => write!(f, "cannot write the output: {error}"),
            Kind::Other { what, .. } => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.output().map(|error| error as _)
    }
}

/// The error of a bare `?` is that of the caller's own output; all others are made with a sentence that says what they are about.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self(Kind::Output(error))
    }
}
