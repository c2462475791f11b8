//! Private files, file locks, and pipes as files.

use std::fs::{File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

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

/// Writes a file that only its owner can read. Readers see the old content or the new one, even if this program or the
/// machine crashes.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = folder.join(name);
    let write = || {
        let mut file = private_options().write(true).create_new(true).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        // The temporary file may not exist, so an error is ignored.
        let _ = std::fs::remove_file(&temporary);
    })
}

/// Creates a file without a name that only this process can use. It is gone when the process ends, however it ends.
pub(crate) fn nameless_file() -> io::Result<File> {
    // A file may be as large as a capture. `/tmp` is memory on many systems, and `/var/tmp` never is.
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    let folder = named.or_else(|| Some(PathBuf::from("/var/tmp")).filter(|folder| folder.is_dir()));
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    let mut random = [0; 16];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random)
        .map_err(|_| io::Error::other("there are no random numbers"))?;
    let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(format!(".barewire-{name}"));
    let file = private_options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Reads bytes at an offset of a file.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    file.read_exact_at(bytes, at)
}

/// Writes bytes at an offset of a file.
pub(crate) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(bytes, at)
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
