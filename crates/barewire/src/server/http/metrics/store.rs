//! The round trips to a store outside of the process: how many, how long, and how many of them failed.

use std::fmt::{self, Write as _};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use super::head;
use super::histogram::Histogram;

/// Counts the round trips to a store outside of the process, such as that of an [`EventStore`](crate::server::http::EventStore).
///
/// [`HttpBuilder::store_metrics`](crate::server::http::HttpBuilder::store_metrics) adds the counts to the metrics of a
/// server. Clones count together.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # async fn ask_the_store() -> Result<u32, std::io::Error> { Ok(1) }
/// use barewire::Server;
/// use barewire::server::http::StoreMetrics;
///
/// let store_metrics = StoreMetrics::default();
/// let http = Server::new("clock", "1.0").http().metrics("/metrics").store_metrics(&store_metrics);
/// // Where the store is used:
/// let answer = store_metrics.measure(ask_the_store()).await;
/// # let _ = (answer, http);
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct StoreMetrics(Arc<RoundTrips>);

#[derive(Debug, Default)]
struct RoundTrips {
    succeeded: AtomicU64,
    failed: AtomicU64,
    durations: Histogram,
}

impl StoreMetrics {
    /// Waits for a round trip and counts it. A round trip whose future is dropped before its end counts as failed.
    pub async fn measure<T, E>(&self, round_trip: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        struct CountOnDrop<'m> {
            metrics: &'m RoundTrips,
            start: Instant,
            has_succeeded: bool,
        }
        impl Drop for CountOnDrop<'_> {
            fn drop(&mut self) {
                let counter = if self.has_succeeded { &self.metrics.succeeded } else { &self.metrics.failed };
                counter.fetch_add(1, Relaxed);
                self.metrics.durations.record(self.start.elapsed());
            }
        }
        let mut count = CountOnDrop { metrics: &self.0, start: Instant::now(), has_succeeded: false };
        let result = round_trip.await;
        count.has_succeeded = result.is_ok();
        result
    }

    pub(super) fn write(&self, out: &mut String) -> fmt::Result {
        head(out, "barewire_store_round_trips", "counter", "Requests to the shared store.")?;
        for (outcome, count) in [("succeeded", &self.0.succeeded), ("failed", &self.0.failed)] {
            let count = count.load(Relaxed);
            writeln!(out, "barewire_store_round_trips_total{{outcome=\"{outcome}\"}} {count}")?;
        }
        let name = "barewire_store_round_trip_duration_seconds";
        head(out, name, "histogram", "Time until the shared store has answered.")?;
        self.0.durations.write(out, name, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn round_trips_are_counted_by_their_outcome() {
        let store = StoreMetrics::default();
        assert_eq!(store.measure(async { Ok::<_, ()>(1) }).await, Ok(1));
        assert_eq!(store.clone().measure(async { Err::<(), _>(2) }).await, Err(2));
        drop(store.measure(std::future::pending::<Result<(), ()>>()));
        let never = store.measure(std::future::pending::<Result<(), ()>>());
        assert!(tokio::time::timeout(std::time::Duration::ZERO, never).await.is_err());
        let mut text = String::new();
        store.write(&mut text).expect("written");
        for line in [
            "barewire_store_round_trips_total{outcome=\"succeeded\"} 1\n",
            "barewire_store_round_trips_total{outcome=\"failed\"} 2\n",
            "barewire_store_round_trip_duration_seconds_bucket{le=\"+Inf\"} 3\n",
            "barewire_store_round_trip_duration_seconds_count 3\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
