//! Reads the items of a file or of stdin through one buffer of fixed size.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use barewire_proto::frame::{Codec, ContentLength, Lines, Sse};

use super::import::EntryFilter;
use super::recognize::recognize;
use super::streams::FrameEmitter;
use super::{FrameLimits, Sink, capture, har, host_log};
use crate::{Advice, Error, platform};

/// Reads the frames of a file or of stdin.
#[expect(clippy::exhaustive_structs, reason = "every caller must choose every field")]
pub struct FrameReader<'a> {
    /// The file to read; `None` for stdin.
    pub file: Option<&'a Path>,
    /// The format of the input.
    pub format: Format,
    /// The limits for frames.
    pub limits: FrameLimits,
    /// Whether to wait for more data at the end of a file.
    pub follow: bool,
    /// Called with a description of each part that cannot be read and is left out.
    pub warn: &'a dyn Fn(&Error),
    /// Called with facts about the input that are not errors.
    pub notice: &'a dyn Fn(ReadNotice),
    /// Called with each entry that is made from the log of a host or from a HAR file, for example to replace secrets.
    pub filter: Option<&'a RefCell<EntryFilter<'a>>>,
}

/// A fact about an input that is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadNotice {
    /// The input was recognized as the log of a host, or as a HAR file.
    Recognized(Format),
    /// The HAR file has this many exchanges that are not MCP, which are left out.
    OtherExchanges(u64),
    /// The HAR file does not contain this many bodies, or only their beginning.
    MissingBodies(u64),
}

/// The framing of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A transcript, a HAR file or the log of a host if the file name or the first lines indicate one, otherwise lines.
    Auto,
    /// One message per line.
    Lines,
    /// A `.wire` transcript.
    Wire,
    /// Server-sent events.
    Sse,
    /// Messages after `Content-Length` headers.
    ContentLength,
    /// The log of a host, with messages within its lines.
    HostLog,
    /// A HAR 1.2 file, which browsers and proxies write.
    Har,
}

impl Format {
    /// Returns the format that the extension of a file's name indicates.
    pub(super) fn of_extension(path: &Path) -> Option<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("wire") => Some(Self::Wire),
            Some("har") => Some(Self::Har),
            _ => None,
        }
    }
}

impl FrameReader<'_> {
    /// Passes all items to `sink`, until it returns `false`.
    pub fn each(&self, sink: &mut dyn Sink) -> Result<(), Error> {
        let mut input = Input::open(self.file, self.follow)?;
        while let ReadEnd::Restarted = self.once(&mut input, sink)? {
            sink.restarted(&input.name)?;
        }
        Ok(())
    }

    fn once(&self, input: &mut Input, sink: &mut dyn Sink) -> Result<ReadEnd, Error> {
        let format = match self.format {
            Format::Auto => input.format(sink)?,
            chosen => chosen,
        };
        if self.format == Format::Auto && matches!(format, Format::HostLog | Format::Har) {
            (self.notice)(ReadNotice::Recognized(format));
        }
        let (limit, depth) = (self.limits.frame, self.limits.depth);
        match format {
            Format::Wire => capture::read(input, self.limits, self.warn, sink),
            Format::Lines | Format::Auto => stream(input, Lines::new(limit), depth, sink),
            Format::Sse => stream(input, Sse::new(limit), depth, sink),
            Format::ContentLength => stream(input, ContentLength::new(limit), depth, sink),
            Format::HostLog => host_log::read(input, self.limits, self.filter, sink),
            Format::Har => har::read(self, sink),
        }
    }
}

pub(super) enum ReadEnd {
    /// The input has ended, or the sink has returned `false`.
    Finished,
    /// The file was replaced and must be read again from its start.
    Restarted,
}

/// Decodes the input as one stream of frames.
fn stream(input: &mut Input, mut codec: impl Codec, max_depth: usize, sink: &mut dyn Sink) -> Result<ReadEnd, Error> {
    let mut frames = FrameEmitter::new(max_depth);
    let ended = loop {
        let mut piece = match input.next(sink)? {
            InputPiece::Bytes(piece) => piece,
            InputPiece::End => break ReadEnd::Finished,
            InputPiece::Restarted => break ReadEnd::Restarted,
        };
        while let Some(frame) = codec.next_frame(&mut piece) {
            if !frames.take(frame, None, sink)? {
                return Ok(ReadEnd::Finished);
            }
        }
        // In a live stream, every frame is shown as soon as it is complete.
        sink.caught_up()?;
    };
    while let Some(frame) = codec.finish() {
        if !frames.take(frame, None, sink)? {
            return Ok(ReadEnd::Finished);
        }
    }
    Ok(ended)
}

/// The bytes of the input, piece by piece.
pub(super) struct Input {
    reader: Box<dyn Read>,
    pub(super) name: String,
    /// The format that the extension of the file's name indicates.
    named_format: Option<Format>,
    is_file: bool,
    buffer: Vec<u8>,
    /// The number of bytes in the buffer that were read to detect the format and are not consumed yet.
    peeked: usize,
    /// The number of bytes that were passed on.
    passed_on: u64,
    followed: Option<FollowedFile>,
}

/// A file that may grow or be replaced.
struct FollowedFile {
    path: PathBuf,
    file: File,
    /// The number of bytes that were read from the file.
    read: u64,
    begin: Vec<u8>,
}

pub(super) enum InputPiece<'a> {
    Bytes(&'a [u8]),
    End,
    /// The file was replaced; the next piece is the start of the new file.
    Restarted,
}

impl Input {
    fn open(file: Option<&Path>, follow: bool) -> Result<Self, Error> {
        let is_file = file.is_some();
        let input = |reader, name, named_format, followed| {
            let buffer = vec![0; 64 * 1024];
            Self { reader, name, named_format, is_file, buffer, peeked: 0, passed_on: 0, followed }
        };
        let Some(path) = file else { return Ok(input(Box::new(io::stdin().lock()), "stdin".into(), None, None)) };
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
        let named_format = Format::of_extension(path);
        // A clone shares the file's read position.
        let followed = follow.then(|| file.try_clone()).transpose().map_err(|error| cannot(&error))?;
        let followed = followed.map(|file| FollowedFile { path: path.to_owned(), file, read: 0, begin: Vec::new() });
        Ok(input(Box::new(file), name, named_format, followed))
    }

    /// Detects the format: by the file name, or by the first lines.
    fn format(&mut self, sink: &mut dyn Sink) -> Result<Format, Error> {
        if let Some(format) = self.named_format {
            return Ok(format);
        }
        let mut is_whole = false;
        loop {
            is_whole |= self.peeked == self.buffer.len();
            if let Some(format) = recognize(&self.buffer[..self.peeked], is_whole, self.is_file) {
                return Ok(format);
            }
            match self.read_at(self.peeked, sink)? {
                Some(0) => is_whole = true,
                Some(read) => self.peeked += read,
                None => self.peeked = 0,
            }
        }
    }

    /// Returns the next piece. A followed file has no end.
    pub(super) fn next(&mut self, sink: &mut dyn Sink) -> Result<InputPiece<'_>, Error> {
        let count = match std::mem::take(&mut self.peeked) {
            0 => self.read_at(0, sink)?,
            peeked => Some(peeked),
        };
        sink.read_so_far(self.passed_on);
        self.passed_on += count.unwrap_or_default() as u64;
        Ok(match count {
            Some(0) => InputPiece::End,
            Some(count) => InputPiece::Bytes(&self.buffer[..count]),
            None => InputPiece::Restarted,
        })
    }

    /// Reads into the buffer at offset `at`. Returns the number of bytes, or `None` if the file was replaced.
    fn read_at(&mut self, at: usize, sink: &mut dyn Sink) -> Result<Option<usize>, Error> {
        loop {
            if self.followed.as_mut().is_some_and(FollowedFile::was_overwritten) {
                return Ok(None);
            }
            // The successor is looked up before the read, so that the old file is still read up to its end.
            let successor = self.followed.as_ref().and_then(FollowedFile::successor);
            match (self.reader.read(&mut self.buffer[at..]), &mut self.followed) {
                (Ok(0), Some(followed)) => {
                    sink.caught_up()?;
                    if let Some((reader, file)) = successor {
                        self.reader = Box::new(reader);
                        *followed = FollowedFile { path: followed.path.clone(), file, read: 0, begin: Vec::new() };
                        return Ok(None);
                    }
                    thread::sleep(FOLLOW_INTERVAL);
                }
                (Ok(count), followed) => {
                    if let Some(followed) = followed {
                        // If the file was overwritten after the check above, these bytes are from the middle of the new
                        // content.
                        if followed.was_overwritten() {
                            return Ok(None);
                        }
                        followed.count_read(&self.buffer[at..at + count]);
                    }
                    return Ok(Some(count));
                }
                (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => {}
                (Err(error), _) => return Err(Error::new(format!("cannot read {}: {error}", self.name))),
            }
        }
    }
}

impl FollowedFile {
    fn count_read(&mut self, bytes: &[u8]) {
        self.read += bytes.len() as u64;
        let room = COMPARED_START - self.begin.len();
        self.begin.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Opens the file that now has our path, if our file was removed or renamed and another file was created.
    fn successor(&self) -> Option<(File, File)> {
        let (named, ours) = (fs::metadata(&self.path).ok()?, self.file.metadata().ok()?);
        if !named.is_file() || platform::is_same_file(&named, &ours) {
            return None;
        }
        let file = File::open(&self.path).ok()?;
        Some((file.try_clone().ok()?, file))
    }

    /// Whether the file was overwritten, for example by a restarted tap. If so, rewinds it to its start.
    fn was_overwritten(&mut self) -> bool {
        let is_shorter = self.file.metadata().is_ok_and(|now| now.is_file() && now.len() < self.read);
        // The new content may already be longer than the old, but its start differs because the header of a transcript
        // contains the time.
        if !is_shorter && !self.has_other_start().unwrap_or(false) {
            return false;
        }
        let is_rewound = self.file.rewind().is_ok();
        (self.read, self.begin) = (0, Vec::new());
        is_rewound
    }

    fn has_other_start(&mut self) -> io::Result<bool> {
        let mut begin = vec![0; self.begin.len()];
        self.file.rewind()?;
        let read = self.file.read_exact(&mut begin);
        self.file.seek(SeekFrom::Start(self.read))?;
        Ok(read.is_ok() && begin != self.begin)
    }
}

/// The number of bytes at the start of a followed file that are compared: a transcript's header up to the time.
const COMPARED_START: usize = 64;

/// The interval at which a followed file is checked: short enough for a person who is watching, with almost no load.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);
