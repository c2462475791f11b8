//! A connected stream socket -> its two halves, and a listener that outlives its bad moments.

use std::future::Future;
use std::io;
use std::time::Duration;

use super::{Framing, Parts};

/// A connection over a socket, accepted or made by us.
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

    /// How messages are told apart; one a line unless told otherwise.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }
}

impl<S> Socket<S> {
    /// Takes it apart, with its stream split in two.
    pub(crate) fn parts<R, W>(self, split: impl FnOnce(S) -> (R, W)) -> Parts<R, W> {
        let Self { stream, framing, opened_by_us } = self;
        let (reader, writer) = split(stream);
        Parts { framing, open_to_all: !opened_by_us, opened_by_us, ..Parts::new(reader, writer) }
    }
}

/// Accepts until it succeeds. What fails is one connection, or all of them for a while; never the listener, which is
/// ours and open.
pub(crate) async fn accept<T, F: Future<Output = io::Result<T>>>(mut once: impl FnMut() -> F) -> T {
    loop {
        match once().await {
            Ok(accepted) => return accepted,
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "a connection was gone before it was accepted");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection now");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Whether the peer went away between connecting and being accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | NotConnected)
}

/// Long enough not to spin while file descriptors are short, short enough for somebody who waits to be let in.
const PAUSE: Duration = Duration::from_millis(50);
