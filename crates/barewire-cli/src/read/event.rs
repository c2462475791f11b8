//! Events of a transcript, such as HTTP heads, stderr and the exit of the program -> one line each.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use barewire_proto::transcript::{Bytes, Event, Note, Stream};
use serde_json::Value;

use super::filter::Filter;
use super::json::write_place;
use super::text::DirectionColumn;
use crate::output::{Output, Tone, safe_json, shown};
use barewire_workbench::frames::WireItem;

/// An item of a transcript that is not a frame.
pub(super) struct EventLine<'a> {
    channel: &'a str,
    time: Option<Duration>,
    stream: Option<Stream>,
    /// `stderr`, or the first word of the event in the transcript.
    word: &'static str,
    text: Cow<'a, [u8]>,
}

impl<'a> EventLine<'a> {
    /// Converts an item to a line. Returns `None` for frames, and for events that only concern how the stream is cut
    /// into frames.
    pub(super) fn of(item: &WireItem<'a>) -> Option<Self> {
        match item {
            WireItem::Header(_) | WireItem::Frame(_) | WireItem::Endpoint { .. } => None,
            WireItem::Stderr(Bytes { channel, payload, marks, .. }) => {
                let (channel, time) = (channel.as_str(), marks.time);
                Some(Self { channel, time, stream: Some(Stream::Stderr), word: "stderr", text: payload.into() })
            }
            WireItem::Event(Event { channel, note, marks }) => {
                let (stream, word, text) = parts(note)?;
                let text = Cow::Owned(text.into_bytes());
                Some(Self { channel: channel.as_str(), time: marks.time, stream, word, text })
            }
        }
    }

    pub(super) fn is_wanted(&self, filter: &Filter) -> bool {
        filter.wants_event(self.stream, &self.text, self.is_failure())
    }

    /// Whether the event is a failed exit of the program, or an HTTP status of 400 or more.
    fn is_failure(&self) -> bool {
        match self.word {
            "exit" => *self.text != *b"code 0",
            "head" => status(&self.text).is_some_and(|status| status >= 400),
            _ => false,
        }
    }

    /// Writes the event as a line. Its time and direction are aligned with those of frames.
    pub(super) fn line(&self, output: &mut Output, directions: &mut DirectionColumn) -> io::Result<()> {
        let time = self.time.map_or(String::new(), |time| format!("{:>10.6} ", time.as_secs_f64()));
        let text = shown(&self.text, MAX_TEXT);
        let (sigil, text) = match self.word {
            "stderr" => ('!', text),
            "note" => ('@', text),
            word => ('@', format!("{word} {text}")),
        };
        let text = output.paint(if self.is_failure() { Tone::Bad } else { Tone::Faint }, text.trim_end());
        writeln!(output, "{:>17}{time}{}{text}", "", directions.cell(sigil, self.channel))
    }

    pub(super) fn json(&self, output: &mut Output) -> io::Result<()> {
        write!(output, "{{\"event\":\"{}\"", self.word)?;
        let stream = self.stream.filter(|stream| *stream != Stream::Stderr);
        write_place(output, stream, self.channel, self.time)?;
        if !self.text.is_empty() {
            let quoted = Value::String(String::from_utf8_lossy(&self.text).into_owned()).to_string();
            write!(output, ",\"text\":{}", safe_json(&quoted))?;
        }
        writeln!(output, "}}")
    }
}

/// Returns the stream of an event, its first word, and the rest of its text.
fn parts(note: &Note) -> Option<(Option<Stream>, &'static str, String)> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(match note {
        Note::Framing(_) | Note::Read(_) => return None,
        Note::Open(argv) => (None, "open", lossy(argv)),
        Note::Head(stream, line) => (Some(*stream), "head", format!("{} {}", stream.sigil(), lossy(line))),
        Note::Gap(stream, missing) => (Some(*stream), "gap", format!("{} {missing}", stream.sigil())),
        Note::Eof(stream) => (Some(*stream), "eof", stream.sigil().to_string()),
        Note::ExitCode(code) => (None, "exit", format!("code {code}")),
        Note::ExitSignal(signal) => (None, "exit", format!("signal {signal}")),
        note => (None, "note", lossy(&note.text())),
    })
}

/// Returns the status code of an HTTP status line, which may start with its direction.
pub(super) fn status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let line = line.strip_prefix("< ").unwrap_or(line);
    line.starts_with("HTTP/").then(|| line.split(' ').nth(1)?.parse().ok())?
}

/// The maximum number of characters of a text to show.
const MAX_TEXT: usize = 160;
