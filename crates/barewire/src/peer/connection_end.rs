//! Why a connection is over.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::transport::Exit;

/// How a connection ended, and all that is known of the other side's part in it. Cheap to clone: everybody who waits for
/// something is told.
#[derive(Clone)]
pub struct ConnectionEnd(Arc<How>);

struct How {
    reason: EndReason,
    stray_output: Option<StrayOutput>,
    exit: Option<Exit>,
}

/// The event that ended a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EndReason {
    /// The other side sent its last byte.
    Eof,
    /// We were told to, by [`Peer::shutdown`](super::Peer::shutdown) or because nobody holds the peer any more.
    Shutdown,
    /// Reading failed.
    Read(Arc<io::Error>),
    /// Writing failed: the other side no longer reads.
    Write(Arc<io::Error>),
    /// The other side took no byte for this long.
    WriteTimeout(Duration),
    /// Nothing was in flight and nothing came for this long.
    IdleTimeout(Duration),
    /// The stream began with an HTTP request. It was not answered.
    Http,
    /// The other side sends `Content-Length` headers, and we expect a message a line.
    ContentLength,
    /// Whoever drove the connection stopped doing so.
    Abandoned,
}

/// Output of the other side that is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StrayOutput {
    /// Its byte offset in the stream.
    pub offset: u64,
    /// Its beginning, escaped.
    pub excerpt: String,
}

impl ConnectionEnd {
    /// It never began: there is nothing to read from.
    pub(crate) fn unopened(error: std::io::Error) -> Self {
        Self::new(EndReason::Read(Arc::new(error)), None, None)
    }

    pub(super) fn new(reason: EndReason, stray_output: Option<StrayOutput>, exit: Option<Exit>) -> Self {
        Self(Arc::new(How { reason, stray_output, exit }))
    }

    /// The event that ended it.
    pub fn reason(&self) -> &EndReason {
        &self.0.reason
    }

    /// The first thing the other side sent that is no message, if it never sent one.
    pub fn stray_output(&self) -> Option<&StrayOutput> {
        self.0.stray_output.as_ref()
    }

    /// How the process on the other side ended, if it was ours.
    pub fn exit(&self) -> Option<&Exit> {
        self.0.exit.as_ref()
    }

    /// Whether the connection ended in order: this side shut it down, or the other side sent its last byte and, if it was a
    /// process of ours, exited with code 0 or was ended by us.
    pub fn is_orderly(&self) -> bool {
        let exit_is_clean = self.exit().is_none_or(|exit| exit.by_us || exit.code == Some(0));
        match self.reason() {
            EndReason::Shutdown => true,
            EndReason::Eof => exit_is_clean,
            _ => false,
        }
    }

    /// `Ok` if the connection ended in order.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        if self.is_orderly() { Ok(()) } else { Err(Error::Connection(self)) }
    }

    /// The error of the transport that ended it, if one did.
    pub(crate) fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.reason() {
            EndReason::Read(error) | EndReason::Write(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.exit(), self.reason()) {
            (Some(exit), EndReason::Eof | EndReason::Read(_) | EndReason::Write(_)) if !exit.by_us => exit.fmt(f)?,
            _ => self.reason().fmt(f)?,
        }
        if let (Some(stray), false) = (self.stray_output(), matches!(self.reason(), EndReason::ContentLength)) {
            let StrayOutput { offset, excerpt } = stray;
            write!(f, "; it sent something that is no message, at byte {offset}: {excerpt}")?;
        }
        Ok(())
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eof => f.write_str("the other side closed the connection"),
            Self::Shutdown => f.write_str("the connection was shut down"),
            Self::Read(error) => write!(f, "reading failed: {error}"),
            Self::Write(error) => write!(f, "writing failed: {error}"),
            Self::WriteTimeout(after) => write!(f, "the other side has read nothing for {after:?}"),
            Self::IdleTimeout(after) => write!(f, "nothing happened for {after:?}"),
            Self::Http => f.write_str("the other side speaks HTTP, and this is no HTTP port"),
            Self::ContentLength => f.write_str(
                "the other side speaks Content-Length framing, as language servers do, and not one message a line",
            ),
            Self::Abandoned => f.write_str("the connection is no longer driven"),
        }
    }
}

/// The same text as [`fmt::Display`] writes.
impl fmt::Debug for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
