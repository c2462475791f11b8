//! Opens the file for a capture. Only its owner can read it, one process writes it, and only captures are replaced, if
//! anything is.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::CaptureClock;
use crate::{Error, platform};

/// The treatment of a capture that already has the name of the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExistingCapture {
    /// It is kept, and the new capture gets the next free number: `s.2.wire`.
    Keep,
    /// It is overwritten, unless another process is writing to it.
    Overwrite,
}

/// The file of a new capture.
pub(super) struct CreatedFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// The path without a number, if the path has one.
    pub(super) wanted: Option<PathBuf>,
}

/// Opens the file for a capture.
///
/// An existing file is used only if it is empty or a capture that may be overwritten, and belongs to the user; its mode
/// is narrowed. If the capture is to be kept, or another process is writing to it, as when a host starts a server
/// twice, the new capture gets a number. In a name, `%p` is the id of this process, `%t` the start time, and `%%` a
/// percent sign.
pub(super) fn create(path: &Path, clock: CaptureClock, existing: ExistingCapture) -> Result<CreatedFile, Error> {
    let wanted = expand_name(path, clock);
    if let Some(file) = open(&wanted, existing)? {
        return Ok(CreatedFile { file, path: wanted, wanted: None });
    }
    let first = match existing {
        ExistingCapture::Keep => highest_number(&wanted) + 1,
        ExistingCapture::Overwrite => 2,
    };
    for number in first..first + MAX_NUMBERED {
        let path = numbered(&wanted, number);
        if let Some(file) = open(&path, existing)? {
            return Ok(CreatedFile { file, path, wanted: Some(wanted) });
        }
    }
    Err(Error::new(format!("cannot record to {}: too many processes record there", wanted.display())))
}

/// Opens a file for writing. Returns `None` if another process is writing to it, or if its content is to be kept.
///
/// The lock makes this atomic: of two processes that open one empty file, the second either does not get the lock or
/// finds the header that the first has written under it.
fn open(path: &Path, existing: ExistingCapture) -> Result<Option<File>, Error> {
    let cannot = |why: &dyn std::fmt::Display| Error::new(format!("cannot record to {}: {why}", path.display()));
    // The file is truncated only after its content was checked.
    let mut options = platform::private_options();
    options.read(true).write(true).create(true).truncate(false);
    let opened = options.open(path).or_else(|error| match error.kind() {
        // The path may be a pipe or a terminal that can only be written to.
        io::ErrorKind::PermissionDenied => OpenOptions::new().write(true).open(path).map_err(|_| error),
        _ => Err(error),
    });
    let mut file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => cannot(&"there is no such folder").with_hint("create the folder first"),
        io::ErrorKind::PermissionDenied => cannot(&error).with_hint("ls -ld shows who may write there"),
        _ => cannot(&error),
    })?;
    let metadata = file.metadata().map_err(|error| cannot(&error))?;
    let kind = metadata.file_type();
    if platform::is_pipe_or_device(kind) {
        return Ok(Some(file));
    }
    if !kind.is_file() {
        return Err(cannot(&"it is not a regular file"));
    }
    if !platform::lock(&file) {
        return Ok(None);
    }
    let mut begin = Vec::new();
    file.by_ref().take(HEADER_START.len() as u64 + 1).read_to_end(&mut begin).map_err(|error| cannot(&error))?;
    let behind = begin.strip_prefix(HEADER_START);
    let is_capture = behind.is_some_and(|behind| matches!(behind, [] | [b' ' | b'\r' | b'\n']));
    if !begin.is_empty() && !is_capture {
        return Err(cannot(&"the file exists and is not a capture")
            .with_hint("choose another name, or remove the file; only captures are overwritten"));
    }
    if !begin.is_empty() && existing == ExistingCapture::Keep {
        return Ok(None);
    }
    platform::make_private(&file)
        .map_err(|error| cannot(&error).with_hint("choose another name; a capture must be readable only by you"))?;
    file.set_len(0).and_then(|()| io::Seek::rewind(&mut file)).map_err(|error| cannot(&error))?;
    Ok(Some(file))
}

fn expand_name(path: &Path, clock: CaptureClock) -> PathBuf {
    let bytes = path.as_os_str().as_encoded_bytes();
    if !bytes.contains(&b'%') {
        return path.to_owned();
    }
    let mut name = OsString::new();
    let mut parts = path.to_string_lossy().into_owned();
    while let Some(at) = parts.find('%') {
        name.push(&parts[..at]);
        let sign = parts[at + 1..].chars().next();
        match sign {
            Some('p') => name.push(std::process::id().to_string()),
            // Some file systems do not allow colons in names.
            Some('t') => name.push(clock.started()[..19].replace(':', "-")),
            Some('%') => name.push("%"),
            other => name.push(format!("%{}", other.map_or(String::new(), String::from))),
        }
        parts = parts[at + 1 + sign.map_or(0, char::len_utf8)..].to_owned();
    }
    name.push(parts);
    name.into()
}

/// Returns the highest number among the captures with this name, so that the one with the highest number is the newest.
fn highest_number(path: &Path) -> u64 {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stem = path.file_stem().unwrap_or_default().as_encoded_bytes();
    let number = |name: &Path| -> Option<u64> {
        let rest = name.file_stem()?.as_encoded_bytes().strip_prefix(stem)?.strip_prefix(b".")?;
        let digits = std::str::from_utf8(rest).ok().filter(|_| name.extension() == path.extension())?;
        digits.parse().ok().filter(|number| *number < u64::MAX / 2)
    };
    // If the folder cannot be listed, every number is tried from the first.
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| number(Path::new(&name))).max().unwrap_or(1).max(1)
}

/// Adds a number to a file name: `a/b.wire` becomes `a/b.2.wire`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or(OsStr::new("capture")).to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

const HEADER_START: &[u8] = b"wire 1";

/// The maximum number of numbered names to try: more than the servers that any host starts at once under one name, and
/// enough to find a free number in a folder that cannot be listed.
const MAX_NUMBERED: u64 = 999;
