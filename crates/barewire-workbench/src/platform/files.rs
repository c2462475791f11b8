//! Files: private ones, locked ones, and the ends of pipes.

use std::fs::{File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Writes a file that only its owner can read, like a capture: not every secret in it can be recognized.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private_options().write(true).create(true).truncate(true).open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    file.write_all(bytes)
}

/// Options that create a file only its owner can read.
pub(crate) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes a file unreadable for other users.
pub(crate) fn make_private(file: &File, metadata: &Metadata) -> io::Result<()> {
    match metadata.permissions().mode() & 0o177 {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(0o600)),
    }
}

/// Whether this is a device or a pipe, which can only be written to.
pub(crate) fn is_pipe_or_device(kind: FileType) -> bool {
    kind.is_char_device() || kind.is_fifo()
}

/// Locks a file for this process; `false` if another process has locked it. On a file system without locks, it is `true`.
pub(crate) fn lock(file: &File) -> bool {
    !matches!(flock(file, FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::WOULDBLOCK))
}

/// Whether both describe the same file. No two open files have both numbers in common.
pub(crate) fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

pub(crate) fn file(end: impl Into<OwnedFd>) -> File {
    File::from(end.into())
}
