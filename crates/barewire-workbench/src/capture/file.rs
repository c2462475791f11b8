//! Opens the file for a capture. Only its owner can read it, one process writes it, and only captures are replaced.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::CaptureClock;
use crate::{Error, platform};

/// Opens the file for a capture, and returns it with its actual path.
///
/// An existing file is overwritten only if it is empty or a capture, and belongs to the user; its mode is narrowed. If
/// another process is writing to the file, as when a host starts a server twice, the name of the second capture ends in
/// `-2`. In a name, `%p` is the id of this process, `%t` the start time, and `%%` a percent sign.
pub(super) fn create(path: &Path, clock: CaptureClock) -> Result<(File, PathBuf), Error> {
    let path = expand_name(path, clock);
    for number in 1..=MAX_NUMBERED {
        let path = if number == 1 { path.clone() } else { numbered(&path, number) };
        if let Some(file) = open(&path)? {
            return Ok((file, path));
        }
    }
    Err(Error::new(format!("cannot record to {}: {MAX_NUMBERED} processes already record there", path.display())))
}

/// Opens a file for writing. Returns `None` if another process is writing to it.
fn open(path: &Path) -> Result<Option<File>, Error> {
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

/// Adds a number to a file name: `a/b.wire` becomes `a/b-2.wire`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or(OsStr::new("capture")).to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

const HEADER_START: &[u8] = b"wire 1";

/// The maximum number in a numbered name: more servers than any host starts at once under one name.
const MAX_NUMBERED: usize = 99;
