//! Starts the tapped program in the same way as its host would.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::watcher::Watcher;
use crate::text::shown;

/// A started program, and our ends of its pipes.
pub(crate) struct StartedProgram {
    pub(crate) child: Child,
    pub(crate) stdin: PipeWriter,
    pub(crate) stdout: PipeReader,
    pub(crate) stderr: PipeReader,
    /// Ends the program if we are killed; `None` if no watcher could be started.
    watcher: Option<Watcher>,
}

/// Starts the program with pipes in place of the host's files.
///
/// The program stays in our process group, unlike the programs that other commands start, so signals to the group and
/// Ctrl-C reach it as they would without a tap. If we are killed, the program sees the end of its stdin, and a watcher
/// process ends it.
pub(crate) fn start(program: &OsString, args: &[OsString]) -> Result<StartedProgram, StartError> {
    let name = program;
    let started = match spawn(Command::new(name).args(args)) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOEXEC) => match script(name) {
            Some(path) => spawn(Command::new("/bin/sh").arg(path).args(args)),
            None => Err(error),
        },
        started => started,
    };
    started.map_err(|error| not_started(program, &error))
}

fn spawn(command: &mut Command) -> io::Result<StartedProgram> {
    let ((its_stdin, stdin), (stdout, its_stdout), (stderr, its_stderr)) = (io::pipe()?, io::pipe()?, io::pipe()?);
    let mut watcher = Watcher::start([&stdin, &stdout, &stderr]).ok();
    let child = command.stdin(its_stdin).stdout(its_stdout).stderr(its_stderr).spawn();
    // The command has the program's ends of the pipes until it gets others. While we have them open, a stream of the
    // program does not end.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = child?;
    if let Some(watcher) = &mut watcher {
        watcher.watch(&child);
    }
    Ok(StartedProgram { child, stdin, stdout, stderr, watcher })
}

/// Returns the path if the program is a script without an interpreter line. Most hosts run such a script in a shell, as
/// shells do. A file that contains null bytes is a binary for another machine.
fn script(name: &OsString) -> Option<PathBuf> {
    let path = match name.as_encoded_bytes().contains(&b'/') {
        true => PathBuf::from(name),
        false => {
            let folders = std::env::var_os("PATH")?;
            std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())?
        }
    };
    let mut begin = Vec::new();
    File::open(&path).and_then(|file| file.take(512).read_to_end(&mut begin)).ok()?;
    (!begin.contains(&0)).then_some(path)
}

/// The reason why a program was not started.
#[derive(Debug)]
pub struct StartError {
    what: String,
    /// Whether the program does not exist. Otherwise it exists but cannot be run.
    pub is_missing: bool,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for StartError {}

fn not_started(program: &OsString, error: &io::Error) -> StartError {
    let name = shown(program.as_encoded_bytes(), 200);
    let in_path = !program.as_encoded_bytes().contains(&b'/');
    let (why, is_missing) = match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR) if in_path => ("no such program in PATH".to_owned(), true),
        Some(Errno::NOENT | Errno::NOTDIR) if std::path::Path::new(program).exists() => {
            ("the interpreter in its first line is missing".to_owned(), false)
        }
        Some(Errno::NOENT | Errno::NOTDIR) => ("no such file".to_owned(), true),
        Some(Errno::ACCESS | Errno::ISDIR | Errno::NOEXEC) => ("not an executable file".to_owned(), false),
        _ => (error.to_string(), false),
    };
    StartError { what: format!("cannot start {name}: {why}"), is_missing }
}

/// The process id of a running program, for sending signals. It is cleared before the id can be reused.
pub(crate) struct RunningProgram(Mutex<Option<RunningProcess>>);

struct RunningProcess {
    pid: Pid,
    /// Ends the program if we are killed.
    _watcher: Option<Watcher>,
}

impl RunningProgram {
    pub(crate) fn new(started: &mut StartedProgram) -> Self {
        let process = RunningProcess { pid: Pid::from_child(&started.child), _watcher: started.watcher.take() };
        Self(Mutex::new(Some(process)))
    }

    /// Sends a signal to the program. Returns `false` if the program is not running.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let process = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_ref().is_some_and(|process| kill_process(process.pid, signal).is_ok())
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = waitid(WaitId::Pid(Pid::from_child(child)), options) {}
        // From here on neither we nor the watcher send signals: after the wait, the process id may belong to another
        // process.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        child.wait()
    }
}

/// Returns the exit code of a program, or the signal that ended it.
pub(crate) fn exit_of(status: ExitStatus) -> Result<i32, i32> {
    status.code().ok_or_else(|| status.signal().unwrap_or(0))
}
