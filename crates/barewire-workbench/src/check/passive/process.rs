//! How a process ends, and what it writes to stderr -> findings.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::{self, Parsed};
use barewire_proto::transcript::{Bytes, Event, Note, Stream, is_clean};

use super::ObservationState;
use crate::check::catalogue::Check;
use crate::check::catalogue::process::{EOF_EXIT, EXIT_CODE, STAYS_ALIVE, STDERR_HYGIENE};
use crate::check::finding::{Finding, Location, Party, stream_location};
use crate::check::ledger::Ledger;
use crate::operations::{Operation, TrackedMessage};
use crate::text::shown;

#[derive(Default)]
pub(super) struct ProcessChecks {
    /// Channels whose stdin is closed.
    closed: HashSet<String>,
    /// Those whose stdout was at its end before that: whoever waited for it has closed stdin because of it.
    gone: HashSet<String>,
    /// Bytes on stderr, by channel.
    written: HashMap<String, u64>,
    /// What was asked last and written to stderr last, by channel.
    last: HashMap<String, LastActivity>,
}

#[derive(Default)]
struct LastActivity {
    asked: Option<(String, Location)>,
    /// What was written to stderr since then.
    line: Vec<u8>,
    /// The last of it that names an error.
    error: Vec<u8>,
}

impl ProcessChecks {
    /// A request of the client: what a process ends after is often what it ends of.
    pub(super) fn asked(&mut self, tracked: &TrackedMessage<'_>, operation: &Operation) {
        let (Some(place), Side::Client) = (tracked.frame.place, tracked.sender) else { return };
        // Over HTTP no process is seen.
        if tracked.exchange.is_none()
            && let Some(last) = self.last(place.channel)
        {
            *last = LastActivity {
                asked: Some((operation.title(), Location::of(tracked.frame, 0))),
                ..LastActivity::default()
            };
        }
    }

    fn last(&mut self, channel: &str) -> Option<&mut LastActivity> {
        let has_room = self.last.len() < MOST_CHANNELS || self.last.contains_key(channel);
        has_room.then(|| self.last.entry(channel.to_owned()).or_default())
    }

    pub(super) fn event(&mut self, event: &Event, state: &ObservationState, ledger: &mut Ledger) {
        let channel = event.channel.as_str();
        let ended = match event.note {
            Note::Eof(Stream::ToServer) => {
                // Over HTTP every exchange ends so, and none with a process.
                if self.closed.len() >= MOST_CHANNELS {
                    self.closed.clear();
                }
                self.closed.insert(channel.to_owned());
                return;
            }
            Note::Eof(Stream::ToClient) => {
                if !self.closed.contains(channel) && self.gone.len() < MOST_CHANNELS {
                    self.gone.insert(channel.to_owned());
                }
                return;
            }
            Note::ExitCode(code) => ProcessExit::Code(code),
            Note::ExitSignal(signal) => ProcessExit::Signal(signal),
            _ => return,
        };
        self.written.remove(channel);
        let was_closed = self.closed.remove(channel) & !self.gone.remove(channel);
        let last = self.last.remove(channel).unwrap_or_default();
        if state.misuse_channels.contains(channel) {
            return;
        }
        ledger.inspected(&STAYS_ALIVE);
        // Whoever drives the server itself tells how long it has waited.
        if was_closed && !state.client_is_ours {
            let closed = state.closed.get(channel).zip(event.marks.time);
            last.after_eof(channel, &ended, closed.map(|(closed, now)| now.saturating_sub(*closed)), ledger);
        }
        match (was_closed, ended) {
            (true, ProcessExit::Code(0)) => ledger.inspected(&EXIT_CODE),
            (true, ProcessExit::Code(code)) => {
                ledger.fail(last.ended(&EXIT_CODE, channel, format!("its exit code is {code}")));
            }
            // It was told to end.
            (_, ProcessExit::Signal(1 | 2 | 9 | 15)) => {}
            (true, ProcessExit::Signal(signal)) => {
                ledger.fail(last.ended(&EXIT_CODE, channel, format!("signal {signal} ended it")));
            }
            // Whether its stdin was open is not in every capture.
            (false, ProcessExit::Code(0)) if !state.client_is_ours => {}
            (false, ProcessExit::Code(code)) => {
                ledger.fail(last.finding(channel, format!("its stdin is open, and it exits with code {code}")));
            }
            (false, ProcessExit::Signal(signal)) => {
                ledger.fail(last.finding(channel, format!("its stdin is open, and signal {signal} ended it")));
            }
        }
    }

    pub(super) fn stderr(&mut self, bytes: &Bytes, ledger: &mut Ledger) {
        ledger.inspected(&STDERR_HYGIENE);
        let channel = bytes.channel.as_str();
        let fail = |ledger: &mut Ledger, detail: String| {
            let location = stream_location(channel, Stream::Stderr);
            ledger.fail(Finding::new(&STDERR_HYGIENE, Party::Server, location, detail).seen(&bytes.payload));
        };
        let line = &bytes.payload;
        if !line.trim_ascii().is_empty()
            && let Some(last) = self.last(channel)
        {
            last.line = line[..line.len().min(LONGEST_LINE)].to_vec();
            if ERRORS.iter().any(|word| memchr::memmem::find(&last.line, word).is_some()) {
                last.error.clone_from(&last.line);
            }
        }
        if std::str::from_utf8(line).is_err() {
            fail(ledger, "a line is not UTF-8".to_owned());
        } else if line.iter().any(|b| (*b < 0x20 && *b != b'\t') || *b == 0x7f) {
            fail(ledger, "a line has control characters in it".to_owned());
        } else if is_message(line) {
            fail(ledger, "a message of JSON-RPC is written to stderr".to_owned());
        }
        let Some(written) = self.count(channel, line.len() as u64) else { return };
        if written > MOST_STDERR && written - line.len() as u64 <= MOST_STDERR {
            fail(ledger, format!("more than {} KiB are written to it", MOST_STDERR / 1024));
        }
    }

    fn count(&mut self, channel: &str, bytes: u64) -> Option<u64> {
        if !self.written.contains_key(channel) {
            if self.written.len() >= MOST_CHANNELS {
                return None;
            }
            self.written.insert(channel.to_owned(), 0);
        }
        let written = self.written.get_mut(channel)?;
        *written += bytes;
        Some(*written)
    }
}

impl LastActivity {
    /// Whether the end of its stdin was enough for it.
    fn after_eof(&self, channel: &str, ended: &ProcessExit, waited: Option<Duration>, ledger: &mut Ledger) {
        let is_long = waited.is_some_and(|waited| waited >= LONG_ENOUGH);
        match *ended {
            // After so long it may be how it takes a signal.
            ProcessExit::Code(_) if !is_long => ledger.inspected(&EOF_EXIT),
            ProcessExit::Signal(signal @ (1 | 2 | 9 | 15)) if is_long => {
                let waited = waited.unwrap_or_default().as_secs_f64();
                let detail = format!("signal {signal} ended it {waited:.1} s after its stdin was closed");
                ledger.fail(Finding::new(&EOF_EXIT, Party::Server, Location::channel(channel), detail));
            }
            _ => {}
        }
    }

    /// It has ended of what it was asked, for all that is known.
    fn finding(mut self, channel: &str, how: String) -> Finding {
        match self.asked.take() {
            Some((asked, location)) => {
                let how = format!("{how}, after {}", shown(asked.as_bytes(), 60));
                Finding { location, ..self.ended(&STAYS_ALIVE, channel, how) }
            }
            None => self.ended(&STAYS_ALIVE, channel, how),
        }
    }

    /// With the last that it has written.
    fn ended(self, check: &'static Check, channel: &str, how: String) -> Finding {
        let finding = Finding::new(check, Party::Server, Location::channel(channel), how);
        // What stands behind it is the version of a runtime, or where it happened.
        let line = if self.error.is_empty() { self.line } else { self.error };
        if line.is_empty() { finding } else { finding.seen(&line) }
    }
}

enum ProcessExit {
    Code(i32),
    Signal(i32),
}

fn is_message(line: &[u8]) -> bool {
    is_clean(line) && line.starts_with(b"{") && matches!(rpc::parse(line, rpc::DEFAULT_DEPTH), Parsed::Message(_))
}

/// What the clients of the official SDKs wait for a server before they send it a signal.
const LONG_ENOUGH: Duration = Duration::from_secs(2);
/// A log that nobody can read any more.
const MOST_STDERR: u64 = 1024 * 1024;
/// How a line begins, or what stands in it, that says why.
const ERRORS: &[&[u8]] = &[b"rror:", b"xception:", b"panicked at", b"FATAL", b"atal:"];
/// The name of an exception stands at the beginning of its line.
const LONGEST_LINE: usize = 1024;
/// More processes than a host has.
const MOST_CHANNELS: usize = 4096;
