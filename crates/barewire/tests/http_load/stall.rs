//! A reader that stops: it costs a bounded amount of memory for a bounded time, and nobody else notices.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use barewire::server::Call;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::process::{alone, peak, resident};
use super::wire::Wire;
use super::{Served, echo, limits, requests, say, soon, threads, until};

#[test]
fn a_modern_stream_that_is_not_read_ends_with_its_handler() {
    if alone("stall::a_modern_stream_that_is_not_read_ends_with_its_handler") {
        threads().block_on(modern(4, PATIENCE));
    }
}

#[test]
fn a_legacy_stream_that_is_not_read_ends_without_its_handler() {
    if alone("stall::a_legacy_stream_that_is_not_read_ends_without_its_handler") {
        threads().block_on(legacy(48 << 20));
    }
}

#[test]
fn answers_that_are_not_read_are_not_gathered() {
    if alone("stall::answers_that_are_not_read_are_not_gathered") {
        threads().block_on(pipelined());
    }
}

#[test]
#[ignore = "long: 50 readers that stop for 20 s"]
fn fifty_modern_streams_that_are_not_read() {
    if alone("stall::fifty_modern_streams_that_are_not_read") {
        threads().block_on(modern(50, Duration::from_secs(20)));
    }
}

#[test]
#[ignore = "long: 2 GiB to nobody"]
fn two_gibibytes_for_a_legacy_stream_that_is_not_read() {
    if alone("stall::two_gibibytes_for_a_legacy_stream_that_is_not_read") {
        threads().block_on(legacy(2 << 30));
    }
}

/// What a handler has come to.
#[derive(Default)]
struct Flood {
    told: AtomicUsize,
    is_finished: AtomicBool,
    is_dropped: AtomicBool,
}

struct Dropped(Arc<Flood>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.is_dropped.store(true, Ordering::SeqCst);
    }
}

/// A handler that reports progress in pieces of 64 KiB until it has reported so much.
async fn flood(call: Call, flood: Arc<Flood>, bytes: usize) -> &'static str {
    let _dropped = Dropped(Arc::clone(&flood));
    let piece = "x".repeat(PIECE);
    for step in 1..=u32::try_from(bytes / PIECE).expect("not that many") {
        if call.progress(step, None, &piece).await.is_err() {
            break;
        }
        flood.told.fetch_add(PIECE, Ordering::SeqCst);
    }
    flood.is_finished.store(true, Ordering::SeqCst);
    "done"
}

async fn modern(readers: u64, patience: Duration) {
    let floods: Vec<Arc<Flood>> = (0..readers).map(|_| Arc::default()).collect();
    let (next, of) = (AtomicUsize::new(0), floods.clone());
    let server = echo().tool("flood", "Says very much", move |call: Call| {
        flood(call, Arc::clone(&of[next.fetch_add(1, Ordering::SeqCst)]), usize::MAX >> 32)
    });
    let served = Served::start(server, limits(|limits| limits.write_timeout = patience)).await;
    let before = resident();
    let mut stalled = Vec::new();
    for id in 0..readers {
        let mut wire = Wire::new(connect(served.addr).await);
        wire.send(&requests::call(id, "flood", "{}")).await.expect("it is taken");
        wire.head().await.expect("a stream");
        stalled.push(wire);
    }
    let begun = Instant::now();
    let is_dropped = || floods.iter().all(|flood| flood.is_dropped.load(Ordering::SeqCst));
    // Others are served while it lasts.
    let mut served_meanwhile = 0;
    while !is_dropped() {
        served.is_alive().await;
        served_meanwhile += usize::from(!is_dropped());
        assert!(begun.elapsed() < patience + Duration::from_secs(20), "handlers go on for nobody");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(served_meanwhile > 3, "others were served {served_meanwhile} times");
    let told = floods.iter().map(|flood| flood.told.load(Ordering::SeqCst)).max().unwrap_or(0);
    let each = peak().saturating_sub(before) / readers;
    say(&format!(
        "{readers} readers that stop: given up after {:?}, {} KiB written to the hungriest, {each} KiB of memory for each",
        begun.elapsed(),
        told / 1024
    ));
    assert!(told < MOST_WRITTEN, "{told}");
    assert!(each < MOST_HELD, "{each} KiB");
    for wire in stalled {
        soon("a closed connection", wire.rest()).await;
    }
    served.is_alive().await;
    served.end().await;
}

async fn legacy(bytes: usize) {
    let of: Arc<Flood> = Arc::default();
    let flood_of = Arc::clone(&of);
    let server = echo().tool("flood", "Says very much", move |call: Call| flood(call, Arc::clone(&flood_of), bytes));
    let served = Served::start(server, limits(|limits| limits.write_timeout = PATIENCE)).await;
    let before = resident();
    let session = Wire::connect(served.addr).await.initialize().await;
    let mut wire = Wire::new(connect(served.addr).await);
    wire.send(&requests::session_call(&session, 1, "flood", "{}")).await.expect("it is taken");
    wire.head().await.expect("a stream");
    // While somebody might still read, it waits: what it has told stays the same.
    let (mut told, mut same) = (0, 0);
    until(Duration::from_secs(20), "the handler waits", || {
        let now = of.told.load(Ordering::SeqCst);
        same = if now > 0 && now == told { same + 1 } else { 0 };
        told = now;
        same > 20
    })
    .await;
    served.is_alive().await;
    assert!(told < MOST_WRITTEN, "{told}");
    assert!(!of.is_finished.load(Ordering::SeqCst));
    // Then nobody does, and it goes on to its end without anybody to wait for.
    let is_finished = || of.is_finished.load(Ordering::SeqCst);
    until(Duration::from_secs(60), "the handler has finished", is_finished).await;
    assert_eq!(of.told.load(Ordering::SeqCst), bytes / PIECE * PIECE);
    let held = peak().saturating_sub(before);
    say(&format!("a reader that stops: {} MiB told in all, {held} KiB of memory", bytes >> 20));
    assert!(held < MOST_HELD, "{held} KiB");
    soon("a closed connection", wire.rest()).await;
    served.is_alive().await;
    served.end().await;
}

/// A client that asks and asks, and reads no answer.
async fn pipelined() {
    let answered: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&answered);
    let server = echo().tool("big", "Says much", move || {
        count.fetch_add(1, Ordering::SeqCst);
        async { "x".repeat(256 * 1024) }
    });
    let served = Served::start(server, limits(|limits| limits.write_timeout = PATIENCE)).await;
    let before = resident();
    let mut stream = connect(served.addr).await;
    let request = requests::call(1, "big", "{}");
    let asking = async { while stream.write_all(&request).await.is_ok() {} };
    soon("a broken connection", asking).await;
    let (answered, held) = (answered.load(Ordering::SeqCst), peak().saturating_sub(before));
    say(&format!("answers that are not read: {answered} of 256 KiB, {held} KiB of memory"));
    assert!(answered * 256 * 1024 < MOST_WRITTEN, "{answered}");
    assert!(held < MOST_HELD, "{held} KiB");
    served.is_alive().await;
    served.end().await;
}

/// A connection that takes little before it is read.
async fn connect(addr: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(8 * 1024).expect("a socket");
    socket.connect(addr).await.expect("it listens")
}

const PATIENCE: Duration = Duration::from_millis(800);
const PIECE: usize = 64 * 1024;

/// The system takes some megabytes for a connection, and we up to one.
const MOST_WRITTEN: usize = 16 << 20;

/// KiB of our own memory for a connection: that one, what is being written, and the events that are kept.
const MOST_HELD: u64 = 16 << 10;
