//! One error type for all errors of the crate, which a program can return from `main`.

use std::fmt;
use std::io;

use barewire_proto::transcript::Escaped;

#[cfg(feature = "client")]
use crate::client::ClientError;
#[cfg(all(feature = "client", feature = "http"))]
use crate::client::http::FetchError;
#[cfg(feature = "tokio")]
use crate::peer::{CallError, ConnectionEnd};
#[cfg(feature = "server")]
use crate::server::BadEntry;
#[cfg(all(feature = "server", feature = "http"))]
use crate::server::http::HttpError;
#[cfg(feature = "tokio")]
use crate::transport::SpawnError;

/// The error that a program can return from `main`: `?` converts every other error of this crate to this type.
///
/// Every connection of a server, a client or a peer ends with a `Result<(), Error>`. The result is `Ok` if either side
/// closed the connection cleanly. If this side started the peer as a child process, that process must also have ended
/// without a failure. In all other cases the result is an error whose text says which side is at fault.
#[non_exhaustive]
pub enum Error {
    /// A connection was not closed cleanly. [`ConnectionEnd::reason`] says why, and shows which side is at fault.
    #[cfg(feature = "tokio")]
    Connection(ConnectionEnd),
    /// A call to a peer failed.
    #[cfg(feature = "tokio")]
    Call(CallError),
    /// A client could not connect, one of its requests failed, or its connection was lost and could not be restored.
    #[cfg(feature = "client")]
    Client(ClientError),
    /// A program could not be started.
    #[cfg(feature = "tokio")]
    Spawn(SpawnError),
    /// A tool, a resource or a prompt cannot be added to a server.
    #[cfg(feature = "server")]
    Entry(BadEntry),
    /// A server could not be started over HTTP.
    #[cfg(all(feature = "server", feature = "http"))]
    Http(HttpError),
    /// A server at a URL cannot be reached.
    #[cfg(all(feature = "client", feature = "http"))]
    Fetch(FetchError),
    /// A value could not be serialized as JSON, or JSON could not be deserialized into the expected type.
    Json(serde_json::Error),
    /// The operating system reported an error when opening, reading or writing.
    Io(io::Error),
}

impl Error {
    /// Returns how the connection ended, if the end of the connection caused this error.
    #[cfg(feature = "tokio")]
    pub fn connection_end(&self) -> Option<&ConnectionEnd> {
        match self {
            Self::Connection(end) | Self::Call(CallError::Closed(end)) => Some(end),
            #[cfg(feature = "client")]
            Self::Client(error) => error.connection_end(),
            _ => None,
        }
    }

    /// Returns the inner error, to be displayed, and the source of the inner error.
    fn parts(&self) -> (&dyn fmt::Display, Option<&(dyn std::error::Error + 'static)>) {
        fn of<E: std::error::Error>(error: &E) -> (&dyn fmt::Display, Option<&(dyn std::error::Error + 'static)>) {
            (error, error.source())
        }
        match self {
            #[cfg(feature = "tokio")]
            Self::Connection(end) => (end, end.cause()),
            #[cfg(feature = "tokio")]
            Self::Call(error) => of(error),
            #[cfg(feature = "client")]
            Self::Client(error) => of(error),
            #[cfg(feature = "tokio")]
            Self::Spawn(error) => of(error),
            #[cfg(feature = "server")]
            Self::Entry(error) => of(error),
            #[cfg(all(feature = "server", feature = "http"))]
            Self::Http(error) => of(error),
            #[cfg(all(feature = "client", feature = "http"))]
            Self::Fetch(error) => of(error),
            Self::Json(error) => of(error),
            Self::Io(error) => of(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped::new(self.parts().0).fmt(f)
    }
}

/// Writes the same text as [`fmt::Display`], because an error that `main` returns is printed with `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `Display` writes the text of the inner error, so `source` returns the source of the inner error, not the inner error
/// itself.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.parts().1
    }
}

macro_rules! from {
    ($($(#[$cfg:meta])* $error:ty => $variant:ident;)*) => {$(
        $(#[$cfg])*
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from! {
    #[cfg(feature = "tokio")]
    CallError => Call;
    #[cfg(feature = "client")]
    ClientError => Client;
    #[cfg(feature = "tokio")]
    SpawnError => Spawn;
    #[cfg(feature = "server")]
    BadEntry => Entry;
    #[cfg(all(feature = "server", feature = "http"))]
    HttpError => Http;
    #[cfg(all(feature = "client", feature = "http"))]
    FetchError => Fetch;
    serde_json::Error => Json;
    io::Error => Io;
}

#[cfg(all(test, feature = "client", feature = "http"))]
mod tests {
    use barewire_proto::rpc::{Code, ErrorObject};

    use super::*;
    use crate::client::http::HttpFailure;

    #[test]
    fn no_error_can_control_a_terminal() {
        let text = || "\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{7}\r\u{2028}".to_owned();
        let object = || ErrorObject::new(Code::INTERNAL_ERROR, text()).with_data(&text());
        let http = |failure| ClientError::Http { method: text(), failure };
        let (origin, why, method) = (text(), text(), text());
        let json = serde_json::from_str::<std::net::Ipv4Addr>(&format!("{:?}", "\u{9b}")).map(drop);
        let errors: Vec<Error> = vec![
            CallError::Refused(object()).into(),
            CallError::Fault(text()).into(),
            CallError::Params(text()).into(),
            CallError::Carrier(std::sync::Arc::new(object())).into(),
            ClientError::Params(text()).into(),
            ClientError::Version { ours: Vec::new(), theirs: vec![text()] }.into(),
            ClientError::Fault { method, what: text() }.into(),
            ClientError::Handler { method: text(), error: object() }.into(),
            http(HttpFailure::Unauthorized { origin: text(), challenge: text() }).into(),
            http(HttpFailure::Forbidden { origin: text(), why: text() }).into(),
            http(HttpFailure::Status { origin: text(), status: 500, text: text() }).into(),
            http(HttpFailure::NotAnswered { origin: text(), why: text() }).into(),
            http(HttpFailure::Endpoint { origin: text(), why: text() }).into(),
            FetchError::Token(text()).into(),
            FetchError::Reset { origin, why }.into(),
            json.expect_err("not an address").into(),
            io::Error::other(text()).into(),
        ];
        for error in errors {
            for shown in [error.to_string(), format!("{error:?}")] {
                assert!(barewire_proto::transcript::is_clean(shown.as_bytes()), "{shown:?}");
            }
        }
    }
}
