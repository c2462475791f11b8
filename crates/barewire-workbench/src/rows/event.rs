//! The events of a transcript -> the words that describe them.

use barewire_proto::transcript::{Note, Stream};

/// Returns the stream of an event, its first word, and the rest of its text.
pub fn event_parts(note: &Note) -> Option<(Option<Stream>, &'static str, String)> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(match note {
        Note::Framing(_) | Note::Read(_) => return None,
        Note::Open(argv) => (None, "open", lossy(argv)),
        Note::Head(stream, line) => (Some(*stream), "head", format!("{} {}", stream.sigil(), lossy(line))),
        Note::Gap(stream, missing) => (Some(*stream), "gap", format!("{} {missing}", stream.sigil())),
        Note::Eof(stream) => (Some(*stream), "eof", stream.sigil().to_string()),
        Note::Log(line) => (None, "log", lossy(line)),
        Note::ExitCode(code) => (None, "exit", format!("code {code}")),
        Note::ExitSignal(signal) => (None, "exit", format!("signal {signal}")),
        note => (None, "note", lossy(&note.text())),
    })
}

/// Returns the status code of an HTTP status line, which may start with its direction.
pub fn status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let line = line.strip_prefix("< ").unwrap_or(line);
    line.starts_with("HTTP/").then(|| line.split(' ').nth(1)?.parse().ok())?
}
