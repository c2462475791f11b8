//! The watcher of a tapped program: a process that ends the program if this process is killed and cannot end it itself.
//!
//! The program is in our process group, together with processes of the host, so the watcher cannot signal a group. It
//! signals the program, the descendants of the program, and every process of our group that has one of the program's
//! pipes open. The pipes are known before the program is started, so the program is watched from its start.

use std::env;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::fs::fstat;
use rustix::process::getpgrp;

/// A shell that waits for the end of its stdin, which only this process can write to. The shell is killed when the
/// watcher is dropped.
pub(super) struct Watcher(Child);

impl Watcher {
    /// Starts the shell, to watch the processes that have these pipes open.
    pub(super) fn start(pipes: [&dyn AsFd; 3]) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).env_clear().current_dir("/");
        // The shell needs `PATH` to find `sleep`, `cat` and `ls`.
        command.envs(env::var_os("PATH").map(|path| ("PATH", path)));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // The shell runs in its own process group, so that signals to our group do not reach it.
        let mut watcher = Self(command.process_group(0).spawn()?);
        let mut line = getpgrp().as_raw_pid().to_string();
        for pipe in pipes {
            let _ = write!(line, " pipe:[{}]", fstat(pipe)?.st_ino);
        }
        watcher.tell(&line)?;
        Ok(watcher)
    }

    /// Tells the watcher the process id of the program.
    pub(super) fn watch(&mut self, program: &Child) {
        // Writing fails if the watcher has exited. The program is then not watched.
        let _ = self.tell(&program.id().to_string());
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        let stdin = self.0.stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        stdin.write_all(format!("{line}\n").as_bytes())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The shell is killed before its stdin is closed, because it would end the program at the end of its stdin.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// If this process is killed, the watcher's stdin ends, and so does the stdin of the program. The program and its
/// family get two seconds to exit by themselves, and two more after SIGTERM. Without `/proc`, the family is the program
/// and its descendants according to `ps`.
///
/// A process that starts another and exits can do both between our looking and our signalling. So the family counts as
/// gone only if no member is found twice in a row, and SIGKILL is repeated.
const SCRIPT: &str = r#"
read -r group pipes || exit 0
read -r family || family=
while read -r _; do :; done

add() {
    case " $family " in *" $1 "*) return ;; esac
    family="$family $1"
    queue="$queue $1"
}
holders() {
    ls -l /proc/[0-9]*/fd 2>/dev/null | while read -r line; do
        case $line in
            /proc/*/fd:) pid=${line#/proc/}; pid=${pid%/fd:} ;;
            *" -> pipe:["*) case " $pipes " in *" ${line##* -> } "*) echo "$pid" ;; esac ;;
        esac
    done
}
is_in_group() {
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
    set -- ${stat##*) }
    [ "$3" = "$group" ]
}
children() {
    if [ -d /proc/self/task ]; then
        cat /proc/"$1"/task/*/children 2>/dev/null
    else
        ps -A -o ppid= -o pid= | while read -r parent pid; do [ "$parent" != "$1" ] || echo "$pid"; done
    fi
}
look() {
    queue=$family
    for pid in $(holders); do ! is_in_group "$pid" || add "$pid"; done
    while [ -n "$queue" ]; do
        members=$queue queue=
        for member in $members; do
            for pid in $(children "$member"); do add "$pid"; done
        done
    done
}
empty_looks=0
for signal in 0 0 TERM 0 KILL KILL KILL KILL; do
    look
    members=$family family=
    for pid in $members; do ! kill -s "$signal" "$pid" 2>/dev/null || family="$family $pid"; done
    if [ -n "$family" ]; then empty_looks=0; else empty_looks=$((empty_looks + 1)); fi
    [ "$empty_looks" -lt 2 ] || exit 0
    sleep 1
done
"#;
