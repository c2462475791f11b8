//! What was measured -> a page for people, or one JSON object for scripts.

mod json;
mod text;

use std::time::Duration;

use barewire_workbench::load::{LoadSettings, MeasuredServer};

use super::{Args, Failure};
use crate::output::Output;

pub(super) fn print(
    output: &mut Output,
    args: &Args,
    settings: &LoadSettings,
    servers: &[MeasuredServer],
    stopped: bool,
) -> Result<(), Failure> {
    match (args.json, servers) {
        (true, servers) => json::print(output, args, settings, servers, stopped),
        (false, [server]) => text::one(output, args, settings, server, stopped),
        (false, servers) => text::several(output, args, settings, servers, stopped),
    }
}

/// The times that are told of a latency: their names, and the share of answers that took no longer.
const PERCENTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the ratio of a number to that of the first server, if both are there.
fn ratio(number: Option<f64>, first: Option<f64>) -> Option<f64> {
    let (number, first) = number.zip(first)?;
    (first > 0.0).then_some(number / first)
}
