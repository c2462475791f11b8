//! What a running relay says about itself to those who connect to its socket: one line of JSON.

use serde::{Deserialize, Serialize};

/// The facts about a running relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RelayIdentity {
    /// The version of this crate in the relay.
    pub barewire: String,
    /// The process id of the relay.
    pub pid: u32,
    /// The wall-clock time of its start, in the format of RFC 3339.
    pub started: String,
    /// The way in which it is connected to the server.
    pub kind: RelayKind,
    /// The command line or the URL of the server, without secrets.
    pub server: String,
    /// The path of the capture, if the relay records to a file.
    pub recording: Option<String>,
    /// Whether secrets are replaced in what viewers get.
    pub redacted: bool,
}

/// The way in which a relay is connected to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RelayKind {
    /// By the standard streams of a program that it has started.
    Stdio,
    /// As a reverse proxy.
    Http,
}

impl RelayIdentity {
    /// Creates the identity of a relay in this process.
    pub fn new(kind: RelayKind, started: String, server: String) -> Self {
        let (barewire, pid) = (env!("CARGO_PKG_VERSION").to_owned(), std::process::id());
        Self { barewire, pid, started, kind, server, recording: None, redacted: true }
    }
}

/// The name of the folder of the sockets.
pub(crate) const TAPS_FOLDER: &str = "taps";

/// The line by which a viewer asks for the entries. A viewer that reads the capture does not ask.
pub(crate) const STREAM_REQUEST: &str = "stream";
