//! The time to pair messages is proportional to their number.

use std::time::{Duration, Instant};

use barewire_proto::transcript::read;
use barewire_workbench::Error;
use barewire_workbench::frames::{FrameLimits, Sink, Streams, WireItem};
use barewire_workbench::operations::OperationTracker;
use barewire_workbench::platform::usage;

/// Tracks all messages of a transcript, and counts them.
#[derive(Default)]
struct MessageCount(OperationTracker, usize);

impl Sink for MessageCount {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
        self.0.take(item, &mut |_| self.1 += 1);
        Ok(true)
    }
}

fn play(transcript: &str, sink: &mut impl Sink) {
    let mut streams = Streams::new(FrameLimits { frame: 1 << 20, depth: 64 });
    for entry in read(transcript.as_bytes()).expect("a transcript") {
        assert!(matches!(streams.entry(&entry, sink), Ok(true)));
    }
    assert!(streams.finish(sink).is_ok());
}

/// Returns the lines of a transcript for one message or exchange.
type Lines<'a> = &'a dyn Fn(usize) -> String;

/// Returns the CPU time of this process, which other programs hardly change. Where it is not known: the time since `start`.
fn clock(start: Instant) -> Duration {
    usage(std::process::id()).map_or_else(|| start.elapsed(), |usage| usage.cpu)
}

/// Four times as many messages take about four times as long, whatever the messages are. If tracking one message took
/// time in proportion to the messages before it, they would take sixteen times as long.
#[test]
fn the_time_is_linear() {
    let ping = |id: usize| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
    let round = |id: usize| {
        format!(
            "> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"a\",\"requestState\":\"s\"}}}}\n\
             < {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"resultType\":\"input_required\",\"requestState\":\"s\"}}}}\n"
        )
    };
    let refused = |id: usize| {
        let head = format!("@x{id} head > POST / HTTP/1.1\n@x{id} head > mcp-session-id: s\n>x{id} {}", ping(id));
        if id.is_multiple_of(2) { head } else { format!("{head}@x{id} head < HTTP/1.1 404 Not Found\n@x{id} eof <\n") }
    };
    let unmatched = |id: usize| {
        let head = if id == 0 { "@s head > GET / HTTP/1.1\n" } else { "" };
        let response = format!("<s {{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"result\":{{}}}}\n");
        format!("{head}@p{id} head > POST / HTTP/1.1\n>p{id} {}{response}", ping(id + 1_000_000))
    };
    let kinds: [(&str, usize, Lines<'_>); 5] = [
        ("one id", 40_000, &|_| format!("> {}", ping(1))),
        ("one operation", 20_000, &round),
        ("channels", 15_000, &|id| format!(">c{id} {}", ping(1))),
        ("refused requests of one session", 15_000, &refused),
        ("responses in a stream that match no request", 5_000, &unmatched),
    ];
    let start = Instant::now();
    for (what, count, lines) in kinds {
        let time = |count: usize| {
            let transcript: String = (0..count).map(lines).collect();
            let (before, mut messages) = (clock(start), MessageCount::default());
            play(&transcript, &mut messages);
            assert!(messages.1 >= count, "{what}: {} messages", messages.1);
            clock(start) - before
        };
        let (short, long) = (time(count).max(time(count)), time(4 * count));
        assert!(long < short * 10, "{what}: {short:?}, then {long:?}");
    }
}
