//! The byte streams of a server: of a child process, or of a task over memory.

use std::ffi::OsString;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use barewire::Server;
use barewire::transport::{Child, ExitFuture, SpawnError, Stderr, Transport, memory};
use barewire_proto::transcript::Channel;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::{CHUNK, Exited};
use crate::check::live::recording::Recording;
use crate::platform;

pub(in crate::check::live) struct ServerPipes {
    pub(super) reader: Pin<Box<dyn AsyncRead>>,
    /// `None` once stdin is closed.
    pub(super) writer: Option<Pin<Box<dyn AsyncWrite>>>,
    /// Ends the process group, and waits for the process. `None` over memory.
    pub(super) exit: Option<ExitFuture>,
    server: ServerHandle,
    stderr: Arc<Mutex<StderrBuffer>>,
}

enum ServerHandle {
    /// The id of a child process.
    Child(u32),
    Task(AbortOnDrop),
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Lines of stderr that are not recorded yet.
#[derive(Default)]
struct StderrBuffer {
    lines: Vec<(Duration, Vec<u8>)>,
    /// The length of all lines so far.
    bytes: usize,
}

impl ServerPipes {
    pub(in crate::check::live) fn spawn(
        child: &Child,
        argv: &[OsString],
        channel: &Channel,
        recording: &Recording,
    ) -> Result<Self, SpawnError> {
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
        let (reader, writer) = (Box::pin(parts.reader), Box::pin(parts.writer));
        Ok(Self { reader, writer: Some(writer), exit: parts.exit, server, stderr })
    }

    /// Serves a server of this process over memory.
    pub(in crate::check::live) fn in_memory(server: &Server) -> Self {
        let (here, there) = memory(CHUNK);
        let serving = server.serve(there);
        let task = tokio::spawn(async move {
            let _ = serving.await;
        });
        let parts = here.into_parts();
        let (reader, writer) = (Box::pin(parts.reader), Box::pin(parts.writer));
        let server = ServerHandle::Task(AbortOnDrop(task));
        Self { reader, writer: Some(writer), exit: None, server, stderr: Arc::default() }
    }

    /// The exit of the process or the task, if it has ended.
    pub(super) fn exited(&self) -> Option<Exited> {
        match &self.server {
            ServerHandle::Child(pid) => platform::exited(*pid),
            ServerHandle::Task(task) => task.0.is_finished().then_some(Exited::Code(0)),
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        if let ServerHandle::Child(pid) = self.server { Some(pid) } else { None }
    }

    pub(super) fn take_stderr(&self) -> Vec<(Duration, Vec<u8>)> {
        std::mem::take(&mut self.stderr.lock().unwrap_or_else(PoisonError::into_inner).lines)
    }
}

/// The time between a signal and the next stronger one; the end of stdin was waited for before.
const GRACE: Duration = Duration::from_millis(300);
/// More than the limit of `stderr-hygiene`, so that a flood is still found.
const MAX_STDERR_BYTES: usize = 2 * 1024 * 1024;
