//! The reasons why a client has no access token.

use std::fmt::{self, Write as _};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::auth::StopReason;
use barewire_proto::transcript::EscapeWriter;

use crate::Failure;
use crate::client::http::FetchError;
use crate::peer::shown;

/// The reason why a sign-in failed, or why there is no access token. Errors contain no tokens, codes or keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SignInError {
    /// The operating system provides no random numbers.
    Random,
    /// A private key cannot be used.
    Key(&'static str),
    /// The stored credentials cannot be read or written.
    Store {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        why: Arc<io::Error>,
    },
    /// The file of an account belongs to this user, but cannot be used: it is damaged, others can read it, or another
    /// version of this crate has written it. Signing in [again](super::SignIn::again) replaces the file, and signing out
    /// removes it.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: Arc<io::Error>,
    },
    /// There is no folder for the credentials: set `HOME`, or name a folder.
    NoFolder,
    /// Another process is signing in to the same server, and has not finished in time.
    Busy {
        /// The time that was waited.
        after: Duration,
    },
    /// The user has to sign in, but this client was not allowed to ask the user.
    NeedsUser {
        /// The URL of the server.
        server: String,
        /// The scopes to ask for, separated by spaces, if the stored sign-in lacks some: set them with
        /// [`SignIn::scopes`](super::SignIn::scopes). Otherwise the server names them.
        scopes: Option<String>,
    },
    /// The user did not finish the sign-in in time.
    TimedOut {
        /// The time limit.
        after: Duration,
    },
    /// This machine cannot listen for the redirect of the browser.
    Listen {
        /// The port; 0 is any free port.
        port: u16,
        /// The reason.
        why: Arc<io::Error>,
    },
    /// The user interface could not show the page or the code.
    Show(String),
    /// A task of the sign-in ended before it was done.
    Aborted,
    /// The sign-in was refused, or the authorization server cannot be used.
    Stopped(Box<StopReason>),
}

impl SignInError {
    /// Returns the error for a user interface that failed.
    pub(super) fn show(failure: &Failure) -> Self {
        Self::Show(failure.log().map_or_else(|| failure.error("sign-in").message, str::to_owned))
    }

    /// Returns the error for a file of the store that was read.
    pub(super) fn read(path: impl Into<PathBuf>, why: io::Error) -> Self {
        match why.kind() {
            io::ErrorKind::InvalidData => Self::Unreadable { path: path.into(), why: Arc::new(why) },
            _ => Self::store(path, why),
        }
    }

    /// Returns the error for a file or folder of the store.
    pub(super) fn store(path: impl Into<PathBuf>, why: io::Error) -> Self {
        Self::Store { path: path.into(), why: Arc::new(why) }
    }
}

impl fmt::Display for SignInError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut EscapeWriter::new(f);
        match self {
            Self::Random => f.write_str("the operating system provides no random numbers"),
            Self::Key(why) => f.write_str(why),
            Self::Store { path, why } | Self::Unreadable { path, why } => {
                write!(f, "the stored sign-in {} cannot be used: {why}", path.display())
            }
            Self::NoFolder => f.write_str("there is no folder to store the sign-in in: set HOME or XDG_STATE_HOME"),
            Self::Busy { after } => {
                write!(f, "another process is signing in to this server, and has not finished within {after:?}")
            }
            Self::NeedsUser { server, scopes: None } => write!(f, "a sign-in to {} is needed", shown(server)),
            Self::NeedsUser { server, scopes: Some(scopes) } => {
                write!(f, "a sign-in to {} with the scopes \"{}\" is needed", shown(server), shown(scopes))
            }
            Self::TimedOut { after } => write!(f, "the sign-in was not finished within {after:?}"),
            Self::Listen { port: 0, why } => write!(f, "cannot listen for the redirect of the browser: {why}"),
            Self::Listen { port, why } => {
                write!(f, "cannot listen for the redirect of the browser on port {port}: {why}")
            }
            Self::Show(why) => write!(f, "the sign-in cannot be shown: {}", shown(why)),
            Self::Aborted => f.write_str("the sign-in was stopped"),
            Self::Stopped(reason) => write!(f, "{reason}"),
        }
    }
}

impl std::error::Error for SignInError {}

impl From<SignInError> for FetchError {
    fn from(error: SignInError) -> Self {
        Self::SignIn(Box::new(error))
    }
}
