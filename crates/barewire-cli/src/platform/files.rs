//! Owners, permissions and identity of files, locks on folders, and the exchange of two files.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A connection to a local socket that receives the lines of a log.
pub(crate) type LogSocket = std::os::unix::net::UnixStream;

/// Converts the bytes of a command-line argument to a path.
pub(crate) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Returns options that create a file with access for its owner only.
pub(crate) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Returns a builder that creates folders with access for their owner only.
pub(crate) fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
}

/// Whether the metadata describes a character device, such as /dev/null.
pub(crate) fn is_device(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device()
}

pub(crate) fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

pub(crate) fn owner(metadata: &Metadata) -> String {
    format!("{}:{}", metadata.uid(), metadata.gid())
}

pub(crate) fn copy_owner(file: &File, like: &Metadata) -> io::Result<()> {
    let made = file.metadata()?;
    match (made.uid(), made.gid()) == (like.uid(), like.gid()) {
        true => Ok(()),
        false => fchown(file, Some(like.uid()), Some(like.gid())),
    }
}

/// Sets the permissions of `file` to those in `like`. Must be called after [`copy_owner`], because changing the owner
/// clears some permission bits.
pub(crate) fn copy_permissions(file: &File, like: &Metadata) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))
}

/// Returns the number of other hard links to a file.
pub(crate) fn other_names(metadata: &Metadata) -> u64 {
    metadata.nlink().saturating_sub(1)
}

/// A lock on a folder. The system releases it when the process ends, however it ends.
pub(crate) struct FolderLock {
    _folder: File,
}

/// Locks a folder. Returns `None` if another process has locked it. Nothing is written: the lock is on the folder
/// itself, and only programs that also lock the folder notice it.
pub(crate) fn try_lock_folder(path: &Path) -> io::Result<Option<FolderLock>> {
    let folder = File::open(path)?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(FolderLock { _folder: folder })),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Exchanges the names of two files in one step. Returns `false` if the system or the file system cannot do this.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        // Some sandboxes refuse calls that they do not know with EPERM.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(crate) fn exchange(_one: &Path, _other: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Whether there is a file at this path that some user may execute.
pub(crate) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
}

/// Whether a file has the content of a program: a script with an interpreter, or a binary.
pub(crate) fn has_program_code(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PROGRAM_START_BYTES).read_to_end(&mut begin));
    read.is_ok() && (begin.starts_with(b"#!") || begin.contains(&0))
}

/// The number of bytes in which every binary has a null byte: the header of an ELF or Mach-O file is shorter.
const PROGRAM_START_BYTES: u64 = 512;
