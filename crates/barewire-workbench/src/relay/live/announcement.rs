//! A running relay -> a socket file that viewers find, and the connections of viewers.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::MAX_CONNECTIONS;
use super::copies::LiveCopies;
use super::identity::{RelayIdentity, STREAM_REQUEST, TAPS_FOLDER};
use crate::capture::CaptureClock;
use crate::platform::local_socket::{self, LocalListener, LocalSocketFile, LocalStream};

/// The announcement of a running relay. Dropping it removes the socket file.
pub struct Announcement {
    pub(in crate::relay) live: Arc<LiveCopies>,
    state: Arc<Mutex<AnnouncementState>>,
}

enum AnnouncementState {
    /// The thread has not created the socket file yet, or could not.
    Starting,
    Open(LocalSocketFile),
    Ended,
}

impl Announcement {
    /// Starts a thread that creates the socket file and waits for viewers. `argv` is the program of the relay and its
    /// arguments, or empty. A relay without a socket file works as well, so errors are ignored.
    pub fn start(clock: CaptureClock, identity: RelayIdentity, argv: Vec<OsString>) -> Self {
        let live = Arc::new(LiveCopies::new(clock, argv, identity.redacted));
        let state = Arc::new(Mutex::new(AnnouncementState::Starting));
        let (announced, copies) = (Arc::clone(&state), Arc::clone(&live));
        thread::spawn(move || announce(&announced, &copies, &identity));
        Self { live, state }
    }

    /// Returns the path of the socket file, if it exists.
    pub fn socket(&self) -> Option<PathBuf> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            AnnouncementState::Open(file) => Some(file.path().to_owned()),
            AnnouncementState::Starting | AnnouncementState::Ended => None,
        }
    }

    /// Removes the socket file, and writes what is queued to the viewers that read.
    pub fn finish(self) {
        // A viewer whose connection ends while the file exists takes the relay for killed.
        self.end();
        self.live.finish();
    }

    fn end(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = AnnouncementState::Ended;
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.end();
    }
}

fn announce(state: &Mutex<AnnouncementState>, live: &Arc<LiveCopies>, identity: &RelayIdentity) {
    let Some(listener) = listen(state, identity.pid) else { return };
    let Ok(mut line) = serde_json::to_vec(identity) else { return };
    line.push(b'\n');
    let (line, connections) = (Arc::new(line), Arc::new(AtomicUsize::new(0)));
    loop {
        let stream = listener.accept();
        if connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (line, live, connections) = (Arc::clone(&line), Arc::clone(live), Arc::clone(&connections));
        thread::spawn(move || {
            // An error means that the viewer is gone.
            let _ = serve(&stream, &line, &live);
            connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Creates the socket file in the first folder that can have one, unless the relay has already ended.
fn listen(state: &Mutex<AnnouncementState>, pid: u32) -> Option<LocalListener> {
    for folder in local_socket::runtime_folders(TAPS_FOLDER) {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, AnnouncementState::Ended) {
            return None;
        }
        let made = local_socket::make_private_folder(&folder);
        let Ok((listener, file)) = made.and_then(|()| LocalListener::bind(&folder, &pid.to_string())) else { continue };
        let own = file.path().to_owned();
        *state = AnnouncementState::Open(file);
        drop(state);
        remove_stale(&folder, &own);
        return Some(listener);
    }
    None
}

/// Removes the socket files of relays that were killed.
fn remove_stale(folder: &Path, own: &Path) {
    for path in local_socket::sockets_in(folder).into_iter().filter(|path| path != own) {
        local_socket::remove_if_stale(&path);
    }
}

/// Tells a viewer who we are, and starts its entries if it asks for them. Returns when the viewer disconnects.
fn serve(stream: &LocalStream, line: &[u8], live: &Arc<LiveCopies>) -> std::io::Result<()> {
    (&mut &*stream).write_all(line)?;
    let mut from = BufReader::with_capacity(MAX_REQUEST, stream).take(MAX_REQUEST as u64);
    let mut request = String::new();
    from.read_line(&mut request)?;
    if request.trim_end() != STREAM_REQUEST {
        return Ok(());
    }
    let number = live.join(local_socket::stream_file(stream.try_clone()?));
    let ended = (&mut &*stream).read(&mut [0; 1]);
    live.leave(number);
    ended.map(drop)
}

/// The maximum length of a viewer's request.
const MAX_REQUEST: usize = 64;
