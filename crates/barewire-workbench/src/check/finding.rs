//! What a check has found: whose fault it is, where it stands on the wire, and what was seen there.

use barewire_proto::mcp::{Revision, Side};
use barewire_proto::transcript::Stream;

use super::catalogue::Check;
use crate::frames::WireFrame;
use crate::secrets::{EXCERPT_LIMIT, Redactor};
use crate::text::shown;

/// One violation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finding {
    /// The check that was violated.
    pub check: &'static Check,
    /// The party at fault.
    pub party: Party,
    /// What exactly is wrong, to read on behind the sentence of the check.
    pub detail: String,
    /// The place on the wire.
    pub spot: Location,
    /// The beginning of what was seen there, as it was.
    pub(crate) seen: Vec<u8>,
    /// What was seen there: without secrets, escaped, and no longer than a line or two. Empty until it is in a report.
    pub evidence: String,
    /// The member that it is about, as a JSON Pointer.
    pub path: Option<String>,
}

/// The party at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a wire has two ends and something between them")]
pub enum Party {
    /// The client.
    Client,
    /// The server.
    Server,
    /// Whatever is between the two.
    Carrier,
}

/// A place on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// The connection, where there are several.
    pub channel: String,
    /// The stream, as the character that stands for it in a transcript.
    pub stream: Option<char>,
    /// The number of the frame, as `barewire read` counts.
    pub frame: Option<u64>,
    /// The byte of the stream.
    pub offset: Option<u64>,
}

impl Finding {
    pub(crate) fn new(
        check: &'static Check,
        party: Party,
        spot: Location,
        detail: impl Into<String>,
    ) -> Self {
        // It may hold names that a peer has chosen.
        let detail = shown(detail.into().as_bytes(), LONGEST);
        Self { check, party, detail, spot, seen: Vec::new(), evidence: String::new(), path: None }
    }

    /// Quotes what was seen.
    pub(crate) fn seen(mut self, bytes: &[u8]) -> Self {
        self.seen = bytes[..bytes.len().min(EXCERPT_LIMIT + 1)].to_vec();
        self
    }

    pub(crate) fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(shown(path.into().as_bytes(), LONGEST));
        self
    }

    /// Makes it fit to be told: without secrets, and then cut.
    pub(crate) fn redact(&mut self, redactor: &mut Redactor) {
        self.evidence = redactor.shown(&std::mem::take(&mut self.seen), EVIDENCE);
        self.detail = redactor.shown(self.detail.as_bytes(), LONGEST);
        self.path = self.path.take().map(|path| redactor.shown(path.as_bytes(), LONGEST));
    }

    /// What is the same each time the same thing is found: for baselines, and to tell repetitions.
    pub(crate) fn fingerprint(&self) -> String {
        let path = without_numbers(self.path.as_deref().unwrap_or_default());
        format!("{}|{}|{path}|{}", self.check.id, self.party.as_str(), without_numbers(&self.detail))
    }
}

/// Numbers are ids, places and counts, and differ from run to run; but for codes and revisions.
fn without_numbers(text: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || c == '-';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_number) {
        let end = rest[start..].find(|c| !is_number(c)).map_or(rest.len(), |length| start + length);
        let number = &rest[start..end];
        out.push_str(&rest[..start]);
        let is_code = number.len() == 6 && number.starts_with("-32");
        let is_revision = Revision::parse(number).is_some();
        match number.contains(|c: char| c.is_ascii_digit()) {
            true if !is_code && !is_revision => out.push('#'),
            _ => out.push_str(number),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

impl Party {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Carrier => "carrier",
        }
    }
}

impl From<Side> for Party {
    fn from(side: Side) -> Self {
        match side {
            Side::Client => Self::Client,
            Side::Server => Self::Server,
        }
    }
}

impl Location {
    /// The byte `at` of a frame.
    pub(crate) fn of(seen: &WireFrame<'_>, at: usize) -> Self {
        Self {
            channel: seen.place.map_or(String::new(), |place| place.channel.to_owned()),
            stream: seen.place.map(|place| place.stream.sigil()),
            frame: Some(seen.number),
            offset: Some(seen.offset.saturating_add(at as u64)),
        }
    }

    /// A channel, and no place in it.
    pub(crate) fn channel(channel: &str) -> Self {
        Self { channel: channel.to_owned(), ..Self::default() }
    }

    /// The place as a person reads it.
    pub fn text(&self) -> String {
        let mut text = match (self.frame, self.offset) {
            (Some(frame), Some(offset)) => format!("frame {frame}, byte {offset}"),
            (Some(frame), None) => format!("frame {frame}"),
            _ => String::new(),
        };
        if let (Some(sigil), true) = (self.stream, self.frame.is_none()) {
            text = stream_name(sigil).to_owned();
        }
        match (self.channel.is_empty(), text.is_empty()) {
            (true, _) => text,
            (false, true) => self.channel.clone(),
            (false, false) => format!("{} {text}", self.channel),
        }
    }
}

fn stream_name(sigil: char) -> &'static str {
    match sigil {
        '!' => "stderr",
        '<' => "stdout",
        _ => "stdin",
    }
}

/// Of `stream`, without a frame.
pub(crate) fn stream_spot(channel: &str, stream: Stream) -> Location {
    Location { channel: channel.to_owned(), stream: Some(stream.sigil()), ..Location::default() }
}

/// A sentence or two; what is longer is a name that somebody has made up for it.
const LONGEST: usize = 1000;

/// Two lines of a terminal.
const EVIDENCE: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_left_out() {
        let text = "/tools/12: -32602 in 2025-11-25, not -1 or 7 of well-known 3-way";
        assert_eq!(without_numbers(text), "/tools/#: -32602 in 2025-11-25, not # or # of well-known #way");
    }
}
