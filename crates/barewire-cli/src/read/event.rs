//! Events of a transcript, such as HTTP heads, stderr and the exit of the program -> one line each.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use barewire_proto::transcript::{Bytes, Event, Stream};
use serde_json::Value;

use super::json::{begin, write_place};
use super::text::DirectionColumn;
use crate::output::{Output, Tone, safe_json, shown};
use barewire_workbench::filter::Filter;
use barewire_workbench::frames::WireItem;
use barewire_workbench::rows::{event_parts, status};

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
                let (stream, word, text) = event_parts(note)?;
                let text = Cow::Owned(text.into_bytes());
                Some(Self { channel: channel.as_str(), time: marks.time, stream, word, text })
            }
        }
    }

    pub(super) fn is_wanted(&self, filter: &Filter) -> bool {
        filter.matches_event(self.stream, &self.text, self.is_failure())
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

    pub(super) fn json(&self, output: &mut Output, file: Option<&str>) -> io::Result<()> {
        begin(output, file)?;
        write!(output, "\"event\":\"{}\"", self.word)?;
        let stream = self.stream.filter(|stream| *stream != Stream::Stderr);
        write_place(output, stream, self.channel, self.time)?;
        if !self.text.is_empty() {
            let quoted = Value::String(String::from_utf8_lossy(&self.text).into_owned()).to_string();
            write!(output, ",\"text\":{}", safe_json(&quoted))?;
        }
        writeln!(output, "}}")
    }
}

/// The maximum number of characters of a text to show.
const MAX_TEXT: usize = 160;
