//! Faults with real processes and sockets: killed peers, half-closed connections, full disks, slow and hostile peers.
//! The tests also check that no process, file or memory is left afterwards.
//!
//! With `BAREWIRE_LONG=1`, a peer that does not read is tested for a minute instead of a few seconds.
#![cfg(all(target_os = "linux", feature = "tokio"))]

#[path = "faults/end.rs"]
mod end;
mod eventually;
#[path = "faults/flood.rs"]
mod flood;
#[path = "faults/half.rs"]
mod half;
#[path = "faults/http.rs"]
mod http;
#[path = "faults/invalid.rs"]
mod invalid;
#[path = "faults/process.rs"]
mod process;
#[path = "faults/size.rs"]
mod size;
#[path = "faults/wake.rs"]
mod wake;
#[path = "faults/wire.rs"]
mod wire;

use std::future::Future;

use barewire::peer::{Connection, ConnectionLimits, Context, Methods, Raw};
use barewire::transport::stdio;
use eventually::DEADLINE;
use tokio::runtime::{Builder, Runtime};

/// Methods that answer with their params at once.
fn echo() -> Methods {
    Methods::new().fallback(|_: Context, params: Raw| async move { Ok(params) })
}

/// Methods that answer with their params after they have yielded once.
fn yielding() -> Methods {
    Methods::new().fallback(|_: Context, params: Raw| async move {
        tokio::task::yield_now().await;
        Ok(params)
    })
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

async fn within_deadline<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(done) => done,
        Err(_) => panic!("hangs: {what}"),
    }
}

/// Not a test: the peers that the tests start.
#[test]
fn as_a_child() {
    let Some(role) = process::role() else { return };
    let (runtime, methods) = match role.as_str() {
        "yields" => (one_thread(), yielding()),
        "yields on threads" => (threads(), yielding()),
        "short frames" => (one_thread(), yielding()),
        "holds children" => return end::hold_children(),
        role => panic!("no such role: {role}"),
    };
    let limits = if role == "short frames" { invalid::limits() } else { ConnectionLimits::default() };
    let ended = runtime.block_on(async {
        let stdio = stdio().expect("taken once");
        Connection::new(stdio).methods(methods).limits(limits).run().await
    });
    // The test harness would print more.
    std::process::exit(i32::from(ended.is_err()));
}
