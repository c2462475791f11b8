//! One error type for all errors of the crate, to return from `main`.

use std::fmt;
use std::io;

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

/// The error that a program can return from `main`: `?` converts every other error of this crate to it.
///
/// Every connection, of a server, a client or a peer, ends with a `Result<(), Error>`. It is `Ok` if the connection
/// ended in order: one side closed it, and the peer's process, if this side started it, exited with code 0. Any other
/// end is an error, and its text says which side is at fault.
#[non_exhaustive]
pub enum Error {
    /// A connection did not end in order. [`ConnectionEnd::reason`] is the reason, and shows which side is at fault.
    #[cfg(feature = "tokio")]
    Connection(ConnectionEnd),
    /// A call to a peer has no result.
    #[cfg(feature = "tokio")]
    Call(CallError),
    /// A client could not connect, one of its requests has no result, or it has lost its server for good.
    #[cfg(feature = "client")]
    Client(ClientError),
    /// A program could not be started.
    #[cfg(feature = "tokio")]
    Spawn(SpawnError),
    /// A tool, a resource or a prompt cannot be offered.
    #[cfg(feature = "server")]
    Entry(BadEntry),
    /// A server cannot be served over HTTP.
    #[cfg(all(feature = "server", feature = "http"))]
    Http(HttpError),
    /// A server at a URL cannot be reached.
    #[cfg(all(feature = "client", feature = "http"))]
    Fetch(FetchError),
    /// A value cannot be written as JSON, or JSON cannot be read as a type.
    Json(serde_json::Error),
    /// The system refused to open, read or write.
    Io(io::Error),
}

impl Error {
    /// The end of the connection, if that is the reason of this error.
    #[cfg(feature = "tokio")]
    pub fn connection_end(&self) -> Option<&ConnectionEnd> {
        match self {
            Self::Connection(end) | Self::Call(CallError::Closed(end)) => Some(end),
            #[cfg(feature = "client")]
            Self::Client(error) => error.connection_end(),
            _ => None,
        }
    }

    /// The text and the source of the inner error.
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
        self.parts().0.fmt(f)
    }
}

/// The same text as [`fmt::Display`] writes: `main` prints an error with `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is that of the inner error, so the source is that of the inner error too.
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
