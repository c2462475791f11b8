//! Converts a connected socket to the parts of a transport, and accepts connections in a loop that survives errors.

use std::future::Future;
use std::io;
use std::time::Duration;

use super::{Framing, Parts};

/// A connection over a socket, accepted or opened by this side.
#[derive(Debug)]
pub struct Socket<S> {
    pub(super) stream: S,
    pub(super) framing: Framing,
    pub(super) opened_by_us: bool,
}

impl<S> Socket<S> {
    pub(crate) fn accepted(stream: S) -> Self {
        Self { stream, framing: Framing::Lines, opened_by_us: false }
    }

    pub(crate) fn connected(stream: S) -> Self {
        Self { opened_by_us: true, ..Self::accepted(stream) }
    }

    /// Sets the framing of the messages. The default is one message per line.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }
}

impl<S> Socket<S> {
    /// Returns the parts of the transport. `split` splits the stream into a reader and a writer.
    pub(crate) fn parts<R, W>(self, split: impl FnOnce(S) -> (R, W)) -> Parts<R, W> {
        let Self { stream, framing, opened_by_us } = self;
        let (reader, writer) = split(stream);
        Parts { framing, open_to_all: !opened_by_us, opened_by_us, ..Parts::new(reader, writer) }
    }
}

/// Calls `attempt` until it accepts a connection. Errors do not end the loop: an error concerns only one connection, or
/// is temporary, for example because no file descriptors are available.
pub(crate) async fn accept<T, F: Future<Output = io::Result<T>>>(mut attempt: impl FnMut() -> F) -> T {
    loop {
        match attempt().await {
            Ok(accepted) => return accepted,
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "a connection was closed before it was accepted");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection, trying again");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Whether the error affects only one connection, whose peer disconnected before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | NotConnected)
}

/// The pause after a failed accept: long enough to avoid a busy loop while no file descriptors are available, short
/// enough for a waiting client.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
