//! The error type of this crate, with a hint for the user.

use std::{fmt, io};

use barewire::transport::SpawnError;
use barewire_proto::transcript::SafeText;

/// An error: what could not be done, and why.
///
/// The text fits after a colon: `cannot read session.wire: no such file`. [`hint`](Self::hint) returns a suggestion for
/// the user.
#[derive(Debug)]
pub struct Error {
    what: SafeText,
    help: Option<Help>,
    /// Set if the caller's own output could not be written. Then the error gets no hint, and its text is not extended.
    output: Option<io::Error>,
}

#[derive(Debug)]
enum Help {
    Hint(SafeText),
    Advice(Advice),
}

/// A suggestion for the user, usually to change a setting. The library and the command line have different names for
/// each setting, so the caller writes the text of the hint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Name a file that can be read.
    NameFile,
    /// Allow longer frames.
    RaiseFrameLimit,
    /// Read the file as newline-delimited JSON.
    ReadAsLines,
    /// Look at the frames of the capture.
    ReadCapture,
    /// Name the channel of one conversation.
    NameChannel {
        /// One channel of each conversation; the channels are separated by commas.
        channels: String,
    },
    /// Accept frames in which a secret was replaced.
    AllowRedacted,
    /// Record the capture again with uncompressed bodies.
    RecordUncompressed,
    /// Check a capture instead of another file.
    CheckCapture,
    /// Let a host start the probe first.
    StartProbe,
    /// Allow more time for the whole check.
    AllowMoreTime,
    /// Allow messages that no well-behaved client sends.
    AllowHostile,
    /// Allow calls of tools, or name a tool to be called.
    AllowCalls,
    /// Name a tool to be called, and its arguments.
    NameCall,
    /// Allow calls of all tools, with any arguments and as often as necessary.
    AllowAllCalls,
    /// Send credentials with the requests.
    SendCredentials,
    /// Give a token that the server must refuse.
    GiveWrongToken,
    /// Write a baseline first.
    WriteBaseline,
    /// Accept the definitions of the server, and write the pin file again.
    UpdatePin,
    /// Look at the list of all checks.
    ListChecks {
        /// The most similar id of a check.
        near: Option<&'static str>,
    },
    /// Look up where a check runs.
    ExplainCheck,
    /// Name all checks, including those that found nothing to check.
    NameAllChecks,
    /// Show the findings of the SDK whole, or count them.
    ShowSdkFindings,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NameFile => "give the path of a file",
            Self::RaiseFrameLimit => "raise the maximum length of frames",
            Self::ReadAsLines => "the file may be newline-delimited JSON, which is another format",
            Self::ReadCapture => "read the capture to see its frames",
            Self::NameChannel { channels } => return write!(f, "name a channel: {channels}"),
            Self::AllowRedacted => "if replaced secrets are allowed, any value matches a replaced secret",
            Self::RecordUncompressed => "record it again with uncompressed bodies",
            Self::CheckCapture => "only .wire captures can be checked",
            Self::StartProbe => "let a host start the probe first",
            Self::AllowMoreTime => "`Checks::timeout` allows more time",
            Self::AllowHostile => "`Checks::hostile` sends such input to a URL too",
            Self::AllowCalls => "`Checks::call` or `Checks::allow_calls` allows it",
            Self::NameCall => "`Checks::call` names a tool and its arguments",
            Self::AllowAllCalls => "`Checks::allow_calls` allows it",
            Self::SendCredentials => "`Checks::header` sends credentials",
            Self::GiveWrongToken => "`Checks::wrong_token` gives one",
            Self::WriteBaseline => "`Baseline::write` writes a baseline",
            Self::UpdatePin => "`Checks::update_pin` writes it again",
            Self::ListChecks { near: Some(near) } => {
                return write!(f, "did you mean {near}? `catalogue::all` lists all checks");
            }
            Self::ListChecks { near: None } => "`catalogue::all` lists all checks",
            Self::ExplainCheck => "`Check::places` says where a check runs",
            Self::NameAllChecks => "the format {:#} names them",
            Self::ShowSdkFindings => "the format {:#} shows them whole, `Checks::strict` counts them",
        })
    }
}

impl Error {
    /// Makes an error from a sentence without a full stop at its end. Text from a peer in it is escaped.
    pub fn new(what: impl fmt::Display) -> Self {
        Self { what: SafeText::new(what), help: None, output: None }
    }

    /// Makes an error from the failed start of a program.
    pub fn not_started(error: SpawnError) -> Self {
        let hint = match &error {
            SpawnError::NotFound { program } if program.contains('/') => "check the path",
            SpawnError::NotFound { .. } => "is it installed? to start a program in this directory, write ./PROGRAM",
            SpawnError::NotExecutable { .. } => {
                "chmod +x makes a script executable; or name its interpreter, as in python3 server.py"
            }
            SpawnError::NoInterpreter { .. } => "install the interpreter, or name another, as in python3 server.py",
            _ => return Self::new(error.to_string()),
        };
        Self::new(error.to_string()).with_hint(hint)
    }

    /// Sets the hint: a suggestion for the user.
    #[must_use]
    pub fn with_hint(self, hint: impl fmt::Display) -> Self {
        self.with_help(Help::Hint(SafeText::new(hint)))
    }

    /// Sets the suggestion for the user. The caller of [`hint_in`](Self::hint_in) writes its text.
    #[must_use]
    pub fn with_advice(self, advice: Advice) -> Self {
        self.with_help(Help::Advice(advice))
    }

    fn with_help(self, help: Help) -> Self {
        Self { help: self.output.is_none().then_some(help), ..self }
    }

    /// Adds a clause to the text.
    #[must_use]
    pub fn and(self, more: &str) -> Self {
        if self.output.is_some() {
            self
        } else {
            Self { what: SafeText::new(format_args!("{}; {more}", self.what)), ..self }
        }
    }

    /// Puts a name before the text: `name: text`.
    #[must_use]
    pub fn about(self, name: &str) -> Self {
        if self.output.is_some() {
            self
        } else {
            Self { what: SafeText::new(format_args!("{name}: {}", self.what)), ..self }
        }
    }

    /// Returns the hint, if there is one.
    pub fn hint(&self) -> Option<String> {
        self.hint_in(Advice::to_string)
    }

    /// Returns the hint, if there is one. `words` returns the caller's text for a suggestion.
    pub fn hint_in(&self, words: impl FnOnce(&Advice) -> String) -> Option<String> {
        Some(match self.help.as_ref()? {
            Help::Hint(hint) => hint.to_string(),
            Help::Advice(advice) => SafeText::new(words(advice)).to_string(),
        })
    }

    /// Returns the I/O error, if the caller's own output could not be written.
    pub fn output(&self) -> Option<&io::Error> {
        self.output.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.output().map(|error| error as _)
    }
}

/// Converts an I/O error of the caller's own output, for `?`. All other errors are made with [`Error::new`].
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self { what: SafeText::new(format_args!("cannot write the output: {error}")), help: None, output: Some(error) }
    }
}
