//! A plan for a host's configuration -> the changed file.
//!
//! Only one `attach` or `detach` at a time changes files in a folder. Hosts do not lock anything, so a host can write
//! the file at any moment: the plan is then made again for the host's text. The change is done when a fresh read of the
//! file finds it.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::output::shown;
use crate::platform::{self, FolderLock};

use super::entry::Edit;
use super::file::name;
use super::lookup::{FoundServer, Lookup, Wanted};
use super::replace::{ReplaceError, remove_leftovers};

/// The result of looking at an entry.
pub(super) enum Plan {
    /// The entry is as it should be. The line says so.
    Keep(String),
    Change(Change),
}

pub(super) struct Change {
    pub(super) edits: Vec<Edit>,
    /// The text of the file after the edits.
    pub(super) text: String,
    /// The lines to print when the change is done.
    pub(super) notes: Vec<String>,
}

/// Changes the entry of a server as `plan` says, and returns the lines to print.
pub(super) fn change(
    read: impl Fn() -> Result<Lookup, Failure>,
    wanted: &Wanted,
    plan: impl Fn(&FoundServer<'_>) -> Result<Plan, Failure>,
) -> Result<Vec<String>, Failure> {
    let mut attempts = Attempts::default();
    for attempt in 1..=MAX_ATTEMPTS {
        // While another program writes the file, it can be empty or incomplete for a moment.
        let may_be_unfinished = attempt < MIN_FAILED_ATTEMPTS || attempts.meanwhile.is_some();
        let is_settled = match read().and_then(|lookup| attempts.next(&lookup.find(wanted)?, &plan)) {
            Ok(Some(notes)) => return Ok(notes),
            Ok(None) => attempts.meanwhile.is_none(),
            Err(_) if may_be_unfinished && attempt < MAX_ATTEMPTS => false,
            Err(failure) => return Err(failure),
        };
        if !is_settled {
            thread::sleep(PAUSE_BETWEEN_ATTEMPTS);
        }
    }
    let (path, server) = (attempts.meanwhile.unwrap_or_default(), shown(wanted.name().as_bytes(), 60));
    Err(Failure::new(format!(
        "{path} was changed by another program at every attempt: {server} stays as that program has it"
    ))
    .with_hint("close the host first, if it is running: it writes this file"))
}

/// The state between two attempts.
#[derive(Default)]
struct Attempts {
    lock: Option<Lock>,
    /// The notes of the change that was written last and that no read has found yet.
    written: Option<Vec<String>>,
    /// The file that another program has changed since the first attempt, as shown to the user.
    meanwhile: Option<String>,
}

impl Attempts {
    /// Makes the next step with a file that was just read. Returns the lines to print if the change is done, and `None`
    /// if the file must be read again.
    fn next(
        &mut self,
        found: &FoundServer<'_>,
        plan: impl Fn(&FoundServer<'_>) -> Result<Plan, Failure>,
    ) -> Result<Option<Vec<String>>, Failure> {
        let path = &found.config.path;
        let folder = path.parent().unwrap_or(Path::new("/"));
        if self.lock.as_ref().is_none_or(|lock| lock.folder != folder) {
            self.lock = None;
            self.lock = Some(Lock::take(folder)?);
            return Ok(None);
        }
        let change = match (plan(found)?, self.written.take()) {
            (Plan::Keep(note), None) => return Ok(Some(vec![note])),
            (Plan::Keep(_), Some(mut notes)) => {
                if self.meanwhile.is_some() {
                    notes.insert(1, "another program has changed the file meanwhile: its changes are kept".to_owned());
                }
                return Ok(Some(notes));
            }
            (Plan::Change(change), None) => change,
            (Plan::Change(change), Some(_)) => {
                // Another program has replaced the file, with a text from before the change.
                self.meanwhile = Some(name(path));
                change
            }
        };
        match found.config.replace(&change.text) {
            Ok(()) => self.written = Some(change.notes),
            Err(ReplaceError::Changed) => self.meanwhile = Some(name(path)),
            Err(ReplaceError::Write(error)) => return Err(found.config.write_failure(&error)),
            Err(ReplaceError::Owner(error)) => return Err(found.config.owner_failure(&error)),
        }
        Ok(None)
    }
}

/// The lock on the folder of a configuration file.
pub(super) struct Lock {
    folder: PathBuf,
    /// `None` if the file system has no locks. Changes of other programs are noticed even then.
    _held: Option<FolderLock>,
}

impl Lock {
    /// Waits until no other process holds the lock, and removes the temporary files of killed processes.
    pub(super) fn take(folder: &Path) -> Result<Self, Failure> {
        let start = Instant::now();
        let held = loop {
            match platform::try_lock_folder(folder) {
                Ok(Some(held)) => {
                    remove_leftovers(folder);
                    break Some(held);
                }
                Ok(None) if start.elapsed() < MAX_LOCK_WAIT => thread::sleep(LOCK_POLL_INTERVAL),
                Ok(None) => {
                    let folder = name(folder);
                    let why = format!("another barewire attach or detach has been changing files in {folder} for long");
                    return Err(Failure::new(why).with_hint("try again when it has ended; nothing was changed"));
                }
                Err(_) => break None,
            }
        };
        Ok(Self { folder: folder.to_owned(), _held: held })
    }
}

/// The maximum number of times that the file is read. The first read finds the folder to lock, and the last one finds
/// the change; a host that writes in between costs one or two more.
const MAX_ATTEMPTS: u32 = 50;

/// The number of attempts after which a failure counts, although no other program is known to write the file.
const MIN_FAILED_ATTEMPTS: u32 = 4;

/// The pause before a file that another program has changed is read again, so that the other program can finish.
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

/// The longest wait for another `attach`. One takes milliseconds, or seconds on a slow disk.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(10);

/// The time between two attempts to get the lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);
