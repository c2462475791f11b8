//! Files in the folder that the system keeps private for each user, a lock by the existence of a file, and the browser.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Returns the folder for the state of programs, which only its user can read.
pub(crate) fn state_folder() -> Option<PathBuf> {
    env::var_os("LOCALAPPDATA").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Creates a folder. It inherits the rights of the folder that it is in.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Creates a new file. It inherits the rights of its folder.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Opens a file.
pub(crate) fn open_private_file(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Does nothing: these systems cannot open a folder.
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A lock that lasts as long as its file exists. Dropping this value removes the file.
#[derive(Debug)]
pub(crate) struct FileLock(PathBuf);

impl Drop for FileLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Creates the lock file; `None` if it exists. A file that is older than every sign-in may last was left behind by a
/// process that has ended, and is removed.
pub(crate) fn try_lock_file(path: &Path) -> io::Result<Option<FileLock>> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => Ok(Some(FileLock(path.to_owned()))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let changed = fs::metadata(path).and_then(|metadata| metadata.modified());
            let age = changed.ok().and_then(|changed| SystemTime::now().duration_since(changed).ok());
            if age.is_some_and(|age| age > STALE_LOCK) {
                let _ = fs::remove_file(path);
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Opens a URL in the user's browser.
pub(crate) fn open_browser(url: &str) -> io::Result<()> {
    // Not `cmd /c start`: it would interpret the `&` in a URL.
    let mut command = Command::new("rundll32");
    command.args(["url.dll,FileProtocolHandler", url]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

/// The age at which a lock file is left behind: twice the time that a sign-in in the browser may take.
const STALE_LOCK: Duration = Duration::from_secs(20 * 60);
