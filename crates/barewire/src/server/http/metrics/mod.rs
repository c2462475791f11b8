//! What a server counts -> the text that a monitoring system reads (OpenMetrics 1.0).
//!
//! Labels have a few fixed values. Text from a client is never a label: each value would be a series that the server
//! and the monitoring system keep for ever.

mod histogram;
mod measure;
mod store;

use std::fmt::Write as _;
use std::sync::Arc;
// Statistics decide nothing and order nothing, so they are not part of the models (`crate::sync`).
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use barewire_proto::mcp::Era;

use histogram::Histogram;
pub(super) use measure::{Outcome, RequestMeasure, StreamMeasure};
pub use store::StoreMetrics;

/// The counters of one server.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    legacy: EraMetrics,
    modern: EraMetrics,
    /// The requests that were refused before their era was known.
    unknown: OutcomeCounters,
    store: Option<StoreMetrics>,
}

/// The counters for the requests of one era.
#[derive(Debug, Default)]
struct EraMetrics {
    requests: OutcomeCounters,
    /// The durations of requests that the server has answered.
    durations: Histogram,
    streams: AtomicU64,
}

/// A number of requests for each [`Outcome`].
#[derive(Debug, Default)]
struct OutcomeCounters([AtomicU64; Outcome::ALL.len()]);

/// The amounts that exist at the time of a scrape. The server counts them anyway, for its limits.
pub(super) struct Gauges {
    pub(super) is_ready: bool,
    pub(super) sessions: usize,
    pub(super) exchanges: usize,
    pub(super) senders: usize,
    pub(super) body_bytes: usize,
}

impl Metrics {
    pub(super) fn new(store: Option<StoreMetrics>) -> Arc<Self> {
        Arc::new(Self { store, ..Self::default() })
    }

    fn of(&self, era: Era) -> &EraMetrics {
        match era {
            Era::Legacy => &self.legacy,
            Era::Modern => &self.modern,
        }
    }

    /// Counts a request. `duration` is that of a request that the server has answered.
    fn count(&self, era: Option<Era>, outcome: Outcome, duration: Option<Duration>) {
        let requests = era.map_or(&self.unknown, |era| &self.of(era).requests);
        requests.0[outcome as usize].fetch_add(1, Relaxed);
        if let (Some(era), Some(duration)) = (era, duration) {
            self.of(era).durations.record(duration);
        }
    }

    /// Returns the text of all metrics.
    pub(super) fn text(&self, now: &Gauges) -> String {
        let mut out = String::with_capacity(TEXT_BYTES);
        self.write(&mut out, now).expect("a String takes all text");
        out
    }

    fn write(&self, out: &mut String, now: &Gauges) -> std::fmt::Result {
        let eras = [("legacy", &self.legacy), ("modern", &self.modern)];
        head(out, "barewire_requests", "counter", "HTTP requests to the MCP endpoint, by the way they ended.")?;
        for (era, metrics) in eras {
            metrics.requests.write(out, era, |_| true)?;
        }
        // Only a request whose era is known can be answered.
        self.unknown.write(out, "unknown", |outcome| !matches!(outcome, Outcome::Answered | Outcome::Failed))?;
        let name = "barewire_request_duration_seconds";
        head(out, name, "histogram", "Time from the head of a request to the end of its response.")?;
        for (era, metrics) in eras {
            metrics.durations.write(out, name, &format!("era=\"{era}\""))?;
        }
        head(out, "barewire_streams", "gauge", "Open streams of events.")?;
        for (era, metrics) in eras {
            writeln!(out, "barewire_streams{{era=\"{era}\"}} {}", metrics.streams.load(Relaxed))?;
        }
        for (name, help, value) in [
            ("barewire_sessions", "Open sessions of legacy clients.", now.sessions),
            ("barewire_exchanges", "Requests that are being served and streams that are open.", now.exchanges),
            ("barewire_senders", "Clients that have a connection, a session or an exchange.", now.senders),
            ("barewire_body_bytes", "Bytes of long request bodies that are being read or served.", now.body_bytes),
            ("barewire_ready", "1 if the server accepts new sessions, otherwise 0.", usize::from(now.is_ready)),
        ] {
            head(out, name, "gauge", help)?;
            writeln!(out, "{name} {value}")?;
        }
        if let Some(store) = &self.store {
            store.write(out)?;
        }
        out.write_str("# EOF\n")
    }
}

impl OutcomeCounters {
    fn write(&self, out: &mut String, era: &str, is_shown: impl Fn(Outcome) -> bool) -> std::fmt::Result {
        for outcome in Outcome::ALL.into_iter().filter(|outcome| is_shown(*outcome)) {
            let (label, count) = (outcome.label(), self.0[outcome as usize].load(Relaxed));
            writeln!(out, "barewire_requests_total{{era=\"{era}\",outcome=\"{label}\"}} {count}")?;
        }
        Ok(())
    }
}

/// Writes the lines that describe a metric. A name that ends with a unit has a line for the unit.
fn head(out: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(out, "# TYPE {name} {kind}")?;
    for unit in ["seconds", "bytes"] {
        if name.ends_with(unit) {
            writeln!(out, "# UNIT {name} {unit}")?;
        }
    }
    writeln!(out, "# HELP {name} {help}")
}

/// More than the usual length of the text, so that it is written without growing.
const TEXT_BYTES: usize = 12 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn gauges() -> Gauges {
        Gauges { is_ready: true, sessions: 1, exchanges: 2, senders: 3, body_bytes: 4 }
    }

    #[test]
    fn the_text_is_exact() {
        let metrics = Metrics::new(None);
        metrics.count(Some(Era::Modern), Outcome::Answered, Some(Duration::from_micros(300)));
        metrics.count(Some(Era::Modern), Outcome::Answered, Some(Duration::from_secs(2)));
        metrics.count(Some(Era::Legacy), Outcome::Refused, None);
        metrics.count(None, Outcome::Unavailable, None);
        let text = metrics.text(&gauges());
        // The histogram of the legacy era is empty, and has the same lines.
        let (before, rest) =
            text.split_once("barewire_request_duration_seconds_bucket{era=\"legacy\"").expect("a histogram");
        assert_eq!(
            before,
            "# TYPE barewire_requests counter
# HELP barewire_requests HTTP requests to the MCP endpoint, by the way they ended.
barewire_requests_total{era=\"legacy\",outcome=\"answered\"} 0
barewire_requests_total{era=\"legacy\",outcome=\"accepted\"} 0
barewire_requests_total{era=\"legacy\",outcome=\"refused\"} 1
barewire_requests_total{era=\"legacy\",outcome=\"failed\"} 0
barewire_requests_total{era=\"legacy\",outcome=\"unavailable\"} 0
barewire_requests_total{era=\"legacy\",outcome=\"abandoned\"} 0
barewire_requests_total{era=\"modern\",outcome=\"answered\"} 2
barewire_requests_total{era=\"modern\",outcome=\"accepted\"} 0
barewire_requests_total{era=\"modern\",outcome=\"refused\"} 0
barewire_requests_total{era=\"modern\",outcome=\"failed\"} 0
barewire_requests_total{era=\"modern\",outcome=\"unavailable\"} 0
barewire_requests_total{era=\"modern\",outcome=\"abandoned\"} 0
barewire_requests_total{era=\"unknown\",outcome=\"accepted\"} 0
barewire_requests_total{era=\"unknown\",outcome=\"refused\"} 0
barewire_requests_total{era=\"unknown\",outcome=\"unavailable\"} 1
barewire_requests_total{era=\"unknown\",outcome=\"abandoned\"} 0
# TYPE barewire_request_duration_seconds histogram
# UNIT barewire_request_duration_seconds seconds
# HELP barewire_request_duration_seconds Time from the head of a request to the end of its response.
"
        );
        let modern = rest.find("barewire_request_duration_seconds_bucket{era=\"modern\"").expect("a histogram");
        assert_eq!(
            &rest[modern..],
            "barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.0001\"} 0
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.00025\"} 0
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.0005\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.001\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.0025\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.005\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.01\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.025\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.05\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.1\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.25\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"0.5\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"1.0\"} 1
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"2.5\"} 2
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"5.0\"} 2
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"10.0\"} 2
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"30.0\"} 2
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"60.0\"} 2
barewire_request_duration_seconds_bucket{era=\"modern\",le=\"+Inf\"} 2
barewire_request_duration_seconds_count{era=\"modern\"} 2
barewire_request_duration_seconds_sum{era=\"modern\"} 2.000300000
# TYPE barewire_streams gauge
# HELP barewire_streams Open streams of events.
barewire_streams{era=\"legacy\"} 0
barewire_streams{era=\"modern\"} 0
# TYPE barewire_sessions gauge
# HELP barewire_sessions Open sessions of legacy clients.
barewire_sessions 1
# TYPE barewire_exchanges gauge
# HELP barewire_exchanges Requests that are being served and streams that are open.
barewire_exchanges 2
# TYPE barewire_senders gauge
# HELP barewire_senders Clients that have a connection, a session or an exchange.
barewire_senders 3
# TYPE barewire_body_bytes gauge
# UNIT barewire_body_bytes bytes
# HELP barewire_body_bytes Bytes of long request bodies that are being read or served.
barewire_body_bytes 4
# TYPE barewire_ready gauge
# HELP barewire_ready 1 if the server accepts new sessions, otherwise 0.
barewire_ready 1
# EOF
"
        );
        assert!(text.len() < TEXT_BYTES);
    }
}
