//! The progress of a load test -> a status line on the terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use barewire_workbench::load::Progress;
use terminal_size::terminal_size_of;

use crate::output::{draw_status, raw_stderr, shown, took_precisely};

/// A status line on stderr. It is drawn only if stderr is a terminal.
pub(super) struct ProgressLine {
    is_terminal: bool,
    /// The earliest time at which to draw the line again.
    next: Instant,
}

impl ProgressLine {
    pub(super) fn stderr() -> Self {
        Self { is_terminal: raw_stderr().is_terminal(), next: Instant::now() }
    }

    /// Draws the line, unless it was drawn less than `REDRAW_INTERVAL` ago.
    pub(super) fn show(&mut self, Progress { server, is_warm_up, tally, .. }: Progress<'_>) {
        let now = Instant::now();
        if !self.is_terminal || now < self.next {
            return;
        }
        self.next = now + REDRAW_INTERVAL;
        // A line as wide as the terminal would wrap, and the next redraw would not erase all of it.
        let columns = terminal_size_of(raw_stderr()).map_or(80, |(width, _)| usize::from(width.0));
        let activity = if is_warm_up { format!("{server}, warming up") } else { server.to_owned() };
        let bad = tally.lost + tally.duplicated + tally.wrong_answers();
        let line = line(&activity, tally.good_answers(), tally.latency.percentile(0.5), bad);
        let line = shown(line.as_bytes(), columns.saturating_sub(1).min(MAX_WIDTH));
        draw_status(&line);
    }

    pub(super) fn clear(&self) {
        if self.is_terminal {
            draw_status("");
        }
    }
}

fn line(activity: &str, answers: u64, median: Option<Duration>, bad: u64) -> String {
    let noun = if answers == 1 { "answer" } else { "answers" };
    let median = median.map_or(String::new(), |it| format!(", p50 {}", took_precisely(it)));
    let bad = if bad > 0 { format!(", {bad} lost, duplicated or wrong") } else { String::new() };
    format!("{activity}: {answers} {noun}{median}{bad}")
}

/// The maximum width of the line, so that it is easy to read.
const MAX_WIDTH: usize = 100;

/// The time between two redraws: often enough to show that the load is still running.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_units_of_the_report() {
        let line = line("server", 1, Some(Duration::from_micros(150)), 2);
        assert_eq!(line, "server: 1 answer, p50 150 us, 2 lost, duplicated or wrong");
    }
}
