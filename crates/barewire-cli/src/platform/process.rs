//! The standard streams of this process, and its exit status.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use barewire_workbench::relay::HostFiles;
use rustix::process::{Signal, getpid, kill_process};
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};

use super::is_same_file;

/// Duplicates stdin, stdout and stderr of this process for a relay, and then replaces stdin and stdout of this process
/// by /dev/null. So the relay holds the only copies of the original stdin and stdout, and can close them.
pub(crate) fn take_stdio() -> io::Result<HostFiles> {
    let copy = |fd| Ok::<File, io::Error>(rustix::io::dup(fd)?.into());
    let files = HostFiles { stdin: copy(stdin())?, stdout: copy(stdout())?, stderr: copy(stderr())? };
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok(files)
}

/// Waits until stdin ends, on a thread of its own. What comes before the end is ignored.
pub(crate) fn stdin_ended() -> tokio::sync::oneshot::Receiver<()> {
    let (ended, waiting) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = ended.send(());
    });
    waiting
}

pub(crate) fn is_stdout(metadata: &Metadata) -> bool {
    let ours = rustix::io::dup(stdout()).map_err(io::Error::from).and_then(|it| File::from(it).metadata());
    ours.is_ok_and(|ours| is_same_file(&ours, metadata))
}

/// Ends this process by a signal that it has caught: `SIGINT` or `SIGTERM`.
pub(crate) fn end_by(signal: &str) -> ! {
    let signal = if signal == "SIGTERM" { Signal::TERM } else { Signal::INT };
    end_like(ExitStatus::from_raw(signal.as_raw()))
}

/// Ends this process in the same way as the program with this `status`: with the same exit code, or by the same signal.
pub(crate) fn end_like(status: ExitStatus) -> ! {
    if let Some(code) = status.code() {
        std::process::exit(code);
    }
    let number = status.signal().unwrap_or(0);
    if number == Signal::KILL.as_raw() {
        let _ = kill_process(getpid(), Signal::KILL);
    }
    // A signal that this process catches or that Rust ignores would not end this process. So a shell replaces this
    // process, and the signal ends the shell. The shell writes no core dump: only the program's core dump is useful.
    let script = "ulimit -c 0; kill -\"$1\" $$; exit $((128 + $1))";
    let _ = Command::new("/bin/sh").args(["-c", script, "sh", &number.to_string()]).exec();
    std::process::exit(128 + number)
}
