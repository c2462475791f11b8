//! The program that is tapped: started as its host would have started it, and its end passed on as it was.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

use crate::output::shown;

/// Starts the program, with pipes where its host would have put its own.
///
/// It stays in our process group, unlike the programs that other verbs start: a host that ends a group, and a Ctrl-C, reach it as
/// they would without a tap. That it does not outlive us is as true as without one: if we are killed, its stdin ends.
pub(super) fn start(program: &[OsString]) -> io::Result<Child> {
    let (name, args) = (&program[0], &program[1..]);
    match spawn(Command::new(name).args(args)) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOEXEC) => match script(name) {
            Some(path) => spawn(Command::new("/bin/sh").arg(path).args(args)),
            None => Err(error),
        },
        started => started,
    }
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

/// Why it was not started, and the code that a shell ends with then.
pub(super) fn not_started(program: &OsString, error: &io::Error) -> (String, i32) {
    let name = shown(program.as_encoded_bytes(), 200);
    let in_path = !program.as_encoded_bytes().contains(&b'/');
    let (why, code) = match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR) if in_path => ("no such program in PATH".to_owned(), 127),
        Some(Errno::NOENT | Errno::NOTDIR) if std::path::Path::new(program).exists() => {
            ("the interpreter in its first line is missing".to_owned(), 126)
        }
        Some(Errno::NOENT | Errno::NOTDIR) => ("no such file".to_owned(), 127),
        Some(Errno::ACCESS | Errno::ISDIR | Errno::NOEXEC) => ("not an executable file".to_owned(), 126),
        _ => (error.to_string(), 126),
    };
    (format!("cannot start {name}: {why}"), code)
}

/// The program as others may signal it: as long as its number is its own.
pub(super) struct Running(Mutex<Option<Pid>>);

impl Running {
    pub(super) fn new(child: &Child) -> Self {
        Self(Mutex::new(Some(Pid::from_child(child))))
    }

    /// Signals it, if it is still there.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let pid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits for its end.
    pub(super) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = waitid(WaitId::Pid(Pid::from_child(child)), options) {}
        // From here on nobody signals it, and its number may become somebody else's.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        child.wait()
    }
}

/// Ends this process as the program has ended: by the same code, or by the same signal.
pub(super) fn end_like(status: ExitStatus) -> ! {
    if let Some(code) = status.code() {
        std::process::exit(code);
    }
    let number = status.signal().unwrap_or(0);
    if number == Signal::KILL.as_raw() {
        let _ = kill_process(getpid(), Signal::KILL);
    }
    // Signals that are caught here, or that Rust ignores, do not end this process; but they do end one that takes its place. It
    // leaves no core: that of the program says more.
    let script = "ulimit -c 0; kill -\"$1\" $$; exit $((128 + $1))";
    let _ = Command::new("/bin/sh").args(["-c", script, "sh", &number.to_string()]).exec();
    std::process::exit(128 + number)
}
