//! Decides how long streams are still relayed after the program has ended.
//!
//! A process that has inherited the program's stdin and stdout may be the real server: a launcher may end while the
//! server that it launched keeps running. Without a tap, the host would see the exit immediately and could keep talking
//! to the server. A tap cannot both exit and relay, so it relays as long as the host can talk to a process. When the
//! host cannot talk to any process, or has asked us to end, it may be waiting for our exit, so there is a time limit.
//! The output that the program itself has written is always relayed.

use std::time::{Duration, Instant};

pub(super) struct AfterExit {
    /// The number of bytes on stdout and stderr that the program itself has written and we have not read yet; `None`
    /// after all of them were relayed.
    unread: [Option<u64>; 2],
    /// The last time at which bytes were relayed.
    moved: Instant,
    /// The current time limit, and the time at which it began.
    limit: Option<(Limit, Instant)>,
    /// Whether [`ExitAction::ReportLeft`] was returned.
    reported: bool,
}

pub(super) struct RelayStatus {
    /// Whether a process reads the bytes that the host writes to stdin.
    pub(super) has_listener: bool,
    pub(super) stdout: OutputStatus,
    pub(super) stderr: OutputStatus,
    /// Whether bytes were relayed in any direction since the last status.
    pub(super) moved: bool,
    /// Whether a signal has asked us to end.
    pub(super) end_requested: bool,
}

/// The state of stdout or stderr.
pub(super) struct OutputStatus {
    /// Whether a process can still write to the stream and the host still reads it.
    pub(super) is_open: bool,
    /// Whether bytes are held back or cannot be written yet.
    pub(super) is_busy: bool,
    /// The number of bytes that were read since the last status.
    pub(super) read: u64,
}

#[derive(Debug, PartialEq)]
pub(super) enum ExitAction {
    /// Keep relaying. Ask for the next action at this time, if there is one, or when a file is ready.
    Wait(Option<Instant>),
    /// Keep relaying, and record that the program has left a process behind. Returned only once.
    ReportLeft,
    Finish,
}

/// The maximum time without relayed bytes (`silent`), and in total.
#[derive(Clone, Copy, PartialEq)]
struct Limit {
    silent: Duration,
    in_all: Duration,
}

impl AfterExit {
    /// Creates the state at the time when the program has ended, with this many unread bytes on stdout and stderr.
    pub(super) fn new(unread: [u64; 2], now: Instant) -> Self {
        Self { unread: unread.map(Some), moved: now, limit: None, reported: false }
    }

    pub(super) fn next_action(&mut self, status: &RelayStatus, now: Instant) -> ExitAction {
        for (unread, output) in self.unread.iter_mut().zip([&status.stdout, &status.stderr]) {
            let left = unread.map(|bytes| bytes.saturating_sub(output.read));
            *unread = left.filter(|bytes| output.is_open && (*bytes > 0 || output.is_busy));
        }
        if status.moved {
            self.moved = now;
        }
        if !status.stdout.is_open && !status.stderr.is_open {
            return ExitAction::Finish;
        }
        let has_unread = self.unread.iter().any(Option::is_some);
        let over = self.limit(status, has_unread, now);
        if over.is_some_and(|over| over <= now) {
            return ExitAction::Finish;
        }
        if self.reported || has_unread || !status.stdout.is_open {
            return ExitAction::Wait(over);
        }
        let known = self.moved + BRIEF_SILENCE;
        if known <= now {
            self.reported = true;
            return ExitAction::ReportLeft;
        }
        ExitAction::Wait(Some(over.map_or(known, |over| over.min(known))))
    }

    /// Returns the time at which the relay ends if nothing more happens; `None` if there is no limit.
    fn limit(&mut self, status: &RelayStatus, has_unread: bool, now: Instant) -> Option<Instant> {
        let limit = match status {
            RelayStatus { end_requested: true, .. } => Some(END_REQUESTED_LIMIT),
            RelayStatus { stdout: OutputStatus { is_open: false, .. }, .. } => Some(STDERR_ONLY_LIMIT),
            RelayStatus { has_listener: false, .. } => Some(STDOUT_ONLY_LIMIT),
            _ => None,
        };
        let before = self.limit.take();
        // The program's own output is never cut off.
        let limit = limit.filter(|_| !has_unread)?;
        let since = match before {
            Some((same, since)) if same == limit => since,
            _ => now,
        };
        self.limit = Some((limit, since));
        let in_all = since + limit.in_all;
        if status.stdout.is_busy || status.stderr.is_busy {
            return Some(in_all);
        }
        Some(in_all.min(self.moved.max(since) + limit.silent))
    }
}

/// A process that has output ready writes it within this time.
const BRIEF_SILENCE: Duration = Duration::from_millis(100);

/// The limit after a signal: a host that has sent a signal will soon send a stronger one.
const END_REQUESTED_LIMIT: Limit = Limit { silent: BRIEF_SILENCE, in_all: Duration::from_secs(1) };

/// The limit if only stderr is open: without stdout the conversation is over.
const STDERR_ONLY_LIMIT: Limit = Limit { silent: BRIEF_SILENCE, in_all: Duration::from_secs(1) };

/// The limit if stdin is closed and stdout is open. After closing stdin, a host usually waits two seconds before it
/// sends a signal; a host that sends no signal is not kept waiting much longer.
const STDOUT_ONLY_LIMIT: Limit = Limit { silent: Duration::from_secs(1), in_all: Duration::from_secs(5) };

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> RelayStatus {
        let output = || OutputStatus { is_open: true, is_busy: false, read: 0 };
        RelayStatus { has_listener: true, stdout: output(), stderr: output(), moved: false, end_requested: false }
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Returns the time after which the relay ends if no bytes come; `None` if it does not end.
    fn over(after_exit: &mut AfterExit, status: &RelayStatus, start: Instant) -> Option<Duration> {
        let mut now = start;
        loop {
            match after_exit.next_action(status, now) {
                ExitAction::Wait(None) => return None,
                ExitAction::Wait(Some(next)) => now = next,
                ExitAction::ReportLeft => {}
                ExitAction::Finish => return Some(now - start),
            }
        }
    }

    #[test]
    fn a_process_that_can_be_talked_to_is_relayed_without_limit() {
        let start = Instant::now();
        let mut after_exit = AfterExit::new([0, 0], start);
        assert_eq!(after_exit.next_action(&status(), start), ExitAction::Wait(Some(start + BRIEF_SILENCE)));
        assert_eq!(after_exit.next_action(&status(), start + BRIEF_SILENCE), ExitAction::ReportLeft);
        assert_eq!(after_exit.next_action(&status(), start + BRIEF_SILENCE), ExitAction::Wait(None));
    }

    #[test]
    fn other_processes_are_relayed_for_a_limited_time() {
        let start = Instant::now();
        let closed = || OutputStatus { is_open: false, is_busy: false, read: 0 };
        for (status, limit) in [
            (RelayStatus { has_listener: false, ..status() }, 1000),
            (RelayStatus { end_requested: true, ..status() }, 100),
            (RelayStatus { stdout: closed(), ..status() }, 100),
            (
                RelayStatus {
                    has_listener: false,
                    stdout: OutputStatus { is_busy: true, ..status().stdout },
                    ..status()
                },
                5000,
            ),
            (RelayStatus { stdout: closed(), stderr: closed(), ..status() }, 0),
        ] {
            let mut after_exit = AfterExit::new([0, 0], start);
            // The program's own output is already relayed.
            after_exit.unread = [None, None];
            assert_eq!(over(&mut after_exit, &status, start), Some(millis(limit)));
        }
        // This process never stops writing.
        let mut after_exit = AfterExit::new([0, 0], start);
        let talking = RelayStatus { has_listener: false, moved: true, ..status() };
        let last = (0..).find(|step| after_exit.next_action(&talking, start + millis(10 * step)) == ExitAction::Finish);
        assert_eq!(last, Some(500));
    }

    #[test]
    fn the_output_of_the_program_is_always_relayed() {
        let start = Instant::now();
        let mut after_exit = AfterExit::new([100, 0], start);
        let mut slow = RelayStatus { has_listener: false, ..status() };
        assert_eq!(over(&mut after_exit, &slow, start), None);
        // The bytes were read, but not written yet.
        slow.stdout = OutputStatus { is_busy: true, read: 100, ..slow.stdout };
        assert_eq!(over(&mut after_exit, &slow, start + millis(20_000)), None);
        slow.stdout = OutputStatus { is_busy: false, read: 0, ..slow.stdout };
        assert_eq!(over(&mut after_exit, &slow, start + millis(40_000)), Some(millis(1000)));
        let told = RelayStatus { end_requested: true, ..status() };
        assert_eq!(over(&mut AfterExit::new([100, 0], start), &told, start), None);
    }
}
