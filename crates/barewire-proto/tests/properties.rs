//! Properties that hold for any bytes, tested with bytes that resemble the wire and with the corpus of the fuzzer.

#[path = "../../../fuzz/checks.rs"]
#[allow(unreachable_pub, clippy::cast_possible_truncation, reason = "also the body of the fuzz targets")]
mod checks;

use std::path::Path;

use proptest::prelude::*;

#[test]
fn the_corpus_of_the_fuzzer_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus");
    for (name, check) in checks::ALL {
        let folder = corpus.join(name);
        let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut count = 0;
        for file in files.map(|file| file.expect("a file").path()) {
            let bytes = std::fs::read(&file).expect("readable");
            // The name of the file identifies a failure.
            println_name(&file);
            check(&bytes);
            count += 1;
        }
        assert!(count > 10, "{name} has a corpus of {count}");
    }
}

/// Prints the name of a file, which the test harness shows if the check fails.
#[allow(clippy::print_stdout)]
fn println_name(file: &Path) {
    println!("{}", file.display());
}

/// Bytes with many parts of JSON, SSE, headers and transcripts.
fn wire_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        8 => prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\n", "\r", "\r\n", " ", "\t", "0", "-", "1.5e3", "null", "true",
            "\"jsonrpc\":\"2.0\",", "\"id\":1,", "\"id\":\"a\"", "\"method\":\"m\"", "\"params\":{}", "\"result\":1",
            "\"error\":{\"code\":-1,\"message\":\"x\"}", "\\u0069", "\\ud83d", "é", "data: ", "event: ", "id: ", "retry: 5",
            ": ", "Content-Length: 3\r\n\r\n", "content-length:", "> ", "< ", "@ exit code 1", "(esc) ", "\\x0a", "# ", "= ",
            "wire 1\n", "\u{feff}",
        ]).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    (any::<[u8; 2]>(), prop::collection::vec(word, 0..40)).prop_map(|(head, words)| {
        let mut bytes = head.to_vec();
        bytes.extend(words.concat());
        bytes
    })
}

/// The events of the sign-ins in the corpus, in any order.
fn sign_in_like() -> impl Strategy<Value = Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus/sign_in");
    let files = std::fs::read_dir(folder).expect("a corpus").map(|file| file.expect("a file").path());
    let texts = files.map(|file| std::fs::read_to_string(file).expect("UTF-8"));
    let mut lines: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.sort();
    lines.dedup();
    let lines = prop::collection::vec(prop::sample::select(lines), 0..40);
    lines.prop_map(|lines| lines.join("\n").into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lines_do_not_depend_on_the_split(bytes in wire_like()) { checks::lines(&bytes) }
    #[test]
    fn events_do_not_depend_on_the_split(bytes in wire_like()) { checks::sse(&bytes) }
    #[test]
    fn bodies_do_not_depend_on_the_split(bytes in wire_like()) { checks::content_length(&bytes) }
    #[test]
    fn the_scanner_accepts_exactly_json(bytes in wire_like()) {
        checks::scanner(&bytes);
        checks::scanner(&bytes[2..]);
    }
    #[test]
    fn a_skipped_frame_is_answered_like_a_parsed_one(bytes in wire_like()) { checks::outline(&bytes[2..]) }
    #[test]
    fn transcripts_restore_what_was_recorded(bytes in wire_like()) {
        checks::wire(&bytes);
        checks::wire(&bytes[2..]);
    }
    #[test]
    fn write_then_parse_is_identity(bytes in wire_like()) { checks::round_trip(&bytes) }
    #[test]
    fn a_sign_in_survives_any_bytes(bytes in wire_like()) { checks::sign_in(&bytes) }
    #[test]
    fn a_sign_in_survives_events_in_any_order(bytes in sign_in_like()) { checks::sign_in(&bytes) }
    #[test]
    fn all_properties_hold_for_random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        checks::ALL.iter().for_each(|(_, check)| check(&bytes));
    }
}
