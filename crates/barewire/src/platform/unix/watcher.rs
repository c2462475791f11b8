//! The watcher: a process that terminates a process group if this process is killed and cannot terminate it itself.

use std::env;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::process::ProcessId;

/// A shell that waits for the end of its stdin, which only this process can write to. The shell is killed when the
/// watcher is dropped.
#[derive(Debug)]
pub(super) struct Watcher(Child);

impl Watcher {
    /// Starts the shell. Returns `None` if it cannot be started; the group is then not watched.
    pub(super) fn start() -> Option<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).env_clear().current_dir("/");
        // The shell needs `PATH` to find `sleep`.
        command.envs(env::var_os("PATH").map(|path| ("PATH", path)));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // The shell runs in its own process group, so that signals from a terminal to our group do not kill it.
        match command.process_group(0).spawn() {
            Ok(shell) => Some(Self(shell)),
            Err(error) => {
                tracing::warn!(%error, "cannot start a watcher: if this process is killed, a child can outlive it");
                None
            }
        }
    }

    /// Tells the watcher which process group to terminate.
    pub(super) fn watch(&mut self, group: ProcessId) {
        if let Some(stdin) = &mut self.0.stdin {
            // Writing fails if the watcher has exited. The group is then not watched.
            let _ = writeln!(stdin, "{}", group.number());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The shell is killed before its stdin is closed, because it would terminate the group at the end of its stdin.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// If this process is killed, the watcher's stdin ends, and so does the stdin of the group. The group gets two seconds
/// to exit by itself, and two more after SIGTERM. The script exits as soon as the group is gone. The system does not
/// reuse the id of a group while one of its processes exists. To reuse the id in the second between two checks, the
/// system would have to use up all other process ids in that second.
const SCRIPT: &str = r#"
read -r group || exit 0
while read -r _; do :; done
for signal in 0 0 TERM 0 KILL; do
    kill -s "$signal" -- "-$group" || exit 0
    sleep 1
done
"#;
