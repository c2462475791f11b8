//! A configuration file and its new text -> the replaced file, or the news that another program has changed it since it
//! was read. Also removes the temporary files of an `attach` that was killed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::platform;

use super::file::{Config, contents, name};

/// The reason why a file was not replaced.
#[derive(Debug)]
pub(super) enum ReplaceError {
    /// Another program has changed the file since it was read. Its text is kept.
    Changed,
    Write(io::Error),
    /// The new file cannot get the owner or group of the old one. Only root can give a file to another user, or to a
    /// group that the user is not in.
    Owner(io::Error),
}

impl Config {
    /// Replaces the file's text atomically: readers see the old text or the new one, even if this program or the
    /// machine crashes.
    pub(super) fn replace(&self, text: &str) -> Result<(), ReplaceError> {
        let temporary = temporary_path(&self.path);
        let replaced = self.write_temporary(&temporary, text).and_then(|()| {
            // A running host may have changed the file since it was read, and its changes must not be lost.
            if contents(&self.path)? != self.text.as_bytes() {
                return Err(ReplaceError::Changed);
            }
            self.exchange(&temporary, text)
        });
        // The temporary file may not exist, so an error is ignored.
        let _ = fs::remove_file(&temporary);
        replaced
    }

    fn write_temporary(&self, path: &Path, text: &str) -> Result<(), ReplaceError> {
        let mut file = platform::private_options().write(true).create_new(true).open(path)?;
        file.write_all(text.as_bytes())?;
        platform::copy_owner(&file, &self.metadata).map_err(ReplaceError::Owner)?;
        platform::copy_permissions(&file, &self.metadata)?;
        Ok(file.sync_all()?)
    }

    /// Exchanges the temporary file with the configuration file. Then the replaced text is known exactly, even if
    /// another program wrote it just before: if it is not the text that was read, it is put back.
    fn exchange(&self, temporary: &Path, text: &str) -> Result<(), ReplaceError> {
        let (mut put, mut expected) = (text.as_bytes().to_vec(), self.text.as_bytes().to_vec());
        for step in 0..MAX_EXCHANGES {
            if !platform::exchange(temporary, &self.path)? {
                // Without an exchange, a change between the last comparison and the renaming stays unnoticed.
                fs::rename(temporary, &self.path)?;
                sync_folder(&self.path);
                return Ok(());
            }
            // This takes a while, in which a program that has opened the replaced file can finish its write.
            sync_folder(&self.path);
            let replaced = contents(temporary)?;
            if replaced == expected {
                return if step == 0 { Ok(()) } else { Err(ReplaceError::Changed) };
            }
            // Another program wrote `replaced` after everything that is known. So it belongs into the file, and what is
            // in the file now is expected to come out.
            expected = std::mem::replace(&mut put, replaced);
        }
        Err(ReplaceError::Changed)
    }

    pub(super) fn write_failure(&self, error: &io::Error) -> Failure {
        Failure::new(format!("cannot write {}: {error}", name(&self.path))).with_hint(
            "the file is unchanged; a new file is first written to its folder, which must be writable and have space",
        )
    }

    pub(super) fn owner_failure(&self, error: &io::Error) -> Failure {
        let owner = platform::owner(&self.metadata);
        let why = format!("the new file cannot get its owner and group, {owner}: {error}");
        Failure::new(format!("cannot write {}: {why}", name(&self.path)))
            .with_hint("the file is unchanged; run this as root, or as its owner if the owner is in that group")
    }
}

impl From<io::Error> for ReplaceError {
    fn from(error: io::Error) -> Self {
        // The file or its folder was removed meanwhile.
        if error.kind() == io::ErrorKind::NotFound { Self::Changed } else { Self::Write(error) }
    }
}

/// Removes the temporary files that killed processes left in a folder. The caller must hold the lock on the folder, so
/// that no living process has a temporary file there.
pub(super) fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && is_temporary(&entry.file_name().to_string_lossy()) {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn temporary_path(path: &Path) -> PathBuf {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{file}{TEMPORARY_MARK}{}", std::process::id()))
}

/// Whether a file has a name as [`temporary_path`] makes it.
fn is_temporary(file: &str) -> bool {
    let process = file.strip_prefix('.').and_then(|file| file.rsplit_once(TEMPORARY_MARK));
    process.is_some_and(|(file, id)| !file.is_empty() && !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
}

/// Makes the renaming of a file permanent. Some file systems cannot sync a folder. The error is ignored, because the
/// file's text is complete either way.
fn sync_folder(path: &Path) {
    let _ = File::open(path.parent().unwrap_or(Path::new("/"))).and_then(|folder| folder.sync_all());
}

/// The text between the name of a configuration file and the process id, in the name of a temporary file.
const TEMPORARY_MARK: &str = ".barewire-";

/// The maximum number of exchanges for one replacement. Each one after the second needs another write of another
/// program within the few milliseconds since the one before.
const MAX_EXCHANGES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("barewire-file-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder.join("mcp.json")
    }

    fn config(path: &Path) -> Config {
        Config::read(path).ok().flatten().expect("a file")
    }

    #[test]
    fn changes_of_another_program_stay() {
        let path = fresh("changed");
        fs::write(&path, "{}").expect("written");
        let config = config(&path);
        fs::write(&path, "{\"mine\":1}").expect("written");
        assert!(matches!(config.replace("{\"new\":1}"), Err(ReplaceError::Changed)));
        let folder = path.parent().expect("a folder");
        assert_eq!(fs::read_to_string(&path).expect("a path"), "{\"mine\":1}");
        assert_eq!(fs::read_dir(folder).expect("a path").count(), 1, "nothing is left beside it");
        fs::remove_dir_all(folder).expect("removed");
    }

    /// The comparison before the exchange does not see this change.
    #[test]
    fn a_change_just_before_the_exchange_stays() {
        let path = fresh("exchanged");
        fs::write(&path, "{}").expect("written");
        let config = config(&path);
        let temporary = temporary_path(&path);
        config.write_temporary(&temporary, "{\"new\":1}").expect("written");
        fs::write(&path, "{\"mine\":1}").expect("written");
        assert!(matches!(config.exchange(&temporary, "{\"new\":1}"), Err(ReplaceError::Changed)));
        assert_eq!(fs::read_to_string(&path).expect("a path"), "{\"mine\":1}");
        assert_eq!(fs::read_to_string(&temporary).expect("a path"), "{\"new\":1}");
        fs::remove_dir_all(path.parent().expect("a folder")).expect("removed");
    }

    #[test]
    fn only_temporary_files_are_removed() {
        let path = fresh("leftovers");
        let folder = path.parent().expect("a folder");
        let kept = ["mcp.json", ".mcp.json.barewire-", ".mcp.json.barewire-1a", "mcp.json.barewire-1", ".barewire-1"];
        for file in kept.into_iter().chain([".mcp.json.barewire-1", ".a.barewire-b.barewire-23"]) {
            fs::write(folder.join(file), "{}").expect("written");
        }
        fs::create_dir_all(folder.join(".folder.barewire-1")).expect("a folder");
        remove_leftovers(folder);
        assert_eq!(fs::read_dir(folder).expect("a path").count(), kept.len() + 1);
        assert!(kept.iter().all(|file| folder.join(file).exists()));
        fs::remove_dir_all(folder).expect("removed");
    }
}
