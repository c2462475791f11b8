//! A `.wire` transcript -> frames: every stream of every channel is cut on its own.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use barewire::proto::frame::{Codec, ContentLength, Lines, Sse};
use barewire::proto::transcript::{
    Bytes, Channel, Entry, Event, Framing, Note, Stream, WireError, WireFault, read_line,
};

use super::source::{Frames, Input};
use super::verdict::Where;
use crate::failure::Failure;

/// Hands on every frame of a transcript, until that is enough.
pub(super) fn read(input: &mut Input, frames: &mut Frames<'_>, max_frame: usize) -> Result<(), Failure> {
    let name = input.name.clone();
    // An escaped payload takes four bytes a byte, and the marks some more.
    let longest = max_frame.saturating_mul(4).saturating_add(64 * 1024);
    let mut lines = TextLines { held: Vec::new(), number: 0, longest };
    let mut streams = Streams { open: HashMap::new(), framing: HashMap::new(), max_frame, held: 0 };
    loop {
        let mut piece = input.next()?;
        let ended = piece.is_empty();
        while let Some((number, line)) = lines.next(&mut piece, ended).map_err(|Overlong(line)| {
            Failure::new(format!("cannot read {name}: line {line} is longer than {longest} bytes"))
                .hint("--max-frame raises the limit")
        })? {
            let entry = read_line(line, number).map_err(|error| unreadable(&name, &error))?;
            if !streams.entry(&entry, frames)? {
                return Ok(());
            }
        }
        frames.output.flush()?;
        if ended {
            return streams.finish(frames);
        }
    }
}

fn unreadable(name: &str, error: &WireError) -> Failure {
    Failure::new(format!("cannot read {name}: {error}")).hint(match error.fault {
        WireFault::UnknownSigil => "--format lines reads newline-delimited JSON",
        _ => "docs/wire-format.md describes the format",
    })
}

/// The lines of a transcript. Unlike frames, all of them count, blank ones too.
struct TextLines {
    held: Vec<u8>,
    number: u64,
    longest: usize,
}

/// The number of a line that is too long.
struct Overlong(u64);

impl TextLines {
    /// The next line with its number.
    fn next(&mut self, rest: &mut &[u8], ended: bool) -> Result<Option<(u64, &[u8])>, Overlong> {
        if self.held.last() == Some(&b'\n') {
            self.held.clear();
        }
        let newline = rest.iter().position(|b| *b == b'\n');
        let (line, behind) = rest.split_at(newline.map_or(rest.len(), |at| at + 1));
        *rest = behind;
        if self.held.len() + line.len() > self.longest {
            return Err(Overlong(self.number + 1));
        }
        self.held.extend_from_slice(line);
        if newline.is_none() {
            if !ended || self.held.is_empty() {
                return Ok(None);
            }
            // The last line needs no line break.
            self.held.push(b'\n');
        }
        self.number += 1;
        Ok(Some((self.number, &self.held[..self.held.len() - 1])))
    }
}

type Key = (Stream, Channel);

struct Streams {
    open: HashMap<Key, OneStream>,
    /// How the streams of a channel are cut, where the transcript says so.
    framing: HashMap<Channel, Framing>,
    max_frame: usize,
    /// The memory of all unfinished frames together.
    held: usize,
}

impl Streams {
    /// Takes one line of the transcript; `false` if that is enough.
    fn entry(&mut self, entry: &Entry, frames: &mut Frames<'_>) -> Result<bool, Failure> {
        match entry {
            Entry::Bytes(Bytes { stream: Stream::Stderr, .. }) => Ok(true),
            Entry::Bytes(bytes) => self.bytes(bytes, frames),
            Entry::Event(Event { channel, note, .. }) => match note {
                Note::Framing(framing) => {
                    self.framing.insert(channel.clone(), *framing);
                    Ok(self.reframe(Stream::ToServer, channel, frames)?
                        && self.reframe(Stream::ToClient, channel, frames)?)
                }
                // What stands before a gap and what stands behind it are not one frame.
                Note::Gap(stream, missing) => {
                    let key = (*stream, channel.clone());
                    let one = self.stream(&key)?;
                    let go_on = one.finish(&key, frames)?;
                    one.before = one.before.saturating_add(*missing);
                    Ok(go_on)
                }
                Note::Eof(stream) => {
                    let key = (*stream, channel.clone());
                    self.stream(&key)?.finish(&key, frames)
                }
                _ => Ok(true),
            },
            _ => Ok(true),
        }
    }

    fn bytes(&mut self, bytes: &Bytes, frames: &mut Frames<'_>) -> Result<bool, Failure> {
        let key = (bytes.stream, bytes.channel.clone());
        let one = self.stream(&key)?;
        let held_before = one.codec.capacity();
        one.time = bytes.marks.time.or(one.time);
        one.redacted |= bytes.marks.redacted;
        let go_on = match &bytes.marks.truncated {
            None => {
                one.feed(&key, &bytes.payload, frames)? && one.feed(&key, bytes.end.as_bytes(), frames)?
            }
            Some(whole) => one.finish(&key, frames)? && one.cut(&key, bytes, whole.length, frames)?,
        };
        let held_after = one.codec.capacity();
        self.held = self.held.saturating_sub(held_before) + held_after;
        let most = self.max_frame.saturating_mul(2).saturating_add(64 * 1024 * 1024);
        if self.held > most {
            let what =
                format!("the unfinished frames of the transcript take more than {most} bytes together");
            return Err(Failure::new(what).hint("--max-frame raises the limit"));
        }
        Ok(go_on)
    }

    /// From here on the stream is cut in another way.
    fn reframe(
        &mut self,
        stream: Stream,
        channel: &Channel,
        frames: &mut Frames<'_>,
    ) -> Result<bool, Failure> {
        let key = (stream, channel.clone());
        let Some(mut one) = self.open.remove(&key) else { return Ok(true) };
        self.held = self.held.saturating_sub(one.codec.capacity());
        let go_on = one.finish(&key, frames)?;
        let before = one.before.saturating_add(one.taken);
        self.stream(&key)?.before = before;
        Ok(go_on)
    }

    fn finish(&mut self, frames: &mut Frames<'_>) -> Result<(), Failure> {
        let mut open: Vec<_> = self.open.iter_mut().collect();
        open.sort_by_key(|((stream, channel), _)| (channel.as_str().to_owned(), stream.sigil()));
        for (key, one) in open {
            if !one.finish(key, frames)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn stream(&mut self, key: &Key) -> Result<&mut OneStream, Failure> {
        if self.open.len() >= MOST_STREAMS && !self.open.contains_key(key) {
            return Err(Failure::new(format!("the transcript has more than {MOST_STREAMS} streams")));
        }
        let framing = self.framing.get(&key.1).copied().unwrap_or(Framing::Lines);
        let max_frame = self.max_frame;
        Ok(self.open.entry(key.clone()).or_insert_with(|| OneStream {
            codec: AnyCodec::new(framing, max_frame),
            time: None,
            redacted: false,
            taken: 0,
            before: 0,
        }))
    }
}

struct OneStream {
    codec: AnyCodec,
    /// When its last bytes came.
    time: Option<Duration>,
    /// Something in the frame that is being read was replaced.
    redacted: bool,
    /// How many bytes the codec has taken.
    taken: u64,
    /// How many bytes of the stream the codec has not taken: they came before it, or are not in the transcript.
    before: u64,
}

impl OneStream {
    fn feed(&mut self, key: &Key, mut bytes: &[u8], frames: &mut Frames<'_>) -> Result<bool, Failure> {
        let place = self.place(key);
        self.taken += bytes.len() as u64;
        while let Some(frame) = match &mut self.codec {
            AnyCodec::Lines(codec) => codec.next_frame(&mut bytes),
            AnyCodec::Sse(codec) => codec.next_frame(&mut bytes),
            AnyCodec::ContentLength(codec) => codec.next_frame(&mut bytes),
        } {
            self.redacted = false;
            if !frames.take(frame, Some(place))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish(&mut self, key: &Key, frames: &mut Frames<'_>) -> Result<bool, Failure> {
        let place = self.place(key);
        while let Some(frame) = match &mut self.codec {
            AnyCodec::Lines(codec) => codec.finish(),
            AnyCodec::Sse(codec) => codec.finish(),
            AnyCodec::ContentLength(codec) => codec.finish(),
        } {
            self.redacted = false;
            if !frames.take(frame, Some(place))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A frame of which the transcript holds only the beginning: it is counted whole and not judged.
    fn cut(
        &mut self,
        key: &Key,
        bytes: &Bytes,
        length: u64,
        frames: &mut Frames<'_>,
    ) -> Result<bool, Failure> {
        let (offset, place) = (self.before.saturating_add(self.taken), self.place(key));
        let end = bytes.end.as_bytes().len() as u64;
        self.before = self.before.saturating_add(length).saturating_add(end);
        self.redacted = false;
        frames.take_cut(offset, length, &bytes.payload, place)
    }

    fn place<'k>(&self, (stream, channel): &'k Key) -> Where<'k> {
        let (time, before, redacted) = (self.time, self.before, self.redacted);
        Where { stream: *stream, channel: channel.as_str(), time, before, redacted }
    }
}

enum AnyCodec {
    Lines(Lines),
    Sse(Box<Sse>),
    ContentLength(ContentLength),
}

impl AnyCodec {
    fn new(framing: Framing, limit: usize) -> Self {
        match framing {
            Framing::Lines => Self::Lines(Lines::new(limit)),
            Framing::Sse => Self::Sse(Box::new(Sse::new(limit))),
            Framing::ContentLength => Self::ContentLength(ContentLength::new(limit)),
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Self::Lines(codec) => codec.capacity(),
            Self::Sse(codec) => codec.capacity(),
            Self::ContentLength(codec) => codec.capacity(),
        }
    }
}

/// More streams than any capture of a host has.
const MOST_STREAMS: usize = 65_536;
