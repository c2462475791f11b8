//! Measurements -> text, or one JSON object.

mod json;
mod text;

use std::time::Duration;

use barewire_workbench::load::{LoadSettings, MeasuredServer};

use super::{Args, Failure};
use crate::output::Output;

/// The measurements, with the command-line arguments and settings that they were made with.
pub(super) struct BenchReport<'a> {
    pub(super) args: &'a Args,
    pub(super) settings: &'a LoadSettings,
    pub(super) servers: &'a [MeasuredServer],
    pub(super) is_stopped: bool,
}

impl BenchReport<'_> {
    pub(super) fn print(&self, output: &mut Output) -> Result<(), Failure> {
        match (self.args.json, self.servers) {
            (true, _) => json::print(output, self),
            (false, [server]) => text::print_one(output, self, server),
            (false, _) => text::print_several(output, self),
        }
    }
}

/// The name and the fraction of each latency percentile in the report.
const PERCENTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the ratio of a server's number to that of the first server, if both exist.
fn ratio(number: Option<f64>, first: Option<f64>) -> Option<f64> {
    let (number, first) = number.zip(first)?;
    (first > 0.0).then_some(number / first)
}
