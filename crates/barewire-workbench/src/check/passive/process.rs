//! The exit of a process, and its stderr -> findings.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::{self, Parsed};
use barewire_proto::transcript::{Bytes, Event, Note, Stream, is_clean};
use memchr::memmem;

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
    /// Channels whose stdout ended before stdin was closed. The client then closed stdin because the server had ended.
    ended: HashSet<String>,
    /// Maps each channel to the number of bytes on stderr so far.
    written: HashMap<String, u64>,
    last: HashMap<String, LastActivity>,
}

#[derive(Default)]
struct LastActivity {
    request: Option<(String, Location)>,
    /// The last line on stderr since the client's last request.
    line: Vec<u8>,
    /// The last line on stderr that looks like an error, since the client's last request.
    error: Vec<u8>,
}

enum ProcessExit {
    Code(i32),
    Signal(i32),
}

impl ProcessChecks {
    /// Remembers a request of the client, because the last request is often the cause of an exit.
    pub(super) fn request(&mut self, tracked: &TrackedMessage<'_>, operation: &Operation) {
        let (Some(place), Side::Client) = (tracked.frame.place, tracked.sender) else { return };
        // Over HTTP there is no process to observe.
        if tracked.exchange.is_none()
            && let Some(last) = self.last(place.channel)
        {
            let request = Some((operation.title(), Location::of(tracked.frame, 0)));
            *last = LastActivity { request, ..LastActivity::default() };
        }
    }

    fn last(&mut self, channel: &str) -> Option<&mut LastActivity> {
        let has_room = self.last.len() < MAX_CHANNELS || self.last.contains_key(channel);
        has_room.then(|| self.last.entry(channel.to_owned()).or_default())
    }

    pub(super) fn event(&mut self, event: &Event, state: &ObservationState, ledger: &mut Ledger) {
        let channel = event.channel.as_str();
        let exit = match event.note {
            Note::Eof(Stream::ToServer) => {
                // HTTP exchanges also have this event, but no process exit that removes them from the set.
                if self.closed.len() >= MAX_CHANNELS {
                    self.closed.clear();
                }
                self.closed.insert(channel.to_owned());
                return;
            }
            Note::Eof(Stream::ToClient) => {
                if !self.closed.contains(channel) && self.ended.len() < MAX_CHANNELS {
                    self.ended.insert(channel.to_owned());
                }
                return;
            }
            Note::ExitCode(code) => ProcessExit::Code(code),
            Note::ExitSignal(signal) => ProcessExit::Signal(signal),
            _ => return,
        };
        self.written.remove(channel);
        let was_closed = self.closed.remove(channel) & !self.ended.remove(channel);
        let last = self.last.remove(channel).unwrap_or_default();
        if state.misuse_channels.contains(channel) {
            return;
        }
        ledger.inspected(&STAYS_ALIVE);
        // In a live run the harness judges the time until the exit.
        if was_closed && !state.client_is_ours {
            let closed = state.closed.get(channel).zip(event.marks.time);
            check_eof_exit(channel, &exit, closed.map(|(closed, now)| now.saturating_sub(*closed)), ledger);
        }
        match (was_closed, exit) {
            (true, ProcessExit::Code(0)) => ledger.inspected(&EXIT_CODE),
            (true, ProcessExit::Code(code)) => {
                ledger.fail(last.finding(&EXIT_CODE, channel, format!("the exit code is {code}")));
            }
            // Hosts send these signals to end a process.
            (_, ProcessExit::Signal(1 | 2 | 9 | 15)) => {}
            (true, ProcessExit::Signal(signal)) => {
                ledger.fail(last.finding(&EXIT_CODE, channel, format!("signal {signal} ended the process")));
            }
            // Not every capture records that stdin was closed.
            (false, ProcessExit::Code(0)) if !state.client_is_ours => {}
            (false, ProcessExit::Code(code)) => {
                ledger.fail(last.early_exit(channel, format!("the process exited with code {code}")));
            }
            (false, ProcessExit::Signal(signal)) => {
                ledger.fail(last.early_exit(channel, format!("signal {signal} ended the process")));
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
            last.line = line[..line.len().min(MAX_LINE)].to_vec();
            if ERROR_MARKS.iter().any(|mark| memmem::find(&last.line, mark).is_some()) {
                last.error.clone_from(&last.line);
            }
        }
        if std::str::from_utf8(line).is_err() {
            fail(ledger, "a line is not UTF-8".to_owned());
        } else if line.iter().any(|b| (*b < 0x20 && *b != b'\t') || *b == 0x7f) {
            fail(ledger, "a line contains control characters".to_owned());
        } else if is_message(line) {
            fail(ledger, "a line is a JSON-RPC message, which belongs on stdout".to_owned());
        }
        let has_room = self.written.len() < MAX_CHANNELS || self.written.contains_key(channel);
        if has_room {
            let written = self.written.entry(channel.to_owned()).or_default();
            let before = *written;
            *written += line.len() as u64;
            if before <= MAX_STDERR && *written > MAX_STDERR {
                fail(ledger, format!("more than {} KiB on stderr", MAX_STDERR / 1024));
            }
        }
    }
}

/// Checks that the process exited because its stdin was closed, and not because of a later signal.
fn check_eof_exit(channel: &str, exit: &ProcessExit, waited: Option<Duration>, ledger: &mut Ledger) {
    let is_long = waited.is_some_and(|waited| waited >= HOST_PATIENCE);
    match *exit {
        // After a long wait, the process may have exited with a code because it received a signal.
        ProcessExit::Code(_) if !is_long => ledger.inspected(&EOF_EXIT),
        ProcessExit::Signal(signal @ (1 | 2 | 9 | 15)) if is_long => {
            let waited = waited.unwrap_or_default().as_secs_f64();
            let detail = format!("signal {signal} ended the process {waited:.1} s after its stdin was closed");
            ledger.fail(Finding::new(&EOF_EXIT, Party::Server, Location::channel(channel), detail));
        }
        _ => {}
    }
}

impl LastActivity {
    /// Returns a finding for an exit while stdin is open, located at the last request.
    fn early_exit(mut self, channel: &str, how: String) -> Finding {
        let how = format!("{how} while its stdin was open");
        match self.request.take() {
            Some((request, location)) => {
                let how = format!("{how}, after {}", shown(request.as_bytes(), 60));
                Finding { location, ..self.finding(&STAYS_ALIVE, channel, how) }
            }
            None => self.finding(&STAYS_ALIVE, channel, how),
        }
    }

    /// Returns a finding about the exit. Its evidence is the last error on stderr or, without one, the last line.
    fn finding(self, check: &'static Check, channel: &str, how: String) -> Finding {
        let finding = Finding::new(check, Party::Server, Location::channel(channel), how);
        // An error is better evidence than the last line, which often is part of a stack trace or names the runtime.
        finding.seen(if self.error.is_empty() { &self.line } else { &self.error })
    }
}

fn is_message(line: &[u8]) -> bool {
    is_clean(line) && line.starts_with(b"{") && matches!(rpc::parse(line, rpc::DEFAULT_DEPTH), Parsed::Message(_))
}

/// The time that clients of the official SDKs wait before they send a signal.
const HOST_PATIENCE: Duration = Duration::from_secs(2);
/// The maximum number of bytes that a process should write to stderr; more than anyone can read.
const MAX_STDERR: u64 = 1024 * 1024;
/// Texts that mark a line on stderr as an error.
const ERROR_MARKS: &[&[u8]] = &[b"rror:", b"xception:", b"panicked at", b"FATAL", b"atal:"];
/// The maximum number of bytes that are kept of a line; the name of an exception is at its start.
const MAX_LINE: usize = 1024;
/// The maximum number of channels that are tracked; more than any host has processes.
const MAX_CHANNELS: usize = 4096;
