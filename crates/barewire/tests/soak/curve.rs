//! The measures of a server over time, and whether they are flat.

use std::fmt;
use std::time::Duration;

use super::report;
use super::server::Measures;

/// The measures at one time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) at: Duration,
    pub(super) measures: Measures,
    /// The number of operations of clients so far.
    pub(super) operations: usize,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} s: {}, {} operations", self.at.as_secs(), self.measures, self.operations)
    }
}

/// All samples of a run.
#[derive(Default)]
pub(super) struct Curve(Vec<Sample>);

impl Curve {
    pub(super) fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// Compares the last quarter of the run with the second one. In the first one, the memory of the process is still
    /// filling up: caches, buffers of connections, pages of the allocator.
    pub(super) fn check_flat(&self) {
        let quarter = self.0.len() / 4;
        let (second, last) = (&self.0[quarter..2 * quarter], &self.0[self.0.len() - quarter..]);
        let medians = |value: fn(&Measures) -> u64| (median(second, value), median(last, value));
        let mut grown = Vec::new();
        for (name, (before, after), allowed) in [
            ("resident KiB", medians(|it| it.resident), RESIDENT_ALLOWANCE_KIB),
            ("file descriptors", medians(|it| it.files), COUNT_ALLOWANCE),
            ("tasks", medians(|it| it.tasks), COUNT_ALLOWANCE),
        ] {
            let most = before + before / TOLERANCE_PARTS + allowed;
            let line = format!("median {name}: {before} in the second quarter, {after} in the last, at most {most}");
            report(&format!("soak: {line}"));
            if after > most {
                grown.push(line);
            }
        }
        assert!(grown.is_empty(), "not flat: {grown:#?}");
    }
}

fn median(samples: &[Sample], value: fn(&Measures) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(|sample| value(&sample.measures)).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// The part of a median by which the last quarter may be higher: a twentieth, because the load varies at random.
const TOLERANCE_PARTS: u64 = 20;

/// What is allowed in addition: as much as some long bodies, connections or handlers more than at another time. In an
/// hour with 200,000 operations, half of which are between the two medians, a leak of 50 bytes in each exceeds it.
const RESIDENT_ALLOWANCE_KIB: u64 = 4 * 1024;
const COUNT_ALLOWANCE: u64 = 10;
