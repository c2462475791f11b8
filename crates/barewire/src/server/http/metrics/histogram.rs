//! Durations -> how many of them are at most as long as each of some fixed limits.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of durations in each bucket, and their sum.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// The durations that are longer than the limit of the bucket before. The last bucket has no limit.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    pub(super) fn record(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let at = BUCKETS.partition_point(|(limit, _)| *limit < nanoseconds);
        self.buckets[at].fetch_add(1, Relaxed);
        self.nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    /// Appends the histogram as text. `labels` are written before the label of the bucket, and can be empty.
    pub(super) fn write(&self, out: &mut String, name: &str, labels: &str) -> fmt::Result {
        let (comma, braces) = if labels.is_empty() { ("", ["", ""]) } else { (",", ["{", "}"]) };
        let limits = BUCKETS.iter().map(|(_, text)| *text).chain(["+Inf"]);
        let mut count = 0;
        for (limit, bucket) in limits.zip(&self.buckets) {
            count += bucket.load(Relaxed);
            writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{limit}\"}} {count}")?;
        }
        // The count is the sum of the buckets, so that it is equal to the last line above also if durations are
        // recorded at the same time.
        writeln!(out, "{name}_count{}{labels}{} {count}", braces[0], braces[1])?;
        let nanoseconds = self.nanoseconds.load(Relaxed);
        let (seconds, rest) = (nanoseconds / NANOS_PER_SECOND, nanoseconds % NANOS_PER_SECOND);
        writeln!(out, "{name}_sum{}{labels}{} {seconds}.{rest:09}", braces[0], braces[1])
    }
}

/// The limits of the buckets in nanoseconds, and as text in seconds. A call that is answered at once takes less than
/// the first, and tools that ask a model take up to a minute.
const BUCKETS: [(u64, &str); 18] = [
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1.0"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5.0"),
    (10_000_000_000, "10.0"),
    (30_000_000_000, "30.0"),
    (60_000_000_000, "60.0"),
];

const NANOS_PER_SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_sorted_and_match_their_text() {
        assert!(BUCKETS.is_sorted_by(|one, other| one.0 < other.0));
        for (nanoseconds, text) in BUCKETS {
            let seconds: f64 = text.parse().expect("a number");
            assert_eq!(Duration::from_nanos(nanoseconds), Duration::from_secs_f64(seconds), "{text}");
        }
    }

    #[test]
    fn a_duration_is_in_the_bucket_whose_limit_it_does_not_exceed() {
        for (nanoseconds, bucket) in [
            (0, 0),
            (100_000, 0),
            (100_001, 1),
            (250_000, 1),
            (60_000_000_000, 17),
            (60_000_000_001, 18),
            (3_600_000_000_000, 18),
        ] {
            let histogram = Histogram::default();
            histogram.record(Duration::from_nanos(nanoseconds));
            let found = histogram.buckets.iter().position(|count| count.load(Relaxed) == 1);
            assert_eq!(found, Some(bucket), "{nanoseconds}");
        }
        Histogram::default().record(Duration::MAX);
    }
}
