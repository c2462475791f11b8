//! A client that stops reading: it costs a bounded amount of memory for a bounded time, and other clients do not
//! notice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use barewire::server::Call;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::process::{in_own_process, peak, resident};
use super::wire::Wire;
use super::{DEADLINE, LoadServer, before_deadline, echo, limits, report, requests, threads, until};

#[test]
fn a_modern_stream_that_is_not_read_ends_with_its_handler() {
    if in_own_process("stall::a_modern_stream_that_is_not_read_ends_with_its_handler") {
        threads().block_on(modern(4, LONG_WRITE_TIMEOUT));
    }
}

#[test]
fn a_legacy_stream_that_is_not_read_ends_without_its_handler() {
    if in_own_process("stall::a_legacy_stream_that_is_not_read_ends_without_its_handler") {
        threads().block_on(legacy(48 << 20));
    }
}

#[test]
fn unread_responses_do_not_accumulate() {
    if in_own_process("stall::unread_responses_do_not_accumulate") {
        threads().block_on(pipelined());
    }
}

#[test]
#[ignore = "long: 50 readers that stop for 20 s"]
fn fifty_modern_streams_that_are_not_read() {
    if in_own_process("stall::fifty_modern_streams_that_are_not_read") {
        threads().block_on(modern(50, Duration::from_secs(20)));
    }
}

#[test]
#[ignore = "long: 2 GiB without a reader"]
fn two_gibibytes_for_a_legacy_stream_that_is_not_read() {
    if in_own_process("stall::two_gibibytes_for_a_legacy_stream_that_is_not_read") {
        threads().block_on(legacy(2 << 30));
    }
}

/// The progress of a handler.
#[derive(Default)]
struct FloodState {
    bytes_reported: AtomicUsize,
    is_finished: AtomicBool,
    is_dropped: AtomicBool,
}

struct DropMarker(Arc<FloodState>);

impl Drop for DropMarker {
    fn drop(&mut self) {
        self.0.is_dropped.store(true, Ordering::SeqCst);
    }
}

/// A handler that reports progress in pieces of 64 KiB, up to this many bytes.
async fn flood(call: Call, flood: Arc<FloodState>, bytes: usize) -> &'static str {
    let _dropped = DropMarker(Arc::clone(&flood));
    let piece = "x".repeat(PIECE_BYTES);
    for step in 1..=u32::try_from(bytes / PIECE_BYTES).expect("not that many") {
        if call.progress(step, None, &piece).await.is_err() {
            break;
        }
        flood.bytes_reported.fetch_add(PIECE_BYTES, Ordering::SeqCst);
    }
    flood.is_finished.store(true, Ordering::SeqCst);
    "done"
}

async fn modern(readers: u64, write_timeout: Duration) {
    let floods: Vec<Arc<FloodState>> = (0..readers).map(|_| Arc::default()).collect();
    let (next, of) = (AtomicUsize::new(0), floods.clone());
    let server = echo().tool("flood", "Says very much", move |call: Call| {
        flood(call, Arc::clone(&of[next.fetch_add(1, Ordering::SeqCst)]), usize::MAX >> 32)
    });
    let load_server = LoadServer::start(server, limits(|limits| limits.write_timeout = write_timeout)).await;
    let before = resident();
    let mut stalled = Vec::new();
    for id in 0..readers {
        let mut wire = Wire::new(connect(load_server.addr).await);
        wire.send(&requests::call(id, "flood", "{}")).await.expect("sent");
        wire.head().await.expect("a stream");
        stalled.push(wire);
    }
    let start = Instant::now();
    let is_dropped = || floods.iter().all(|flood| flood.is_dropped.load(Ordering::SeqCst));
    // Other clients are served meanwhile.
    let mut served_meanwhile = 0;
    while !is_dropped() {
        load_server.is_alive().await;
        served_meanwhile += usize::from(!is_dropped());
        assert!(start.elapsed() < write_timeout + DEADLINE, "handlers run on without a reader");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(served_meanwhile > 0, "no other client was served");
    let bytes_reported = floods.iter().map(|flood| flood.bytes_reported.load(Ordering::SeqCst)).max().unwrap_or(0);
    let each = peak().saturating_sub(before) / readers;
    report(&format!(
        "{readers} readers that stop: given up after {:?}, {} KiB written to the hungriest, {each} KiB of memory for each",
        start.elapsed(),
        bytes_reported / 1024
    ));
    assert!(bytes_reported < MAX_BYTES_WRITTEN, "{bytes_reported}");
    assert!(each < MAX_MEMORY_KIB, "{each} KiB");
    for wire in stalled {
        before_deadline("a closed connection", wire.rest()).await;
    }
    load_server.is_alive().await;
    load_server.end().await;
}

async fn legacy(bytes: usize) {
    let of: Arc<FloodState> = Arc::default();
    let flood_of = Arc::clone(&of);
    let server = echo().tool("flood", "Says very much", move |call: Call| flood(call, Arc::clone(&flood_of), bytes));
    let load_server = LoadServer::start(server, limits(|limits| limits.write_timeout = LONG_WRITE_TIMEOUT)).await;
    let before = resident();
    let session = Wire::connect(load_server.addr).await.initialize().await;
    let mut wire = Wire::new(connect(load_server.addr).await);
    wire.send(&requests::session_call(&session, 1, "flood", "{}")).await.expect("sent");
    wire.head().await.expect("a stream");
    // While the connection is open, the handler waits: the amount that it has reported stays the same.
    let (mut bytes_reported, mut same) = (0, 0);
    until("the handler waits", || {
        let now = of.bytes_reported.load(Ordering::SeqCst);
        same = if now > 0 && now == bytes_reported { same + 1 } else { 0 };
        bytes_reported = now;
        same > 20
    })
    .await;
    load_server.is_alive().await;
    assert!(bytes_reported < MAX_BYTES_WRITTEN, "{bytes_reported}");
    assert!(!of.is_finished.load(Ordering::SeqCst));
    // Then the connection is closed, and the handler runs to its end without a reader.
    let is_finished = || of.is_finished.load(Ordering::SeqCst);
    until("the handler has finished", is_finished).await;
    assert_eq!(of.bytes_reported.load(Ordering::SeqCst), bytes / PIECE_BYTES * PIECE_BYTES);
    let held = peak().saturating_sub(before);
    report(&format!("a reader that stops: {} MiB reported in all, {held} KiB of memory", bytes >> 20));
    assert!(held < MAX_MEMORY_KIB, "{held} KiB");
    before_deadline("a closed connection", wire.rest()).await;
    load_server.is_alive().await;
    load_server.end().await;
}

/// A client that keeps sending requests and reads no response.
async fn pipelined() {
    let answered: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&answered);
    let server = echo().tool("big", "Says much", move || {
        count.fetch_add(1, Ordering::SeqCst);
        async { "x".repeat(256 * 1024) }
    });
    let load_server = LoadServer::start(server, limits(|limits| limits.write_timeout = WRITE_TIMEOUT)).await;
    let before = resident();
    let mut stream = connect(load_server.addr).await;
    let request = requests::call(1, "big", "{}");
    let asking = async { while stream.write_all(&request).await.is_ok() {} };
    before_deadline("a broken connection", asking).await;
    let (answered, held) = (answered.load(Ordering::SeqCst), peak().saturating_sub(before));
    report(&format!("answers that are not read: {answered} of 256 KiB, {held} KiB of memory"));
    assert!(answered * 256 * 1024 < MAX_BYTES_WRITTEN, "{answered}");
    assert!(held < MAX_MEMORY_KIB, "{held} KiB");
    load_server.is_alive().await;
    load_server.end().await;
}

/// Opens a connection with a small receive buffer.
async fn connect(addr: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(8 * 1024).expect("a socket");
    socket.connect(addr).await.expect("it listens")
}

const WRITE_TIMEOUT: Duration = Duration::from_millis(800);
/// Long enough for what a test does on a busy machine before it passes.
const LONG_WRITE_TIMEOUT: Duration = Duration::from_secs(5);
const PIECE_BYTES: usize = 64 * 1024;

/// The kernel buffers some megabytes for a connection, and the server up to one.
const MAX_BYTES_WRITTEN: usize = 16 << 20;

/// KiB of the server's memory for a connection: its buffer, the message being written, and the stored events.
const MAX_MEMORY_KIB: u64 = 16 << 10;
