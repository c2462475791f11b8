//! Operations -> latencies by method, and calls and bytes over time.

use std::collections::BTreeMap;

use barewire_proto::transcript::Stream;
use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::query::ViewRequest;
use super::rows::{operations_of, seconds};
use crate::index::{EntryKind, IndexedCapture, OperationState};

/// `stats`: latencies by method, and the traffic over time, of what a filter and a conversation select.
pub(super) fn stats(index: &IndexedCapture, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let query = request.selection()?;
    let wanted = query.conversation.as_deref();
    let mut methods: BTreeMap<String, MethodTimes> = BTreeMap::new();
    let rows = query.filter.is_set().then(|| index.select_all(&query));
    let data = index.data();
    let operations = rows.as_ref().map(|rows| operations_of(&data, rows));
    let is_selected = |number: u32| operations.as_ref().is_none_or(|selected| selected.contains_key(&number));
    let conversation = wanted.map(|name| data.conversation(name));
    let is_wanted = |number: u32| conversation.is_none_or(|wanted| wanted == Some(number));
    let (first, last) = (seconds(data.totals.first).unwrap_or(0.0), seconds(data.totals.last).unwrap_or(0.0));
    let mut traffic = Traffic::new(first, last);
    let mut by_number: BTreeMap<u32, MethodTimes> = BTreeMap::new();
    let wanted = (1..).zip(data.operations.from(0));
    for (_, operation) in wanted.filter(|(number, it)| is_wanted(it.conversation) && is_selected(*number)) {
        let times = by_number.entry(operation.method).or_default();
        times.count += 1;
        times.errors += u64::from(operation.state.is_failure());
        times.open += u64::from(operation.state.is_open());
        let answered = !operation.state.is_open() && operation.state != OperationState::Cancelled;
        times.latencies.extend(operation.end.since(operation.start).filter(|_| answered).map(|it| it.as_secs_f64()));
        if let Some(start) = operation.start.seconds() {
            let step = traffic.step_of(start);
            traffic.calls[step] += 1;
        }
    }
    for (number, times) in by_number {
        methods.insert(data.names.get(number).unwrap_or("(no method)").to_owned(), times);
    }
    drop(data);
    // Rows are copied in pieces, so that the writer never waits long.
    let mut at = 0;
    loop {
        let data = index.data();
        let mut count = 0;
        for (row, entry) in (at..).zip(data.entries.from(at).take(ROWS_AT_ONCE)) {
            count += 1;
            let is_listed = || {
                rows.as_ref().is_none_or(|rows| u32::try_from(row).is_ok_and(|row| rows.binary_search(&row).is_ok()))
            };
            let is_frame = entry.kind != EntryKind::Event && entry.element == 0 && is_listed();
            let Some(time) = entry.time.seconds().filter(|_| is_frame && is_wanted(entry.conversation)) else {
                continue;
            };
            let step = traffic.step_of(time);
            traffic.errors[step] += u64::from(entry.outcome.is_failure());
            match entry.flags.stream() {
                Some(Stream::ToServer) => traffic.to_server[step] += entry.length,
                Some(Stream::ToClient) => traffic.to_client[step] += entry.length,
                _ => {}
            }
        }
        if count == 0 {
            break;
        }
        at += count;
    }
    let methods: Vec<Value> = methods.into_iter().map(|(method, times)| times.json(&method)).collect();
    Answer::json(&json!({"methods": methods, "over_time": (last > first).then(|| traffic.json())}))
}

#[derive(Default)]
struct MethodTimes {
    count: u64,
    errors: u64,
    open: u64,
    latencies: Vec<f64>,
}

impl MethodTimes {
    fn json(mut self, method: &str) -> Value {
        self.latencies.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let last = self.latencies.len().checked_sub(1)?;
            self.latencies.get((last * percent).div_ceil(100)).copied()
        };
        json!({
            "method": method, "count": self.count, "errors": self.errors, "open": self.open, "p50": at(50),
            "p90": at(90), "p99": at(99), "max": at(100), "total": self.latencies.iter().sum::<f64>(),
            "histogram": histogram(&self.latencies),
        })
    }
}

/// Returns the number of latencies in each class: three classes for each power of ten.
fn histogram(sorted: &[f64]) -> Vec<(f64, f64, usize)> {
    let mut classes = Vec::new();
    let (mut from, mut done) = (0.0, 0);
    for to in BOUNDS.iter().copied().chain([f64::MAX]) {
        let end = sorted.partition_point(|latency| *latency < to);
        if end > done {
            let to = if to == f64::MAX { sorted[sorted.len() - 1] } else { to };
            classes.push((from, to, end - done));
        }
        (from, done) = (to, end);
    }
    classes
}

struct Traffic {
    from: f64,
    step: f64,
    calls: Vec<u64>,
    errors: Vec<u64>,
    to_server: Vec<u64>,
    to_client: Vec<u64>,
}

impl Traffic {
    fn new(first: f64, last: f64) -> Self {
        let step = ((last - first) / f64::from(STEPS)).max(1e-6);
        let zeros = || vec![0; STEPS as usize];
        Self { from: first, step, calls: zeros(), errors: zeros(), to_server: zeros(), to_client: zeros() }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number below `STEPS`")]
    fn step_of(&self, time: f64) -> usize {
        (((time - self.from) / self.step).max(0.0) as usize).min(STEPS as usize - 1)
    }

    fn json(&self) -> Value {
        let Self { from, step, calls, errors, to_server, to_client } = self;
        json!({
            "step": step, "from": from, "calls": calls, "errors": errors, "to_server": to_server, "to_client": to_client,
        })
    }
}

/// The bounds of the classes of a histogram, in seconds.
const BOUNDS: [f64; 24] = [
    1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0,
    50.0, 100.0, 200.0, 500.0,
];
/// The number of steps of a capture for which calls and bytes are summed.
const STEPS: u32 = 240;
/// The maximum number of rows that are read while the index is locked.
const ROWS_AT_ONCE: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_by_class() {
        assert_eq!(
            histogram(&[0.0005, 0.003, 0.004, 700.0]),
            [(2e-4, 5e-4, 0), (5e-4, 1e-3, 1), (2e-3, 5e-3, 2), (500.0, 700.0, 1)][1..]
        );
        assert_eq!(histogram(&[]), []);
        let times = MethodTimes { latencies: (1..=100).map(f64::from).collect(), ..MethodTimes::default() };
        let value = times.json("m");
        assert_eq!((&value["p50"], &value["p99"], &value["max"]), (&json!(51.0), &json!(100.0), &json!(100.0)));
    }
}
