//! A file or stdin -> frames, in one buffer, whatever its size.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use barewire::proto::frame::{Codec, ContentLength, Frame, FrameError, Lines, Sse};
use barewire::proto::transcript::{Entry, WireError, WireFault, read_line};

use super::verdict::{Seen, Where};
use super::{Args, Format, capture};
use crate::failure::Failure;
use crate::output::Output;

/// Calls `each` with every frame of the input, until it returns `false`.
pub(super) fn each_frame(
    args: &Args,
    output: &mut Output,
    each: &mut dyn FnMut(&mut Output, &Seen<'_>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut input = Input::open(args.file.as_deref())?;
    let format = match args.format {
        Format::Auto => input.format()?,
        chosen => chosen,
    };
    let mut frames = Frames { max_depth: args.max_depth, number: 0, each, output };
    match format {
        Format::Wire => capture::read(&mut input, &mut frames, args.max_frame),
        Format::Lines | Format::Auto => stream(&mut input, Lines::new(args.max_frame), &mut frames),
        Format::Sse => stream(&mut input, Sse::new(args.max_frame), &mut frames),
        Format::ContentLength => stream(&mut input, ContentLength::new(args.max_frame), &mut frames),
    }
}

/// Cuts the input into frames.
fn stream(input: &mut Input, mut codec: impl Codec, frames: &mut Frames<'_>) -> Result<(), Failure> {
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

/// Numbers the frames, judges them and hands them on.
pub(super) struct Frames<'a> {
    max_depth: usize,
    number: u64,
    each: &'a mut dyn FnMut(&mut Output, &Seen<'_>) -> Result<bool, Failure>,
    pub(super) output: &'a mut Output,
}

impl Frames<'_> {
    pub(super) fn take(
        &mut self,
        frame: Result<Frame<'_>, FrameError>,
        place: Option<Where<'_>>,
    ) -> Result<bool, Failure> {
        // Only events named `message` carry messages, and one without data only primes a stream for resumption.
        if let Ok(Frame { event: Some(event), bytes, .. }) = &frame
            && (event.name != "message" || bytes.is_empty())
        {
            return Ok(true);
        }
        self.number += 1;
        (self.each)(self.output, &Seen::judge(self.number, &frame, place, self.max_depth))
    }

    /// A frame of which a transcript holds only the beginning.
    pub(super) fn take_cut(
        &mut self,
        offset: u64,
        length: u64,
        begins: &[u8],
        place: Where<'_>,
    ) -> Result<bool, Failure> {
        self.number += 1;
        (self.each)(self.output, &Seen::cut(self.number, offset, length, begins, place))
    }
}

/// The bytes of the input, piece by piece.
pub(super) struct Input {
    reader: Box<dyn Read>,
    pub(super) name: String,
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
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::new(format!("cannot read {name}: {why}")).hint("give the path of a file, or - for stdin")
        };
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => cannot(&error).hint("ls -l shows who may read it"),
            _ => cannot(&error),
        })?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(cannot(&"it is a folder"));
        }
        let is_wire_file = path.extension().is_some_and(|extension| extension == "wire");
        Ok(Self { reader: Box::new(file), name, is_wire_file, buffer, peeked: 0 })
    }

    /// Looks at the first line: a transcript begins with its header when its name does not say that it is one.
    fn format(&mut self) -> Result<Format, Failure> {
        if self.is_wire_file {
            return Ok(Format::Wire);
        }
        loop {
            let seen = &self.buffer[..self.peeked];
            let line = seen.split(|b| *b == b'\n').next().unwrap_or_default();
            let may_be_header =
                WIRE.starts_with(line) || line.starts_with(WIRE) || BOM_WIRE.starts_with(line);
            let may_be_header = may_be_header || line.starts_with(BOM_WIRE);
            let is_whole = line.len() < seen.len() || self.peeked == self.buffer.len();
            if is_whole || !may_be_header {
                return Ok(first_line_says(line));
            }
            match self.read_at(self.peeked)? {
                0 => return Ok(first_line_says(&self.buffer[..self.peeked])),
                read => self.peeked += read,
            }
        }
    }

    /// The next piece; empty at the end.
    pub(super) fn next(&mut self) -> Result<&[u8], Failure> {
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
