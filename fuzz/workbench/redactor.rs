//! Checks the redactor: no secret remains in the output, however the text is split, and all other text is unchanged.

use std::collections::HashMap;

use barewire_proto::transcript::{Bytes, Channel, End, Entry, Event, Marks, Note, Stream, read};
use barewire_workbench::secrets::Redactor;

use super::setup;

pub fn check(data: &[u8]) {
    let Some((options, cuts, text)) = setup(data) else { return };
    any_split(options, cuts, text);
    planted(options, cuts, text);
    if let Ok(entries) = read(text) {
        any_entries(entries);
    }
}

/// Checks that any split of a line gives the same output, and that the output is marked if it differs from the input.
fn any_split(options: u8, cuts: u8, text: &[u8]) {
    // With this much text around the input, the redactor writes a part of every piece. Long pieces keep this fast.
    let is_long = options.is_multiple_of(4);
    let around: &[u8] = if is_long { &FILLER.repeat(60) } else { b"" };
    let cut = around.len() + usize::from(cuts) * text.len() / 256;
    let text = &[around, text, around].concat();
    let pieces = match is_long {
        true => [vec![&text[..]], text.chunks(usize::from(cuts) + 500).collect(), vec![&text[..cut], &text[cut..]]],
        false => [vec![&text[..]], text.chunks(1).collect(), text.chunks(usize::from(cuts) % 13 + 2).collect()],
    };
    let [whole, others @ ..] = pieces.map(|pieces| redact(&pieces));
    let (redacted, is_marked) = &whole;
    for (other, _) in &others {
        assert_eq!(shown(other), shown(redacted), "in pieces");
    }
    assert!(is_redaction(redacted, text), "{}\n{}", shown(text), shown(redacted));
    // A replacement text in the input can be replaced by an equal text, because more of a secret might follow it.
    let has_mark = text.windows(BEGIN.len()).any(|it| it == BEGIN);
    assert!(has_mark || *is_marked == (redacted != text), "{}", shown(redacted));
    // A second pass can find more secrets, because the text next to them has changed. Other text must stay the same.
    let (again, _) = redact(&[redacted]);
    assert!(is_redaction(&again, redacted), "{}\n{}", shown(redacted), shown(&again));
}

/// Redacts a line that arrives in these pieces. Also returns whether any entry is marked as redacted.
fn redact(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let (mut redactor, mut out) = (Redactor::knowing([KNOWN.to_vec()]), Vec::new());
    for piece in pieces {
        redactor.entry(bytes(&Channel::default(), piece, End::None), &mut out);
    }
    redactor.entry(eof(Stream::ToServer, &Channel::default()), &mut out);
    let is_marked = out.iter().any(|entry| matches!(entry, Entry::Bytes(bytes) if bytes.marks.redacted));
    (payloads(&out), is_marked)
}

/// Text that does not look like a secret.
const FILLER: &[u8] = b"lorem ipsum dolor sit amet ";

/// A secret whose value the redactor knows.
const KNOWN: &[u8] = b"K9/known \"secret\"";

/// Beginnings of lines with a secret, written as `S`, and the text that ends it. Any text can follow.
const PLANTED: &[&str] = &[
    "{\"password\":\"S\"",
    "{\"api_key\" : \"S\"",
    "{\"t\":\"{\\\"token\\\":\\\"S\\\"",
    "{\"t\":\"{\\\"u\\\":\\\"{\\\\\\\"secret\\\\\\\":\\\\\\\"S\\\\\\\"",
    "{\"cookies\":[\"a\",\"S\"",
    "{\"headers\":{\"Authorization\":\"Bearer S\"",
    "{\"name\":\"API_KEY\",\"value\":\"S\"",
    "{\"args\":[\"--password\",\"S\"]",
    "Authorization: Bearer S\t",
    "X-Api-Key: S\t",
    "Cookie: a=b; sid=S;",
    "GET /mcp?a=1&access_token=S&",
    "postgres://me:S@db/",
    "srv --password S\t",
    "export GITHUB_TOKEN=S;",
    "Bearer S\t",
    "ghp_S\t",
    "sk-S\t",
    "AKIAS\t",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.S\t",
    "{\"k\":\"-----BEGIN PRIVATE KEY-----\\nS\\n-----END",
    "the known S\t",
];

/// Checks that no part of a planted secret is in the output, whatever follows it or is sent on another channel.
fn planted(options: u8, cuts: u8, text: &[u8]) {
    let (noise, behind) = text.split_at(text.len() / 2);
    // Characters that are rare in replacement texts and in the lines above.
    let letters = |byte: &u8| char::from(b"QZXJVW23456789"[usize::from(byte % 14)]);
    let secret = format!("Q7Z{:Z<60}", noise.iter().take(64).map(letters).collect::<String>());
    let planted = usize::from(options) % PLANTED.len();
    let line = PLANTED[planted].replace('S', &secret);
    let is_part = |text: &[u8]| text.windows(LEAST).any(|it| secret.as_bytes().windows(LEAST).any(|part| part == it));
    if is_part(behind) {
        return;
    }
    let line = [FILLER, line.as_bytes(), behind].concat();
    // Only the secret in the last line is found because the redactor knows its value.
    let known = (planted == PLANTED.len() - 1).then(|| secret.clone().into_bytes());
    let (mut redactor, mut out) = (Redactor::knowing(known), Vec::new());
    let channel = Channel::new("b").expect("a letter is a valid channel");
    let mut noise = noise.chunks(usize::from(cuts % 7) + 1).cycle();
    for piece in line.chunks(usize::from(cuts) + 1) {
        redactor.entry(bytes(&channel, piece, End::None), &mut out);
        let end = [End::None, End::Lf, End::CrLf][usize::from(cuts % 3)];
        redactor.entry(bytes(&Channel::default(), noise.next().unwrap_or_default(), end), &mut out);
    }
    redactor.entry(eof(Stream::ToServer, &channel), &mut out);
    out.retain(|entry| matches!(entry, Entry::Bytes(bytes) if bytes.channel == channel));
    let shown_line = payloads(&out);
    assert!(!is_part(&shown_line), "{}\n{}", shown(&line), shown(&shown_line));
    assert!(is_redaction(&shown_line, &line), "{}\n{}", shown(&line), shown(&shown_line));
}

/// The start of a replacement text, which ends with a number and `>`.
const BEGIN: &[u8] = b"<redacted-";

/// The number of bytes from which a part of a secret does not occur elsewhere by chance.
const LEAST: usize = 8;

/// Checks that the redactor marks every entry that it changes.
fn any_entries(entries: Vec<Entry>) {
    let (mut redactor, mut out) = (Redactor::new(), Vec::new());
    let mut ends = Vec::new();
    for entry in &entries {
        if let Entry::Bytes(bytes) = entry {
            ends.push(eof(bytes.stream, &bytes.channel));
        }
    }
    for entry in entries.iter().chain(&ends) {
        redactor.entry(entry.clone(), &mut out);
    }
    let streams = |all: &[Entry]| {
        let (mut streams, mut others) = (HashMap::<_, (Vec<u8>, bool)>::new(), Vec::new());
        for entry in all {
            let Entry::Bytes(bytes) = entry else {
                others.push(entry.clone());
                continue;
            };
            let (text, redacted) = streams.entry((bytes.stream, bytes.channel.clone())).or_default();
            text.extend_from_slice(&bytes.payload);
            text.extend_from_slice(bytes.end.as_bytes());
            *redacted |= bytes.marks.redacted;
        }
        (streams, others)
    };
    let (before, events_before) = streams(&entries);
    let (after, events_after) = streams(&out);
    assert_eq!(before.len(), after.len());
    for (key, (text, was_redacted)) in &before {
        let (redacted, is_marked) = &after[key];
        assert!(is_redaction(redacted, text), "{}\n{}", shown(text), shown(redacted));
        assert!(*is_marked || redacted == text, "{}\n{}", shown(text), shown(redacted));
        assert!(*is_marked || !was_redacted, "a mark is kept");
    }
    assert_eq!(events_after.len(), events_before.len() + ends.len());
    for (before, after) in events_before.iter().zip(&events_after) {
        match (before, after) {
            (Entry::Event(before), Entry::Event(after)) => {
                let (text, redacted) = (before.note.text(), after.note.text());
                assert!(after.marks.redacted || before == after, "{before:?}\n{after:?}");
                assert!(is_redaction(&redacted, &text), "{}\n{}", shown(&text), shown(&redacted));
            }
            _ => assert_eq!(before, after),
        }
    }
}

/// Whether `redacted` is `text` with some parts replaced. The replacement of a number has quotes around it.
fn is_redaction(redacted: &[u8], text: &[u8]) -> bool {
    let parts = without_marks(redacted);
    let [first, others @ ..] = &parts[..] else { return false };
    let Some(mut rest) = text.strip_prefix(*first) else { return false };
    let Some((last, others)) = others.split_last() else { return rest.is_empty() };
    for part in others {
        let Some(at) = (0..=rest.len()).find(|at| rest[*at..].starts_with(part)) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns the parts of `text` between replacement texts, without the quotes around replacement texts.
fn without_marks(text: &[u8]) -> Vec<&[u8]> {
    let (mut parts, mut rest) = (Vec::new(), text);
    let mut from = 0;
    while let Some(at) = rest[from..].windows(BEGIN.len()).position(|it| it == BEGIN) {
        let start = from + at;
        let digits = rest[start + BEGIN.len()..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = start + BEGIN.len() + digits;
        if digits == 0 || rest.get(end) != Some(&b'>') {
            from = end;
            continue;
        }
        let (before, behind) = (&rest[..start], &rest[end + 1..]);
        let slashes = before.iter().rev().skip(1).take_while(|byte| **byte == b'\\').count();
        let quote = &before[before.len().saturating_sub(slashes + 1)..];
        let is_quoted = matches!(quote.last(), Some(b'"' | b'\'')) && behind.starts_with(quote);
        let quote = if is_quoted { quote.len() } else { 0 };
        parts.push(&before[..before.len() - quote]);
        (rest, from) = (&behind[quote..], 0);
    }
    parts.push(rest);
    parts
}

fn bytes(channel: &Channel, payload: &[u8], end: End) -> Entry {
    let (stream, channel, payload) = (Stream::ToServer, channel.clone(), payload.to_vec());
    Entry::Bytes(Bytes { stream, channel, payload, end, marks: Marks::default() })
}

fn eof(stream: Stream, channel: &Channel) -> Entry {
    Entry::Event(Event { channel: channel.clone(), note: Note::Eof(stream), marks: Marks::default() })
}

/// Returns the bytes of all entries, joined.
fn payloads(entries: &[Entry]) -> Vec<u8> {
    let payload = |entry: &Entry| match entry {
        Entry::Bytes(bytes) => bytes.payload.clone(),
        _ => Vec::new(),
    };
    entries.iter().flat_map(payload).collect()
}

fn shown(text: &[u8]) -> String {
    text.escape_ascii().to_string()
}
