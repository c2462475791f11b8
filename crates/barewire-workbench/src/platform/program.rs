//! The program that is tapped: started as its host would have started it, and its end passed on as it was.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::text::shown;

/// Starts the program, with pipes where its host would have put its own.
///
/// It stays in our process group, unlike the programs that other verbs start: a host that ends a group, and a Ctrl-C, reach it as
/// they would without a tap. That it does not outlive us is as true as without one: if we are killed, its stdin ends.
pub(crate) fn start(program: &OsString, args: &[OsString]) -> Result<Child, StartError> {
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

fn spawn(command: &mut Command) -> io::Result<Child> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// The file of a program that does not say in its first line what runs it. A shell does then, for everybody who starts programs as
/// shells do; most hosts are among them. What has zeros in it is for another kind of machine.
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

/// Why a program was not started.
#[derive(Debug)]
pub struct StartError {
    what: String,
    /// Whether there is no such program; otherwise there is one that cannot be run.
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

/// The program as others may signal it: as long as its number is its own.
pub(crate) struct Running(Mutex<Option<Pid>>);

impl Running {
    pub(crate) fn new(child: &Child) -> Self {
        Self(Mutex::new(Some(Pid::from_child(child))))
    }

    /// Signals it, if it is still there.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let pid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// Kills it, if it is still there.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits for its end.
    pub(crate) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = waitid(WaitId::Pid(Pid::from_child(child)), options) {}
        // From here on nobody signals it, and its number may become somebody else's.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        child.wait()
    }
}

/// The code that a program has ended with, or the signal that has ended it.
pub(crate) fn exit_of(status: ExitStatus) -> Result<i32, i32> {
    status.code().ok_or_else(|| status.signal().unwrap_or(0))
}
