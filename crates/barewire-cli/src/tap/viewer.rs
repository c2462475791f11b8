//! `tap --view`: `barewire view` in a process of its own, which shows this tap alone and ends with it.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use barewire_workbench::relay::live::Announcement;

use crate::Failure;
use crate::output::raw_stderr;

/// The process of the viewer. Its stdin is a pipe that ends with this process, however it ends, and so does the viewer.
pub(super) struct Viewer(Child);

impl Viewer {
    /// Starts the viewer of an announced tap. The URL goes to our stderr, because stdout is the wire.
    pub(super) fn start(announcement: &Announcement, no_open: bool) -> Result<Self, Failure> {
        let cannot = |why: &dyn std::fmt::Display| Failure::new(format!("cannot start the viewer: {why}"));
        // The socket is created by another thread.
        let until = Instant::now() + SOCKET_TIMEOUT;
        let socket = loop {
            match announcement.socket() {
                Some(socket) => break socket,
                None if Instant::now() >= until => return Err(cannot(&"there is no private folder for its socket")),
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        let program = std::env::current_exe().map_err(|error| cannot(&error))?;
        let mut command = Command::new(program);
        command.arg("view").arg("--tap").arg(socket);
        if no_open {
            command.arg("--no-open");
        }
        command.stdin(Stdio::piped()).stdout(raw_stderr()).stderr(Stdio::inherit());
        command.spawn().map(Self).map_err(|error| cannot(&error))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let until = Instant::now() + END_TIMEOUT;
        while matches!(self.0.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ = self.0.kill();
                let _ = self.0.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The maximum wait for the socket of the tap, which is usually there at once.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum wait for the viewer to end by itself.
const END_TIMEOUT: Duration = Duration::from_millis(500);
