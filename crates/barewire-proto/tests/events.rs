//! Runs the transcripts of `testdata/transcript`: each `@` line is read as the event in the `=` line after it.
//!
//! Every line must be written exactly as it was read. `BLESS=1 cargo test` rewrites the `=` lines; the review is `git
//! diff`.

use std::collections::BTreeSet;
use std::path::Path;

use barewire_proto::transcript::{
    CutReason, Entry, InjectedFault, Note, Party, Stream, StreamClose, UnreadReason, escape, read,
};

#[test]
fn every_event_is_read_and_written_again_unchanged() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/transcript/events.wire");
    let text = std::fs::read_to_string(&file).expect("readable");
    let mut blessed = String::new();
    let mut seen = BTreeSet::new();
    for entry in read(text.as_bytes()).expect("a transcript") {
        if matches!(entry, Entry::Expect(_)) {
            continue;
        }
        entry.write(&mut blessed);
        if let Entry::Event(event) = &entry {
            let line = line(&event.note);
            Entry::Expect(escape(line.as_bytes()).into()).write(&mut blessed);
            seen.insert(line.split([',', ':']).next().expect("the first part").to_owned());
        }
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &blessed).expect("writable");
    } else {
        for (number, (expected, actual)) in (1..).zip(text.lines().zip(blessed.lines())) {
            assert_eq!(actual, expected, "{}:{number}", file.display());
        }
        assert_eq!(text.lines().count(), blessed.lines().count());
    }
    let missing: Vec<&&str> = ALL.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(missing.is_empty(), "no line has {missing:?}");
}

#[test]
fn every_event_has_a_row_in_the_description_of_the_format() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read(root.join("testdata/transcript/events.wire")).expect("readable");
    let format = std::fs::read_to_string(root.join("docs/wire-format.md")).expect("readable");
    for entry in read(&text).expect("a transcript") {
        let Entry::Event(event) = entry else { continue };
        if matches!(event.note, Note::Other(_)) {
            continue;
        }
        let text = String::from_utf8(event.note.text()).expect("UTF-8");
        let word = text.split(' ').next().expect("a word");
        assert!(format.contains(&format!("\n| `{word} ")), "{word} has no row");
    }
}

/// The beginning of the text that [`line`] returns for each variant.
const ALL: &[&str] = &[
    "open",
    "failed",
    "framing",
    "head",
    "changed",
    "informational",
    "unasked",
    "refused",
    "unread encoded",
    "unread not HTTP",
    "read",
    "gap",
    "eof",
    "closed pipe",
    "closed connection",
    "cut client closed",
    "cut client refused",
    "cut server closed",
    "cut failed",
    "cut tap stopped",
    "cut held open",
    "cut dropped",
    "left",
    "signal",
    "fault seed",
    "fault applied",
    "fault reorder undone",
    "exit code",
    "exit signal",
    "unknown",
];

fn line(note: &Note) -> String {
    let text = |bytes: &[u8]| escape(bytes).into_owned();
    match note {
        Note::Open(what) => format!("open: {}", text(what)),
        Note::Failed(why) => format!("failed: {}", text(why)),
        Note::Framing(framing) => format!("framing: {}", framing.as_str()),
        Note::Head(stream, line) => format!("head, {}: {}", name(*stream), text(line)),
        Note::Changed(line) => format!("changed: {}", text(line)),
        Note::Informational(line) => format!("informational: {}", text(line)),
        Note::Unasked => "unasked".into(),
        Note::Refused(why) => format!("refused: {}", text(why)),
        Note::Unread { stream, why: UnreadReason::Encoded(coding) } => {
            format!("unread encoded, {}: {}", name(*stream), text(coding))
        }
        Note::Unread { stream, why: UnreadReason::NotHttp(error) } => {
            format!("unread not HTTP, {}: {}", name(*stream), text(error))
        }
        Note::Read(stream) => format!("read, {}", name(*stream)),
        Note::Gap(stream, bytes) => format!("gap, {}: {bytes}", name(*stream)),
        Note::Eof(stream) => format!("eof, {}", name(*stream)),
        Note::Closed(closed) => {
            let (kind, error) = match closed {
                StreamClose::Pipe { error, .. } => ("pipe", error.as_deref()),
                StreamClose::Connection => ("connection", None),
                other => panic!("{other:?}"),
            };
            let error = error.map_or(String::new(), |error| format!(": {}", text(error)));
            format!("closed {kind}, {}, by {}{error}", name(closed.stream()), party(Some(closed.by())))
        }
        Note::Cut { stream, why } => {
            let (kind, detail, told) = match why {
                CutReason::ClientClosed { error } => ("client closed", error.as_deref(), None),
                CutReason::ClientRefused(why) => ("client refused", Some(&why[..]), None),
                CutReason::ServerClosed { error, client_status } => {
                    ("server closed", error.as_deref(), client_status.as_deref())
                }
                CutReason::Failed { error, client_status } => ("failed", Some(&error[..]), client_status.as_deref()),
                CutReason::TapStopped => ("tap stopped", None, None),
                CutReason::HeldOpen => ("held open", None, None),
                CutReason::Dropped(bytes) => {
                    return format!("cut dropped, {}, by {}: {bytes}", name(*stream), party(why.by()));
                }
                other => panic!("{other:?}"),
            };
            let told = told.map_or(String::new(), |told| format!(", client told {}", text(told)));
            let detail = detail.map_or(String::new(), |detail| format!(": {}", text(detail)));
            format!("cut {kind}, {}, by {}{told}{detail}", name(*stream), party(why.by()))
        }
        Note::Left => "left".into(),
        Note::Signal(signal) => format!("signal: {signal}"),
        Note::SignalReceived(signal) => format!("signal received: {signal}"),
        Note::Fault(InjectedFault::Seed(seed)) => format!("fault seed: {seed}"),
        Note::Fault(InjectedFault::Applied { stream, message, name: fault, detail }) => {
            format!("fault applied, {}, message {message}: {} [{}]", name(*stream), fault.as_str(), text(detail))
        }
        Note::Fault(InjectedFault::ReorderUndone { stream, message }) => {
            format!("fault reorder undone, {}, message {message}", name(*stream))
        }
        Note::ExitCode(code) => format!("exit code: {code}"),
        Note::Log(line) => format!("log: {}", text(line)),
        Note::ExitSignal(signal) => format!("exit signal: {signal}"),
        Note::Other(unknown) => format!("unknown: {}", text(unknown.as_bytes())),
        other => panic!("{other:?}"),
    }
}

fn name(stream: Stream) -> &'static str {
    match stream {
        Stream::ToServer => "to the server",
        Stream::ToClient => "to the client",
        Stream::Stderr => "stderr",
    }
}

fn party(party: Option<Party>) -> &'static str {
    match party {
        Some(Party::Client) => "the client",
        Some(Party::Server) => "the server",
        None => "neither",
    }
}
