//! A soak: an hour of mixed load on one server over HTTP, whose memory, file descriptors and tasks must stay flat. The
//! server is a process of its own, so that only it is measured.
//!
//! ```text
//! BAREWIRE_SOAK_SECONDS=3600 cargo test --release -p barewire --features http --test soak -- --ignored --nocapture
//! ```
#![cfg(all(target_os = "linux", feature = "http"))]

#[path = "soak/clients.rs"]
mod clients;
#[path = "soak/curve.rs"]
mod curve;
mod eventually;
#[allow(dead_code, reason = "shared with the load tests")]
#[path = "http_load/requests.rs"]
mod requests;
#[path = "soak/server.rs"]
mod server;
#[allow(dead_code, reason = "shared with the load tests")]
#[path = "http_load/wire.rs"]
mod wire;

use std::env;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use clients::Load;
use curve::{Curve, Sample};
use server::{MeasuredServer, Measures};

#[test]
#[ignore = "an hour, or BAREWIRE_SOAK_SECONDS"]
fn an_hour_of_mixed_load_leaves_nothing_behind() {
    if server::is_server() {
        return server::run();
    }
    let seconds = env::var("BAREWIRE_SOAK_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    soak(Duration::from_secs(seconds.unwrap_or(3600)));
}

fn soak(duration: Duration) {
    let mut server = MeasuredServer::start();
    let idle = server.measure();
    report(&format!("soak: {duration:?} of load, before it {idle}"));
    let load = Load::start(server.addr);
    let (start, every) = (Instant::now(), SAMPLE_INTERVAL.min(duration / MIN_SAMPLES));
    let mut curve = Curve::default();
    while start.elapsed() < duration {
        load.run_for(every);
        let sample = Sample { at: start.elapsed(), measures: server.measure(), operations: load.operations() };
        report(&sample.to_string());
        curve.push(sample);
    }
    let operations = load.stop();
    report(&format!("soak: {operations:?}"));
    assert!(operations.iter().all(|(name, count)| *count > 0 && !name.is_empty()), "some were never run");
    // Every connection is closed, and every session expires.
    let mut last = server.measure();
    let deadline = Instant::now() + server::SESSION_IDLE * 4 + eventually::DEADLINE;
    while !is_idle(last, idle) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(200));
        last = server.measure();
    }
    report(&format!("soak: after it {last}"));
    assert!(is_idle(last, idle), "before: {idle}, afterwards: {last}");
    curve.check_flat();
    server.stop();
}

/// Whether only those tasks and file descriptors are left that there were before any load.
fn is_idle(now: Measures, idle: Measures) -> bool {
    now.tasks <= idle.tasks && now.files <= idle.files
}

/// Prints a line while the test runs.
fn report(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// The minimum number of samples, for a run that is shorter than an hour: six for each quarter.
const MIN_SAMPLES: u32 = 24;
