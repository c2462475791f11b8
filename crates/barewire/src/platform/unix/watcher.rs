//! A process that ends a group when this one is gone without having done so.

use std::env;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::process::ProcessId;

/// A shell that waits for the end of its stdin, which only this process holds. Ended when dropped.
#[derive(Debug)]
pub(super) struct Watcher(Child);

impl Watcher {
    /// `None` where there is no shell, or no room for another process: the group is then not watched.
    pub(super) fn start() -> Option<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).env_clear().current_dir("/");
        // `sleep` is looked for.
        command.envs(env::var_os("PATH").map(|path| ("PATH", path)));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // What a terminal sends to our group must not end it.
        match command.process_group(0).spawn() {
            Ok(shell) => Some(Self(shell)),
            Err(error) => {
                tracing::warn!(%error, "a child will not be watched");
                None
            }
        }
    }

    /// Says which group to end.
    pub(super) fn watch(&mut self, group: ProcessId) {
        if let Some(stdin) = &mut self.0.stdin {
            // A watcher that is gone cannot be told, and the child does without.
            let _ = writeln!(stdin, "{}", group.number());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Before its stdin is closed, which it would take for our end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// At the end of stdin the group has seen the end of its own: two seconds to end by itself, two more after SIGTERM. It
/// is left alone as soon as it is gone. Its number cannot be used again while one of its processes is there; that it is
/// used again within the second between two looks would take a round of all process numbers.
const SCRIPT: &str = r#"
read -r group || exit 0
while read -r _; do :; done
for signal in 0 0 TERM 0 KILL; do
    kill -s "$signal" -- "-$group" || exit 0
    sleep 1
done
"#;
