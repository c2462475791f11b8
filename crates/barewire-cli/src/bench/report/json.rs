//! What was measured -> one JSON object.

use std::io::Write;
use std::time::Duration;

use barewire_proto::mcp::Era;
use serde_json::{Map, Value, json};

use super::super::lane::Lane;
use super::super::{Args, Failure};
use super::{cpu_per_request, micros, own_cpu_per_request, ratio};
use crate::output::{Output, safe_json};
use barewire_workbench::load::load::{Amount, Load};
use barewire_workbench::load::tally::Wrong;

pub(super) fn print(
    output: &mut Output,
    args: &Args,
    load: &Load,
    lanes: &[Lane],
    stopped: bool,
) -> Result<(), Failure> {
    let servers: Vec<Value> = lanes
        .iter()
        .map(|lane| {
            let mut object = self::lane(args, load, lane);
            if let Some(first) = lanes.first().filter(|first| !std::ptr::eq(*first, lane)) {
                object["ratio"] = to_first(lane, first);
            }
            object
        })
        .collect();
    let object = json!({ "servers": servers, "stopped": stopped });
    writeln!(output, "{}", safe_json(&object.to_string()))?;
    Ok(())
}

fn lane(args: &Args, load: &Load, lane: &Lane) -> Value {
    let Lane { name, about, tally, used, broken, .. } = lane;
    let (duration, count) = match load.amount {
        Amount::For(time) => (Some(time.as_secs_f64()), None),
        Amount::Count(count) => (None, Some(count)),
    };
    let wrong: Map<String, Value> = Wrong::ALL
        .iter()
        .map(|kind| (kind.name().to_owned(), tally.wrong.get(kind).map_or(0, |it| it.count).into()))
        .collect();
    let rows: Vec<Value> = tally
        .latency
        .rows()
        .iter()
        .map(|(up_to, count)| json!({ "up_to_us": micros(*up_to), "count": count }))
        .collect();
    let latency = |share| us(tally.latency.percentile(share));
    let lag = |share| us(tally.lag.percentile(share));
    let usage = used.as_ref().map(|used| {
        json!({
            "cpu_seconds": used.cpu.map(|cpu| cpu.as_secs_f64()),
            "cpu_us_per_request": us(cpu_per_request(lane)),
            "memory": used.now.memory,
            "peak_memory": used.now.peak,
            "processes": used.now.processes,
        })
    });
    json!({
        "name": name,
        "server": about.server.as_ref().map(|info| json!({ "name": info.name, "version": info.version })),
        "transport": about.transport,
        "revision": about.revision.as_str(),
        "era": match about.revision.era() { Era::Modern => "modern", _ => "legacy" },
        "request": { "method": about.method, "name": about.target, "bytes": about.bytes },
        "load": {
            "in_flight": load.in_flight,
            "rate": load.rate,
            "payload": args.payload.as_ref().map(|payload| payload.bytes),
            "duration": duration,
            "count": count,
            "warm_up": load.warm_up.as_secs_f64(),
            "timeout": load.patience.as_secs_f64(),
        },
        "seconds": tally.time.as_secs_f64(),
        "sent": tally.sent,
        "answered": tally.good_answers(),
        "lost": tally.lost,
        "late": tally.late,
        "duplicated": tally.duplicated,
        "wrong": wrong,
        "unsent": tally.unsent,
        "throughput": tally.throughput(),
        "latency_us": {
            "min": us(tally.latency.min()),
            "mean": us(tally.latency.mean()),
            "p50": latency(0.5),
            "p90": latency(0.9),
            "p99": latency(0.99),
            "p999": latency(0.999),
            "max": us(tally.latency.max()),
        },
        "histogram": rows,
        "lag_us": load.rate.map(|_| json!({ "p50": lag(0.5), "p99": lag(0.99), "max": us(tally.lag.max()) })),
        "usage": usage,
        "generator": { "cpu_us_per_request": us(own_cpu_per_request(lane)) },
        "broken": broken,
    })
}

fn to_first(lane: &Lane, first: &Lane) -> Value {
    let both = |of: &dyn Fn(&Lane) -> Option<f64>| ratio(of(lane), of(first));
    json!({
        "throughput": both(&|lane| Some(lane.tally.throughput())),
        "p50": both(&|lane| lane.tally.latency.percentile(0.5).map(micros)),
        "p99": both(&|lane| lane.tally.latency.percentile(0.99).map(micros)),
        "cpu": both(&|lane| cpu_per_request(lane).map(micros)),
    })
}

fn us(time: Option<Duration>) -> Option<f64> {
    time.map(micros)
}
