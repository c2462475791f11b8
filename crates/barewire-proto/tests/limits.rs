//! The memory that decoding and parsing use for hostile input. The allocator counts it, so the result does not depend
//! on the machine.

use allocation_counter::measure;
use barewire_proto::frame::{Codec, ContentLength, Frame, FrameError, Lines, Sse};
use barewire_proto::rpc::{DEFAULT_DEPTH, Invalid, Message, Parsed, Rule, Shape, parse};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

#[test]
fn parsing_a_message_allocates_nothing() {
    let long = format!(r#"{{"jsonrpc":"2.0","id":"x","method":"m","params":["{}"]}}"#, "é".repeat(MIB));
    let frames: [&[u8]; 8] = [
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1,2,{"b":null}]}}}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        br#"{"jsonrpc":"2.0","id":1e2,"result":{"content":[]}}"#,
        br#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"Method not found","data":{}}}"#,
        br#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
        br#"{"jsonrpc":"2.0","id":1,"method""#,
        br#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},7]"#,
        long.as_bytes(),
    ];
    for frame in frames {
        let counted = measure(|| match parse(frame, DEFAULT_DEPTH) {
            Parsed::Batch(batch) => assert_eq!(batch.elements().count(), 3),
            other => drop(other),
        });
        assert_eq!(counted.count_total, 0, "{}", String::from_utf8_lossy(&frame[..frame.len().min(80)]));
    }
}

#[test]
fn a_line_in_one_read_is_not_copied() {
    let mut lines = Lines::default();
    let stream = b"{\"a\":1}\n{\"b\":2}\n".repeat(1000);
    let counted = measure(|| {
        let mut input = &stream[..];
        while let Some(frame) = lines.next_frame(&mut input) {
            assert_eq!(frame.expect("short").bytes.len(), 7);
        }
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn a_million_levels_take_one_bit_each_and_the_id_is_found() {
    let levels = 1_000_000;
    let frame = [
        &br#"{"jsonrpc":"2.0","method":"m","params":"#[..],
        &b"[".repeat(levels),
        &b"]".repeat(levels),
        br#","id":"deep"}"#,
    ]
    .concat();
    let counted = measure(|| {
        let Parsed::Invalid(invalid) = parse(&frame, DEFAULT_DEPTH) else { panic!("too deep") };
        assert_eq!(invalid.rule, Rule::TooDeep { limit: DEFAULT_DEPTH });
        assert_eq!(invalid.at, br#"{"jsonrpc":"2.0","method":"m","params":"#.len() + DEFAULT_DEPTH - 1);
        assert_eq!(invalid.id.expect("the id stands after it").as_str(), "\"deep\"");
    });
    assert!(counted.bytes_max < (MIB / 2) as u64, "{counted:?}");
    // With a higher limit it is an ordinary request.
    assert!(matches!(parse(&frame, usize::MAX), Parsed::Message(Message::Request(_))));
}

#[test]
fn an_id_of_a_mebibyte_is_echoed() {
    let id = format!("\"{}\"", "\\u0061".repeat(MIB / 6));
    let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
    let Parsed::Message(Message::Request(request)) = parse(frame.as_bytes(), DEFAULT_DEPTH) else { panic!() };
    let mut out = Vec::new();
    request.reply().serialize(&mut out, &()).expect("null");
    assert_eq!(String::from_utf8(out).expect("UTF-8"), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#));
}

/// Decodes a stream. Returns the lengths of the frames, and the total and the peak of the allocated bytes.
fn feed(codec: &mut impl Codec, pieces: impl Iterator<Item = Vec<u8>>) -> (Vec<Result<usize, FrameError>>, u64, u64) {
    let mut seen = Vec::new();
    let counted = measure(|| {
        for piece in pieces {
            let mut input = &piece[..];
            while let Some(frame) = codec.next_frame(&mut input) {
                seen.push(frame.map(|Frame { bytes, .. }| bytes.len()));
            }
        }
    });
    (seen, counted.bytes_max, counted.bytes_total)
}

#[test]
fn a_line_of_64_mib_in_small_pieces_is_copied_a_bounded_number_of_times() {
    let mut lines = Lines::default();
    let pieces = (0..64 * MIB / (4 * KIB)).map(|_| vec![b'x'; 4 * KIB]).chain([b"\n".to_vec()]);
    let (seen, peak, total) = feed(&mut lines, pieces);
    assert_eq!(seen, [Ok(64 * MIB)]);
    // Doubling moves every byte at most twice on average; the pieces themselves are allocated once.
    assert!(total < 64 * MIB as u64 * 4, "{total} bytes allocated in all");
    assert!(peak < 64 * MIB as u64 * 2, "{peak} bytes at once");
    // The call after the frame has freed it.
    assert!(lines.capacity() <= 64 * KIB, "{} bytes kept", lines.capacity());
    lines.trim();
    assert_eq!(lines.capacity(), 0, "trim frees all memory");
}

#[test]
fn a_frame_over_the_limit_is_skipped_in_constant_memory_and_answered() {
    let head = br#"{"jsonrpc":"2.0","method":"m","params":[""#.to_vec();
    let tail = br#""],"id":77}"#.to_vec();
    let body = || (0..256).map(|_| vec![b'x'; MIB]);
    let length = head.len() + 256 * MIB + tail.len();
    let answered = |seen: &[Result<usize, FrameError>]| {
        let [Err(error), Ok(2)] = seen else { panic!("{seen:?}") };
        let invalid = Invalid::from_frame(error);
        assert_eq!(invalid.shape, Shape::Request);
        assert_eq!(invalid.id.expect("the id stands last").as_str(), "77");
        let FrameError::TooLong(long) = error else { panic!("{error:?}") };
        assert_eq!(long.length, length as u64);
    };
    let enough = 4 * MIB as u64;

    let stream = [head.clone()].into_iter().chain(body()).chain([tail.clone(), b"\n{}\n".to_vec()]);
    let (seen, peak, _) = feed(&mut Lines::new(MIB), stream);
    answered(&seen);
    assert!(peak < enough, "{peak}");

    let start = [b"data: ".to_vec(), head.clone()].into_iter();
    let stream = start.chain(body()).chain([tail.clone(), b"\n\ndata: {}\n\n".to_vec()]);
    let (seen, peak, _) = feed(&mut Sse::new(MIB), stream);
    answered(&seen);
    assert!(peak < enough, "{peak}");

    let start = [format!("Content-Length: {length}\r\n\r\n").into_bytes(), head].into_iter();
    let stream = start.chain(body()).chain([tail, b"Content-Length: 2\r\n\r\n{}".to_vec()]);
    let (seen, peak, _) = feed(&mut ContentLength::new(MIB), stream);
    answered(&seen);
    assert!(peak < enough, "{peak}");
}

#[test]
fn no_memory_is_allocated_for_an_announced_length() {
    let header = format!("Content-Length: {}\r\n\r\n{{", 63 * MIB).into_bytes();
    let (seen, _, total) = feed(&mut ContentLength::default(), [header].into_iter());
    assert!(seen.is_empty());
    assert!(total < 4 * KIB as u64, "{total}");
}

#[test]
fn endless_fields_and_headers_take_bounded_memory() {
    let endless = |start: &str| [start.as_bytes().to_vec()].into_iter().chain((0..64).map(|_| vec![b'x'; MIB]));
    for field in ["event: ", "id: ", "retry: ", ": ", "unknown: ", ""] {
        let (_, peak, _) = feed(&mut Sse::default(), endless(field));
        assert!(peak < 2 * MIB as u64, "{field} {peak}");
    }
    let (_, peak, _) = feed(&mut ContentLength::default(), endless("X: "));
    assert!(peak < 2 * MIB as u64, "{peak}");
}

/// The scanner finds every special byte also where it switches from short to long runs and from chunk to chunk.
#[test]
fn long_strings_are_checked_like_short_ones() {
    let odd: [&[u8]; 7] = [b"\"", b"\\", b"\\n", b"\x1f", b"\x7f", "é".as_bytes(), b"\xff"];
    for length in (56..82).chain(120..140).chain(16_440..16_460).chain(32_830..32_840) {
        for at in [0, 1, 7, 8, 9, 63, 64, 65, length - 10, length - 2, length - 1, length] {
            for odd in odd {
                let mut frame = b"[\"".to_vec();
                frame.extend(std::iter::repeat_n(b'x', at.min(length)));
                frame.extend_from_slice(odd);
                frame.extend(std::iter::repeat_n(b'x', length - at.min(length)));
                frame.extend_from_slice(b"\"]");
                let theirs = std::str::from_utf8(&frame)
                    .is_ok_and(|text| serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok());
                assert_eq!(barewire_proto::json::Json::parse(&frame).is_ok(), theirs, "{odd:?} at {at} of {length}");
            }
        }
    }
}

#[test]
fn small_events_take_little_memory_with_any_lines_between_them() {
    let start = [b"id: ".to_vec(), vec![b'i'; 60 * KIB], b"\n\n".to_vec()].into_iter();
    for filler in [&b":\n"[..], b"\n", b"x\n"] {
        let (_, _, total) = feed(&mut Sse::default(), start.clone().chain([filler.repeat(100_000)]));
        // The id is decoded once, and the lines after it are not copied. The pieces are included in the count.
        assert!(total < 2 * MIB as u64, "{filler:?} {total}");
    }
}
