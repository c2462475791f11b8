//! A program to start -> a process whose stdin and stdout are a transport, and which does not outlive it.

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

use super::exit::show;
use super::{Exit, Framing, Parts, Transport};
use crate::platform::{PipeReader, PipeWriter, ProcessGroup, pipe_reader, pipe_writer};
pub use error::SpawnError;
pub use stderr::Stderr;
use supervisor::{Leash, Supervisor};

/// A program to be started with a connection over its stdin and stdout.
///
/// It is started by its name and arguments, never through a shell, in a process group of its own. When the connection
/// ends, its stdin is closed; if it stays, the group gets a SIGTERM, and then a SIGKILL. Whatever it started and left
/// behind in its group ends with it.
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
/// If this process is killed, a watcher ends the group: a `/bin/sh` that waits for the end of a pipe which only this
/// process holds. Where there is no `/bin/sh`, the child sees the end of its stdin and nothing more.
#[derive(Clone)]
pub struct Child {
    program: OsString,
    args: Vec<OsString>,
    clean_env: bool,
    /// Set, or removed.
    env: Vec<(OsString, Option<OsString>)>,
    dir: Option<PathBuf>,
    stderr: Stderr,
    framing: Framing,
    grace: Duration,
    watched: bool,
}

impl Child {
    /// The program at this path, or of this name in one of the directories of `PATH`.
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

    /// Adds an argument, which reaches the program as it is.
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

    /// Starts from an empty environment: nothing of ours, and nothing that was set before.
    pub fn env_clear(mut self) -> Self {
        self.clean_env = true;
        self.env.clear();
        self
    }

    /// The directory to start in. Name the program by an absolute path or a bare name then.
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Where its stderr goes; to ours unless told otherwise.
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// How messages are told apart; one a line unless told otherwise.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// How long it may stay after its stdin is closed, and again after SIGTERM; and how long what it left behind may go
    /// on writing to its stdout. Two seconds unless told otherwise.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Starts no watcher: if this process is killed, the child sees the end of its stdin and nothing more.
    pub fn unwatched(mut self) -> Self {
        self.watched = false;
        self
    }

    /// Starts the program.
    ///
    /// # Panics
    ///
    /// In a runtime whose IO driver is off.
    pub fn spawn(&self) -> Result<Process, SpawnError> {
        let program = show(self.program.as_encoded_bytes());
        let failed = |source| SpawnError::Io { program: program.clone(), source };
        Handle::try_current().map_err(|error| failed(io::Error::other(error)))?;
        let group = ProcessGroup::spawn(&mut self.command(), self.watched);
        let group = group.map_err(|error| SpawnError::of(self, error))?;
        // From here on, giving up drops the group, which ends it.
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
        let (cut, is_cut) = oneshot::channel();
        let (told, exit) = oneshot::channel();
        let supervisor = Supervisor { group, program, grace: self.grace, cut, told };
        let leash = Arc::new(supervisor.start(stderr, &self.stderr)?);
        let reader = ProcessReader { pipe, cut: Some(is_cut), _leash: Arc::clone(&leash) };
        Ok(Process { reader, writer, leash, exit, pid, framing: self.framing })
    }
}

/// The program of this name, without arguments.
impl From<&str> for Child {
    fn from(program: &str) -> Self {
        Self::new(program)
    }
}

/// The program of this name, without arguments.
impl From<String> for Child {
    fn from(program: String) -> Self {
        Self::new(program)
    }
}

/// The program at this path, without arguments.
impl From<&Path> for Child {
    fn from(program: &Path) -> Self {
        Self::new(program)
    }
}

/// The program at this path, without arguments.
impl From<PathBuf> for Child {
    fn from(program: PathBuf) -> Self {
        Self::new(program)
    }
}

/// The values of environment variables are left out: keys and tokens are handed over in them.
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

/// A started program. Dropped, or with its parts dropped, it is ended in the background.
#[derive(Debug)]
pub struct Process {
    reader: ProcessReader,
    writer: PipeWriter,
    leash: Arc<Leash>,
    exit: oneshot::Receiver<Exit>,
    pid: u32,
    framing: Framing,
}

impl Process {
    /// Its process id, which is that of its group as well.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl Transport for Process {
    type Reader = ProcessReader;
    type Writer = PipeWriter;

    fn into_parts(self) -> Parts<ProcessReader, PipeWriter> {
        let (leash, exit) = (self.leash, self.exit);
        let exit = Box::pin(async move {
            leash.let_go();
            exit.await.ok()
        });
        Parts { framing: self.framing, opened_by_us: true, exit: Some(exit), ..Parts::new(self.reader, self.writer) }
    }
}

/// Stdout of a process. It ends when the process has: what the process left behind may hold the pipe open for ever.
#[derive(Debug)]
pub struct ProcessReader {
    pipe: PipeReader,
    /// Done when nothing more is waited for; `None` after that.
    cut: Option<oneshot::Receiver<()>>,
    /// Whoever reads wants the process to be there, also if nobody wants to know how it ends.
    _leash: Arc<Leash>,
}

impl AsyncRead for ProcessReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.pipe).poll_read(cx, buf) {
            return Poll::Ready(read);
        }
        if let Some(cut) = &mut self.cut {
            // The supervisor never sends; it drops its end.
            let _ = ready!(Pin::new(cut).poll(cx));
            self.cut = None;
        }
        Poll::Ready(Ok(()))
    }
}

/// Long enough to save a file, short enough for somebody who waits for the end.
const DEFAULT_GRACE: Duration = Duration::from_secs(2);
