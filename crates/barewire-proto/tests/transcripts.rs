//! Runs the transcripts of `testdata/frame` and `testdata/rpc`: bytes in, and `=` lines for the frames and messages
//! that must come out.
//!
//! A case is the bytes up to its `=` lines. Framing input is also cut at every byte, and must give the same result.
//! `BLESS=1 cargo test` rewrites the `=` lines; the review is `git diff`.

mod transcript_files;

use std::fmt::Write;

use barewire_proto::frame::{Body, Codec, ContentLength, FrameError, Lines, Sse};
use barewire_proto::json::Kind;
use barewire_proto::rpc::{ErrorRef, Invalid, Message, Params, Parsed, parse};
use barewire_proto::transcript::{Bytes, Entry, Event, Framing, Note, escape, read};
use transcript_files::{check_or_bless, files};

#[test]
fn framing() {
    let mut settings = Settings::default();
    run(
        "frame",
        |note| settings.set(note),
        |settings, case| {
            let stream: Vec<u8> = case.iter().flat_map(|b| [&b.payload[..], b.end.as_bytes()].concat()).collect();
            let whole = settings.decode(&[&stream]);
            for cut in 0..=stream.len() {
                let (first, second) = stream.split_at(cut);
                assert_eq!(settings.decode(&[first, second]), whole, "cut at byte {cut}");
            }
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            assert_eq!(settings.decode(&bytes), whole, "byte by byte");
            let trimmed = Settings { trim: true, ..settings.clone() };
            assert_eq!(trimmed.decode(&bytes), whole, "byte by byte, with memory freed after each");
            whole
        },
    );
}

#[test]
fn grammar() {
    let mut settings = Settings::default();
    run(
        "rpc",
        |note| settings.set(note),
        |settings, case| {
            let [frame] = case else { panic!("expected one frame per case") };
            match parse(&frame.payload, settings.depth) {
                Parsed::Message(message) => vec![message_line(&message)],
                Parsed::Invalid(invalid) => vec![invalid_line(&invalid)],
                Parsed::Batch(batch) => {
                    let mut lines = vec![format!("batch of {}", batch.len())];
                    lines.extend(batch.elements().map(|element| match element {
                        Ok(message) => format!("- {}", message_line(&message)),
                        Err(invalid) => format!("- {}", invalid_line(&invalid)),
                    }));
                    lines.extend(
                        batch.refusals().map(|invalid| format!("where not allowed: {}", invalid_line(&invalid))),
                    );
                    lines
                }
            }
        },
    );
}

/// The settings in `@` lines, which apply to the cases after them.
#[derive(Clone, Debug)]
struct Settings {
    framing: Framing,
    limit: usize,
    depth: usize,
    /// Whether to free the memory of the decoder after every call.
    trim: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { framing: Framing::Lines, limit: 1 << 20, depth: 128, trim: false }
    }
}

impl Settings {
    fn set(&mut self, note: Option<&Note>) -> Self {
        match note {
            None => *self = Self::default(),
            Some(Note::Framing(framing)) => self.framing = *framing,
            Some(Note::Other(text)) => match escape(text.as_bytes()).split_once(' ') {
                Some(("limit", limit)) => self.limit = limit.parse().expect("a number"),
                Some(("depth", depth)) => self.depth = depth.parse().expect("a number"),
                _ => panic!("unknown setting {}", escape(text.as_bytes())),
            },
            Some(note) => panic!("{note:?} is not a setting"),
        }
        self.clone()
    }

    fn decode(&self, pieces: &[&[u8]]) -> Vec<String> {
        match self.framing {
            Framing::Lines => decode(Lines::new(self.limit), pieces, self.trim),
            Framing::Sse => decode(Sse::new(self.limit), pieces, self.trim),
            Framing::ContentLength => decode(ContentLength::new(self.limit), pieces, self.trim),
            Framing::Body => decode(Body::new(self.limit), pieces, self.trim),
            Framing::None => Vec::new(),
        }
    }
}

fn decode(mut codec: impl Codec, pieces: &[&[u8]], trim: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut take = |frame: Result<barewire_proto::frame::Frame<'_>, FrameError>| {
        lines.push(match frame {
            Ok(frame) => {
                let text = escape(frame.bytes);
                match frame.event {
                    None => format!("frame at {}: {text}", frame.offset),
                    Some(event) if event.last_event_id.is_empty() => {
                        format!("{} at {}: {text}", event.name, frame.offset)
                    }
                    Some(event) => {
                        format!(
                            "{} at {}, id {}: {text}",
                            event.name,
                            frame.offset,
                            escape(event.last_event_id.as_bytes())
                        )
                    }
                }
            }
            Err(error @ FrameError::TooLong(_)) => {
                format!("{error} at {}: {}", error.offset(), invalid_line(&Invalid::from_frame(&error)))
            }
            Err(error) => format!("{error} at {}", error.offset()),
        });
    };
    for mut piece in pieces.iter().copied() {
        while let Some(frame) = codec.next_frame(&mut piece) {
            take(frame);
            if trim {
                codec.trim();
            }
        }
        if trim {
            codec.trim();
        }
    }
    while let Some(frame) = codec.finish() {
        take(frame);
    }
    if lines.is_empty() {
        lines.push("nothing".into());
    }
    lines
}

fn message_line(message: &Message<'_>) -> String {
    let params = |params: Option<Params<'_>>| match params.map(|params| params.json().kind()) {
        None => "no params",
        Some(Kind::Object) => "params by name",
        Some(_) => "params by position",
    };
    let error = |error: &ErrorRef<'_>| {
        let data = error.data.map_or(String::new(), |data| format!(" data {data}"));
        format!("code {} message {}{data}", error.code, error.message.raw())
    };
    match message {
        Message::Request(r) => format!("request id {} method {} {}", r.id, r.method.raw(), params(r.params)),
        Message::Notification(n) => format!("notification method {} {}", n.method.raw(), params(n.params)),
        Message::Response(r) => match &r.outcome {
            Ok(result) => format!("result id {} {result}", r.id),
            Err(e) => format!("error id {} {}", r.id, error(e)),
        },
        Message::OrphanError(e) => format!("error without id {}", error(e)),
    }
}

fn invalid_line(invalid: &Invalid<'_>) -> String {
    let mut line = format!("invalid {} at {}: {}; ", invalid.rule.name(), invalid.at, invalid.rule);
    match invalid.reply() {
        None => line.push_str("not answered"),
        Some(reply) => {
            let id = reply.id().map_or("null", |id| id.as_str());
            let id = if id.len() > 60 { &id[..60] } else { id };
            write!(line, "answered {} id {id}", invalid.rule.code()).expect("a String takes everything");
        }
    }
    line
}

/// Runs every case of every file in a folder.
fn run(
    folder: &str,
    mut set: impl FnMut(Option<&Note>) -> Settings,
    judge: impl Fn(&Settings, &[Bytes]) -> Vec<String>,
) {
    let files = files(folder);
    assert!(!files.is_empty());
    let mut cases = 0;
    for file in files {
        let text = std::fs::read(&file).expect("readable");
        let entries = read(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut settings = set(None);
        let mut new = Vec::new();
        let mut case: Vec<Bytes> = Vec::new();
        let mut entries = entries.into_iter().peekable();
        while let Some(entry) = entries.next() {
            if let Entry::Expect(_) = entry {
                continue;
            }
            new.push(entry.clone());
            match entry {
                Entry::Event(Event { note, .. }) => settings = set(Some(&note)),
                Entry::Bytes(bytes) => case.push(bytes),
                _ => {}
            }
            // The case ends before its expectations, or before the next case if it has none.
            if !case.is_empty() && !matches!(entries.peek(), Some(Entry::Bytes(_))) {
                let name = format!("{} {}", file.display(), escape(&case[0].payload));
                println_case(&name);
                let lines = judge(&settings, &case);
                new.extend(lines.iter().map(|line| Entry::Expect(escape(line.as_bytes()).into())));
                case.clear();
                cases += 1;
            }
        }
        let mut blessed = String::new();
        new.iter().for_each(|entry| entry.write(&mut blessed));
        let text = String::from_utf8(text).expect("checked when it was read");
        check_or_bless(&file, &text, &blessed);
    }
    assert!(cases > 0);
}

/// Prints the name of a case, which the test harness shows if the case fails.
#[allow(clippy::print_stdout)]
fn println_case(name: &str) {
    println!("{name}");
}
