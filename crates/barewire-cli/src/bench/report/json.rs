//! Measurements -> one JSON object.

use std::time::Duration;

use barewire_proto::mcp::Era;
use barewire_workbench::load::{Amount, MeasuredServer, WrongAnswer};
use serde_json::{Map, Value, json};

use super::{BenchReport, micros, ratio};
use crate::Failure;
use crate::output::{Output, safe_json};

pub(super) fn print(output: &mut Output, report: &BenchReport<'_>) -> Result<(), Failure> {
    let servers = report.servers.iter().enumerate().map(|(at, server)| {
        let mut object = self::server(report, server);
        if at > 0 {
            object["ratio"] = ratios(server, &report.servers[0]);
        }
        object
    });
    let object = json!({ "servers": servers.collect::<Vec<Value>>(), "stopped": report.is_stopped });
    writeln!(output, "{}", safe_json(&object.to_string()))?;
    Ok(())
}

fn server(BenchReport { args, settings, .. }: &BenchReport<'_>, server: &MeasuredServer) -> Value {
    let (details, tally) = (&server.details, &server.tally);
    let (duration, count) = match settings.amount {
        Amount::Time(time) => (Some(time.as_secs_f64()), None),
        Amount::Count(count) => (None, Some(count)),
    };
    let wrong: Map<String, Value> = WrongAnswer::ALL
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
    let usage = server.usage.map(|used| {
        json!({
            "cpu_seconds": used.cpu.map(|cpu| cpu.as_secs_f64()),
            "cpu_us_per_request": us(server.cpu_per_answer()),
            "memory": used.at_end.memory,
            "peak_memory": used.at_end.peak_memory,
            "processes": used.at_end.processes,
        })
    });
    json!({
        "name": server.name,
        "server": details.implementation.as_ref().map(|info| json!({ "name": info.name, "version": info.version })),
        "transport": details.transport,
        "revision": details.revision.as_str(),
        "era": match details.revision.era() { Era::Modern => "modern", _ => "legacy" },
        "request": { "method": details.method, "name": details.name, "bytes": details.request_bytes },
        "load": {
            "in_flight": settings.in_flight,
            "rate": settings.rate,
            "payload": args.payload.as_ref().map(|payload| payload.bytes),
            "duration": duration,
            "count": count,
            "warm_up": settings.warm_up.as_secs_f64(),
            "timeout": settings.timeout.as_secs_f64(),
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
        "lag_us": settings.rate.map(|_| json!({ "p50": lag(0.5), "p99": lag(0.99), "max": us(tally.lag.max()) })),
        "usage": usage,
        "generator": { "cpu_us_per_request": us(tally.own_cpu_per_answer()) },
        "broken": server.disconnect.as_ref().map(ToString::to_string),
    })
}

fn ratios(server: &MeasuredServer, first: &MeasuredServer) -> Value {
    let both = |of: &dyn Fn(&MeasuredServer) -> Option<f64>| ratio(of(server), of(first));
    json!({
        "throughput": both(&|server| Some(server.tally.throughput())),
        "p50": both(&|server| server.tally.latency.percentile(0.5).map(micros)),
        "p99": both(&|server| server.tally.latency.percentile(0.99).map(micros)),
        "cpu": both(&|server| server.cpu_per_answer().map(micros)),
    })
}

fn us(time: Option<Duration>) -> Option<f64> {
    time.map(micros)
}
