//! The first bytes of an input -> its format.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use barewire_proto::transcript::{Entry, WireError, WireFault, read_line};

use super::Format;
use super::host_log::Evidence;

/// Returns the format of an input that begins with the bytes `seen`, or `None` if more bytes are needed. If `is_whole`
/// is set, there are no more bytes.
///
/// On stdin, a line with a time and a level is not enough for the log of a host: it may be the output of a server. A
/// server must not write such lines, so they must be shown.
pub(super) fn recognize(seen: &[u8], is_whole: bool, is_file: bool) -> Option<Format> {
    let text = seen.strip_prefix(BOM).unwrap_or(seen);
    let (first, has_more) = match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&text[..end], true),
        None => (text, is_whole),
    };
    if !has_more && (BOM.starts_with(seen) || WIRE.starts_with(first) || first.starts_with(WIRE)) {
        return None;
    }
    if is_header(first) {
        return Some(Format::Wire);
    }
    match (starts_as_har(text), is_whole) {
        (None, false) => return None,
        (Some(true), _) => return Some(Format::Har),
        (None | Some(false), _) => {}
    }
    // A line of a log begins with a digit or a bracket; a message begins with a brace.
    if !has_more && !is_file && !matches!(first.first(), Some(b'0'..=b'9' | b'[')) {
        return Some(Format::Lines);
    }
    if !has_more {
        return None;
    }
    let mut is_log = false;
    for line in text.split(|byte| *byte == b'\n') {
        match Evidence::of(line) {
            Evidence::Mcp => return Some(Format::HostLog),
            Evidence::AnyLog => is_log = true,
            Evidence::None if line.trim_ascii_start().starts_with(b"{") => return Some(Format::Lines),
            Evidence::None => {}
        }
    }
    Some(if is_log && is_file { Format::HostLog } else { Format::Lines })
}

/// Returns the format of a file by its name and its first lines; `None` if it cannot be read.
pub fn recognize_file(path: &Path) -> Option<Format> {
    if let Some(format) = Format::of_extension(path) {
        return Some(format);
    }
    let mut begin = Vec::new();
    File::open(path).ok()?.take(RECOGNIZED_LENGTH).read_to_end(&mut begin).ok()?;
    recognize(&begin, true, true)
}

fn is_header(line: &[u8]) -> bool {
    match read_line(line, 1) {
        // A newer version is still a transcript, even though we cannot read it.
        Ok(Entry::Header(_)) | Err(WireError { fault: WireFault::NewerVersion, .. }) => true,
        _ => false,
    }
}

/// Whether a text begins with an object whose first member is `log`, as a HAR file does; `None` if the text is too
/// short.
fn starts_as_har(text: &[u8]) -> Option<bool> {
    let mut rest = text;
    for token in [b"{".as_slice(), b"\"log\"", b":", b"{"] {
        rest = rest.trim_ascii_start();
        match rest.strip_prefix(token) {
            Some(behind) => rest = behind,
            None if token.starts_with(rest) => return None,
            None => return Some(false),
        }
    }
    Some(true)
}

/// The length of the beginning of a file by which its format is recognized.
const RECOGNIZED_LENGTH: u64 = 64 * 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The start of a transcript's header.
const WIRE: &[u8] = b"wire ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognized_by_their_first_lines() {
        let message = "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n";
        let claude = "2026-07-28T09:30:00.1Z [info] [shop] Initializing server...\n";
        let code = "2026-07-28 09:30:00.125 [info] Connection state: Starting\n";
        let sent = "2026-07-28 09:30:00.125 [debug] [editor -> server] {}\n";
        for (text, file, stdin) in [
            ("wire 1\n", Format::Wire, Format::Wire),
            ("\u{feff}wire 1 a=b\n> x\n", Format::Wire, Format::Wire),
            ("wire 99\n", Format::Wire, Format::Wire),
            ("wires\n", Format::Lines, Format::Lines),
            (message, Format::Lines, Format::Lines),
            ("", Format::Lines, Format::Lines),
            ("[]\n", Format::Lines, Format::Lines),
            ("noise\n{\n", Format::Lines, Format::Lines),
            ("{ \"log\" :\n {\"version\"", Format::Har, Format::Har),
            ("{\"log\":1}", Format::Lines, Format::Lines),
            (claude, Format::HostLog, Format::HostLog),
            (&format!("noise\n{claude}"), Format::HostLog, Format::HostLog),
            (code, Format::HostLog, Format::Lines),
            (&format!("{code}{sent}"), Format::HostLog, Format::HostLog),
            // A server that logs to its stdout.
            (&format!("{code}{message}"), Format::Lines, Format::Lines),
        ] {
            assert_eq!(recognize(text.as_bytes(), true, true), Some(file), "{text:?}");
            assert_eq!(recognize(text.as_bytes(), true, false), Some(stdin), "{text:?}");
            // Fewer bytes are either not enough, or give the same format.
            for end in 0..text.len() {
                let format = recognize(&text.as_bytes()[..end], false, true);
                let is_later_line = text.as_bytes()[..end].contains(&b'\n');
                assert!(is_later_line || format.is_none_or(|format| format == file), "{text:?} up to {end}");
            }
        }
    }

    /// A server that prints a banner and then waits must be seen.
    #[test]
    fn a_banner_on_stdin_is_shown_at_once() {
        assert_eq!(recognize(b"Starting", false, false), Some(Format::Lines));
        assert_eq!(recognize(b"{\"j", false, false), Some(Format::Lines));
        assert_eq!(recognize(b"{", false, false), None);
    }
}
