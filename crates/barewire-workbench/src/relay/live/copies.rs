//! Relayed bytes and events -> the queues of the viewers, and the beginning that later viewers get.
//!
//! The relaying threads call this for all bytes, so it costs a few instructions while there is no viewer: the numbers of
//! the bytes that nobody has seen are counted, and nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use barewire_proto::transcript::{Note, Stream};

use super::super::queue::{ExchangeNumber, ObservationQueue, QueueLimits, SINGLE_CONNECTION};
use super::viewer::{ViewedEntries, ViewerThread};
use crate::capture::CaptureClock;

/// The copies that a relay makes for viewers.
pub(in crate::relay) struct LiveCopies {
    pub(in crate::relay) clock: CaptureClock,
    /// The program of the relay and its arguments; empty over HTTP.
    argv: Vec<OsString>,
    redacted: bool,
    /// Whether bytes must be copied: there is a viewer, or the beginning is not complete.
    is_wanted: AtomicBool,
    /// Over stdio, the bytes of each stream that are not in the beginning.
    unseen: [UnseenBytes; 3],
    /// Over HTTP, the highest number of an exchange so far, and of one that is in the beginning.
    last_exchange: AtomicU64,
    last_kept: AtomicU64,
    state: Mutex<LiveState>,
}

/// The bytes of a stream that were relayed and not kept. Only the relaying thread changes them.
#[derive(Default)]
struct UnseenBytes {
    count: AtomicU64,
    /// Whether the last of them is inside a line.
    in_line: AtomicBool,
}

struct LiveState {
    /// The beginning of the conversation. No thread takes items from this queue.
    beginning: Arc<ObservationQueue>,
    is_beginning_complete: bool,
    viewers: Vec<Viewer>,
    next_viewer: u64,
}

struct Viewer {
    number: u64,
    queue: Arc<ObservationQueue>,
    /// Over HTTP, the last exchange before the viewer has come. Of those since the beginning, it sees nothing.
    joined_after: ExchangeNumber,
    /// Whether nothing was queued since the viewer has come.
    is_new: bool,
    /// Over stdio, whether the rest of a line of each stream is left out.
    skips_line: [bool; 3],
    thread: ViewerThread,
}

impl LiveCopies {
    pub(super) fn new(clock: CaptureClock, argv: Vec<OsString>, redacted: bool) -> Self {
        let beginning = Arc::new(ObservationQueue::new(KEPT_LIMITS));
        let state = LiveState { beginning, is_beginning_complete: false, viewers: Vec::new(), next_viewer: 0 };
        Self {
            clock,
            argv,
            redacted,
            is_wanted: AtomicBool::new(true),
            unseen: Default::default(),
            last_exchange: AtomicU64::new(0),
            last_kept: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    /// Takes bytes that were relayed, with the time when they were read.
    pub(in crate::relay) fn bytes(&self, exchange: ExchangeNumber, stream: Stream, bytes: &[u8], time: Duration) {
        if !self.is_wanted.load(Ordering::Relaxed) && !self.is_kept(exchange) {
            return self.unseen[stream as usize].add(bytes);
        }
        let mut state = self.lock();
        if self.keeps(&mut state, exchange, bytes.len()) {
            state.beginning.bytes(exchange, stream, bytes, time);
            state.viewers.iter().for_each(|viewer| viewer.queue.bytes(exchange, stream, bytes, time));
            return;
        }
        for viewer in &mut state.viewers {
            if exchange == SINGLE_CONNECTION {
                viewer.begin(&self.unseen, time);
                viewer.bytes(stream, bytes, time);
            } else if viewer.joined_after < exchange {
                viewer.queue.bytes(exchange, stream, bytes, time);
            }
        }
        self.unseen[stream as usize].add(bytes);
    }

    /// Takes an event that happens now.
    pub(in crate::relay) fn note(&self, exchange: ExchangeNumber, note: &Note) {
        if exchange != SINGLE_CONNECTION {
            self.last_exchange.fetch_max(exchange, Ordering::Relaxed);
        }
        if !self.is_wanted.load(Ordering::Relaxed) && !self.is_kept(exchange) {
            return;
        }
        let (time, mut state) = (self.clock.now(), self.lock());
        if self.keeps(&mut state, exchange, 0) {
            state.beginning.note(exchange, note.clone(), time);
            state.viewers.iter().for_each(|viewer| viewer.queue.note(exchange, note.clone(), time));
            return;
        }
        for viewer in &mut state.viewers {
            if exchange == SINGLE_CONNECTION {
                viewer.begin(&self.unseen, time);
            }
            if exchange == SINGLE_CONNECTION || viewer.joined_after < exchange {
                viewer.queue.note(exchange, note.clone(), time);
            }
        }
    }

    /// Starts a thread that writes entries to a viewer: the beginning, and everything from now on. Returns the number
    /// of the viewer.
    pub(super) fn join(self: &Arc<Self>, to: File) -> u64 {
        let mut state = self.lock();
        let queue = Arc::new(state.beginning.copy(VIEWER_LIMITS));
        let number = state.next_viewer;
        state.next_viewer += 1;
        let is_complete = state.is_beginning_complete;
        let entries = ViewedEntries { clock: self.clock, argv: self.argv.clone(), redacted: self.redacted };
        let live = Arc::downgrade(self);
        let thread = entries.write_to(to, Arc::clone(&queue), move || {
            live.upgrade().inspect(|live| live.leave(number));
        });
        state.viewers.push(Viewer {
            number,
            queue,
            joined_after: self.last_exchange.load(Ordering::Relaxed),
            is_new: is_complete,
            skips_line: [false; 3],
            thread,
        });
        self.is_wanted.store(true, Ordering::Relaxed);
        number
    }

    /// Forgets a viewer, and ends its thread.
    pub(super) fn leave(&self, number: u64) {
        let mut state = self.lock();
        state.viewers.retain(|viewer| {
            let stays = viewer.number != number;
            if !stays {
                viewer.queue.end();
            }
            stays
        });
        self.is_wanted.store(!state.viewers.is_empty() || !state.is_beginning_complete, Ordering::Relaxed);
    }

    /// Writes what is queued to all viewers, and ends their threads. Waits only for viewers that read.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        let viewers = std::mem::take(&mut state.viewers);
        self.is_wanted.store(!state.is_beginning_complete, Ordering::Relaxed);
        drop(state);
        viewers.iter().for_each(|viewer| viewer.queue.end());
        let until = Instant::now() + FINISH_TIMEOUT;
        for viewer in viewers {
            viewer.thread.wait(&viewer.queue, until);
        }
    }

    /// Whether an exchange is in the beginning. Its later bytes are kept too, within the limit of the queue.
    fn is_kept(&self, exchange: ExchangeNumber) -> bool {
        exchange != SINGLE_CONNECTION && exchange <= self.last_kept.load(Ordering::Relaxed)
    }

    /// Whether the next item belongs to the beginning.
    fn keeps(&self, state: &mut LiveState, exchange: ExchangeNumber, length: usize) -> bool {
        if !state.is_beginning_complete {
            if state.beginning.length() + length <= KEPT_BYTES {
                if exchange != SINGLE_CONNECTION {
                    self.last_kept.fetch_max(exchange, Ordering::Relaxed);
                }
                return true;
            }
            state.is_beginning_complete = true;
            self.is_wanted.store(!state.viewers.is_empty(), Ordering::Relaxed);
        }
        self.is_kept(exchange)
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnseenBytes {
    fn add(&self, bytes: &[u8]) {
        // Only one thread writes, so no addition is lost. Over HTTP, nobody reads the numbers.
        self.count.store(self.count.load(Ordering::Relaxed).wrapping_add(bytes.len() as u64), Ordering::Relaxed);
        self.in_line.store(bytes.last().is_some_and(|byte| *byte != b'\n'), Ordering::Relaxed);
    }
}

impl Viewer {
    /// Queues a gap for the bytes since the beginning, before the first item of a viewer.
    fn begin(&mut self, unseen: &[UnseenBytes; 3], time: Duration) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        for stream in [Stream::ToServer, Stream::ToClient, Stream::Stderr] {
            let before = &unseen[stream as usize];
            let count = before.count.load(Ordering::Relaxed);
            if before.in_line.load(Ordering::Relaxed) {
                self.skips_line[stream as usize] = true;
                self.queue.missed(SINGLE_CONNECTION, stream, count);
            } else if count > 0 {
                self.queue.note(SINGLE_CONNECTION, Note::Gap(stream, count), time);
            }
        }
    }

    fn bytes(&mut self, stream: Stream, mut bytes: &[u8], time: Duration) {
        let skips = &mut self.skips_line[stream as usize];
        if *skips {
            let rest = memchr::memchr(b'\n', bytes).map(|at| at + 1);
            let (missed, after) = bytes.split_at(rest.unwrap_or(bytes.len()));
            self.queue.missed(SINGLE_CONNECTION, stream, missed.len() as u64);
            *skips = rest.is_none();
            bytes = after;
        }
        if !bytes.is_empty() {
            self.queue.bytes(SINGLE_CONNECTION, stream, bytes, time);
        }
    }
}

/// The number of bytes at the beginning of a conversation that are kept: a handshake and the lists of most servers.
const KEPT_BYTES: usize = 64 * 1024;

/// The beginning over HTTP: its exchanges can go on after it is complete.
const KEPT_LIMITS: QueueLimits = QueueLimits { bytes: 2 * KEPT_BYTES, marks: 4096 };

/// The queue of a viewer: half a second of 5,000 messages of a KiB per second. There are two such buffers.
const VIEWER_LIMITS: QueueLimits = QueueLimits { bytes: 4 * 1024 * 1024, marks: 64 * 1024 };

/// The maximum time in which viewers can read the last messages.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::platform;

    fn live() -> Arc<LiveCopies> {
        Arc::new(LiveCopies::new(CaptureClock::start(), vec!["server".into()], true))
    }

    /// Returns the lines that a viewer gets after the header, without their times.
    fn seen(live: &Arc<LiveCopies>, then: impl FnOnce()) -> Vec<String> {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        live.join(platform::file(writer));
        then();
        live.finish();
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("UTF-8");
        assert!(text.starts_with("wire 1 "), "{text}");
        let timeless = |line: &str| match (line.find("(+"), line.find(')')) {
            (Some(begin), Some(end)) if line[..begin].len() < 4 => format!("{}{}", &line[..begin], &line[end + 1..]),
            _ => line.to_owned(),
        };
        text.lines().skip(1).map(timeless).collect()
    }

    fn relay(live: &LiveCopies, stream: Stream, text: &str) {
        live.bytes(SINGLE_CONNECTION, stream, text.as_bytes(), live.clock.now());
    }

    #[test]
    fn a_viewer_gets_the_beginning_and_what_follows_it() {
        let live = live();
        relay(&live, Stream::ToServer, "{\"n\":1}\n");
        let lines = seen(&live, || relay(&live, Stream::ToClient, "{\"n\":2}\n"));
        assert_eq!(lines, ["@ open server", "> {\"n\":1}", "< {\"n\":2}"]);
        // Its thread is gone, and the next viewer gets the beginning as well.
        assert!(live.lock().viewers.is_empty());
        assert_eq!(seen(&live, || {}), ["@ open server", "> {\"n\":1}", "< {\"n\":2}"]);
    }

    #[test]
    fn what_was_relayed_without_a_viewer_is_a_gap_that_ends_with_a_line() {
        let live = live();
        relay(&live, Stream::ToServer, "{\"n\":1}\n");
        let long = "x".repeat(KEPT_BYTES);
        relay(&live, Stream::ToClient, &long);
        relay(&live, Stream::ToServer, "{\"n\":2}\n");
        assert!(!live.is_wanted.load(Ordering::Relaxed));
        let lines = seen(&live, || {
            relay(&live, Stream::ToServer, "{\"n\":3}\n");
            relay(&live, Stream::ToClient, "xxx\n{\"n\":4}\n{\"n\"");
            relay(&live, Stream::ToClient, ":5}\n");
        });
        let gap = format!("@ gap < {}", KEPT_BYTES + 4);
        let expected = ["@ open server", "> {\"n\":1}", "@ gap > 8", "> {\"n\":3}", &gap, "< {\"n\":4}", "< {\"n\":5}"];
        assert_eq!(lines, expected);
        assert!(!live.is_wanted.load(Ordering::Relaxed), "nothing is copied without a viewer");
    }

    #[test]
    fn over_http_a_viewer_sees_exchanges_from_their_start() {
        let live = live();
        let head =
            |exchange| live.note(exchange, &Note::Head(Stream::ToServer, format!("GET /{exchange} HTTP/1.1").into()));
        head(1);
        live.bytes(1, Stream::ToClient, &vec![b'x'; KEPT_BYTES + 1], live.clock.now());
        head(2);
        let lines = seen(&live, || {
            live.note(2, &Note::Eof(Stream::ToClient));
            live.note(1, &Note::Eof(Stream::ToClient));
            head(3);
        });
        let shown: Vec<_> = lines.iter().map(|line| line.chars().take(24).collect::<String>()).collect();
        assert_eq!(shown[..2], ["@ open server", "@x1 head > GET /1 HTTP/1"], "{shown:?}");
        assert!(!shown.iter().any(|line| line.starts_with("@x2")), "{shown:?}");
        assert_eq!(shown.last().map(String::as_str), Some("@x3 head > GET /3 HTTP/1"), "{shown:?}");
    }

    #[test]
    fn a_viewer_that_does_not_read_costs_a_bounded_queue_and_no_time() {
        let live = live();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        live.join(platform::file(writer));
        let line = format!("{}\n", "y".repeat(1023));
        for _ in 0..64 * 1024 {
            relay(&live, Stream::ToClient, &line);
        }
        let length = live.lock().viewers[0].queue.length();
        assert!(length <= VIEWER_LIMITS.bytes + line.len(), "{length}");
        let begun = Instant::now();
        live.finish();
        // Without a limit, the wait would have no end.
        assert!(begun.elapsed() < 20 * FINISH_TIMEOUT, "{:?}", begun.elapsed());
        drop(reader);
    }

    #[test]
    fn a_viewer_that_is_gone_is_forgotten() {
        let live = live();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        live.join(platform::file(writer));
        drop(reader);
        let until = Instant::now() + Duration::from_secs(20);
        while !live.lock().viewers.is_empty() {
            assert!(Instant::now() < until, "the viewer is still there");
            relay(&live, Stream::ToClient, "{}\n");
            let _ = std::io::sink().flush();
            std::thread::yield_now();
        }
    }
}
