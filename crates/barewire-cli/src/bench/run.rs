//! What a slice of load needs besides its server: how much is wanted, the time, somebody who looks on, and the wish to stop.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use terminal_size::terminal_size_of;
use tokio::sync::watch;

use crate::output::{precisely, shown};
use crate::signals::Signals;
use barewire_workbench::load::alarm::Alarm;
use barewire_workbench::load::load::Load;
use barewire_workbench::load::tally::Tally;

pub(super) struct Run<'a> {
    pub(super) load: &'a Load,
    pub(super) alarm: Alarm,
    pub(super) live: Live,
    pub(super) stop: Stop,
}

/// How often we were asked to stop.
#[derive(Clone)]
pub(super) struct Stop(watch::Receiver<u32>);

impl Stop {
    /// Counts signals from now on.
    pub(super) fn on(mut signals: Signals) -> Self {
        let (count, told) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                signals.next().await;
                count.send_modify(|count| *count += 1);
            }
        });
        Self(told)
    }

    pub(super) fn is_asked(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Waits until we are.
    pub(super) async fn asked(&mut self) {
        self.times(1).await;
    }

    /// Waits until we were so often.
    pub(super) async fn times(&mut self, times: u32) {
        if self.0.wait_for(|count| *count >= times).await.is_err() {
            // Whoever counts has ended with the runtime.
            std::future::pending().await
        }
    }
}

/// A line on the terminal that says how far it is.
pub(super) struct Live {
    is_terminal: bool,
    /// What is being done, for the beginning of the line.
    pub(super) doing: String,
    next: Instant,
}

impl Live {
    pub(super) fn stderr() -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { is_terminal, doing: String::new(), next: Instant::now() }
    }

    /// Draws the line, if it is time to.
    pub(super) fn show(&mut self, now: Instant, tally: &Tally) {
        if !self.is_terminal || now < self.next {
            return;
        }
        self.next = now + DRAWN;
        // A line that is as wide as the terminal would go on below, and stay there.
        let columns = terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
        let line = line(&self.doing, tally, columns.saturating_sub(1).min(WIDEST));
        // If stderr is closed there is nobody to tell.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }

    pub(super) fn clear(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// What is being done, and how it goes, in so many columns.
fn line(doing: &str, tally: &Tally, columns: usize) -> String {
    let answers = match tally.good_answers() {
        1 => "1 answer".to_owned(),
        answers => format!("{answers} answers"),
    };
    let median = tally.latency.percentile(0.5).map_or(String::new(), |it| format!(", p50 {}", precisely(it)));
    let bad = tally.lost + tally.duplicated + tally.wrong_answers();
    let bad = if bad > 0 { format!(", {bad} lost, duplicated or wrong") } else { String::new() };
    shown(format!("{doing}: {answers}{median}{bad}").as_bytes(), columns)
}

/// A longer line is not read.
const WIDEST: usize = 100;

/// Fast enough to see that it goes on, and not to read.
const DRAWN: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_and_has_the_units_of_the_report() {
        let mut tally = Tally::new();
        let now = Instant::now();
        tally.good(now, now + Duration::from_micros(150));
        tally.lost = 2;
        let whole = "server: 1 answer, p50 150 us, 2 lost, duplicated or wrong";
        assert_eq!(line("server", &tally, 79), whole);
        assert_eq!(line("server", &tally, 39), "server: 1 answer, p50 150 us, 2 lost, …");
    }
}
