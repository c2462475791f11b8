//! Starts a program as a child process whose stdin and stdout are a transport. The process is terminated when the
//! transport is closed.

mod error;
mod stderr;
mod supervisor;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{self, Command};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::exit::escape_line;
use super::{Exit, Framing, Parts, Transport};
use crate::platform::{ChildReader, ChildWriter, ProcessGroup, pipe_reader, pipe_writer};
pub use error::SpawnError;
pub use stderr::Stderr;
use supervisor::{GroupKeepAlive, Supervisor};

/// A program to start, with a connection over its stdin and stdout.
///
/// The program is started directly, never through a shell, in its own process group. When the connection ends, the
/// program's stdin is closed. If the program does not exit, the group is sent SIGTERM, and later SIGKILL. Other
/// processes in the group, which the program has started, are terminated too.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use barewire::transport::{Child, Stderr, Transport};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let process = Child::new("cat").stderr(Stderr::discard()).spawn()?;
/// let mut parts = process.into_parts();
/// parts.writer.write_all(b"hello\n").await?;
/// drop(parts.writer);
///
/// let mut text = String::new();
/// parts.reader.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello\n");
/// let exit = parts.exit.expect("a process has an end").await;
/// assert_eq!(exit.and_then(|exit| exit.code), Some(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// If this process is killed, a watcher process terminates the group. The watcher is a `/bin/sh` that reads a pipe
/// which ends when this process ends. On a system without `/bin/sh`, the child only sees the end of its stdin.
#[derive(Clone)]
pub struct Child {
    program: OsString,
    args: Vec<OsString>,
    clean_env: bool,
    /// The environment variables to set; a value of `None` removes the variable.
    env: Vec<(OsString, Option<OsString>)>,
    dir: Option<PathBuf>,
    stderr: Stderr,
    framing: Framing,
    grace: Duration,
    watched: bool,
}

impl Child {
    /// Describes the program at this path, or with this name in a directory of `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            clean_env: false,
            env: Vec::new(),
            dir: None,
            stderr: Stderr::inherit(),
            framing: Framing::Lines,
            grace: DEFAULT_GRACE,
            watched: true,
        }
    }

    /// Adds an argument, which is passed on unchanged.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Clears the environment: the program inherits no variables, and variables that were set before are removed.
    pub fn env_clear(mut self) -> Self {
        self.clean_env = true;
        self.env.clear();
        self
    }

    /// Sets the working directory. Pass the program to [`Self::new`] as an absolute path or a bare name in this case,
    /// because the meaning of a relative path depends on the platform.
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Sets the destination of the program's stderr. The default is the stderr of this process.
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// Sets the framing of the messages. The default is one message per line.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Sets how long the process has to exit after its stdin is closed, and again after SIGTERM. After the process has
    /// exited, processes that it started can write to its stdout for the same time. The default is two seconds.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Disables the watcher process: if this process is killed, the child only sees the end of its stdin.
    pub fn unwatched(mut self) -> Self {
        self.watched = false;
        self
    }

    /// Starts the program.
    ///
    /// # Panics
    ///
    /// If the runtime's IO driver is not enabled.
    pub fn spawn(&self) -> Result<Process, SpawnError> {
        let program = escape_line(self.program.as_encoded_bytes());
        let failed = |source| SpawnError::Io { program: program.clone(), source };
        Handle::try_current().map_err(|error| failed(io::Error::other(error)))?;
        let group = ProcessGroup::spawn(&mut self.command(), self.watched);
        let group = group.map_err(|error| SpawnError::of(self, error))?;
        // From here on, an error drops the group, which terminates the process.
        self.connect(group, program.clone()).map_err(failed)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        if self.clean_env {
            command.env_clear();
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let piped = process::Stdio::piped;
        command.stdin(piped()).stdout(piped()).stderr(piped());
        command
    }

    fn connect(&self, mut group: ProcessGroup, program: String) -> io::Result<Process> {
        let pid = group.id().number();
        let (stdin, stdout, stderr) = group.pipes().ok_or(io::ErrorKind::NotConnected)?;
        let (writer, pipe) = (pipe_writer(stdin)?, pipe_reader(stdout)?);
        let (stdout_cut, cut_receiver) = oneshot::channel();
        let (exit_sender, exit) = oneshot::channel();
        let supervisor = Supervisor { group, program, grace: self.grace, stdout_cut, exit_sender };
        let keep_alive = Arc::new(supervisor.start(stderr, &self.stderr)?);
        let reader = ProcessReader { pipe, end: StdoutEnd::Open(cut_receiver), _keep_alive: Arc::clone(&keep_alive) };
        Ok(Process { reader, writer, keep_alive, exit, pid, framing: self.framing })
    }
}

/// Describes the program of this name, without arguments.
impl From<&str> for Child {
    fn from(program: &str) -> Self {
        Self::new(program)
    }
}

/// Describes the program of this name, without arguments.
impl From<String> for Child {
    fn from(program: String) -> Self {
        Self::new(program)
    }
}

/// Describes the program at this path, without arguments.
impl From<&Path> for Child {
    fn from(program: &Path) -> Self {
        Self::new(program)
    }
}

/// Describes the program at this path, without arguments.
impl From<PathBuf> for Child {
    fn from(program: PathBuf) -> Self {
        Self::new(program)
    }
}

/// Leaves out the values of environment variables, which can be secrets such as keys and tokens.
impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Child")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &env)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// A started program. If this value or its parts are dropped, the process is terminated in the background.
#[derive(Debug)]
pub struct Process {
    reader: ProcessReader,
    writer: ChildWriter,
    keep_alive: Arc<GroupKeepAlive>,
    exit: oneshot::Receiver<Exit>,
    pid: u32,
    framing: Framing,
}

impl Process {
    /// Returns the process id, which is also the id of the process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl Transport for Process {
    type Reader = ProcessReader;
    type Writer = ChildWriter;

    fn into_parts(self) -> Parts<ProcessReader, ChildWriter> {
        let (keep_alive, exit) = (self.keep_alive, self.exit);
        let exit = Box::pin(async move {
            keep_alive.release();
            exit.await.ok()
        });
        Parts { framing: self.framing, opened_by_us: true, exit: Some(exit), ..Parts::new(self.reader, self.writer) }
    }
}

/// The stdout of a process. The stream ends at most one grace period after the process has exited, even if other
/// processes that it started still hold the pipe open.
#[derive(Debug)]
pub struct ProcessReader {
    pipe: ChildReader,
    end: StdoutEnd,
    /// Keeps the process alive while its stdout is read, even if no code waits for its exit.
    _keep_alive: Arc<GroupKeepAlive>,
}

/// The end of a process's stdout, apart from the end of its pipe.
#[derive(Debug)]
enum StdoutEnd {
    /// The supervisor closes this channel to end the stream.
    Open(oneshot::Receiver<()>),
    /// The supervisor has ended the stream. At most this many bytes are still read, because the process may have
    /// written them before it exited.
    Cut { left: usize },
}

impl AsyncRead for ProcessReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { pipe, end, .. } = &mut *self;
        // The supervisor never sends on the channel; it only drops the sender.
        if let StdoutEnd::Open(cut) = end
            && cut.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        {
            *end = StdoutEnd::Cut { left: MAX_PIPE_CAPACITY };
        }
        let before = buf.filled().len();
        if let StdoutEnd::Cut { left: 0 } = end {
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(pipe).poll_read(cx, buf);
        match (&read, end) {
            (Poll::Ready(_), StdoutEnd::Cut { left }) => *left = left.saturating_sub(buf.filled().len() - before),
            (Poll::Ready(_), StdoutEnd::Open(_)) => {}
            (Poll::Pending, StdoutEnd::Cut { .. }) => return Poll::Ready(Ok(())),
            (Poll::Pending, StdoutEnd::Open(cut)) => {
                let _ = ready!(Pin::new(cut).poll(cx));
                return Poll::Ready(Ok(()));
            }
        }
        read
    }
}

/// The default grace period: long enough for the program to save a file, short enough for a user who waits.
const DEFAULT_GRACE: Duration = Duration::from_secs(2);

/// The largest capacity of a pipe that a program can set without privileges on Linux.
const MAX_PIPE_CAPACITY: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::io::AsyncReadExt;

    use super::*;

    /// A process that the program has left behind, and that never stops writing, does not keep the stream open.
    #[tokio::test]
    async fn a_cut_stream_ends_though_its_pipe_is_never_empty() {
        let (from, mut to) = io::pipe().expect("a pipe");
        let (cut, cut_receiver) = oneshot::channel();
        let _keep_alive = Arc::new(GroupKeepAlive::of_test());
        let pipe = ChildReader::from_owned_fd(from.into()).expect("a pipe");
        let mut reader = ProcessReader { pipe, end: StdoutEnd::Open(cut_receiver), _keep_alive };
        let mut chunk = [0; 1024];
        to.write_all(&chunk).expect("room");
        drop(cut);
        let mut read = 0;
        while read <= MAX_PIPE_CAPACITY {
            to.write_all(&chunk).expect("room");
            match reader.read(&mut chunk).await.expect("a pipe") {
                0 => return,
                count => read += count,
            }
        }
        panic!("{read} bytes were read");
    }
}
