//! Decodes the entries of a transcript or a tap into frames. Each stream of each channel is decoded separately.

use std::collections::HashMap;
use std::time::Duration;

use barewire_proto::frame::{Body, Codec, ContentLength, Frame, FrameError, Lines, Sse};
use barewire_proto::transcript::{Bytes, Channel, Entry, Event, Framing, Note, Stream};

use super::capture::FrameLimits;
use super::frame::{FrameBeginning, FramePosition, WireFrame};
use super::{Sink, WireItem, ended_stream};
use crate::{Advice, Error};

type StreamKey = (Stream, Channel);

/// Evaluates `$call` with the codec of `$any`, or `$none` if there is no codec. `Codec` cannot be a trait object.
macro_rules! with_codec {
    ($any:expr, $codec:ident => $call:expr, $none:expr) => {
        match $any {
            AnyCodec::Lines($codec) => $call,
            AnyCodec::Sse($codec) => $call,
            AnyCodec::ContentLength($codec) => $call,
            AnyCodec::Body($codec) => $call,
            AnyCodec::None => $none,
        }
    };
}

/// The decoders of all streams in a transcript or a tap.
pub struct Streams {
    open: HashMap<StreamKey, ChannelStream>,
    /// Maps each channel to the framing of its streams, if the transcript names it.
    framing: HashMap<Channel, Framing>,
    /// Maps each channel with one ended stream to that stream and its length. When the other stream ends, the channel
    /// is forgotten.
    half_closed: HashMap<Channel, (Stream, u64)>,
    frames: FrameEmitter,
    max_frame: usize,
    /// The memory that all unfinished frames take together.
    held: usize,
}

impl Streams {
    /// Creates a decoder with these limits.
    pub fn new(limits: FrameLimits) -> Self {
        let (open, framing, half_closed) = (HashMap::new(), HashMap::new(), HashMap::new());
        let frames = FrameEmitter::new(limits.depth);
        Self { open, framing, half_closed, frames, max_frame: limits.frame, held: 0 }
    }

    /// Takes one entry and passes the items in it to the sink. Returns `false` if the sink did. If an event ends a
    /// frame, the frame is passed on before the event.
    pub fn entry(&mut self, entry: &Entry, sink: &mut dyn Sink) -> Result<bool, Error> {
        match entry {
            Entry::Header(header) => sink.take(&WireItem::Header(header)),
            Entry::Bytes(bytes) if bytes.stream == Stream::Stderr => sink.take(&WireItem::Stderr(bytes)),
            Entry::Bytes(bytes) => self.bytes(bytes, sink),
            Entry::Event(event) => Ok(self.event(event, sink)? && sink.take(&WireItem::Event(event))?),
            _ => Ok(true),
        }
    }

    fn event(&mut self, event: &Event, sink: &mut dyn Sink) -> Result<bool, Error> {
        let Event { channel, note, .. } = event;
        match note {
            Note::Framing(framing) => {
                self.framing.insert(channel.clone(), *framing);
                Ok(self.reframe(Stream::ToServer, channel, sink)? && self.reframe(Stream::ToClient, channel, sink)?)
            }
            // The bytes before and after a gap do not form one frame.
            Note::Gap(stream, missing) => {
                let key = (*stream, channel.clone());
                self.update(&key, |decoder, frames| {
                    let go_on = decoder.finish(&key, frames, sink)?;
                    with_codec!(&mut decoder.codec, codec => codec.trim(), ());
                    decoder.before = decoder.before.saturating_add(*missing);
                    Ok(go_on)
                })
            }
            note => match ended_stream(note) {
                Some(stream) => self.close(stream, channel, sink),
                None => Ok(true),
            },
        }
    }

    fn bytes(&mut self, bytes: &Bytes, sink: &mut dyn Sink) -> Result<bool, Error> {
        let key = (bytes.stream, bytes.channel.clone());
        let go_on = self.update(&key, |decoder, frames| {
            decoder.time = bytes.marks.time.or(decoder.time);
            decoder.redacted |= bytes.marks.redacted;
            match &bytes.marks.truncated {
                None => Ok(decoder.feed(&key, &bytes.payload, frames, sink)?
                    && decoder.feed(&key, bytes.end.as_bytes(), frames, sink)?),
                Some(whole) => Ok(decoder.finish(&key, frames, sink)?
                    && decoder.truncated(&key, bytes, whole.length, frames, sink)?),
            }
        })?;
        let most = self.max_frame.saturating_mul(2).saturating_add(64 * 1024 * 1024);
        if self.held > most {
            let what = format!("the unfinished frames of the transcript take more than {most} bytes together");
            return Err(Error::new(what).with_advice(Advice::RaiseFrameLimit));
        }
        Ok(go_on)
    }

    /// Changes a stream, which is created if necessary, and updates the total of the memory that streams hold.
    fn update(
        &mut self,
        key: &StreamKey,
        change: impl FnOnce(&mut ChannelStream, &mut FrameEmitter) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        self.open(key)?;
        let decoder = self.open.get_mut(key).expect("it is open now");
        let before = decoder.capacity();
        let go_on = change(decoder, &mut self.frames)?;
        self.held = self.held.saturating_sub(before) + decoder.capacity();
        Ok(go_on)
    }

    /// Ends the unfinished frame of a stream, and decodes the following bytes with the channel's new framing.
    fn reframe(&mut self, stream: Stream, channel: &Channel, sink: &mut dyn Sink) -> Result<bool, Error> {
        let key = (stream, channel.clone());
        let Some(mut decoder) = self.open.remove(&key) else { return Ok(true) };
        self.held = self.held.saturating_sub(decoder.capacity());
        let go_on = decoder.finish(&key, &mut self.frames, sink)?;
        let before = decoder.offset();
        self.open(&key)?.before = before;
        Ok(go_on)
    }

    /// Passes on the unfinished frame and forgets the stream, because a tap that runs for days sees many streams.
    fn close(&mut self, stream: Stream, channel: &Channel, sink: &mut dyn Sink) -> Result<bool, Error> {
        let key = (stream, channel.clone());
        let decoder = self.open.remove(&key);
        match self.half_closed.get(channel) {
            Some((half, _)) if *half != stream => {
                self.half_closed.remove(channel);
                // There is only one channel without a name, and it keeps its framing.
                if !channel.as_str().is_empty() {
                    self.framing.remove(channel);
                }
            }
            None if stream != Stream::Stderr => {
                let length = decoder.as_ref().map_or(0, ChannelStream::offset);
                self.half_closed.insert(channel.clone(), (stream, length));
            }
            _ => {}
        }
        let Some(mut decoder) = decoder else { return Ok(true) };
        self.held = self.held.saturating_sub(decoder.capacity());
        decoder.finish(&key, &mut self.frames, sink)
    }

    /// Passes on all unfinished frames at the end of the transcript.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        let mut open: Vec<_> = self.open.iter_mut().collect();
        open.sort_by_key(|((stream, channel), _)| (channel.as_str().to_owned(), stream.sigil()));
        for (key, decoder) in open {
            if !decoder.finish(key, &mut self.frames, sink)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the decoder of a stream, creating it if necessary.
    fn open(&mut self, key: &StreamKey) -> Result<&mut ChannelStream, Error> {
        let mut before = 0;
        if !self.open.contains_key(key) {
            if self.open.len() >= MAX_STREAMS {
                return Err(Error::new(format!("the transcript has more than {MAX_STREAMS} streams at once")));
            }
            // In some transcripts a stream continues after its end was recorded.
            if let Some((half, length)) = self.half_closed.get(&key.1).copied()
                && half == key.0
            {
                self.half_closed.remove(&key.1);
                before = length;
            }
            if self.half_closed.len().max(self.framing.len()) >= 2 * MAX_STREAMS {
                self.sweep(&key.1);
            }
        }
        let framing = self.framing.get(&key.1).copied().unwrap_or(Framing::Lines);
        Ok(self.open.entry(key.clone()).or_insert_with(|| {
            let codec = AnyCodec::new(framing, self.max_frame);
            ChannelStream { codec, time: None, redacted: false, taken: 0, before }
        }))
    }

    /// Forgets all channels without an open stream, because some transcripts do not record the end of streams.
    fn sweep(&mut self, opening: &Channel) {
        let Self { open, framing, half_closed, .. } = self;
        let is_open = |channel: &Channel| {
            let open = |stream| open.contains_key(&(stream, channel.clone()));
            channel == opening || open(Stream::ToServer) || open(Stream::ToClient)
        };
        framing.retain(|channel, _| is_open(channel));
        half_closed.retain(|channel, _| is_open(channel));
    }
}

struct ChannelStream {
    codec: AnyCodec,
    time: Option<Duration>,
    /// Whether a secret in the unfinished frame was replaced.
    redacted: bool,
    /// The number of bytes that the codec has taken.
    taken: u64,
    /// The number of bytes of the stream that the codec has not taken, because an earlier codec took them or they are
    /// not in the transcript.
    before: u64,
}

impl ChannelStream {
    /// Returns the number of bytes of the stream so far.
    fn offset(&self) -> u64 {
        self.before.saturating_add(self.taken)
    }

    fn capacity(&self) -> usize {
        with_codec!(&self.codec, codec => codec.capacity(), 0)
    }

    fn feed(
        &mut self,
        key: &StreamKey,
        mut bytes: &[u8],
        frames: &mut FrameEmitter,
        sink: &mut dyn Sink,
    ) -> Result<bool, Error> {
        let place = self.place(key);
        self.taken += bytes.len() as u64;
        while let Some(frame) = with_codec!(&mut self.codec, codec => codec.next_frame(&mut bytes), None) {
            self.redacted = false;
            if !frames.take(frame, Some(place), sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish(&mut self, key: &StreamKey, frames: &mut FrameEmitter, sink: &mut dyn Sink) -> Result<bool, Error> {
        let place = self.place(key);
        while let Some(frame) = with_codec!(&mut self.codec, codec => codec.finish(), None) {
            self.redacted = false;
            if !frames.take(frame, Some(place), sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes on a frame of which the transcript contains only the beginning. The offset advances by the frame's whole
    /// length, and the frame is not parsed.
    fn truncated(
        &mut self,
        key: &StreamKey,
        bytes: &Bytes,
        length: u64,
        frames: &mut FrameEmitter,
        sink: &mut dyn Sink,
    ) -> Result<bool, Error> {
        let (offset, place) = (self.offset(), self.place(key));
        let end = bytes.end.as_bytes().len() as u64;
        self.before = self.before.saturating_add(length).saturating_add(end);
        self.redacted = false;
        let number = frames.next_number();
        let beginning = FrameBeginning::of(&bytes.payload);
        sink.take(&WireItem::Frame(&WireFrame::truncated(number, offset, length, &beginning, place)))
    }

    fn place<'k>(&self, (stream, channel): &'k StreamKey) -> FramePosition<'k> {
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
}

/// Numbers and parses frames, and passes them to the sink.
pub(super) struct FrameEmitter {
    max_depth: usize,
    number: u64,
}

impl FrameEmitter {
    pub(super) fn new(max_depth: usize) -> Self {
        Self { max_depth, number: 0 }
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(super) fn take(
        &mut self,
        frame: Result<Frame<'_>, FrameError>,
        place: Option<FramePosition<'_>>,
        sink: &mut dyn Sink,
    ) -> Result<bool, Error> {
        // Only SSE events named `message` carry messages, and an event without data only sets the position for
        // resuming a stream.
        if let Ok(Frame { event: Some(event), bytes, .. }) = &frame
            && (event.name != "message" || bytes.is_empty())
        {
            return match (place, event.name == "endpoint", std::str::from_utf8(bytes)) {
                (Some(place), true, Ok(uri)) => sink.take(&WireItem::Endpoint { channel: place.channel, uri }),
                _ => Ok(true),
            };
        }
        let number = self.next_number();
        sink.take(&WireItem::Frame(&WireFrame::parse(number, &frame, place, self.max_depth)))
    }
}

/// The maximum number of open streams: more than any host opens at once.
const MAX_STREAMS: usize = 65_536;

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read_line;

    use super::*;

    #[derive(Default)]
    struct FrameCounter(usize);

    impl Sink for FrameCounter {
        fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
            self.0 += usize::from(matches!(item, WireItem::Frame(frame) if frame.is_well_formed()));
            Ok(true)
        }
    }

    fn push(streams: &mut Streams, lines: &[&str], sink: &mut FrameCounter) {
        for line in lines {
            let entry = read_line(line.as_bytes(), 2).expect(line);
            assert!(streams.entry(&entry, sink).is_ok(), "{line}");
        }
    }

    /// A tap of HTTP that runs for days sees this many streams, one after another.
    #[test]
    fn ended_streams_are_forgotten() {
        let mut streams = Streams::new(FrameLimits { frame: 1024 * 1024, depth: 64 });
        let mut count = FrameCounter::default();
        let long = "x".repeat(100_000);
        for number in 0..3000 {
            let request = format!(">x{number}(noeol) {{\"jsonrpc\":\"2.0\",\"method\":\"m\"}}");
            let answer = format!("<x{number}(noeol) {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{long}\"}}");
            let event = |what: &str| format!("@x{number} {what}");
            let lines = [event("framing body"), request, event("eof >"), answer, event("gap < 10"), event("eof <")];
            push(&mut streams, &lines.each_ref().map(String::as_str), &mut count);
        }
        assert_eq!(count.0, 6000);
        let Streams { open, framing, half_closed, held, .. } = &streams;
        assert_eq!((open.len(), framing.len(), half_closed.len(), *held), (0, 0, 0, 0));
    }

    #[test]
    fn a_stream_may_go_on_after_its_end() {
        let mut streams = Streams::new(FrameLimits { frame: 1024, depth: 64 });
        let mut count = FrameCounter::default();
        let message = "> {\"jsonrpc\":\"2.0\",\"method\":\"m\"}";
        push(&mut streams, &[message, "@ eof >", "@ closed < by the host", message, message], &mut count);
        assert_eq!(count.0, 3);
    }

    #[test]
    fn unfinished_frames_have_a_total_length() {
        let mut streams = Streams::new(FrameLimits { frame: 1024 * 1024, depth: 64 });
        let mut count = FrameCounter::default();
        let long = "x".repeat(1_000_000);
        let mut taken = 0;
        let error = loop {
            let entry = read_line(format!(">c{taken}(noeol) \"{long}").as_bytes(), 2).expect("an entry");
            match streams.entry(&entry, &mut count) {
                Ok(_) => taken += 1,
                Err(error) => break error.to_string(),
            }
            assert!(taken < 1000, "no end");
        };
        // 64 MiB, and a frame of the maximum length for each direction.
        assert_eq!(taken, 69);
        assert!(error.contains("take more than 69206016 bytes together"), "{error}");
    }
}
