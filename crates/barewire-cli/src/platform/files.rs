//! Owners, permissions and identity of files.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

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
