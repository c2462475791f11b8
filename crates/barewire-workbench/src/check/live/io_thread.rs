//! A thread that reads the output of all servers, so that everything gets the time at which it arrives, whatever the
//! probes are doing.

use std::io;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

use crate::capture::CaptureClock;

/// The thread, which ends when this is dropped.
pub(super) struct IoThread {
    handle: Handle,
    clock: CaptureClock,
    /// Dropping the sender ends the thread.
    _stop: oneshot::Sender<()>,
}

/// Bytes of a server's stdout, or the end of its stdout if there are none.
pub(super) struct Arrival {
    /// The time at which the bytes arrived.
    pub(super) time: Duration,
    pub(super) bytes: Vec<u8>,
}

/// The output of a server, in the order of its arrival. Dropping this stops the reading.
pub(super) struct Arrivals {
    receiver: Receiver<Arrival>,
    _reading: AbortOnDrop,
}

/// A task that is aborted when this is dropped.
pub(super) struct AbortOnDrop(AbortHandle);

impl From<JoinHandle<()>> for AbortOnDrop {
    fn from(task: JoinHandle<()>) -> Self {
        Self(task.abort_handle())
    }
}

impl AbortOnDrop {
    pub(super) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl IoThread {
    pub(super) fn start(clock: CaptureClock) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("barewire-check-io".to_owned()).spawn(move || {
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, clock, _stop: stop })
    }

    /// Makes this thread the one that drives the pipes and tasks that are created while the guard exists.
    pub(super) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Reads a stream to its end. The stream must have been created while [`Self::enter`] was in effect.
    pub(super) fn read(&self, mut stream: impl AsyncRead + Unpin + Send + 'static) -> Arrivals {
        let (sender, receiver) = channel(MAX_WAITING_READS);
        let clock = self.clock;
        let reading = self.handle.spawn(async move {
            let mut buffer = vec![0; READ_SIZE];
            loop {
                let count = stream.read(&mut buffer).await.unwrap_or(0);
                let arrival = Arrival { time: clock.now(), bytes: buffer[..count].to_vec() };
                if sender.send(arrival).await.is_err() || count == 0 {
                    return;
                }
            }
        });
        Arrivals { receiver, _reading: reading.into() }
    }
}

impl Arrivals {
    /// Waits for the next bytes.
    pub(super) async fn next(&mut self) -> Arrival {
        self.receiver.recv().await.unwrap_or(Arrival { time: Duration::ZERO, bytes: Vec::new() })
    }

    /// Returns the number of reads that have arrived already.
    pub(super) fn count(&self) -> usize {
        self.receiver.len()
    }

    /// Returns the next bytes, if they have arrived already.
    pub(super) fn try_next(&mut self) -> Option<Arrival> {
        self.receiver.try_recv().ok()
    }
}

/// The number of bytes that are read at once.
const READ_SIZE: usize = 16 * 1024;
/// The maximum number of reads that wait for a probe to look at them, 4 MiB: more than a server sends before it reads
/// its input. While so many wait, the server's output stays in its pipe.
const MAX_WAITING_READS: usize = 256;
