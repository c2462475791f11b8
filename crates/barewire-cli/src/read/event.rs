//! What else happened on a wire, as HTTP heads, stderr and the end of a program -> a line each.

use std::io::{self, Write};
use std::time::Duration;

use barewire_proto::transcript::{Bytes, Event, Note, Stream};
use serde_json::Value;

use super::filter::Filter;
use super::text::Ways;
use crate::output::{Output, Tone, safe_json, shown};
use barewire_workbench::frames::WireItem;

/// Something that is no frame.
pub(super) struct Happening<'a> {
    channel: &'a str,
    time: Option<Duration>,
    /// Of a stream, if it is of one.
    stream: Option<Stream>,
    what: What<'a>,
}

enum What<'a> {
    Stderr(&'a [u8]),
    /// A word, and what stands behind it.
    Event(&'static str, String),
}

impl<'a> Happening<'a> {
    /// `None` for frames, and for what only matters to how frames are cut.
    pub(super) fn of(sight: &WireItem<'a>) -> Option<Self> {
        match sight {
            WireItem::Header(_) | WireItem::Frame(_) | WireItem::Endpoint { .. } => None,
            WireItem::Stderr(Bytes { channel, payload, marks, .. }) => Some(Self {
                channel: channel.as_str(),
                time: marks.time,
                stream: Some(Stream::Stderr),
                what: What::Stderr(payload),
            }),
            WireItem::Event(Event { channel, note, marks }) => {
                let (stream, word, text) = told(note)?;
                Some(Self { channel: channel.as_str(), time: marks.time, stream, what: What::Event(word, text) })
            }
        }
    }

    pub(super) fn is_wanted(&self, filter: &Filter) -> bool {
        let text = match &self.what {
            What::Stderr(text) => text,
            What::Event(_, text) => text.as_bytes(),
        };
        filter.wants_event(self.stream, text, self.is_bad())
    }

    /// The program failed, or HTTP did.
    pub(super) fn is_bad(&self) -> bool {
        match &self.what {
            What::Event("exit", how) => how != "code 0",
            What::Event("head", line) => status(line.as_bytes()).is_some_and(|status| status >= 400),
            _ => false,
        }
    }

    /// Below the time and the direction of frames.
    pub(super) fn line(&self, output: &mut Output, ways: &mut Ways) -> io::Result<()> {
        let time = self.time.map_or(String::new(), |time| format!("{:>10.6} ", time.as_secs_f64()));
        let (sigil, text) = match &self.what {
            What::Stderr(text) => ('!', shown(text, LONGEST)),
            What::Event("note", text) => ('@', shown(text.as_bytes(), LONGEST)),
            What::Event(word, text) => ('@', format!("{word} {}", shown(text.as_bytes(), LONGEST))),
        };
        let text = output.paint(if self.is_bad() { Tone::Bad } else { Tone::Faint }, text.trim_end());
        writeln!(output, "{:>17}{time}{}{text}", "", ways.column(sigil, self.channel))
    }

    pub(super) fn json(&self, output: &mut Output) -> io::Result<()> {
        let kind = match self.what {
            What::Stderr(_) => "stderr",
            What::Event(word, _) => word,
        };
        write!(output, "{{\"event\":\"{kind}\"")?;
        if let Some(stream @ (Stream::ToServer | Stream::ToClient)) = self.stream {
            write!(output, ",\"stream\":\"{}\"", stream.sigil())?;
        }
        if !self.channel.is_empty() {
            write!(output, ",\"channel\":\"{}\"", self.channel)?;
        }
        if let Some(time) = self.time {
            write!(output, ",\"time\":{:.6}", time.as_secs_f64())?;
        }
        let text = match &self.what {
            What::Stderr(text) => String::from_utf8_lossy(text).into_owned(),
            What::Event(_, text) => text.clone(),
        };
        if !text.is_empty() {
            let quoted = Value::String(text).to_string();
            write!(output, ",\"text\":{}", safe_json(&quoted))?;
        }
        writeln!(output, "}}")
    }
}

fn told(note: &Note) -> Option<(Option<Stream>, &'static str, String)> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let told = match note {
        Note::Framing(_) | Note::Read(_) => return None,
        Note::Open(what) => (None, "open", lossy(what)),
        Note::Head(stream, line) => (Some(*stream), "head", format!("{} {}", stream.sigil(), lossy(line))),
        Note::Gap(stream, missing) => (Some(*stream), "gap", format!("{} {missing}", stream.sigil())),
        Note::Eof(stream) => (Some(*stream), "eof", stream.sigil().to_string()),
        Note::ExitCode(code) => (None, "exit", format!("code {code}")),
        Note::ExitSignal(signal) => (None, "exit", format!("signal {signal}")),
        note => (None, "note", lossy(&note.text())),
    };
    Some(told)
}

/// The number in a status line, with or without the direction before it.
pub(super) fn status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let line = line.strip_prefix("< ").unwrap_or(line);
    line.starts_with("HTTP/").then(|| line.split(' ').nth(1)?.parse().ok())?
}

/// A line of a log that is longer than this is cut.
const LONGEST: usize = 160;
