//! A capture -> what one client and one server said to each other, in order, ready to be said again.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::mcp::Side;
use barewire_proto::transcript::{Closed, Entry, Framing, Note, Stream};

use super::channels::Channels;
use super::message::Message;
use crate::frames::{FrameLimits, Sink, Streams, WireFrame, WireItem, read_entries};
use crate::{Advice, Error};

/// One conversation of a capture: what one client and one server said to each other, in order.
#[derive(Debug)]
pub struct Script {
    /// The framing of a stream; `Body` if it went over HTTP.
    pub(super) framing: Framing,
    pub(super) frames: Vec<RecordedFrame>,
    /// Bytes to the server behind its last frame.
    pub(super) tail: Vec<u8>,
    /// How the server ended.
    pub(super) ended: Option<ExitStatus>,
}

/// A frame of the capture.
#[derive(Debug)]
pub(super) struct RecordedFrame {
    /// Its number in the capture, from 1.
    pub(super) number: u64,
    pub(super) side: Side,
    pub(super) time: Option<Duration>,
    /// Its bytes on the stream with their framing, and with those before it that belong to no frame.
    pub(super) raw: Vec<u8>,
    /// The frame itself.
    pub(super) text: Vec<u8>,
    pub(super) messages: Vec<Message>,
    /// Over HTTP, the exchange that it is part of.
    pub(super) exchange: String,
    /// Whether, over HTTP, the client closed the connection and waits for no answer.
    pub(super) given_up: bool,
}

/// How a server process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// The conversation of a capture that is wanted, and what is accepted in it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ScriptOptions<'a> {
    /// The channel of the conversation; over HTTP, that of any exchange of a session. `None` takes the only conversation there is.
    pub channel: Option<&'a str>,
    /// Whether frames in which a secret was replaced are taken as they are. Any answer then matches what was replaced.
    pub allow_redacted: bool,
    /// The longest frame that is taken, in bytes.
    pub max_frame: usize,
}

impl Default for ScriptOptions<'_> {
    fn default() -> Self {
        Self { channel: None, allow_redacted: false, max_frame: DEFAULT_LIMIT }
    }
}

impl Script {
    /// Reads one conversation of a capture. `warn` is called with what is left out because it cannot be read.
    pub fn load(file: &Path, options: ScriptOptions<'_>, warn: &dyn Fn(&Error)) -> Result<Self, Error> {
        let name = file.display();
        let cannot = |why: &dyn Display| Error::new(format!("cannot read {name}: {why}"));
        let mut text = Vec::new();
        let opened = File::open(file).map_err(|error| cannot(&error).with_hint("give the path of a capture"))?;
        opened.take(MAX_CAPTURE + 1).read_to_end(&mut text).map_err(|error| cannot(&error))?;
        if text.len() as u64 > MAX_CAPTURE {
            return Err(cannot(&format_args!("it is longer than {MAX_CAPTURE} bytes"))
                .with_hint("a capture is replayed from memory: cut it to what matters"));
        }
        let entries = read_entries(&name.to_string(), &text, warn).map_err(|error| {
            cannot(&error).with_hint("a .wire capture is expected; docs/wire-format.md describes the format")
        })?;
        Self::of(&entries, options).map_err(|error| error.about(&format!("cannot replay {name}")))
    }

    /// Takes one conversation of the entries of a capture.
    pub fn of(entries: &[Entry], options: ScriptOptions<'_>) -> Result<Self, Error> {
        let channels = Channels::of(entries, options.channel)?;
        let mut collector = Collector::new(&channels, options.allow_redacted);
        let mut streams = Streams::new(FrameLimits { frame: options.max_frame, depth: usize::MAX });
        for entry in entries {
            collector.look(entry)?;
            streams.entry(entry, &mut collector)?;
        }
        streams.finish(&mut collector)?;
        let Collector { framing, frames, sent, cut, ended, .. } = collector;
        if !frames.iter().any(|frame| frame.side == Side::Client) {
            return Err(Error::new("the client says nothing in it").with_advice(Advice::ReadCapture));
        }
        Ok(Self { framing, frames, tail: sent[cut..].to_vec(), ended })
    }

    /// The framing on the stdin and stdout of a program.
    pub(super) fn stream_framing(&self) -> Framing {
        match self.framing {
            Framing::Body => Framing::Lines,
            framing => framing,
        }
    }
}

/// Gathers the frames of one conversation.
struct Collector<'a> {
    channels: &'a Channels,
    redacted: bool,
    framing: Framing,
    frames: Vec<RecordedFrame>,
    /// All bytes to the server.
    sent: Vec<u8>,
    /// How many of them are in frames.
    cut: usize,
    ended: Option<ExitStatus>,
}

impl<'a> Collector<'a> {
    fn new(channels: &'a Channels, redacted: bool) -> Self {
        Self {
            channels,
            redacted,
            framing: if channels.over_http { Framing::Body } else { Framing::Lines },
            frames: Vec::new(),
            sent: Vec::new(),
            cut: 0,
            ended: None,
        }
    }

    /// Takes from an entry what is not part of a frame.
    fn look(&mut self, entry: &Entry) -> Result<(), Error> {
        match entry {
            Entry::Bytes(bytes) if self.channels.has(bytes.channel.as_str()) => {
                if bytes.stream != Stream::Stderr && bytes.marks.truncated.is_some() {
                    let what = format!("frame {} is truncated", self.next_number());
                    return Err(Error::new(what).with_hint("capture it again without a limit"));
                }
                if bytes.stream == Stream::ToServer && !self.channels.over_http {
                    self.sent.extend_from_slice(&bytes.payload);
                    self.sent.extend_from_slice(bytes.end.as_bytes());
                }
            }
            Entry::Event(event) if self.channels.has(event.channel.as_str()) => match &event.note {
                Note::Gap(stream, missing) => {
                    let (to, number) = (stream.sigil(), self.next_number());
                    let what = format!("{missing} bytes of {to} are missing before frame {number}");
                    let hint = "what came after that cannot be known: capture it again";
                    return Err(Error::new(what).with_hint(hint));
                }
                Note::Closed(Closed::Connection) => {
                    let exchange = event.channel.as_str();
                    let asks = |frame: &&mut RecordedFrame| frame.side == Side::Client && frame.exchange == exchange;
                    if let Some(frame) = self.frames.iter_mut().rev().find(asks) {
                        frame.given_up = true;
                    }
                }
                // Over HTTP every body has its own.
                Note::Framing(_) if self.channels.over_http => {}
                Note::Framing(framing @ (Framing::Lines | Framing::ContentLength)) => self.framing = *framing,
                Note::Framing(framing) => {
                    let what = format!("its framing is {}, which no program reads on stdin", framing.as_str());
                    return Err(Error::new(what).with_advice(Advice::ReadCapture));
                }
                Note::ExitCode(code) => self.ended = Some(ExitStatus::Code(*code)),
                Note::ExitSignal(signal) => self.ended = Some(ExitStatus::Signal(*signal)),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// The number of the next frame: exact with one channel, about right with several.
    fn next_number(&self) -> u64 {
        self.frames.last().map_or(1, |frame| frame.number + 1)
    }

    fn frame(&mut self, seen: &WireFrame<'_>, stream: Stream) -> Result<(), Error> {
        let number = seen.number;
        let place = seen.place.filter(|place| place.redacted && !self.redacted);
        if place.is_some() {
            let what = format!("something in frame {number} was replaced to keep a secret");
            return Err(Error::new(what).with_advice(Advice::AllowRedacted));
        }
        let Some(text) = seen.bytes else {
            if seen.length > 0 {
                let what = format!("frame {number} is longer than {} bytes", seen.length);
                return Err(Error::new(what).with_advice(Advice::RaiseFrameLimit));
            }
            // A header that frames nothing; its bytes are sent with the next frame.
            return Ok(());
        };
        let place = seen.place.filter(|_| self.channels.over_http);
        let exchange = place.map_or(String::new(), |place| place.channel.to_owned());
        let (side, raw) = match stream {
            Stream::ToServer if self.channels.over_http => (Side::Client, text.to_vec()),
            Stream::ToServer => (Side::Client, self.cut(seen)),
            _ => (Side::Server, Vec::new()),
        };
        let (time, messages) = (seen.place.and_then(|place| place.time), Message::in_frame(text));
        let text = text.to_vec();
        self.frames.push(RecordedFrame { number, side, time, raw, text, messages, exchange, given_up: false });
        Ok(())
    }

    /// The bytes from the end of the frame before to the end of this one.
    fn cut(&mut self, seen: &WireFrame<'_>) -> Vec<u8> {
        let end = usize::try_from(seen.offset + seen.length).unwrap_or(usize::MAX).min(self.sent.len());
        let end = match self.framing {
            Framing::ContentLength => end,
            _ => {
                let newline = self.sent[end..].iter().position(|byte| *byte == b'\n');
                newline.map_or(self.sent.len(), |at| end + at + 1)
            }
        };
        let from = self.cut;
        self.cut = end.max(from);
        self.sent[from..self.cut].to_vec()
    }
}

impl Sink for Collector<'_> {
    fn take(&mut self, sight: &WireItem<'_>) -> Result<bool, Error> {
        let WireItem::Frame(seen) = sight else { return Ok(true) };
        let Some(place) = seen.place.filter(|place| self.channels.has(place.channel)) else {
            return Ok(true);
        };
        self.frame(seen, place.stream)?;
        Ok(true)
    }
}

/// The longest capture that is replayed, in bytes. It is kept in memory a few times over: as bytes, and as values.
const MAX_CAPTURE: u64 = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read;

    use super::*;

    fn script(text: &str) -> Result<Script, Error> {
        with(text, None, false)
    }

    fn with(text: &str, channel: Option<&str>, allow_redacted: bool) -> Result<Script, Error> {
        let options = ScriptOptions { channel, allow_redacted, max_frame: 1000 };
        Script::of(&read(text.as_bytes()).expect("a transcript"), options)
    }

    fn raw(script: &Script) -> Vec<String> {
        let sent = script.frames.iter().filter(|frame| frame.side == Side::Client);
        sent.map(|frame| String::from_utf8_lossy(&frame.raw).into_owned()).collect()
    }

    #[test]
    fn every_byte_to_the_server_is_kept() {
        let text = "wire 1\n>(crlf) {}\n>\n>(noeol) {\"a\"\n>(crlf) :1}\n< {}\n>(esc) \\xff\n> \n>(noeol) rest\n";
        let script = script(text).expect("fit");
        assert_eq!(raw(&script), ["{}\r\n", "\n{\"a\":1}\r\n", "\u{fffd}\n", "\nrest"]);
        assert_eq!(script.tail, b"");
        let numbers: Vec<u64> = script.frames.iter().map(|frame| frame.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn frames_with_headers_are_cut_where_they_end() {
        let text = "@ framing content-length\n>(crlf) Content-Length: 2\n>(crlf)\n>(crlf noeol) {}Content-Length: 3\n>(crlf)\n>(noeol) {} \n";
        let text = text.replace("(crlf noeol)", "(crlf)");
        let script = script(&text).expect("fit");
        assert_eq!(raw(&script), ["Content-Length: 2\r\n\r\n{}", "Content-Length: 3\r\n\r\n{} "]);
    }

    #[test]
    fn blank_lines_behind_the_last_frame_are_the_tail() {
        assert_eq!(script("> {}\n>\n>\n").expect("fit").tail, b"\n\n");
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let unfit = |text: &str| script(text).expect_err("unfit").to_string();
        let hash = "0".repeat(64);
        assert_eq!(unfit(&format!("> {{}}\n<(truncated=9:{hash}) {{\n")), "frame 2 is truncated");
        assert_eq!(unfit("> {}\n@ gap < 7\n"), "7 bytes of < are missing before frame 2");
        assert_eq!(unfit(&format!("> \"{}\"\n", "x".repeat(2000))), "frame 1 is longer than 2002 bytes");
        let replaced = "something in frame 1 was replaced to keep a secret";
        assert_eq!(unfit(">(redacted) {\"a\":\"<redacted-1>\"}\n"), replaced);
        assert!(with(">(redacted) {}\n", None, true).is_ok());
        assert_eq!(unfit("@ framing sse\n> data: {}\n"), "its framing is sse, which no program reads on stdin");
        assert_eq!(unfit("< {}\n"), "the client says nothing in it");
        assert_eq!(unfit(""), "there are no frames in it");
    }

    #[test]
    fn of_several_channels_one_is_named() {
        let two = ">a {\"a\":1}\n>b {\"b\":1}\n<b(redacted) {}\n@b exit code 3\n";
        assert_eq!(script(two).expect_err("two").hint().expect("a hint"), "name a channel: a, b");
        let script = with(two, Some("a"), false).expect("fit");
        assert_eq!((raw(&script), script.ended), (vec!["{\"a\":1}\n".to_owned()], None));
        assert_eq!(with(two, Some("c"), false).expect_err("none").to_string(), "it has no channel c");
        assert_eq!(with(two, Some("b"), true).expect("fit").ended, Some(ExitStatus::Code(3)));
    }
}
