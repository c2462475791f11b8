//! Private files, file locks, and pipes as files.

use std::fs::{File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

/// Writes a file that only its owner can read. The file may contain secrets that were not recognized, like a capture.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // An existing file is truncated only after it was made private.
    let mut file = private_options().write(true).create(true).truncate(false).open(path)?;
    make_private(&file)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(bytes)
}

/// Returns options that create a file that only its owner can read.
pub(crate) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes a regular file inaccessible to other users. Fails if the file belongs to another user, who could make it
/// accessible again or has it open already. Pipes and devices are left alone.
pub fn make_private(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(());
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file belongs to another user"));
    }
    match metadata.permissions().mode() & 0o7777 {
        0o600 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(0o600)),
    }
}

/// Whether the file is a device or a pipe, which has no content that could be overwritten.
pub(crate) fn is_pipe_or_device(kind: FileType) -> bool {
    kind.is_char_device() || kind.is_fifo()
}

/// Locks a file for this process. Returns `false` if another process has locked it, and `true` on a file system without
/// locks.
pub(crate) fn lock(file: &File) -> bool {
    !matches!(flock(file, FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::WOULDBLOCK))
}

/// Whether the metadata is of the same file. No two files that exist at the same time have the same numbers of device
/// and inode.
pub(crate) fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

pub(crate) fn file(end: impl Into<OwnedFd>) -> File {
    File::from(end.into())
}
