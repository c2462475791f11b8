//! A HAR 1.2 file -> HTTP exchanges, each on a channel of its own, in the order of their times.
//!
//! The file is read twice. The first time, the exchanges with messages of MCP are found, and their times. Then the
//! requests and responses are read in the order of their times: the file is in the order of the requests, but a
//! response on a stream can come after many other requests. Only one entry of the file is in memory at a time.

mod exchange;
mod scan;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use barewire_proto::json::Json;
use barewire_proto::transcript::Channel;

use super::import::{Importer, header};
use super::source::{FrameReader, ReadEnd, ReadNotice};
use super::{FrameLimits, Sink};
use crate::{Advice, Error};
use exchange::{ExchangeTimes, HarExchange, Part};
use scan::{ElementBracket, EntryScanner};

/// Passes all items of a HAR file to the sink, until the sink returns `false`.
pub(super) fn read(reader: &FrameReader<'_>, sink: &mut dyn Sink) -> Result<ReadEnd, Error> {
    let Some(path) = reader.file else {
        return Err(Error::new("cannot read a HAR file from stdin: it is read twice").with_advice(Advice::NameFile));
    };
    if reader.follow {
        return Err(Error::new(format!("cannot follow {}: a HAR file is written as a whole", path.display())));
    }
    let cannot = |error: &dyn std::fmt::Display| Error::new(format!("cannot read {}: {error}", path.display()));
    let mut file = File::open(path).map_err(|error| cannot(&error))?;
    let index = Index::of(&mut file, reader.limits).map_err(|error| cannot(&error))?;
    if !index.is_har {
        return Err(cannot(&"it has no list log.entries, as a HAR file has").with_hint("is it a HAR 1.2 file?"));
    }
    index.report(path, reader);
    let mut importer = Importer::new(reader.limits, reader.filter);
    let Some(started) = index.started() else { return Ok(ReadEnd::Finished) };
    let mut text = Vec::new();
    index.load(0, &mut file, &mut text).map_err(|error| cannot(&error))?;
    let first = Json::parse(&text).ok().and_then(HarExchange::of);
    let started_text = first.as_ref().map(HarExchange::started_text).unwrap_or_default();
    if !importer.entry(header(Some((started_text.as_bytes(), true))), sink)? {
        return Ok(ReadEnd::Finished);
    }
    let (mut entries, mut missing) = (Vec::new(), 0);
    for (nanos, part, number) in index.order() {
        index.load(number, &mut file, &mut text).map_err(|error| cannot(&error))?;
        let exchange = Json::parse(&text).ok().and_then(HarExchange::of);
        let exchange = exchange.ok_or_else(|| cannot(&"it was changed while it was read"))?;
        let channel = Channel::new(&format!("x{}", number + 1)).unwrap_or_default();
        let time = Duration::from_nanos(u64::try_from(nanos.saturating_sub(started)).unwrap_or_default());
        missing += u64::from(exchange.write(part, &channel, time, &mut entries));
        for entry in entries.drain(..) {
            if !importer.entry(entry, sink)? {
                return Ok(ReadEnd::Finished);
            }
        }
    }
    importer.finish(sink)?;
    if missing > 0 {
        (reader.notice)(ReadNotice::MissingBodies(missing));
    }
    Ok(ReadEnd::Finished)
}

/// The exchanges of a HAR file that contain messages of MCP.
#[derive(Default)]
struct Index {
    /// In the order of their requests.
    exchanges: Vec<IndexedExchange>,
    /// Whether the file has the list that every HAR file has.
    is_har: bool,
    /// The number of exchanges that are not MCP.
    others: u64,
    /// The number of entries that are too long to read.
    too_long: u64,
    /// The number of entries that are not valid: no JSON, or no time.
    invalid: u64,
    /// Whether the file ends within an entry.
    is_cut: bool,
    /// Whether there are more exchanges than can be read.
    is_full: bool,
}

struct IndexedExchange {
    offset: u64,
    length: usize,
    times: ExchangeTimes,
}

impl Index {
    fn of(file: &mut File, limits: FrameLimits) -> io::Result<Self> {
        let max_length = limits.frame.saturating_mul(2).saturating_add(1 << 20);
        let mut index = Self::default();
        let mut scanner = EntryScanner::default();
        let mut buffer = vec![0; 64 * 1024];
        let mut element = Element { text: Vec::new(), offset: None, max_length };
        let mut base = 0;
        loop {
            let count = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (piece, mut at) = (&buffer[..count], 0);
            while let Some(bracket) = scanner.next(piece, at) {
                match bracket {
                    ElementBracket::Opens(open) => {
                        (element.offset, at) = (Some(base + open as u64), open);
                        element.push(&piece[open..=open]);
                        at += 1;
                    }
                    ElementBracket::Closes(close) => {
                        element.push(&piece[at..close]);
                        index.add(&mut element);
                        at = close;
                    }
                }
            }
            if element.offset.is_some() {
                element.push(&piece[at..]);
            }
            base += count as u64;
        }
        (index.is_har, index.is_cut) = (scanner.has_entries, scanner.is_in_entries());
        index.exchanges.sort_by_key(|exchange| exchange.times.request);
        Ok(index)
    }

    /// Adds a complete element, if it is an exchange with messages of MCP.
    fn add(&mut self, element: &mut Element) {
        let Some(offset) = element.offset.take() else { return };
        let text = std::mem::take(&mut element.text);
        if text.len() > element.max_length {
            self.too_long += 1;
            return;
        }
        match Json::parse(&text).ok().and_then(HarExchange::of) {
            None => self.invalid += 1,
            Some(exchange) if !exchange.is_mcp() => self.others += 1,
            Some(_) if self.exchanges.len() >= MAX_EXCHANGES => self.is_full = true,
            Some(exchange) => {
                self.exchanges.push(IndexedExchange { offset, length: text.len(), times: exchange.times() });
            }
        }
        element.text = text;
        element.text.clear();
    }

    /// Reports everything that is left out.
    fn report(&self, path: &Path, reader: &FrameReader<'_>) {
        let name = path.display();
        if self.too_long > 0 {
            let what = format!("{name} has {} entries that are too long, which are left out", self.too_long);
            (reader.warn)(&Error::new(what).with_advice(Advice::RaiseFrameLimit));
        }
        if self.invalid > 0 {
            let what = format!("{name} has {} entries without a request, a response and a time", self.invalid);
            (reader.warn)(&Error::new(what));
        }
        if self.is_full {
            let what = format!("{name} has more than {MAX_EXCHANGES} exchanges; the rest is left out");
            (reader.warn)(&Error::new(what));
        }
        if self.is_cut {
            let what = format!("{name} ends within its list of exchanges");
            (reader.warn)(&Error::new(what).with_hint("the program that wrote it was stopped while writing"));
        }
        if self.others > 0 {
            (reader.notice)(ReadNotice::OtherExchanges(self.others));
        }
    }

    /// Returns the time of the first request.
    fn started(&self) -> Option<i64> {
        self.exchanges.first().map(|exchange| exchange.times.request)
    }

    /// Returns the requests and responses in the order of their times: nanoseconds, the part, the exchange.
    fn order(&self) -> Vec<(i64, Part, usize)> {
        let parts = |(number, exchange): (usize, &IndexedExchange)| {
            let ExchangeTimes { request, response } = exchange.times;
            [(request, Part::Request, number), (response, Part::Response, number)]
        };
        let mut order: Vec<_> = self.exchanges.iter().enumerate().flat_map(parts).collect();
        // A response at the time of another request comes first: the request may be a reaction to it. The sort is
        // stable, and a response never comes before its own request.
        order.sort_by_key(|(nanos, part, number)| (*nanos, *part == Part::Request, *number));
        order
    }

    /// Reads the text of an exchange.
    fn load(&self, number: usize, file: &mut File, text: &mut Vec<u8>) -> io::Result<()> {
        let Some(exchange) = self.exchanges.get(number) else { return Ok(()) };
        text.resize(exchange.length, 0);
        file.seek(SeekFrom::Start(exchange.offset))?;
        file.read_exact(text)
    }
}

/// The element of the list that is being read.
struct Element {
    text: Vec<u8>,
    /// The offset of the element in the file; `None` between elements.
    offset: Option<u64>,
    max_length: usize,
}

impl Element {
    /// Adds text. If the element is too long, its text is dropped, and only its length matters.
    fn push(&mut self, text: &[u8]) {
        if self.text.len() <= self.max_length {
            self.text.extend_from_slice(text);
        }
    }
}

/// The maximum number of exchanges. The positions of a million exchanges take 40 MB.
const MAX_EXCHANGES: usize = 1_000_000;

#[cfg(test)]
mod tests;
