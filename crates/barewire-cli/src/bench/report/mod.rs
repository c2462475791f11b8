//! What was measured -> a page for people, or one JSON object for scripts.

mod json;
mod text;

use std::time::Duration;

use super::lane::Lane;
use super::{Args, Failure};
use crate::output::Output;
use barewire_workbench::load::load::Load;

pub(super) fn print(
    output: &mut Output,
    args: &Args,
    load: &Load,
    lanes: &[Lane],
    stopped: bool,
) -> Result<(), Failure> {
    match (args.json, lanes) {
        (true, lanes) => json::print(output, args, load, lanes, stopped),
        (false, [lane]) => text::one(output, args, load, lane, stopped),
        (false, lanes) => text::several(output, args, load, lanes, stopped),
    }
}

/// The times that are told of a latency: their names, and the share of answers that took no longer.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The server's CPU time for a request that it has answered.
fn cpu_per_request(lane: &Lane) -> Option<Duration> {
    per_request(lane.used.as_ref()?.cpu?, lane)
}

/// Ours.
fn own_cpu_per_request(lane: &Lane) -> Option<Duration> {
    per_request(lane.tally.own_cpu, lane).filter(|time| !time.is_zero())
}

fn per_request(time: Duration, lane: &Lane) -> Option<Duration> {
    let answers = lane.tally.good_answers();
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53")]
    let each = (answers > 0).then(|| time.div_f64(answers as f64));
    each
}

/// How one number is to that of the first server, if both are there.
fn ratio(number: Option<f64>, first: Option<f64>) -> Option<f64> {
    let (number, first) = number.zip(first)?;
    (first > 0.0).then_some(number / first)
}
