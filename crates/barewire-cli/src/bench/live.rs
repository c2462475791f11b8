//! The progress of a load -> a line on the terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use barewire_workbench::load::Progress;
use terminal_size::terminal_size_of;

use crate::output::{shown, took_precisely};

/// The line on the terminal, drawn again and again.
pub(super) struct Live {
    is_terminal: bool,
    /// The time before which it is not drawn again.
    next: Instant,
}

impl Live {
    pub(super) fn stderr() -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { is_terminal, next: Instant::now() }
    }

    /// Draws the line, if it is time to.
    pub(super) fn show(&mut self, progress: Progress<'_>) {
        let now = Instant::now();
        if !self.is_terminal || now < self.next {
            return;
        }
        self.next = now + REDRAW_INTERVAL;
        // A line that is as wide as the terminal would go on below, and stay there.
        let columns = terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
        let line = line(&Counts::of(progress), columns.saturating_sub(1).min(MAX_WIDTH));
        // If stderr is closed there is nobody to tell.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }

    pub(super) fn clear(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// The figures of the line.
struct Counts {
    doing: String,
    answers: u64,
    median: Option<Duration>,
    bad: u64,
}

impl Counts {
    fn of(Progress { server, is_warm_up, tally, .. }: Progress<'_>) -> Self {
        Self {
            doing: if is_warm_up { format!("{server}, warming up") } else { server.to_owned() },
            answers: tally.good_answers(),
            median: tally.latency.percentile(0.5),
            bad: tally.lost + tally.duplicated + tally.wrong_answers(),
        }
    }
}

/// Returns the line, cut to the number of columns.
fn line(Counts { doing, answers, median, bad }: &Counts, columns: usize) -> String {
    let answers = match answers {
        1 => "1 answer".to_owned(),
        answers => format!("{answers} answers"),
    };
    let median = median.map_or(String::new(), |it| format!(", p50 {}", took_precisely(it)));
    let bad = if *bad > 0 { format!(", {bad} lost, duplicated or wrong") } else { String::new() };
    shown(format!("{doing}: {answers}{median}{bad}").as_bytes(), columns)
}

/// A longer line is not read.
const MAX_WIDTH: usize = 100;

/// Fast enough to see that it goes on, and not to read.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_and_has_the_units_of_the_report() {
        let median = Some(Duration::from_micros(150));
        let counts = Counts { doing: "server".to_owned(), answers: 1, median, bad: 2 };
        let whole = "server: 1 answer, p50 150 us, 2 lost, duplicated or wrong";
        assert_eq!(line(&counts, 79), whole);
        assert_eq!(line(&counts, 39), "server: 1 answer, p50 150 us, 2 lost, …");
    }
}
