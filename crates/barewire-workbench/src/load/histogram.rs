//! Counts times in a table of fixed size, and computes percentiles.
//!
//! The table is log-linear: every power of two is divided into 128 equal steps, so every time is kept with an error of
//! at most 1/128. The crate `hdrhistogram` does the same with any precision, and can also resize, merge histograms from
//! several threads and write files; none of that is needed here.

use std::time::Duration;

/// A histogram of times, with an error of at most 1/128.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// The number of bits that select a step within a power of two.
const STEP_BITS: u32 = 7;
const STEPS: u64 = 1 << STEP_BITS;

/// The number of buckets for all 64-bit numbers. Numbers below 128 have one bucket each.
const BUCKETS: usize = ((64 - STEP_BITS as usize) + 1) << STEP_BITS;

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    pub(super) fn record(&mut self, time: Duration) {
        // Times above 2^64 nanoseconds, or 584 years, are recorded as 584 years.
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the percentile: the time that the fraction `share` (from 0 to 1) of all times did not exceed; `None`
    /// without any times.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        // The rank is at least 1 and at most `count`, even if the product was rounded.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let at = at.expect("the counts add up to the count");
        Some(Duration::from_nanos(largest_in(at).clamp(self.min, self.max)))
    }

    /// Returns the shortest time.
    pub fn min(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.min))
    }

    /// Returns the longest time.
    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.max))
    }

    /// Returns the mean of all times.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// Returns the counts of times up to 1, 2, 5, 10 ns and so on, each with its upper limit, from the first to the
    /// last count that is not zero.
    pub fn rows(&self) -> Vec<(Duration, u64)> {
        let mut rows: Vec<(Duration, u64)> = edges().map(|edge| (Duration::from_nanos(edge), 0)).collect();
        for (at, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let time = Duration::from_nanos(largest_in(at).min(self.max));
            let row = rows.partition_point(|(up_to, _)| *up_to < time);
            rows[row].1 += count;
        }
        rows.truncate(rows.iter().rposition(|row| row.1 > 0).map_or(0, |last| last + 1));
        rows.drain(..rows.iter().position(|row| row.1 > 0).unwrap_or(0));
        rows
    }
}

/// Returns 1, 2, 5, 10, 20, 50 and so on, in nanoseconds, and finally the largest 64-bit number.
fn edges() -> impl Iterator<Item = u64> {
    (0..19).flat_map(|power| [1, 2, 5].map(|step| step * 10u64.pow(power))).chain([u64::MAX])
}

fn bucket(nanos: u64) -> usize {
    if nanos < STEPS {
        return usize::try_from(nanos).expect("less than 128");
    }
    let power = nanos.ilog2();
    // The leading bit selects the power of two, and the next seven bits select the step within it.
    let step = (nanos >> (power - STEP_BITS)) - STEPS;
    let at = (u64::from(power - STEP_BITS + 1) << STEP_BITS) + step;
    usize::try_from(at).expect("less than the number of buckets")
}

fn largest_in(bucket: usize) -> u64 {
    let at = bucket as u64;
    let (power, step) = (at >> STEP_BITS, at & (STEPS - 1));
    if power == 0 {
        return step;
    }
    let shift = power - 1;
    let first = (STEPS + step) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_counted_in_its_bucket() {
        for nanos in (0..100_000).chain([u64::MAX, u64::MAX / 2, 1 << 40, (1 << 40) - 1]) {
            let at = bucket(nanos);
            assert!(nanos <= largest_in(at), "{nanos}");
            assert!(at == 0 || nanos > largest_in(at - 1), "{nanos}");
            assert!(largest_in(at) - nanos <= nanos / STEPS, "{nanos} is kept to within 1/128");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_match_a_sorted_list() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(0.5), None);
        for micros in (1..=1000).rev() {
            histogram.record(Duration::from_micros(micros));
        }
        for (share, micros) in [(0.0, 1), (0.5, 500), (0.9, 900), (0.99, 990), (0.999, 999), (1.0, 1000)] {
            let exact = Duration::from_micros(micros);
            let kept = histogram.percentile(share).expect("there are some");
            assert!(kept >= exact && kept <= exact + exact / 100, "{share}: {kept:?}");
        }
        assert_eq!(histogram.max(), Some(Duration::from_millis(1)));
        assert_eq!(histogram.mean(), Some(Duration::from_nanos(500_500)));
    }

    #[test]
    fn rows_have_every_count_and_the_empty_steps_between() {
        let mut histogram = Histogram::default();
        for micros in [3, 4, 5, 70] {
            histogram.record(Duration::from_micros(micros));
        }
        let rows: Vec<(u128, u64)> =
            histogram.rows().iter().map(|(up_to, count)| (up_to.as_micros(), *count)).collect();
        assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), 4);
        assert_eq!(rows.last(), Some(&(100, 1)));
        assert!(rows.contains(&(20, 0)), "{rows:?}");
    }
}
