//! The watcher: a process that ends a group if this process is killed and cannot.

use std::env;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::process::ProcessId;

/// A shell that waits for the end of its stdin, which only this process has open. Killed when dropped.
#[derive(Debug)]
pub(super) struct Watcher(Child);

impl Watcher {
    /// Starts the shell. `None` if there is no shell, or no room for another process: then the group is not watched.
    pub(super) fn start() -> Option<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).env_clear().current_dir("/");
        // The shell needs it to find `sleep`.
        command.envs(env::var_os("PATH").map(|path| ("PATH", path)));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In its own group, so that signals of a terminal to our group do not end it.
        match command.process_group(0).spawn() {
            Ok(shell) => Some(Self(shell)),
            Err(error) => {
                tracing::warn!(%error, "cannot start a watcher: a child may outlive this process if it is killed");
                None
            }
        }
    }

    /// Tells the watcher which group to end.
    pub(super) fn watch(&mut self, group: ProcessId) {
        if let Some(stdin) = &mut self.0.stdin {
            // If the watcher has exited, the group is not watched.
            let _ = writeln!(stdin, "{}", group.number());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Killed before its stdin is closed: the end of its stdin would make it end the group.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// At the end of the watcher's stdin, the group has seen the end of its own stdin as well. It gets two seconds to exit
/// by itself, and two more after SIGTERM. The script exits as soon as the group is gone. The id of a group is not
/// reused while one of its processes exists; for it to be reused within the second between two checks, the system would
/// have to go through all process ids.
const SCRIPT: &str = r#"
read -r group || exit 0
while read -r _; do :; done
for signal in 0 0 TERM 0 KILL; do
    kill -s "$signal" -- "-$group" || exit 0
    sleep 1
done
"#;
