//! `--wire`: the log of a host, or a HAR file -> a `.wire` transcript, for the other commands.

use std::cell::RefCell;
use std::io;

use barewire_proto::transcript::Entry;

use crate::output::Output;
use crate::{Exit, Failure};
use barewire_workbench::frames::{FrameReader, Sink, WireItem};

pub(super) fn run(
    reading: FrameReader<'_>,
    redact: impl FnMut(Entry, &mut Vec<Entry>),
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut writer = WireWriter { output, redact, text: String::new(), redacted: Vec::new(), error: None };
    {
        let filter = RefCell::new(|entry, _: &mut Vec<Entry>| writer.entry(entry));
        FrameReader { filter: Some(&filter), ..reading }.each(&mut OtherFormats)?;
    }
    writer.error.map_or(Ok(()), Err)?;
    writer.output.flush()?;
    Ok(Exit::Clean)
}

/// Writes entries. They are not passed on, so nothing else is done with them.
struct WireWriter<'a, R> {
    output: &'a mut Output,
    redact: R,
    text: String,
    redacted: Vec<Entry>,
    /// The first error; after it, nothing is written.
    error: Option<io::Error>,
}

impl<R: FnMut(Entry, &mut Vec<Entry>)> WireWriter<'_, R> {
    fn entry(&mut self, entry: Entry) {
        if self.error.is_some() {
            return;
        }
        (self.redact)(entry, &mut self.redacted);
        self.text.clear();
        self.redacted.drain(..).for_each(|entry| entry.write(&mut self.text));
        self.error = self.output.write_result(&self.text).err();
    }
}

/// Gets frames only from formats of which no entries are made.
struct OtherFormats;

impl Sink for OtherFormats {
    fn take(&mut self, _item: &WireItem<'_>) -> Result<bool, Failure> {
        Err(Failure::new("--wire converts logs of hosts and HAR files; this input is in another format")
            .with_hint("--format host-log or --format har names the format, if it was not recognized"))
    }
}
