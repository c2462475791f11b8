//! A file or stdin -> what is in it, in one buffer, whatever its size.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use barewire_proto::frame::{Codec, ContentLength, Lines, Sse};
use barewire_proto::transcript::{Entry, WireError, WireFault, read_line};

use super::streams::Frames;
use super::{FrameLimits, Sink, capture};
use crate::{Advice, Error, platform};

/// A file or stdin to read, and how.
#[expect(clippy::exhaustive_structs, reason = "every reading has to say all of it")]
pub struct FrameReader<'a> {
    /// `None` is stdin.
    pub file: Option<&'a Path>,
    /// The format of what is read.
    pub format: Format,
    /// How much of it is kept and judged.
    pub limits: FrameLimits,
    /// Whether to wait for more at the end of a file.
    pub follow: bool,
    /// Called with what is left out because it cannot be read.
    pub warn: &'a dyn Fn(&Error),
}

/// How an input is cut into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// As a transcript if its name or first line says so, else as lines.
    Auto,
    /// One message a line.
    Lines,
    /// A `.wire` transcript.
    Wire,
    /// Server-sent events.
    Sse,
    /// Messages behind `Content-Length` headers.
    ContentLength,
}

impl FrameReader<'_> {
    /// Tells `sink` everything, until it has enough.
    pub fn each(&self, sink: &mut dyn Sink) -> Result<(), Error> {
        let mut input = Input::open(self.file, self.follow)?;
        while let Ended::Anew = self.once(&mut input, sink)? {
            sink.restarted(&input.name)?;
        }
        Ok(())
    }

    fn once(&self, input: &mut Input, sink: &mut dyn Sink) -> Result<Ended, Error> {
        let format = match self.format {
            Format::Auto => input.format(sink)?,
            chosen => chosen,
        };
        let (limit, depth) = (self.limits.frame, self.limits.depth);
        match format {
            Format::Wire => capture::read(input, self.limits, self.warn, sink),
            Format::Lines | Format::Auto => stream(input, Lines::new(limit), depth, sink),
            Format::Sse => stream(input, Sse::new(limit), depth, sink),
            Format::ContentLength => stream(input, ContentLength::new(limit), depth, sink),
        }
    }
}

/// Why no more is read.
pub(super) enum Ended {
    /// There is no more, or that was enough.
    Over,
    /// Something else stands in the file now, from its beginning.
    Anew,
}

/// Cuts the input into frames.
fn stream(input: &mut Input, mut codec: impl Codec, max_depth: usize, sink: &mut dyn Sink) -> Result<Ended, Error> {
    let mut frames = Frames::new(max_depth);
    let ended = loop {
        let mut piece = match input.next(sink)? {
            Piece::Bytes(piece) => piece,
            Piece::End => break Ended::Over,
            Piece::Anew => break Ended::Anew,
        };
        while let Some(frame) = codec.next_frame(&mut piece) {
            if !frames.take(frame, None, sink)? {
                return Ok(Ended::Over);
            }
        }
        // Whoever follows a live stream sees every frame as soon as it is whole.
        sink.caught_up()?;
    };
    while let Some(frame) = codec.finish() {
        if !frames.take(frame, None, sink)? {
            return Ok(Ended::Over);
        }
    }
    Ok(ended)
}

/// The bytes of the input, piece by piece.
pub(super) struct Input {
    reader: Box<dyn Read>,
    pub(super) name: String,
    is_wire_file: bool,
    buffer: Vec<u8>,
    /// What of the buffer was read to find out the format, and is still to be taken.
    peeked: usize,
    followed: Option<Followed>,
}

/// A file in which there may be more later.
struct Followed {
    path: PathBuf,
    file: File,
    /// How much of it was read.
    read: u64,
    /// How it began.
    begin: Vec<u8>,
}

/// What comes next of the input.
pub(super) enum Piece<'a> {
    Bytes(&'a [u8]),
    End,
    /// What was there before is gone, and what comes next is the beginning of something else.
    Anew,
}

impl Input {
    fn open(file: Option<&Path>, follow: bool) -> Result<Self, Error> {
        let buffer = vec![0; 64 * 1024];
        let Some(path) = file else {
            let reader = Box::new(io::stdin().lock());
            return Ok(Self { reader, name: "stdin".into(), is_wire_file: false, buffer, peeked: 0, followed: None });
        };
        let name = path.display().to_string();
        let cannot = |why: &dyn std::fmt::Display| {
            Error::new(format!("cannot read {name}: {why}")).with_advice(Advice::NameFile)
        };
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => cannot(&error).with_hint("ls -l shows who may read it"),
            _ => cannot(&error),
        })?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(cannot(&"it is a folder"));
        }
        let is_wire_file = path.extension().is_some_and(|extension| extension == "wire");
        // A copy of the same open file: they are at the same place in it.
        let followed = follow.then(|| file.try_clone()).transpose().map_err(|error| cannot(&error))?;
        let followed = followed.map(|file| Followed { path: path.to_owned(), file, read: 0, begin: Vec::new() });
        Ok(Self { reader: Box::new(file), name, is_wire_file, buffer, peeked: 0, followed })
    }

    /// Looks at the first line: a transcript begins with its header when its name does not say that it is one.
    fn format(&mut self, sink: &mut dyn Sink) -> Result<Format, Error> {
        if self.is_wire_file {
            return Ok(Format::Wire);
        }
        loop {
            let seen = &self.buffer[..self.peeked];
            let line = seen.split(|b| *b == b'\n').next().unwrap_or_default();
            let may_be_header = WIRE.starts_with(line) || line.starts_with(WIRE) || BOM_WIRE.starts_with(line);
            let may_be_header = may_be_header || line.starts_with(BOM_WIRE);
            let is_whole = line.len() < seen.len() || self.peeked == self.buffer.len();
            if is_whole || !may_be_header {
                return Ok(first_line_says(line));
            }
            match self.read_at(self.peeked, sink)? {
                Some(0) => return Ok(first_line_says(&self.buffer[..self.peeked])),
                Some(read) => self.peeked += read,
                None => self.peeked = 0,
            }
        }
    }

    /// The next piece. A file that is followed has no end.
    pub(super) fn next(&mut self, sink: &mut dyn Sink) -> Result<Piece<'_>, Error> {
        let count = match std::mem::take(&mut self.peeked) {
            0 => self.read_at(0, sink)?,
            peeked => Some(peeked),
        };
        Ok(match count {
            Some(0) => Piece::End,
            Some(count) => Piece::Bytes(&self.buffer[..count]),
            None => Piece::Anew,
        })
    }

    /// How much was read; `None` if the file begins anew.
    fn read_at(&mut self, at: usize, sink: &mut dyn Sink) -> Result<Option<usize>, Error> {
        loop {
            if self.followed.as_mut().is_some_and(Followed::begins_anew) {
                return Ok(None);
            }
            // Looked for before the read: what is written to the old file until it loses its name is read to its end.
            let successor = self.followed.as_ref().and_then(Followed::successor);
            match (self.reader.read(&mut self.buffer[at..]), &mut self.followed) {
                (Ok(0), Some(followed)) => {
                    sink.caught_up()?;
                    if let Some((reader, file)) = successor {
                        self.reader = Box::new(reader);
                        *followed = Followed { path: followed.path.clone(), file, read: 0, begin: Vec::new() };
                        return Ok(None);
                    }
                    thread::sleep(LOOK_AGAIN);
                }
                (Ok(count), followed) => {
                    if let Some(followed) = followed {
                        // It may have been overwritten since it was looked at, and this would be from its middle.
                        if followed.begins_anew() {
                            return Ok(None);
                        }
                        followed.saw(&self.buffer[at..at + count]);
                    }
                    return Ok(Some(count));
                }
                (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => {}
                (Err(error), _) => return Err(Error::new(format!("cannot read {}: {error}", self.name))),
            }
        }
    }
}

impl Followed {
    fn saw(&mut self, bytes: &[u8]) {
        self.read += bytes.len() as u64;
        let room = MOST_BEGIN - self.begin.len();
        self.begin.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The file that has the name now, if that is another one: ours was removed or renamed, and one was made anew.
    fn successor(&self) -> Option<(File, File)> {
        let (named, ours) = (fs::metadata(&self.path).ok()?, self.file.metadata().ok()?);
        if !named.is_file() || platform::is_same_file(&named, &ours) {
            return None;
        }
        let file = File::open(&self.path).ok()?;
        Some((file.try_clone().ok()?, file))
    }

    /// Whether somebody has overwritten what was read, as a tap does that is started again; then it goes back to the beginning.
    fn begins_anew(&mut self) -> bool {
        let is_shorter = self.file.metadata().is_ok_and(|now| now.is_file() && now.len() < self.read);
        // A header has the time in it. It may be longer than before already when it is looked at.
        if !is_shorter && !self.begins_otherwise().unwrap_or(false) {
            return false;
        }
        let is_at_the_beginning = self.file.rewind().is_ok();
        (self.read, self.begin) = (0, Vec::new());
        is_at_the_beginning
    }

    fn begins_otherwise(&mut self) -> io::Result<bool> {
        let mut begin = vec![0; self.begin.len()];
        self.file.rewind()?;
        let read = self.file.read_exact(&mut begin);
        self.file.seek(SeekFrom::Start(self.read))?;
        Ok(read.is_ok() && begin != self.begin)
    }
}

/// With the time that a header has in it.
const MOST_BEGIN: usize = 64;

/// Soon enough for somebody who looks on, and next to no work for the machine.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a header begins with, without and with a BOM before it.
const WIRE: &[u8] = b"wire ";
const BOM_WIRE: &[u8] = b"\xef\xbb\xbfwire ";

fn first_line_says(line: &[u8]) -> Format {
    match read_line(line, 1) {
        // One of a version that we do not know is a transcript that we cannot read.
        Ok(Entry::Header(_)) | Err(WireError { fault: WireFault::NewerVersion, .. }) => Format::Wire,
        _ => Format::Lines,
    }
}
