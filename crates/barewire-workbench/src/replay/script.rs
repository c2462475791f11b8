//! Reads from a capture the frames that one client and one server sent to each other, in order.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::mcp::Side;
use barewire_proto::transcript::{Entry, Framing, Note, Stream, StreamClose};

use super::channels::Channels;
use super::message::Message;
use crate::frames::{ExitStatus, FrameLimits, RecordedEnd, Sink, Streams, WireFrame, WireItem, read_entries};
use crate::{Advice, Error};

/// One conversation of a capture: the frames that one client and one server sent to each other, in order.
#[derive(Debug)]
pub struct Script {
    /// The framing on a stream; `Body` for HTTP.
    pub(super) framing: Framing,
    pub(super) frames: Vec<RecordedFrame>,
    /// The bytes to the server after the client's last frame.
    pub(super) tail: Vec<u8>,
    /// The exit status of the server, if the server ended by itself.
    pub(super) server_exit: Option<ExitStatus>,
    /// Whether the host ended the conversation, with a signal.
    pub(super) is_ended_by_host: bool,
    /// The index of the first frame that may be a reaction to the signal of the host, such as a farewell on stdout. It
    /// is the number of frames if there is none.
    pub(super) last_words: usize,
}

/// The position of a message in a script: the index of its frame, and its index in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MessageIndex {
    pub(super) frame: usize,
    pub(super) message: usize,
}

#[derive(Debug)]
pub(super) struct RecordedFrame {
    /// The frame's number in the capture, from 1.
    pub(super) number: u64,
    pub(super) side: Side,
    pub(super) time: Option<Duration>,
    /// The bytes on the stream: the frame with its framing, and any bytes before it that belong to no frame.
    pub(super) raw: Vec<u8>,
    /// The frame without its framing.
    pub(super) text: Vec<u8>,
    pub(super) messages: Vec<Message>,
    /// The channel of the HTTP exchange that contains the frame; empty on a stream.
    pub(super) exchange: String,
    /// Whether the client closed the HTTP connection before the response ended.
    pub(super) connection_closed: bool,
}

/// The choice of a conversation in a capture, and the limits for its frames.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ScriptOptions<'a> {
    /// The channel of the conversation, or of any of its HTTP exchanges; `None` if there is only one conversation.
    pub channel: Option<&'a str>,
    /// Whether frames with redacted secrets are accepted. If so, any received value matches a redacted one.
    pub allow_redacted: bool,
    /// The maximum length of a frame, in bytes.
    pub max_frame: usize,
}

impl Default for ScriptOptions<'_> {
    fn default() -> Self {
        Self { channel: None, allow_redacted: false, max_frame: DEFAULT_LIMIT }
    }
}

impl Script {
    /// Reads one conversation from a capture file. Calls `warn` for every part that cannot be read and is left out.
    pub fn load(file: &Path, options: ScriptOptions<'_>, warn: &dyn Fn(&Error)) -> Result<Self, Error> {
        let name = file.display();
        let cannot = |why: &dyn Display| Error::new(format!("cannot read {name}: {why}"));
        let mut text = Vec::new();
        let opened = File::open(file).map_err(|error| cannot(&error).with_hint("give the path of a capture"))?;
        opened.take(MAX_CAPTURE + 1).read_to_end(&mut text).map_err(|error| cannot(&error))?;
        if text.len() as u64 > MAX_CAPTURE {
            return Err(cannot(&format_args!("it is longer than {MAX_CAPTURE} bytes"))
                .with_hint("the whole capture must fit in memory: shorten it"));
        }
        let entries = read_entries(&name.to_string(), &text, warn).map_err(|error| {
            cannot(&error).with_hint("a .wire capture is expected; docs/wire-format.md describes the format")
        })?;
        drop(text);
        Self::from_entries(&entries, options).map_err(|error| error.about(&format!("cannot replay {name}")))
    }

    /// Extracts one conversation from the entries of a capture.
    pub fn from_entries(entries: &[Entry], options: ScriptOptions<'_>) -> Result<Self, Error> {
        let channels = Channels::of(entries, options.channel)?;
        let mut collector = FrameCollector::new(&channels, options.allow_redacted);
        let mut streams = Streams::new(FrameLimits { frame: options.max_frame, depth: usize::MAX });
        for entry in entries {
            collector.handle_entry(entry)?;
            streams.entry(entry, &mut collector)?;
        }
        streams.finish(&mut collector)?;
        let FrameCollector { framing, frames, sent, cut, end, .. } = collector;
        if !frames.iter().any(|frame| frame.side == Side::Client) {
            return Err(Error::new("it has no messages of the client").with_advice(Advice::ReadCapture));
        }
        let is_ended_by_host = end.is_by_host() && !channels.over_http;
        let goes_on =
            |frame: &RecordedFrame| frame.side == Side::Client || frame.messages.iter().any(Message::is_response);
        let last = frames.iter().rposition(goes_on).filter(|_| is_ended_by_host);
        let tail = sent[cut..].to_vec();
        let last_words = last.map_or(frames.len(), |last| last + 1);
        Ok(Self { framing, frames, tail, server_exit: end.own_exit(), is_ended_by_host, last_words })
    }

    pub(super) fn message(&self, index: MessageIndex) -> &Message {
        &self.frames[index.frame].messages[index.message]
    }

    /// Returns the number, in the capture, of the frame that contains a message.
    pub(super) fn frame_number(&self, index: MessageIndex) -> u64 {
        self.frames[index.frame].number
    }

    /// Returns the framing to use on the stdin and stdout of a program.
    pub(super) fn stream_framing(&self) -> Framing {
        match self.framing {
            Framing::Body => Framing::Lines,
            framing => framing,
        }
    }
}

struct FrameCollector<'a> {
    channels: &'a Channels,
    allow_redacted: bool,
    framing: Framing,
    frames: Vec<RecordedFrame>,
    sent: Vec<u8>,
    /// The number of bytes at the start of `sent` that are already assigned to frames.
    cut: usize,
    end: RecordedEnd,
}

impl<'a> FrameCollector<'a> {
    fn new(channels: &'a Channels, allow_redacted: bool) -> Self {
        let framing = if channels.over_http { Framing::Body } else { Framing::Lines };
        let (frames, sent, end) = (Vec::new(), Vec::new(), RecordedEnd::default());
        Self { channels, allow_redacted, framing, frames, sent, cut: 0, end }
    }

    /// Handles the parts of an entry that frames do not contain: raw bytes, marks and events.
    fn handle_entry(&mut self, entry: &Entry) -> Result<(), Error> {
        match entry {
            Entry::Bytes(bytes) if self.channels.has(bytes.channel.as_str()) => {
                if bytes.stream != Stream::Stderr && bytes.marks.truncated.is_some() {
                    let what = format!("frame {} is truncated", self.next_number());
                    return Err(Error::new(what).with_hint("record the capture again without a limit"));
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
                    let hint = "record the capture again: messages after a gap cannot be replayed";
                    return Err(Error::new(what).with_hint(hint));
                }
                Note::Closed(StreamClose::Connection) => {
                    let exchange = event.channel.as_str();
                    let asks = |frame: &&mut RecordedFrame| frame.side == Side::Client && frame.exchange == exchange;
                    if let Some(frame) = self.frames.iter_mut().rev().find(asks) {
                        frame.connection_closed = true;
                    }
                }
                // Over HTTP every body has its own framing.
                Note::Framing(_) if self.channels.over_http => {}
                Note::Framing(framing @ (Framing::Lines | Framing::ContentLength)) => self.framing = *framing,
                Note::Framing(framing) => {
                    let what = format!("its framing is {}, which no program reads on stdin", framing.as_str());
                    return Err(Error::new(what).with_advice(Advice::ReadCapture));
                }
                note => self.end.handle_note(note),
            },
            _ => {}
        }
        Ok(())
    }

    /// Returns the number of the next frame. If the capture has several channels, the number may be too low, because
    /// the frames in other channels are not counted.
    fn next_number(&self) -> u64 {
        self.frames.last().map_or(1, |frame| frame.number + 1)
    }

    fn add_frame(&mut self, frame: &WireFrame<'_>, stream: Stream) -> Result<(), Error> {
        let number = frame.number;
        if !self.allow_redacted && frame.place.is_some_and(|place| place.redacted) {
            return Err(Error::new(format!("frame {number} has a redacted secret")).with_advice(Advice::AllowRedacted));
        }
        let Some(text) = frame.bytes else {
            if frame.length > 0 {
                let what = format!("frame {number} has {} bytes, more than the limit", frame.length);
                return Err(Error::new(what).with_advice(Advice::RaiseFrameLimit));
            }
            // The frame has headers but no body: its bytes are sent with the next frame.
            return Ok(());
        };
        let place = frame.place.filter(|_| self.channels.over_http);
        let exchange = place.map_or(String::new(), |place| place.channel.to_owned());
        let (side, raw) = match stream {
            Stream::ToServer if self.channels.over_http => (Side::Client, text.to_vec()),
            Stream::ToServer => (Side::Client, self.cut_raw(frame)),
            _ => (Side::Server, Vec::new()),
        };
        let (time, messages) = (frame.place.and_then(|place| place.time), Message::in_frame(text));
        let text = text.to_vec();
        if side == Side::Client {
            self.end.handle_client_frame();
        }
        self.frames.push(RecordedFrame { number, side, time, raw, text, messages, exchange, connection_closed: false });
        Ok(())
    }

    /// Returns the bytes from the end of the previous frame to the end of this frame.
    fn cut_raw(&mut self, frame: &WireFrame<'_>) -> Vec<u8> {
        let end = usize::try_from(frame.offset + frame.length).unwrap_or(usize::MAX).min(self.sent.len());
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

impl Sink for FrameCollector<'_> {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
        if let WireItem::Frame(frame) = item
            && let Some(place) = frame.place.filter(|place| self.channels.has(place.channel))
        {
            self.add_frame(frame, place.stream)?;
        }
        Ok(true)
    }
}

/// The maximum size of a capture that can be replayed, in bytes. The capture is in memory several times: as entries, as
/// frames and as messages.
const MAX_CAPTURE: u64 = 128 * 1024 * 1024;

#[cfg(test)]
impl Script {
    /// Parses the text of a capture, for tests.
    pub(super) fn parse(text: &str, options: ScriptOptions<'_>) -> Result<Self, Error> {
        Self::from_entries(&barewire_proto::transcript::read(text.as_bytes()).expect("a transcript"), options)
    }

    pub(super) fn of_test(text: &str) -> Self {
        Self::parse(text, ScriptOptions::default()).expect("a script")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Result<Script, Error> {
        with(text, None, false)
    }

    fn with(text: &str, channel: Option<&str>, allow_redacted: bool) -> Result<Script, Error> {
        Script::parse(text, ScriptOptions { channel, allow_redacted, max_frame: 1000 })
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
    fn blank_lines_after_the_last_frame_are_the_tail() {
        assert_eq!(script("> {}\n>\n>\n").expect("fit").tail, b"\n\n");
    }

    #[test]
    fn incomplete_captures_are_refused() {
        let unfit = |text: &str| script(text).expect_err("unfit").to_string();
        let hash = "0".repeat(64);
        assert_eq!(unfit(&format!("> {{}}\n<(truncated=9:{hash}) {{\n")), "frame 2 is truncated");
        assert_eq!(unfit("> {}\n@ gap < 7\n"), "7 bytes of < are missing before frame 2");
        assert_eq!(unfit(&format!("> \"{}\"\n", "x".repeat(2000))), "frame 1 has 2002 bytes, more than the limit");
        let replaced = "frame 1 has a redacted secret";
        assert_eq!(unfit(">(redacted) {\"a\":\"<redacted-1>\"}\n"), replaced);
        assert!(with(">(redacted) {}\n", None, true).is_ok());
        assert_eq!(unfit("@ framing sse\n> data: {}\n"), "its framing is sse, which no program reads on stdin");
        assert_eq!(unfit("< {}\n"), "it has no messages of the client");
        assert_eq!(unfit(""), "the input has no frames");
    }

    #[test]
    fn one_of_several_channels_must_be_named() {
        let two = ">a {\"a\":1}\n>b {\"b\":1}\n<b(redacted) {}\n@b exit code 3\n";
        assert_eq!(script(two).expect_err("two").hint().expect("a hint"), "name a channel: a, b");
        let script = with(two, Some("a"), false).expect("fit");
        assert_eq!((raw(&script), script.server_exit), (vec!["{\"a\":1}\n".to_owned()], None));
        assert_eq!(with(two, Some("c"), false).expect_err("none").to_string(), "it has no channel c");
        assert_eq!(with(two, Some("b"), true).expect("fit").server_exit, Some(ExitStatus::Code(3)));
    }
}
