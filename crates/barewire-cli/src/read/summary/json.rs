//! The figures of a wire -> one JSON object.

use std::io;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::collect::last_request;
use super::figures::{DirectionFigures, FailureKind, MethodFigures, Summary};
use crate::output::{Output, safe_json};
use barewire_workbench::operations::{Operation, Participant};

/// Writes the summary as an object. `file` is the name of the file, if the output has to say it.
pub(super) fn write(output: &mut Output, summary: &Summary, file: Option<&str>) -> io::Result<()> {
    let mut value = value(summary);
    if let Some(file) = file {
        value["file"] = Value::String(file.to_owned());
    }
    writeln!(output, "{}", safe_json(&value.to_string()))
}

fn value(summary: &Summary) -> Value {
    let who = |all: &[Participant]| -> Vec<Value> {
        all.iter().map(|who| json!({"name": who.name, "version": who.version})).collect()
    };
    let versions: Vec<_> =
        summary.versions.iter().map(|(version, era)| json!({"revision": version, "era": era})).collect();
    let rounds: Map<String, Value> =
        summary.rounds.iter().map(|(rounds, count)| (rounds.to_string(), json!(count))).collect();
    let statuses: Map<String, Value> =
        summary.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect();
    let directions = summary.has_directions.then(|| {
        let [to_server, to_client] = &summary.directions;
        json!({"to_server": direction(to_server), "to_client": direction(to_client)})
    });
    json!({
        "started": summary.started,
        "first": summary.span.map(|(first, _)| seconds(first)),
        "last": summary.span.map(|(_, last)| seconds(last)),
        "frames": summary.frames,
        "bytes": summary.directions.iter().map(|figures| figures.frames.bytes).sum::<u64>(),
        "directions": directions,
        "stderr": {"lines": summary.stderr.count, "bytes": summary.stderr.bytes},
        "exits": summary.exits,
        "http": statuses,
        "conversations": summary.conversations,
        "clients": who(&summary.clients),
        "servers": who(&summary.servers),
        "revisions": versions,
        "operations": summary.operations,
        "round_trips": summary.round_trips,
        "rounds": rounds,
        "progress": summary.progress,
        "cancelled": summary.cancelled,
        "late": summary.late,
        "second_answers": summary.second_answers,
        "to_nobody": summary.unsolicited,
        "ids_in_use": summary.ids_in_use,
        "invalid": summary.invalid(),
        "cut": summary.cut(),
        "methods": methods(summary),
        "slowest": slowest(summary),
        "failures": failures(summary),
        "unanswered": {"count": summary.unanswered, "first": unanswered(summary)},
    })
}

fn direction(figures: &DirectionFigures) -> Value {
    json!({"frames": figures.frames.count, "bytes": figures.frames.bytes, "kinds": figures.kinds})
}

fn methods(summary: &Summary) -> Vec<Value> {
    let one = |(method, figures): (&String, &MethodFigures)| {
        json!({
            "method": method,
            "asked": figures.asked,
            "answered": figures.answered,
            "failed": figures.failed,
            "p50": figures.latencies.percentile(50).map(seconds),
            "p95": figures.latencies.percentile(95).map(seconds),
            "max": figures.latencies.max().map(seconds),
        })
    };
    summary.methods.iter().map(one).collect()
}

fn slowest(summary: &Summary) -> Vec<Value> {
    let one = |(waited, operation): &(Duration, Operation)| {
        json!({
            "frame": operation.asked().frame,
            "method": operation.method,
            "name": operation.name,
            "rounds": operation.rounds.len(),
            "latency": seconds(*waited),
            "total": operation.latency().map(seconds),
        })
    };
    summary.slowest.iter().map(one).collect()
}

fn failures(summary: &Summary) -> Vec<Value> {
    let all = summary.failures.iter();
    all.map(|(key, failure)| {
        let (code, how) = match key.kind {
            FailureKind::Code(code) => (Some(code), "error"),
            FailureKind::IsError => (None, "isError"),
            FailureKind::Status(status) => (Some(status.into()), "status"),
            FailureKind::Unreadable => (None, "invalid"),
            FailureKind::Any => (None, "any"),
        };
        json!({
            "method": key.method, "name": key.name, "how": how, "code": code,
            "message": key.message, "count": failure.count, "frame": failure.frame,
        })
    })
    .collect()
}

fn unanswered(summary: &Summary) -> Vec<Value> {
    let one = |operation: &Operation| {
        let asked = last_request(operation);
        let (method, name) = (&operation.method, &operation.name);
        json!({"frame": asked.frame, "time": asked.time.map(seconds), "method": method, "name": name})
    };
    summary.unanswered_first.iter().map(one).collect()
}

/// Returns seconds rounded to six digits, like all times in the output.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}
