//! A path -> the file of a capture: nobody else can read it, nobody else writes to it, and nothing but a capture is overwritten.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::CaptureClock;
use crate::{Error, platform};

/// Opens the file, and says where it is.
///
/// A file that is there is overwritten only if it is empty or a capture. One that another tap is writing to is left alone: hosts
/// start a server twice, and then the second capture has `-2` at the end of its name. In a name, `%p` is the number of this
/// process, `%t` the time, and `%%` a percent sign.
pub(super) fn create(path: &Path, clock: CaptureClock) -> Result<(File, PathBuf), Error> {
    let path = fill_in(path, clock);
    for number in 1..=MOST_AT_ONCE {
        let path = if number == 1 { path.clone() } else { numbered(&path, number) };
        if let Some(file) = open(&path)? {
            return Ok((file, path));
        }
    }
    Err(Error::new(format!("cannot record to {}: {MOST_AT_ONCE} others do", path.display())))
}

/// `None` if somebody else is writing to it.
fn open(path: &Path) -> Result<Option<File>, Error> {
    let cannot = |why: &dyn std::fmt::Display| Error::new(format!("cannot record to {}: {why}", path.display()));
    // Not truncated before it is known what it is.
    let mut options = platform::private_options();
    options.read(true).write(true).create(true).truncate(false);
    let opened = options.open(path).or_else(|error| match error.kind() {
        // A pipe or a terminal that can only be written to.
        io::ErrorKind::PermissionDenied => OpenOptions::new().write(true).open(path).map_err(|_| error),
        _ => Err(error),
    });
    let mut file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => cannot(&"there is no such folder").with_hint("make the folder first"),
        io::ErrorKind::PermissionDenied => cannot(&error).with_hint("ls -ld shows who may write there"),
        _ => cannot(&error),
    })?;
    let metadata = file.metadata().map_err(|error| cannot(&error))?;
    let kind = metadata.file_type();
    if platform::is_pipe_or_device(kind) {
        return Ok(Some(file));
    }
    if !kind.is_file() {
        return Err(cannot(&"it is no file"));
    }
    if !platform::lock(&file) {
        return Ok(None);
    }
    let mut begin = Vec::new();
    file.by_ref().take(BEGIN.len() as u64 + 1).read_to_end(&mut begin).map_err(|error| cannot(&error))?;
    let behind = begin.strip_prefix(BEGIN);
    let is_capture = behind.is_some_and(|behind| matches!(behind, [] | [b' ' | b'\r' | b'\n']));
    if !begin.is_empty() && !is_capture {
        return Err(cannot(&"it is there already, and is no capture")
            .with_hint("give another name, or remove the file; only captures are overwritten"));
    }
    file.set_len(0).and_then(|()| io::Seek::rewind(&mut file)).map_err(|error| cannot(&error))?;
    platform::make_private(&file, &metadata).map_err(|error| {
        cannot(&format_args!("others can read it, and that cannot be changed: {error}"))
            .with_hint("give another name, or remove the file")
    })?;
    Ok(Some(file))
}

fn fill_in(path: &Path, clock: CaptureClock) -> PathBuf {
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
            // A colon is not allowed in names everywhere.
            Some('t') => name.push(clock.started()[..19].replace(':', "-")),
            Some('%') => name.push("%"),
            other => name.push(format!("%{}", other.map_or(String::new(), String::from))),
        }
        parts = parts[at + 1 + sign.map_or(0, char::len_utf8)..].to_owned();
    }
    name.push(parts);
    name.into()
}

/// `a/b.wire` becomes `a/b-2.wire`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or(OsStr::new("capture")).to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// What the first line of a capture begins with.
const BEGIN: &[u8] = b"wire 1";

/// More servers of one name are not started at once by anybody.
const MOST_AT_ONCE: usize = 99;
