//! Why something could not be done, and what the user can do about it.

use std::io::{self, Write};

/// Ends the program with exit code 2.
pub(crate) enum Failure {
    /// Our output could not be written.
    Output(io::Error),
    /// Anything else: a sentence, and a hint where there is one.
    Said { what: String, hint: Option<String> },
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::Said { what: what.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Said { what, .. } => Self::Said { what, hint: Some(hint.into()) },
            output => output,
        }
    }

    /// Says one thing more.
    #[cfg(unix)]
    pub(crate) fn and(self, more: &str) -> Self {
        match self {
            Self::Said { what, hint } => Self::Said { what: format!("{what}; {more}"), hint },
            output => output,
        }
    }

    /// Tells it on stderr. If that is closed there is nobody to tell.
    pub(crate) fn report(&self) {
        let mut stderr = io::stderr().lock();
        let _ = match self {
            Self::Output(error) => writeln!(stderr, "barewire: cannot write the output: {error}"),
            Self::Said { what, hint } => writeln!(stderr, "barewire: {what}").and_then(|()| match hint {
                Some(hint) => writeln!(stderr, "hint: {hint}"),
                None => Ok(()),
            }),
        };
    }
}

/// What is used with a bare `?` is our own output; everything else says what it was about.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
