//! Ctrl-C and SIGTERM -> the end of what is being waited for.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::ask::no_answer::NoAnswer;

/// The signals that ask us to stop. Caught, they end nothing by themselves.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }

    /// Waits for `work`, or drops it when a signal comes.
    pub(crate) async fn or<T>(
        &mut self,
        work: impl Future<Output = Result<T, NoAnswer>>,
    ) -> Result<T, NoAnswer> {
        tokio::select! {
            biased;
            done = work => done,
            signal = self.next() => Err(NoAnswer::cancelled(signal)),
        }
    }
}
