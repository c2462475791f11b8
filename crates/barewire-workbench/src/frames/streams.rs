//! The entries of a transcript or a tap -> frames: every stream of every channel is cut on its own.

use std::collections::HashMap;
use std::time::Duration;

use barewire_proto::frame::{Body, Codec, ContentLength, Frame, FrameError, Lines, Sse};
use barewire_proto::transcript::{Bytes, Channel, Entry, Event, Framing, Note, Stream};

use super::capture::FrameLimits;
use super::frame::{FramePosition, WireFrame};
use super::{Sink, WireItem, ended};
use crate::{Advice, Error};

type Key = (Stream, Channel);

/// All streams of a transcript or a tap.
pub struct Streams {
    open: HashMap<Key, OneStream>,
    /// How the streams of a channel are cut, where the transcript says so.
    framing: HashMap<Channel, Framing>,
    /// Channels of which one stream has ended, which, and behind how many bytes: with the other one the channel is over.
    half: HashMap<Channel, (Stream, u64)>,
    frames: Frames,
    max_frame: usize,
    /// The memory of all unfinished frames together.
    held: usize,
}

impl Streams {
    /// Makes one that cuts frames within these limits.
    pub fn new(limits: FrameLimits) -> Self {
        let (open, framing, half) = (HashMap::new(), HashMap::new(), HashMap::new());
        let frames = Frames::new(limits.depth);
        Self { open, framing, half, frames, max_frame: limits.frame, held: 0 }
    }

    /// Takes one entry, and tells what comes of it; `false` if that is enough. A frame is told before the event that ends it.
    pub fn entry(&mut self, entry: &Entry, sink: &mut dyn Sink) -> Result<bool, Error> {
        match entry {
            Entry::Header(header) => sink.take(&WireItem::Header(header)),
            Entry::Bytes(bytes) if bytes.stream == Stream::Stderr => sink.take(&WireItem::Stderr(bytes)),
            Entry::Bytes(bytes) => self.bytes(bytes, sink),
            Entry::Event(event) => Ok(self.event(event, sink)? && sink.take(&WireItem::Event(event))?),
            _ => Ok(true),
        }
    }

    /// What an event means for the frames of its channel.
    fn event(&mut self, event: &Event, sink: &mut dyn Sink) -> Result<bool, Error> {
        let Event { channel, note, .. } = event;
        match note {
            Note::Framing(framing) => {
                self.framing.insert(channel.clone(), *framing);
                Ok(self.reframe(Stream::ToServer, channel, sink)? && self.reframe(Stream::ToClient, channel, sink)?)
            }
            // What stands before a gap and what stands behind it are not one frame.
            Note::Gap(stream, missing) => {
                let key = (*stream, channel.clone());
                let (one, frames) = self.stream(&key)?;
                let held_before = one.codec.capacity();
                let go_on = one.finish(&key, frames, sink)?;
                one.codec.trim();
                one.before = one.before.saturating_add(*missing);
                let held_after = one.codec.capacity();
                self.held = self.held.saturating_sub(held_before) + held_after;
                Ok(go_on)
            }
            note => match ended(note) {
                Some(stream) => self.close(stream, channel, sink),
                None => Ok(true),
            },
        }
    }

    fn bytes(&mut self, bytes: &Bytes, sink: &mut dyn Sink) -> Result<bool, Error> {
        let key = (bytes.stream, bytes.channel.clone());
        let (one, frames) = self.stream(&key)?;
        let held_before = one.codec.capacity();
        one.time = bytes.marks.time.or(one.time);
        one.redacted |= bytes.marks.redacted;
        let go_on = match &bytes.marks.truncated {
            None => {
                one.feed(&key, &bytes.payload, frames, sink)? && one.feed(&key, bytes.end.as_bytes(), frames, sink)?
            }
            Some(whole) => one.finish(&key, frames, sink)? && one.cut(&key, bytes, whole.length, frames, sink)?,
        };
        let held_after = one.codec.capacity();
        self.held = self.held.saturating_sub(held_before) + held_after;
        let most = self.max_frame.saturating_mul(2).saturating_add(64 * 1024 * 1024);
        if self.held > most {
            let what = format!("the unfinished frames of the transcript take more than {most} bytes together");
            return Err(Error::new(what).with_advice(Advice::RaiseFrameLimit));
        }
        Ok(go_on)
    }

    /// From here on the stream is cut in another way.
    fn reframe(&mut self, stream: Stream, channel: &Channel, sink: &mut dyn Sink) -> Result<bool, Error> {
        let key = (stream, channel.clone());
        let Some(mut one) = self.open.remove(&key) else { return Ok(true) };
        self.held = self.held.saturating_sub(one.codec.capacity());
        let go_on = one.finish(&key, &mut self.frames, sink)?;
        let before = one.before.saturating_add(one.taken);
        self.stream(&key)?.0.before = before;
        Ok(go_on)
    }

    /// Brings out what is unfinished, and forgets the stream: whoever taps for days has many of them.
    fn close(&mut self, stream: Stream, channel: &Channel, sink: &mut dyn Sink) -> Result<bool, Error> {
        let key = (stream, channel.clone());
        let ended = self.open.remove(&key);
        let length = ended.as_ref().map_or(0, |one| one.before.saturating_add(one.taken));
        match self.half.get(channel) {
            Some((half, _)) if *half != stream => {
                self.half.remove(channel);
                // The one without a name is there once, and whatever goes over it is cut in the same way.
                if !channel.as_str().is_empty() {
                    self.framing.remove(channel);
                }
            }
            None if stream != Stream::Stderr => {
                self.half.insert(channel.clone(), (stream, length));
            }
            _ => {}
        }
        let Some(mut one) = ended else { return Ok(true) };
        self.held = self.held.saturating_sub(one.codec.capacity());
        one.finish(&key, &mut self.frames, sink)
    }

    /// The transcript has ended.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        let mut open: Vec<_> = self.open.iter_mut().collect();
        open.sort_by_key(|((stream, channel), _)| (channel.as_str().to_owned(), stream.sigil()));
        for (key, one) in open {
            if !one.finish(key, &mut self.frames, sink)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn stream(&mut self, key: &Key) -> Result<(&mut OneStream, &mut Frames), Error> {
        let mut before = 0;
        if !self.open.contains_key(key) {
            if self.open.len() >= MOST_STREAMS {
                let what = format!("the transcript has more than {MOST_STREAMS} streams at once");
                return Err(Error::new(what));
            }
            // There are transcripts in which a stream goes on behind its end.
            if let Some((half, length)) = self.half.get(&key.1).copied()
                && half == key.0
            {
                self.half.remove(&key.1);
                before = length;
            }
            if self.half.len().max(self.framing.len()) >= 2 * MOST_STREAMS {
                self.sweep(&key.1);
            }
        }
        let framing = self.framing.get(&key.1).copied().unwrap_or(Framing::Lines);
        let max_frame = self.max_frame;
        let one = self.open.entry(key.clone()).or_insert_with(|| OneStream {
            codec: AnyCodec::new(framing, max_frame),
            time: None,
            redacted: false,
            taken: 0,
            before,
        });
        Ok((one, &mut self.frames))
    }

    /// Forgets the channels of which no stream is open: there are transcripts that do not say how they end.
    fn sweep(&mut self, begins: &Channel) {
        let Self { open, framing, half, .. } = self;
        let is_open = |channel: &Channel| {
            let open = |stream| open.contains_key(&(stream, channel.clone()));
            channel == begins || open(Stream::ToServer) || open(Stream::ToClient)
        };
        framing.retain(|channel, _| is_open(channel));
        half.retain(|channel, _| is_open(channel));
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
    fn feed(&mut self, key: &Key, mut bytes: &[u8], frames: &mut Frames, sink: &mut dyn Sink) -> Result<bool, Error> {
        let place = self.place(key);
        self.taken += bytes.len() as u64;
        while let Some(frame) = match &mut self.codec {
            AnyCodec::Lines(codec) => codec.next_frame(&mut bytes),
            AnyCodec::Sse(codec) => codec.next_frame(&mut bytes),
            AnyCodec::ContentLength(codec) => codec.next_frame(&mut bytes),
            AnyCodec::Body(codec) => codec.next_frame(&mut bytes),
            AnyCodec::None => None,
        } {
            self.redacted = false;
            if !frames.take(frame, Some(place), sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish(&mut self, key: &Key, frames: &mut Frames, sink: &mut dyn Sink) -> Result<bool, Error> {
        let place = self.place(key);
        while let Some(frame) = match &mut self.codec {
            AnyCodec::Lines(codec) => codec.finish(),
            AnyCodec::Sse(codec) => codec.finish(),
            AnyCodec::ContentLength(codec) => codec.finish(),
            AnyCodec::Body(codec) => codec.finish(),
            AnyCodec::None => None,
        } {
            self.redacted = false;
            if !frames.take(frame, Some(place), sink)? {
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
        frames: &mut Frames,
        sink: &mut dyn Sink,
    ) -> Result<bool, Error> {
        let (offset, place) = (self.before.saturating_add(self.taken), self.place(key));
        let end = bytes.end.as_bytes().len() as u64;
        self.before = self.before.saturating_add(length).saturating_add(end);
        self.redacted = false;
        frames.take_cut(offset, length, &bytes.payload, place, sink)
    }

    fn place<'k>(&self, (stream, channel): &'k Key) -> FramePosition<'k> {
        let (time, before, redacted) = (self.time, self.before, self.redacted);
        FramePosition { stream: *stream, channel: channel.as_str(), time, before, redacted }
    }
}

enum AnyCodec {
    Lines(Lines),
    Sse(Box<Sse>),
    ContentLength(ContentLength),
    Body(Body),
    None,
}

impl AnyCodec {
    fn new(framing: Framing, limit: usize) -> Self {
        match framing {
            Framing::Lines => Self::Lines(Lines::new(limit)),
            Framing::Sse => Self::Sse(Box::new(Sse::new(limit))),
            Framing::ContentLength => Self::ContentLength(ContentLength::new(limit)),
            Framing::Body => Self::Body(Body::new(limit)),
            Framing::None => Self::None,
        }
    }

    fn trim(&mut self) {
        match self {
            Self::Lines(codec) => codec.trim(),
            Self::Sse(codec) => codec.trim(),
            Self::ContentLength(codec) => codec.trim(),
            Self::Body(codec) => codec.trim(),
            Self::None => {}
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Self::Lines(codec) => codec.capacity(),
            Self::Sse(codec) => codec.capacity(),
            Self::ContentLength(codec) => codec.capacity(),
            Self::Body(codec) => codec.capacity(),
            Self::None => 0,
        }
    }
}

/// Numbers the frames, judges them and hands them on.
pub(super) struct Frames {
    max_depth: usize,
    number: u64,
}

impl Frames {
    pub(super) fn new(max_depth: usize) -> Self {
        Self { max_depth, number: 0 }
    }

    pub(super) fn take(
        &mut self,
        frame: Result<Frame<'_>, FrameError>,
        place: Option<FramePosition<'_>>,
        sink: &mut dyn Sink,
    ) -> Result<bool, Error> {
        // Only events named `message` carry messages, and one without data only primes a stream for resumption.
        if let Ok(Frame { event: Some(event), bytes, .. }) = &frame
            && (event.name != "message" || bytes.is_empty())
        {
            return match (place, event.name == "endpoint", std::str::from_utf8(bytes)) {
                (Some(place), true, Ok(uri)) => sink.take(&WireItem::Endpoint { channel: place.channel, uri }),
                _ => Ok(true),
            };
        }
        self.number += 1;
        sink.take(&WireItem::Frame(&WireFrame::parse(self.number, &frame, place, self.max_depth)))
    }

    /// A frame of which a transcript holds only the beginning.
    fn take_cut(
        &mut self,
        offset: u64,
        length: u64,
        begins: &[u8],
        place: FramePosition<'_>,
        sink: &mut dyn Sink,
    ) -> Result<bool, Error> {
        self.number += 1;
        sink.take(&WireItem::Frame(&WireFrame::cut(self.number, offset, length, begins, place)))
    }
}

/// More streams than any host has at once.
const MOST_STREAMS: usize = 65_536;

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read_line;

    use super::*;

    #[derive(Default)]
    struct Count(usize);

    impl Sink for Count {
        fn take(&mut self, sight: &WireItem<'_>) -> Result<bool, Error> {
            self.0 += usize::from(matches!(sight, WireItem::Frame(seen) if seen.is_well_formed()));
            Ok(true)
        }
    }

    fn tell(streams: &mut Streams, lines: &[&str], sink: &mut Count) {
        for line in lines {
            let entry = read_line(line.as_bytes(), 2).expect(line);
            assert!(streams.entry(&entry, sink).is_ok(), "{line}");
        }
    }

    /// Whoever taps HTTP for days sees as many streams, one after the other.
    #[test]
    fn what_has_ended_is_forgotten() {
        let mut streams = Streams::new(FrameLimits { frame: 1024 * 1024, depth: 64 });
        let mut count = Count::default();
        let long = "x".repeat(100_000);
        for number in 0..3000 {
            let request = format!(">x{number}(noeol) {{\"jsonrpc\":\"2.0\",\"method\":\"m\"}}");
            let answer = format!("<x{number}(noeol) {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{long}\"}}");
            let event = |what: &str| format!("@x{number} {what}");
            let lines = [event("framing body"), request, event("eof >"), answer, event("gap < 10"), event("eof <")];
            tell(&mut streams, &lines.each_ref().map(String::as_str), &mut count);
        }
        assert_eq!(count.0, 6000);
        let Streams { open, framing, half, held, .. } = &streams;
        assert_eq!((open.len(), framing.len(), half.len(), *held), (0, 0, 0, 0));
    }

    #[test]
    fn a_stream_may_go_on_behind_its_end() {
        let mut streams = Streams::new(FrameLimits { frame: 1024, depth: 64 });
        let mut count = Count::default();
        let message = "> {\"jsonrpc\":\"2.0\",\"method\":\"m\"}";
        tell(&mut streams, &[message, "@ eof >", "@ closed < by the host", message, message], &mut count);
        assert_eq!(count.0, 3);
    }
}
