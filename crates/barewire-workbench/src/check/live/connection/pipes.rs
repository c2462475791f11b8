//! The byte streams of a server, which is a child process, or a task with an in-memory connection.

use std::ffi::OsString;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use barewire::Server;
use barewire::transport::{Child, ExitFuture, SpawnError, Stderr, Transport, memory};
use barewire_proto::transcript::Channel;
use tokio::io::AsyncWrite;

use super::Exited;
use crate::check::live::io_thread::{AbortOnDrop, Arrivals, IoThread};
use crate::check::live::recording::Recording;
use crate::platform;

pub(in crate::check::live) struct ServerPipes {
    pub(super) arrivals: Arrivals,
    /// The server's stdin; `None` after stdin is closed.
    pub(super) writer: Option<Pin<Box<dyn AsyncWrite>>>,
    /// A future that ends the process group and waits for the process. `None` for a server in memory.
    pub(super) exit: Option<ExitFuture>,
    server: ServerHandle,
    stderr: Arc<Mutex<StderrBuffer>>,
}

enum ServerHandle {
    /// The id of a child process.
    Child(u32),
    Task(AbortOnDrop),
}

/// Lines of stderr that are not recorded yet.
#[derive(Default)]
struct StderrBuffer {
    lines: Vec<(Duration, Vec<u8>)>,
    /// The total length of all lines so far, in bytes.
    bytes: usize,
}

impl ServerPipes {
    pub(in crate::check::live) fn spawn(
        child: &Child,
        argv: &[OsString],
        channel: &Channel,
        recording: &Recording,
        io: &IoThread,
    ) -> Result<Self, SpawnError> {
        let _io = io.enter();
        let stderr = Arc::new(Mutex::new(StderrBuffer::default()));
        let (buffer, clock) = (Arc::clone(&stderr), recording.clock());
        let on_line = move |line: &[u8]| {
            let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
            if buffer.bytes < MAX_STDERR_BYTES {
                buffer.bytes += line.len();
                buffer.lines.push((clock.now(), line.to_vec()));
            }
        };
        let process = child.clone().stderr(Stderr::lines(on_line)).grace(GRACE).spawn()?;
        let server = ServerHandle::Child(process.pid());
        recording.open(channel, argv);
        let parts = process.into_parts();
        let (arrivals, writer) = (io.read(parts.reader), Box::pin(parts.writer));
        Ok(Self { arrivals, writer: Some(writer), exit: parts.exit, server, stderr })
    }

    /// Runs a server of this process on an in-memory connection.
    pub(in crate::check::live) fn in_memory(server: &Server, io: &IoThread) -> Self {
        let _io = io.enter();
        let (here, there) = memory(MEMORY_PIPE);
        let serving = server.serve(there);
        let task = tokio::spawn(async move {
            let _ = serving.await;
        });
        let parts = here.into_parts();
        let (arrivals, writer) = (io.read(parts.reader), Box::pin(parts.writer));
        let server = ServerHandle::Task(task.into());
        Self { arrivals, writer: Some(writer), exit: None, server, stderr: Arc::default() }
    }

    /// Returns the exit of the process or of the task; `None` if the server is still running.
    pub(super) fn exited(&self) -> Option<Exited> {
        match &self.server {
            ServerHandle::Child(pid) => platform::exited(*pid),
            ServerHandle::Task(task) => task.is_finished().then_some(Exited::Code(0)),
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        if let ServerHandle::Child(pid) = self.server { Some(pid) } else { None }
    }

    pub(super) fn take_stderr(&self) -> Vec<(Duration, Vec<u8>)> {
        std::mem::take(&mut self.stderr.lock().unwrap_or_else(PoisonError::into_inner).lines)
    }
}

/// The capacity of a connection in memory, which is that of a pipe.
const MEMORY_PIPE: usize = 64 * 1024;
/// The time between a signal and the next, stronger signal; short, because the process already had time to exit after
/// its stdin was closed.
const GRACE: Duration = Duration::from_millis(300);
/// The maximum number of bytes of stderr that are recorded; more than the limit of `stderr-hygiene`, which must see
/// that its limit is exceeded.
const MAX_STDERR_BYTES: usize = 2 * 1024 * 1024;
