//! Looks for the socket files of running taps, and removes those that killed taps have left.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::RunningTap;
use crate::platform::local_socket::{self, LocalConnection};
use crate::relay::live::TAPS_FOLDER;

/// Finds running taps, each once.
pub struct TapFinder {
    /// The place to look at; `None` for all private folders of the user.
    only: Option<PathBuf>,
    /// The sockets that were found at the last look.
    known: HashSet<(PathBuf, u64)>,
}

impl TapFinder {
    /// Looks for all taps of the user.
    pub fn new() -> Self {
        Self { only: None, known: HashSet::new() }
    }

    /// Looks only for the tap with this socket file.
    pub fn of_socket(socket: impl Into<PathBuf>) -> Self {
        Self { only: Some(socket.into()), known: HashSet::new() }
    }

    /// Returns the taps that were started since the last look. Waits at most a second for each.
    pub fn look(&mut self) -> Vec<RunningTap> {
        let sockets = match &self.only {
            Some(socket) => vec![socket.clone()],
            None => {
                let folders = local_socket::runtime_folders(TAPS_FOLDER);
                folders.iter().flat_map(|folder| local_socket::sockets_in(folder)).collect()
            }
        };
        // A file that was replaced by another process with the same number is another tap.
        let present: HashSet<_> =
            sockets.into_iter().filter_map(|path| Some((path.clone(), local_socket::file_number(&path)?))).collect();
        self.known.retain(|known| present.contains(known));
        let mut taps = Vec::new();
        for socket in present {
            if self.known.contains(&socket) {
                continue;
            }
            match open(&socket.0) {
                Some(tap) => taps.extend(tap),
                // The tap does not say who it is, because it is stopped or overloaded. Look again.
                None => continue,
            }
            self.known.insert(socket);
        }
        taps.sort_by(|one, other| one.identity().started.cmp(&other.identity().started));
        taps
    }
}

impl Default for TapFinder {
    fn default() -> Self {
        Self::new()
    }
}

/// Connects to a tap. Returns `Some(None)` if there is none at this socket, and `None` if there is no answer.
fn open(socket: &Path) -> Option<Option<RunningTap>> {
    match local_socket::connect(socket) {
        Ok(LocalConnection::Open(stream)) => RunningTap::meet(stream, socket).ok().map(Some),
        Ok(LocalConnection::Stale) => {
            local_socket::remove_stale(socket);
            Some(None)
        }
        Err(_) => None,
    }
}
