//! The exit of a process, and its stderr -> findings.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::{self, Parsed};
use barewire_proto::transcript::{Bytes, Event, Note, Stream, is_clean};

use super::ObservationState;
use crate::check::catalogue::Check;
use crate::check::catalogue::process::{EOF_EXIT, EXIT_CODE, STAYS_ALIVE, STDERR_HYGIENE};
use crate::check::excerpt::{Excerpt, Fault};
use crate::check::finding::{Finding, Location, Party, stream_location};
use crate::check::last_lines::LastLines;
use crate::check::ledger::Ledger;
use crate::frames::{ExitStatus, RecordedEnd};
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
    /// Maps each channel of a capture to the events that say whether the host ended the process.
    ends: HashMap<String, RecordedEnd>,
    /// The findings about exits in a capture. They count only if no signal of the host follows: a host that signals
    /// every process of a server can reach the tap last.
    exits: Vec<(String, Finding)>,
}

#[derive(Default)]
struct LastActivity {
    /// The client's last request: its title, its location and an excerpt.
    request: Option<(String, Location, Option<Excerpt>)>,
    /// The lines on stderr since the client's last request.
    lines: LastLines,
}

impl ProcessChecks {
    /// Remembers a request of the client, because the last request is often the cause of an exit.
    pub(super) fn request(&mut self, tracked: &TrackedMessage<'_>, operation: &Operation, excerpt: Option<&Excerpt>) {
        let (Some(place), Side::Client) = (tracked.frame.place, tracked.sender) else { return };
        // Over HTTP there is no process to observe.
        if tracked.exchange.is_none()
            && let Some(last) = self.last(place.channel)
        {
            let excerpt = excerpt.cloned().map(Excerpt::unmarked);
            let request = Some((operation.title(), Location::of(tracked.frame, 0), excerpt));
            *last = LastActivity { request, ..LastActivity::default() };
        }
    }

    /// Notes a message of the client: a host that still talks to the server has not ended it.
    pub(super) fn client_message(&mut self, tracked: &TrackedMessage<'_>) {
        if let Some(place) = tracked.frame.place
            && let Some(end) = self.ends.get_mut(place.channel)
        {
            end.handle_client_frame();
        }
    }

    fn last(&mut self, channel: &str) -> Option<&mut LastActivity> {
        let has_room = self.last.len() < MAX_CHANNELS || self.last.contains_key(channel);
        has_room.then(|| self.last.entry(channel.to_owned()).or_default())
    }

    pub(super) fn event(&mut self, event: &Event, state: &ObservationState, ledger: &mut Ledger) {
        let channel = event.channel.as_str();
        if let Note::Signal(_) | Note::SignalReceived(_) | Note::ExitCode(_) | Note::ExitSignal(_) = event.note
            && (self.ends.len() < MAX_CHANNELS || self.ends.contains_key(channel))
        {
            let end = self.ends.entry(channel.to_owned()).or_default();
            end.handle_note(&event.note);
            if end.is_by_host() {
                self.exits.retain(|(other, _)| other != channel);
            }
        }
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
            Note::ExitCode(code) => ExitStatus::Code(code),
            Note::ExitSignal(signal) => ExitStatus::Signal(signal),
            _ => return,
        };
        self.written.remove(channel);
        let was_closed = self.closed.remove(channel) & !self.ended.remove(channel);
        let last = self.last.remove(channel).unwrap_or_default();
        if state.misuse_channels.contains(channel) {
            return;
        }
        ledger.inspected(&STAYS_ALIVE);
        // Our own signals are recorded as the exit, so an exit in a live run is always the server's.
        let is_own = state.client_is_ours || self.ends.get(channel).is_none_or(|end| end.own_exit().is_some());
        // In a live run the harness judges the time until the exit.
        if was_closed && !state.client_is_ours {
            let closed = state.closed.get(channel).zip(event.marks.time);
            let waited = closed.map(|(closed, now)| now.saturating_sub(*closed));
            check_eof_exit(channel, exit, is_own, waited, ledger);
        }
        let finding = match (was_closed, exit) {
            _ if !is_own => return,
            (true, ExitStatus::Code(0)) => return ledger.inspected(&EXIT_CODE),
            (true, ExitStatus::Code(code)) => last.finding(&EXIT_CODE, channel, format!("the exit code is {code}")),
            // Hosts send these signals to end a process.
            (_, ExitStatus::Signal(1 | 2 | 9 | 15)) => return,
            (true, ExitStatus::Signal(signal)) => {
                last.finding(&EXIT_CODE, channel, format!("signal {signal} ended the process"))
            }
            // Not every capture records that stdin was closed.
            (false, ExitStatus::Code(0)) if !state.client_is_ours => return,
            (false, ExitStatus::Code(code)) => last.early_exit(channel, format!("the process exited with code {code}")),
            (false, ExitStatus::Signal(signal)) => {
                last.early_exit(channel, format!("signal {signal} ended the process"))
            }
        };
        if state.client_is_ours || self.exits.len() >= MAX_CHANNELS {
            ledger.fail(finding);
        } else {
            self.exits.push((channel.to_owned(), finding));
        }
    }

    /// Reports the exits that no signal of the host explains.
    pub(super) fn finish(&mut self, ledger: &mut Ledger) {
        self.exits.drain(..).for_each(|(_, finding)| ledger.fail(finding));
    }

    pub(super) fn stderr(&mut self, bytes: &Bytes, state: &ObservationState, ledger: &mut Ledger) {
        let channel = bytes.channel.as_str();
        // The probe sends texts that are hard to show, which a server may log as they are.
        let is_judged = !state.compared_channels.contains(channel);
        let fail = |ledger: &mut Ledger, fault: Fault<'_>, detail: String| {
            let location = stream_location(channel, Stream::Stderr);
            ledger.fail(Finding::new(&STDERR_HYGIENE, Party::Server, location, detail).seen(&bytes.payload, fault));
        };
        let line = &bytes.payload;
        if let Some(last) = self.last(channel) {
            last.lines.push(line);
        }
        if !is_judged {
            return;
        }
        ledger.inspected(&STDERR_HYGIENE);
        if let Err(error) = std::str::from_utf8(line) {
            fail(ledger, Fault::Byte(error.valid_up_to()), "a line is not UTF-8".to_owned());
        } else if let Some(at) = line.iter().position(|b| (*b < 0x20 && *b != b'\t') || *b == 0x7f) {
            fail(ledger, Fault::Byte(at), "a line contains control characters".to_owned());
        } else if is_message(line) {
            fail(ledger, Fault::Whole, "a line is a JSON-RPC message, which belongs on stdout".to_owned());
        }
        let has_room = self.written.len() < MAX_CHANNELS || self.written.contains_key(channel);
        if has_room {
            let written = self.written.entry(channel.to_owned()).or_default();
            let before = *written;
            *written += line.len() as u64;
            if before <= MAX_STDERR && *written > MAX_STDERR {
                fail(ledger, Fault::Whole, format!("more than {} KiB on stderr", MAX_STDERR / 1024));
            }
        }
    }
}

/// Checks that the process exited because its stdin was closed, and not because of a later signal. `is_own` is false if
/// the host sent a signal.
fn check_eof_exit(channel: &str, exit: ExitStatus, is_own: bool, waited: Option<Duration>, ledger: &mut Ledger) {
    let is_long = waited.is_some_and(|waited| waited >= HOST_PATIENCE);
    match exit {
        // After a long wait, the process may have exited with a code because it received a signal.
        ExitStatus::Code(_) if !is_long && is_own => ledger.inspected(&EOF_EXIT),
        ExitStatus::Signal(signal @ (1 | 2 | 9 | 15)) if is_long => {
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
            Some((title, location, request)) => {
                let how = format!("{how}, after {}", shown(title.as_bytes(), 60));
                Finding { location, ..self.finding(&STAYS_ALIVE, channel, how) }.with_request(request)
            }
            None => self.finding(&STAYS_ALIVE, channel, how),
        }
    }

    /// Returns a finding about the exit, with the last lines on stderr as evidence.
    fn finding(self, check: &'static Check, channel: &str, how: String) -> Finding {
        let finding = Finding::new(check, Party::Server, Location::channel(channel), how);
        let lines = Excerpt::of_lines(stream_location(channel, Stream::Stderr), self.lines.cause());
        finding.with_response(Some(lines).filter(|lines| !lines.is_empty()))
    }
}

fn is_message(line: &[u8]) -> bool {
    is_clean(line) && line.starts_with(b"{") && matches!(rpc::parse(line, rpc::DEFAULT_DEPTH), Parsed::Message(_))
}

/// The time that clients of the official SDKs wait before they send a signal.
const HOST_PATIENCE: Duration = Duration::from_secs(2);
/// The maximum number of bytes that a process should write to stderr; more than anyone can read.
const MAX_STDERR: u64 = 1024 * 1024;
/// The maximum number of channels that are tracked; more than any host has processes.
const MAX_CHANNELS: usize = 4096;
