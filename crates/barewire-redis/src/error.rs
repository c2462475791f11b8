//! Why there is no connection to a server, and what to do.

use std::error::Error;
use std::fmt;

/// The reason why a [`Redis`](crate::Redis) could not be connected. It never contains the password.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisError {
    /// The URL or another setting cannot be used.
    Setting(String),
    /// The server cannot be reached, or does not answer.
    Unreachable {
        /// The host and the port.
        server: String,
        /// What happened.
        why: String,
    },
    /// TLS with the server is not possible.
    Tls {
        /// The host and the port.
        server: String,
        /// What happened.
        why: String,
    },
    /// The server does not accept the user or the password, or asks for one.
    Denied {
        /// The host and the port.
        server: String,
        /// What happened.
        why: String,
    },
    /// The server is older than Redis 6.2.
    TooOld {
        /// The host and the port.
        server: String,
        /// The version, if the server tells it.
        version: Option<String>,
    },
    /// The server answers with another error.
    Refused {
        /// The host and the port.
        server: String,
        /// What happened.
        why: String,
    },
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(why) => f.write_str(why),
            Self::Unreachable { server, why } => write!(f, "cannot reach Redis at {server}: {why}"),
            Self::Tls { server, why } => write!(f, "no TLS with Redis at {server}: {why}"),
            Self::Denied { server, why } => write!(f, "Redis at {server} denies access: {why}"),
            Self::TooOld { server, version } => {
                let version = version.as_deref().unwrap_or("an older one");
                write!(f, "Redis at {server} is {version}; install Redis 6.2 or later, or Valkey")
            }
            Self::Refused { server, why } => write!(f, "Redis at {server} refuses: {why}"),
        }
    }
}

impl Error for RedisError {}
