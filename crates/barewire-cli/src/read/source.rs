//! A file or stdin -> frames, in one buffer, whatever its size.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::time::Duration;

use barewire::proto::frame::{Codec, ContentLength, Frame, FrameError, Lines, Sse};
use barewire::proto::transcript::{Bytes, Channel, Entry, Event, Note, Stream, WireFault, read_line};

use super::verdict::{Seen, Where};
use super::{Args, Format};
use crate::failure::Failure;
use crate::output::Output;

/// Calls `each` with every frame of the input, until it returns `false`.
pub(super) fn each_frame(
    args: &Args,
    output: &mut Output,
    mut each: impl FnMut(&mut Output, Seen<'_>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut input = Input::open(args.file.as_deref())?;
    let format = match args.format {
        Format::Auto => input.format()?,
        chosen => chosen,
    };
    let mut frames = Frames { args, number: 0, each: &mut each, output };
    match format {
        Format::Wire => wire(&mut input, &mut frames),
        Format::Lines | Format::Auto => stream(&mut input, Lines::new(args.max_frame), &mut frames),
        Format::Sse => stream(&mut input, Sse::new(args.max_frame), &mut frames),
        Format::ContentLength => stream(&mut input, ContentLength::new(args.max_frame), &mut frames),
    }
}

/// The bytes of the input, piece by piece.
struct Input {
    reader: Box<dyn Read>,
    name: String,
    is_wire_file: bool,
    buffer: Vec<u8>,
    /// What of the buffer was read to find out the format, and is still to be taken.
    peeked: usize,
}

impl Input {
    fn open(file: Option<&Path>) -> Result<Self, Failure> {
        let buffer = vec![0; 64 * 1024];
        let Some(path) = file.filter(|path| path.as_os_str() != "-") else {
            let stdin = io::stdin();
            if stdin.is_terminal() {
                let _ = writeln!(io::stderr(), "reading from the terminal: end with Ctrl-D, or name a file");
            }
            let reader = Box::new(stdin.lock());
            return Ok(Self { reader, name: "stdin".into(), is_wire_file: false, buffer, peeked: 0 });
        };
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| {
            let failure = Failure::new(format!("cannot read {name}: {error}"));
            match error.kind() {
                io::ErrorKind::NotFound => failure.hint("give the path of a file, or - for stdin"),
                _ => failure,
            }
        })?;
        let is_wire_file = path.extension().is_some_and(|extension| extension == "wire");
        Ok(Self { reader: Box::new(file), name, is_wire_file, buffer, peeked: 0 })
    }

    /// Looks at the first bytes.
    fn format(&mut self) -> Result<Format, Failure> {
        if self.is_wire_file {
            return Ok(Format::Wire);
        }
        while self.peeked < HEADER.len() {
            match self.read_at(self.peeked)? {
                0 => break,
                read => self.peeked += read,
            }
        }
        Ok(if self.buffer[..self.peeked].starts_with(HEADER) { Format::Wire } else { Format::Lines })
    }

    /// The next piece; empty at the end.
    fn next(&mut self) -> Result<&[u8], Failure> {
        let count = match std::mem::take(&mut self.peeked) {
            0 => self.read_at(0)?,
            peeked => peeked,
        };
        Ok(&self.buffer[..count])
    }

    fn read_at(&mut self, at: usize) -> Result<usize, Failure> {
        loop {
            match self.reader.read(&mut self.buffer[at..]) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::new(format!("cannot read {}: {error}", self.name))),
            }
        }
    }
}

/// What a transcript begins with when its name does not say that it is one.
const HEADER: &[u8] = b"wire ";

/// Numbers the frames and hands them on.
struct Frames<'a, F> {
    args: &'a Args,
    number: u64,
    each: &'a mut F,
    output: &'a mut Output,
}

impl<F: FnMut(&mut Output, Seen<'_>) -> Result<bool, Failure>> Frames<'_, F> {
    fn take(&mut self, frame: Result<Frame<'_>, FrameError>, at: Option<Where<'_>>) -> Result<bool, Failure> {
        self.number += 1;
        (self.each)(self.output, Seen::judge(self.number, &frame, at, self.args.max_depth))
    }
}

fn stream<F: FnMut(&mut Output, Seen<'_>) -> Result<bool, Failure>>(
    input: &mut Input,
    mut codec: impl Codec,
    frames: &mut Frames<'_, F>,
) -> Result<(), Failure> {
    loop {
        let mut piece = input.next()?;
        if piece.is_empty() {
            break;
        }
        while let Some(frame) = codec.next_frame(&mut piece) {
            if !frames.take(frame, None)? {
                return Ok(());
            }
        }
        // Whoever follows a live stream sees every frame as soon as it is whole.
        frames.output.flush()?;
    }
    while let Some(frame) = codec.finish() {
        if !frames.take(frame, None)? {
            return Ok(());
        }
    }
    Ok(())
}

/// A transcript: every stream of every channel is cut into frames on its own.
fn wire<F: FnMut(&mut Output, Seen<'_>) -> Result<bool, Failure>>(
    input: &mut Input,
    frames: &mut Frames<'_, F>,
) -> Result<(), Failure> {
    let name = input.name.clone();
    // An escaped payload takes four bytes a byte, and the marks some more.
    let longest = frames.args.max_frame.saturating_mul(4).saturating_add(64 * 1024);
    let mut lines = TextLines { held: Vec::new(), number: 0, longest };
    let mut streams =
        Streams { open: HashMap::new(), framing: HashMap::new(), max_frame: frames.args.max_frame };
    loop {
        let piece = input.next()?;
        let ended = piece.is_empty();
        let mut rest = piece;
        while let Some(line) = lines.next(&mut rest, ended).map_err(|line| too_long(&name, line, longest))? {
            let entry = read_line(line.1, line.0).map_err(|error| {
                let failure = Failure::new(format!("cannot read {name}: {error}"));
                match error.fault {
                    WireFault::UnknownSigil => failure.hint("--format lines reads newline-delimited JSON"),
                    _ => failure.hint("docs/wire-format.md describes the format"),
                }
            })?;
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

fn too_long(name: &str, line: u64, longest: usize) -> Failure {
    Failure::new(format!("cannot read {name}: line {line} is longer than {longest} bytes"))
        .hint("--max-frame raises the limit")
}

/// The lines of a transcript. Unlike frames, all of them count, blank ones too.
struct TextLines {
    held: Vec<u8>,
    number: u64,
    longest: usize,
}

impl TextLines {
    /// The next line with its number; the number alone if it is too long.
    fn next(&mut self, rest: &mut &[u8], ended: bool) -> Result<Option<(u64, &[u8])>, u64> {
        if self.held.last() == Some(&b'\n') {
            self.held.clear();
        }
        let newline = rest.iter().position(|b| *b == b'\n');
        let (line, behind) = rest.split_at(newline.map_or(rest.len(), |at| at + 1));
        *rest = behind;
        if self.held.len() + line.len() > self.longest {
            return Err(self.number + 1);
        }
        self.held.extend_from_slice(line);
        let last = ended && !self.held.is_empty();
        if newline.is_none() && !last {
            return Ok(None);
        }
        if last {
            self.held.push(b'\n');
        }
        self.number += 1;
        Ok(Some((self.number, &self.held[..self.held.len() - 1])))
    }
}

type StreamKey = (Stream, Channel);

struct Streams {
    open: HashMap<StreamKey, OneStream>,
    /// How the streams of a channel are cut, where a transcript says so.
    framing: HashMap<Channel, Format>,
    max_frame: usize,
}

struct OneStream {
    codec: AnyCodec,
    /// When its last bytes came.
    time: Option<Duration>,
    /// What was left out of the stream before what the codec has seen.
    missing: u64,
}

enum AnyCodec {
    Lines(Lines),
    Sse(Box<Sse>),
    ContentLength(ContentLength),
}

impl Streams {
    fn entry<F: FnMut(&mut Output, Seen<'_>) -> Result<bool, Failure>>(
        &mut self,
        entry: &Entry,
        frames: &mut Frames<'_, F>,
    ) -> Result<bool, Failure> {
        match entry {
            Entry::Bytes(Bytes { stream: Stream::Stderr, .. }) => Ok(true),
            Entry::Bytes(bytes) => {
                let key = (bytes.stream, bytes.channel.clone());
                let one = self.stream(&key)?;
                one.time = bytes.marks.time.or(one.time);
                Ok(one.feed(&key, &bytes.payload, frames)? && one.feed(&key, bytes.end.as_bytes(), frames)?)
            }
            Entry::Event(Event { channel, note: Note::Framing(framing), .. }) => {
                let format = match &**framing {
                    "lines" => Format::Lines,
                    "sse" => Format::Sse,
                    "content-length" => Format::ContentLength,
                    other => {
                        return Err(Failure::new(format!(
                            "the transcript names a framing that is not known: {other}"
                        )));
                    }
                };
                self.framing.insert(channel.clone(), format);
                self.open.retain(|key, _| key.1 != *channel);
                Ok(true)
            }
            Entry::Event(Event { channel, note: Note::Gap(stream, bytes), .. }) => {
                // What stood before the gap and what stands behind it are not one frame.
                let key = (*stream, channel.clone());
                let one = self.stream(&key)?;
                let go_on = one.finish(&key, frames)?;
                one.missing += bytes;
                Ok(go_on)
            }
            _ => Ok(true),
        }
    }

    fn finish<F: FnMut(&mut Output, Seen<'_>) -> Result<bool, Failure>>(
        &mut self,
        frames: &mut Frames<'_, F>,
    ) -> Result<(), Failure> {
        let mut open: Vec<_> = self.open.iter_mut().collect();
        open.sort_by_key(|((stream, channel), _)| (channel.as_str().to_owned(), stream.sigil()));
        for (key, one) in open {
            if !one.finish(key, frames)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn stream(&mut self, key: &StreamKey) -> Result<&mut OneStream, Failure> {
        if self.open.len() >= MOST_STREAMS && !self.open.contains_key(key) {
            return Err(Failure::new(format!("the transcript has more than {MOST_STREAMS} streams")));
        }
        let (format, limit) = (self.framing.get(&key.1), self.max_frame);
        Ok(self.open.entry(key.clone()).or_insert_with(|| OneStream {
            codec: match format {
                Some(Format::Sse) => AnyCodec::Sse(Box::new(Sse::new(limit))),
                Some(Format::ContentLength) => AnyCodec::ContentLength(ContentLength::new(limit)),
                _ => AnyCodec::Lines(Lines::new(limit)),
            },
            time: None,
            missing: 0,
        }))
    }
}

impl OneStream {
    fn feed<F: FnMut(&mut Output, Seen<'_>) -> Result<bool, Failure>>(
        &mut self,
        key: &StreamKey,
        mut bytes: &[u8],
        frames: &mut Frames<'_, F>,
    ) -> Result<bool, Failure> {
        let at = Where { stream: key.0, channel: key.1.as_str(), time: self.time, missing: self.missing };
        while let Some(frame) = match &mut self.codec {
            AnyCodec::Lines(codec) => codec.next_frame(&mut bytes),
            AnyCodec::Sse(codec) => codec.next_frame(&mut bytes),
            AnyCodec::ContentLength(codec) => codec.next_frame(&mut bytes),
        } {
            if !frames.take(frame, Some(at))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish<F: FnMut(&mut Output, Seen<'_>) -> Result<bool, Failure>>(
        &mut self,
        key: &StreamKey,
        frames: &mut Frames<'_, F>,
    ) -> Result<bool, Failure> {
        let at = Where { stream: key.0, channel: key.1.as_str(), time: self.time, missing: self.missing };
        while let Some(frame) = match &mut self.codec {
            AnyCodec::Lines(codec) => codec.finish(),
            AnyCodec::Sse(codec) => codec.finish(),
            AnyCodec::ContentLength(codec) => codec.finish(),
        } {
            if !frames.take(frame, Some(at))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// More streams than any host has servers; each may hold an unfinished frame.
const MOST_STREAMS: usize = 4096;
