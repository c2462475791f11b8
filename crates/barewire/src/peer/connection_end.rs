//! The end of a connection: the reason, and details about the peer.

use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::transcript::EscapeWriter;

use crate::Error;
use crate::transport::Exit;

/// The end of a connection: the reason, and details about the peer. Cheap to clone: every waiting caller gets a copy.
#[derive(Clone)]
pub struct ConnectionEnd(Arc<EndDetails>);

struct EndDetails {
    reason: EndReason,
    stray_output: Option<StrayOutput>,
    exit: Option<Exit>,
}

/// The event that ended a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EndReason {
    /// The peer closed its half of the stream.
    Eof,
    /// This side shut the connection down, with [`Peer::shutdown`](super::Peer::shutdown) or by dropping the last
    /// [`Peer`](super::Peer).
    Shutdown,
    /// Reading failed.
    Read(Arc<io::Error>),
    /// Writing failed, usually because the peer no longer reads.
    Write(Arc<io::Error>),
    /// The peer read nothing for this long.
    WriteTimeout(Duration),
    /// Nothing was in flight and no message arrived for this long.
    IdleTimeout(Duration),
    /// The stream began with an HTTP request, which was not answered.
    Http,
    /// The peer sends `Content-Length` headers, but this connection expects one message per line.
    ContentLength,
    /// The future that drives the connection was dropped.
    Abandoned,
}

/// Output of the peer that is not a valid message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StrayOutput {
    /// The byte offset of the output in the stream.
    pub offset: u64,
    /// The beginning of the output, escaped.
    pub excerpt: String,
}

impl ConnectionEnd {
    /// Returns the end of a connection that could not be opened.
    pub(crate) fn unopened(error: std::io::Error) -> Self {
        Self::new(EndReason::Read(Arc::new(error)), None, None)
    }

    pub(super) fn new(reason: EndReason, stray_output: Option<StrayOutput>, exit: Option<Exit>) -> Self {
        Self(Arc::new(EndDetails { reason, stray_output, exit }))
    }

    /// The event that ended the connection.
    pub fn reason(&self) -> &EndReason {
        &self.0.reason
    }

    /// The first output of the peer, if the peer never sent a valid message.
    pub fn stray_output(&self) -> Option<&StrayOutput> {
        self.0.stray_output.as_ref()
    }

    /// The exit status of the peer's process, if this side started that process.
    pub fn exit(&self) -> Option<&Exit> {
        self.0.exit.as_ref()
    }

    /// Whether the connection was closed cleanly: this side shut it down, or the peer closed its half of the stream. In
    /// the second case, if this side started the peer's process, that process must also have exited with code 0, or
    /// have been terminated by this side.
    pub fn is_orderly(&self) -> bool {
        let exit_is_clean = self.exit().is_none_or(|exit| exit.by_us || exit.code == Some(0));
        match self.reason() {
            EndReason::Shutdown => true,
            EndReason::Eof => exit_is_clean,
            _ => false,
        }
    }

    /// Returns `Ok` if the connection was closed cleanly.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        if self.is_orderly() { Ok(()) } else { Err(Error::Connection(self)) }
    }

    /// The IO error that ended the connection, if there was one.
    pub(crate) fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.reason() {
            EndReason::Read(error) | EndReason::Write(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut EscapeWriter::new(f);
        match (self.exit(), self.reason()) {
            (Some(exit), EndReason::Eof | EndReason::Read(_) | EndReason::Write(_)) if !exit.by_us => {
                write!(f, "{exit}")?
            }
            _ => write!(f, "{}", self.reason())?,
        }
        if let (Some(stray), false) = (self.stray_output(), matches!(self.reason(), EndReason::ContentLength)) {
            let StrayOutput { offset, excerpt } = stray;
            write!(f, "; its output at byte {offset} is not a message: {excerpt}")?;
        }
        Ok(())
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eof => f.write_str("the peer closed the connection"),
            Self::Shutdown => f.write_str("the connection was shut down"),
            Self::Read(error) => write!(f, "reading failed: {error}"),
            Self::Write(error) => write!(f, "writing failed: {error}"),
            Self::WriteTimeout(after) => write!(f, "the peer has read nothing for {after:?}"),
            Self::IdleTimeout(after) => write!(f, "the connection was idle for {after:?}"),
            Self::Http => f.write_str("the peer sent an HTTP request, and this port does not serve HTTP"),
            Self::ContentLength => f.write_str(
                "the peer sends Content-Length headers, as language servers do; expected one message per line",
            ),
            Self::Abandoned => f.write_str("the connection was dropped"),
        }
    }
}

/// Writes the same text as [`fmt::Display`].
impl fmt::Debug for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
