//! Files that only their owner can read, the folder for them, a lock that ends with its process, and the browser.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Returns the folder for the state of programs: data that must survive a restart, but is not worth a backup.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if cfg!(target_os = "macos") {
        return absolute("HOME").map(|home| home.join("Library/Application Support"));
    }
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

/// Creates a folder that only its owner can enter. An existing folder of another user is refused; other rights on an
/// own folder are removed.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
        return Err(refused("it is not a folder of this user"));
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Creates a new file that only its owner can read.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file, and refuses one that is not a plain file, that belongs to another user, or that others can read; the
/// last is `InvalidData`.
pub(crate) fn open_private_file(path: &Path) -> io::Result<File> {
    // Without blocking: opening a pipe would wait for its writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.uid() != geteuid().as_raw() {
        return Err(refused("it is not a file of this user"));
    }
    if metadata.mode() & 0o077 != 0 {
        let why = "other users can read it; if that is a mistake, run chmod 600 on it, or sign in again";
        // Unlike the file of another user, it may be replaced.
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(file)
}

/// Writes the entries of a folder to disk, so that a rename in it survives a power failure.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A lock on a file. It ends when this value is dropped, and when the process ends in any way.
#[derive(Debug)]
pub(crate) struct FileLock(#[allow(dead_code, reason = "closing the file releases the lock")] File);

/// Locks a file, which is created if it does not exist; `None` if another process or another opened file holds the
/// lock.
pub(crate) fn try_lock_file(path: &Path) -> io::Result<Option<FileLock>> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(FileLock(file))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a URL in the user's browser; an error if this session has no browser.
///
/// The browser gets its own process group, so that Ctrl-C in the terminal does not end it, and none of our streams, so
/// that it cannot write between messages.
pub(crate) fn open_browser(url: &str) -> io::Result<()> {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") || is_set("WSL_DISTRO_NAME") {
        "xdg-open"
    } else {
        // Without a screen, xdg-open would start a browser for terminals, which has no terminal here.
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no screen"));
    };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    // The thread waits for the process, so that no zombie is left.
    std::thread::Builder::new().name("browser".into()).spawn(move || child.wait())?;
    Ok(())
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
