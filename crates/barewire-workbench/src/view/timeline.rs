//! Operations in a range of time -> bars, and sums of them if there are too many.

use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::frame::title;
use super::query::ViewRequest;
use super::rows::{operations_of, seconds};
use crate::index::{IndexData, IndexedCapture, OperationRecord, OperationState};
use crate::rows::Role;

/// `timeline`: the operations in a range of time.
pub(super) fn timeline(index: &IndexedCapture, request: &ViewRequest) -> Result<Answer, AnswerError> {
    Answer::json(&operations_in(index, request, MAX_BARS)?)
}

/// Returns all operations that a request selects, each with its bar, however many there are.
pub(super) fn whole_timeline(index: &IndexedCapture, request: &ViewRequest) -> Result<Value, AnswerError> {
    operations_in(index, request, usize::MAX)
}

/// Returns the operations in a range of time: their bars, or if there are more than `most`, sums of them.
fn operations_in(index: &IndexedCapture, request: &ViewRequest, most: usize) -> Result<Value, AnswerError> {
    let query = request.selection()?;
    let width = request.number("width")?.unwrap_or(1000_u32).clamp(10, 4000);
    // A filter selects operations by their rows.
    let selected = query.filter.is_set().then(|| index.select_all(&query));
    let data = index.data();
    let selected = selected.map(|rows| operations_of(&data, &rows));
    let conversation = query.conversation.as_deref().map(|name| data.conversation(name));
    let (first, last) = (seconds(data.totals.first).unwrap_or(0.0), seconds(data.totals.last).unwrap_or(0.0));
    let from = request.seconds("from")?.unwrap_or(first);
    let to = request.seconds("to")?.unwrap_or(last).max(from);
    let mut shown: Vec<ShownOperation> = Vec::new();
    for (number, operation) in (1..).zip(data.operations.from(0)) {
        let Some(start) = operation.start.seconds() else { continue };
        // What comes after a cancellation is not part of the bar: its lane may have another operation by then.
        let end = operation.released.unwrap_or(operation.end).seconds();
        let is_here = start <= to && end.unwrap_or(last) >= from;
        let is_wanted = conversation.is_none_or(|wanted| wanted == Some(operation.conversation));
        let is_selected = || selected.as_ref().is_none_or(|it| it.contains_key(&number));
        if is_here && is_wanted && is_selected() {
            shown.push(ShownOperation { number, start, end, length: end.unwrap_or(last) - start });
        }
    }
    let slow = slow_limit(&shown);
    let lanes = shown.iter().filter_map(|it| data.operation(it.number)).map(|it| it.lane + 1).max().unwrap_or(0);
    let is_too_many = shown.len() > most;
    let buckets = is_too_many.then(|| buckets(&data, &shown, from, to, width));
    if is_too_many {
        shown.sort_by(|a, b| b.length.total_cmp(&a.length));
        shown.truncate(SLOWEST_BARS);
        shown.sort_by_key(|it| it.number);
    }
    let bars: Vec<Value> = shown.iter().filter_map(|it| bar(&data, it, slow)).collect();
    Ok(json!({"from": from, "to": to, "lanes": lanes, "bars": bars, "buckets": buckets}))
}

struct ShownOperation {
    number: u32,
    start: f64,
    end: Option<f64>,
    length: f64,
}

fn bar(data: &IndexData, shown: &ShownOperation, slow: f64) -> Option<Value> {
    let it = data.operation(shown.number)?;
    let name = |number| data.names.get(number);
    Some(json!({
        "op": shown.number, "frame": data.entries.get(it.first as usize)?.frame, "title": title(data, shown.number),
        "method": name(it.method).unwrap_or_default(), "name": name(it.name), "start": shown.start, "end": shown.end,
        "lane": it.lane, "depth": it.depth, "parent": (it.parent > 0).then_some(it.parent),
        "outcome": outcome(it), "rounds": rounds(data, shown.number, it),
        "conversation": data.conversations.get(it.conversation as usize).map(|it| &it.name),
        "slow": shown.length >= slow && it.state != OperationState::Listening, "failed": it.state.is_failure(),
        "listening": it.state == OperationState::Listening,
    }))
}

/// Returns the time from the request of an operation to its cancellation, in seconds; `None` if it was not cancelled.
/// `frame` is the number of the request.
pub(super) fn cancelled_after(data: &IndexData, frame: u64) -> Option<Option<f64>> {
    let entry = data.entries.get(data.frame(frame)? as usize)?;
    let it = data.operation(entry.operation)?;
    let is_cancelled = outcome(it) == Some(OperationState::Cancelled.as_str());
    is_cancelled.then(|| it.released.unwrap_or(it.end).since(it.start).map(|time| time.as_secs_f64()))
}

fn outcome(operation: &OperationRecord) -> Option<&'static str> {
    if operation.released.is_some_and(|released| released != operation.end) {
        return Some(OperationState::Cancelled.as_str());
    }
    if operation.state.is_open() && operation.state != OperationState::Suspended {
        return None;
    }
    Some(operation.state.as_str())
}

/// Returns the time of each round, if there is more than one.
fn rounds(data: &IndexData, number: u32, operation: &OperationRecord) -> Vec<Value> {
    if operation.rounds < 2 {
        return Vec::new();
    }
    let mut rounds: Vec<(f64, Option<f64>)> = Vec::new();
    for row in data.rows_of(number) {
        let entry = &data.entries[row as usize];
        match (entry.role, entry.time.seconds(), rounds.last_mut()) {
            (Role::Request { .. }, Some(time), _) => rounds.push((time, None)),
            (Role::Response { .. }, Some(time), Some(round)) => round.1 = Some(time),
            _ => {}
        }
    }
    rounds.iter().take(MAX_ROUNDS).map(|(start, end)| json!({"start": start, "end": end})).collect()
}

/// Returns the length from which an operation is slow: three times the median, and at least a tenth of a second.
fn slow_limit(shown: &[ShownOperation]) -> f64 {
    let mut lengths: Vec<f64> = shown.iter().filter(|it| it.end.is_some()).map(|it| it.length).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.get(lengths.len() / 2).map_or(f64::INFINITY, |median| (3.0 * median).max(SLOW))
}

fn buckets(data: &IndexData, shown: &[ShownOperation], from: f64, to: f64, width: u32) -> Vec<Value> {
    let count = (width / 4).clamp(10, 1000);
    let step = ((to - from) / f64::from(count)).max(1e-6);
    let mut sums = vec![(0_u64, 0_u64, 0.0_f64); count as usize];
    for it in shown {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number below `count`")]
        let at = (((it.start - from) / step).max(0.0) as usize).min(sums.len() - 1);
        let is_failure = data.operation(it.number).is_some_and(|it| it.state.is_failure());
        sums[at].0 += 1;
        sums[at].1 += u64::from(is_failure);
        sums[at].2 = sums[at].2.max(it.length);
    }
    let start = |at: u32| from + f64::from(at) * step;
    (0..)
        .zip(sums)
        .filter(|(_, (count, ..))| *count > 0)
        .map(|(at, (count, errors, max))| {
            json!({"from": start(at), "to": start(at + 1), "count": count, "errors": errors, "max": max})
        })
        .collect()
}

/// The maximum number of bars. Of more, only the slowest are shown, and sums of all.
const MAX_BARS: usize = 3000;
const SLOWEST_BARS: usize = 500;
const MAX_ROUNDS: usize = 100;
/// The shortest time, in seconds, that is called slow.
const SLOW: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::indexed;

    /// Returns the bars of a wire.
    fn bars(wire: &str) -> Vec<Value> {
        let answer = timeline(&indexed(wire), &ViewRequest::new(false, "", "", Vec::new()));
        let Ok(Answer::Json(text)) = answer else { panic!("no timeline") };
        let value: Value = serde_json::from_str(&text).expect("JSON");
        value["bars"].as_array().expect("bars").clone()
    }

    /// Asserts that no two bars in one lane overlap.
    #[track_caller]
    fn assert_apart(bars: &[Value]) {
        for (at, one) in bars.iter().enumerate() {
            let is_over = |other: &&Value| {
                let ends_before =
                    |a: &Value, b: &Value| a["end"].as_f64().is_some_and(|end| Some(end) <= b["start"].as_f64());
                one["lane"] == other["lane"] && !ends_before(one, other) && !ends_before(other, one)
            };
            assert_eq!(bars[at + 1..].iter().find(is_over), None, "{one}");
        }
    }

    fn call(time: u32, id: u32, more: &str) -> String {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        format!(
            ">(+{time}) {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",{more}{meta}}}}}\n"
        )
    }

    fn cancel(time: u32, id: u32) -> String {
        format!(
            ">(+{time}) {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
        )
    }

    fn result(time: u32, id: u32, members: &str) -> String {
        format!("<(+{time}) {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{{members}}}}}\n")
    }

    #[test]
    fn a_late_response_does_not_take_the_lane_of_another_operation() {
        let wire =
            ["wire 1\n".to_owned(), call(1, 1, ""), cancel(2, 1), call(3, 2, ""), result(4, 1, ""), result(5, 2, "")];
        let bars = bars(&wire.concat());
        assert_apart(&bars);
        assert_eq!((&bars[0]["end"], &bars[1]["end"]), (&json!(2.0), &json!(5.0)));
        assert_eq!(
            (&bars[0]["lane"], &bars[1]["lane"]),
            (&json!(0), &json!(0)),
            "the lane is free after the cancellation"
        );
    }

    #[test]
    fn an_operation_that_goes_on_after_its_cancellation_frees_its_lane_once() {
        let asks = r#""resultType":"input_required","inputRequests":{},"requestState":"s""#;
        let again = r#""requestState":"s","inputResponses":{},"#;
        let wire = [
            "wire 1\n".to_owned(),
            call(1, 1, ""),
            cancel(2, 1),
            result(3, 1, asks),
            call(4, 2, again),
            result(5, 2, ""),
            call(6, 3, ""),
            call(7, 4, ""),
            result(8, 3, ""),
            result(9, 4, ""),
        ];
        let bars = bars(&wire.concat());
        assert_apart(&bars);
    }
}
