//! The tables of `testdata/secrets`: every secret is replaced and every other text stays, in each of these forms: as it
//! is, in a JSON string, in a string within a string, with escapes that serializers use, and in pieces.

use barewire_proto::transcript::{Bytes, Channel, End, Entry, Event, Marks, Note, Stream};
use barewire_workbench::secrets::Redactor;
use serde_json::Value;

/// A row of a table, with the marks of secrets still in it.
struct Row {
    kind: String,
    text: String,
}

fn rows(name: &str) -> Vec<Row> {
    let path = format!("{}/../../testdata/secrets/{name}", env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(&path).expect(&path);
    let rows = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let (kind, text) = line.split_once(" | ").expect(line);
        Row { kind: kind.to_owned(), text: text.replace('·', "").replace('⏎', "\n") }
    };
    rows.map(row).collect()
}

/// The ways to write a JSON string, and how many strings are around the text.
#[derive(Clone, Copy, Debug)]
enum Form {
    AsIs,
    /// JSON strings within each other.
    Strings(usize),
    /// The same, with some characters written as `\u00XX`.
    Escaped(usize),
    /// The same, with `/` written as `\/`.
    Slashed(usize),
}

const FORMS: [Form; 8] = [
    Form::AsIs,
    Form::Strings(1),
    Form::Strings(2),
    Form::Strings(3),
    Form::Escaped(1),
    Form::Escaped(2),
    Form::Slashed(1),
    Form::Slashed(2),
];

impl Form {
    fn write(self, text: &str) -> String {
        let (depth, spell): (usize, fn(&str) -> String) = match self {
            Self::AsIs => return text.to_owned(),
            Self::Strings(depth) => (depth, |text| Value::from(text).to_string()),
            Self::Escaped(depth) => (depth, escaped),
            Self::Slashed(depth) => (depth, |text| Value::from(text).to_string().replace('/', "\\/")),
        };
        (0..depth).fold(text.to_owned(), |text, _| format!("{{\"t\":{}}}", spell(&text)))
    }

    /// Returns the innermost text, or `None` if the JSON around it is broken.
    fn read(self, written: &str) -> Option<String> {
        let depth = match self {
            Self::AsIs => 0,
            Self::Strings(depth) | Self::Escaped(depth) | Self::Slashed(depth) => depth,
        };
        (0..depth).try_fold(written.to_owned(), |text, _| {
            serde_json::from_str::<Value>(&text).ok()?["t"].as_str().map(str::to_owned)
        })
    }
}

/// A JSON string with escapes in upper and in lower case, as the serializers of PHP and .NET write them.
fn escaped(text: &str) -> String {
    let mut out = String::from("\"");
    for (index, char) in text.char_indices() {
        match char {
            '/' | '+' | '=' | '<' | '>' | '"' | '\'' | '&' | ':' if index % 2 == 0 => {
                out += &format!("\\u{:04x}", char as u32);
            }
            '/' | '+' | '=' | '<' | '>' | '"' | '\'' | '&' => out += &format!("\\u{:04X}", char as u32),
            _ => out += Value::from(char.to_string()).to_string().trim_matches('"'),
        }
    }
    out + "\""
}

fn whole(text: &str) -> String {
    Redactor::knowing([]).text(text)
}

fn in_pieces(text: &str, size: usize) -> String {
    let (mut redactor, mut out) = (Redactor::knowing([]), Vec::new());
    let (stream, channel) = (Stream::ToServer, Channel::default());
    for piece in text.as_bytes().chunks(size) {
        let (channel, payload, marks) = (channel.clone(), piece.to_vec(), Marks::default());
        redactor.entry(Entry::Bytes(Bytes { stream, channel, payload, end: End::None, marks }), &mut out);
    }
    let note = Note::Eof(stream);
    redactor.entry(Entry::Event(Event { channel, note, marks: Marks::default() }), &mut out);
    let payload = |entry: &Entry| if let Entry::Bytes(bytes) = entry { bytes.payload.clone() } else { Vec::new() };
    String::from_utf8(out.iter().flat_map(payload).collect()).expect("UTF-8")
}

/// Replaces every `<redacted-N>` with `§`, without the quotes around it that a number gets.
fn normal(text: &str) -> String {
    let mut parts = text.split("<redacted-");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push('§');
        out += part.split_once('>').map_or(part, |(_, rest)| rest);
    }
    out.replace("\"§\"", "§")
}

/// The text of a row, its secrets, and the text that redaction should give.
fn marked(text: &str) -> (String, Vec<String>, String) {
    let (mut plain, mut secrets, mut expected) = (String::new(), Vec::new(), String::new());
    for (index, part) in text.split(['«', '»']).enumerate() {
        plain += part;
        if index % 2 == 0 {
            expected += part;
        } else {
            secrets.push(part.to_owned());
            expected.push('§');
        }
    }
    (plain, secrets, expected.replace("\"§\"", "§"))
}

/// Whether a part of the secret that reveals something is in the text.
fn survives(secret: &str, text: &str) -> bool {
    let chars: Vec<char> = secret.chars().collect();
    let most = chars.len().min(REVEALING);
    chars.windows(most).any(|part| text.contains(&part.iter().collect::<String>()))
}

/// The number of characters of a secret that reveal something.
const REVEALING: usize = 8;

#[test]
fn every_secret_is_replaced_and_nothing_else() {
    let (secrets, innocents) = (rows("secrets.txt"), rows("innocents.txt"));
    assert!(secrets.len() >= 300 && innocents.len() >= 300, "{} {}", secrets.len(), innocents.len());
    let (mut survivors, mut false_redactions) = (Vec::new(), Vec::new());
    for Row { kind, text } in &secrets {
        let (plain, parts, expected) = marked(text);
        let mut outcome = None;
        for form in FORMS {
            let written = form.write(&plain);
            for redacted in [whole(&written), in_pieces(&written, 7)] {
                match form.read(&redacted) {
                    Some(read) if parts.iter().any(|part| survives(part, &read)) => {
                        outcome.get_or_insert((true, form, redacted));
                    }
                    Some(read) if normal(&read) == expected => {}
                    _ => {
                        outcome.get_or_insert((false, form, redacted));
                    }
                }
            }
        }
        match outcome {
            Some((true, form, text)) => survivors.push(format!("{kind}: {form:?}: {text}")),
            Some((false, form, text)) => false_redactions.push(format!("{kind}: {form:?}: {text}")),
            None => {}
        }
    }
    for Row { kind, text } in &innocents {
        let wrong = FORMS.into_iter().find_map(|form| {
            let written = form.write(text);
            [whole(&written), in_pieces(&written, 7)].into_iter().find(|redacted| *redacted != written)
        });
        false_redactions.extend(wrong.map(|redacted| format!("{kind}: {redacted}")));
    }
    assert!(
        survivors.is_empty() && false_redactions.is_empty(),
        "survivors {} of {}, false redactions {} of {}\n{}\n\n{}",
        survivors.len(),
        secrets.len(),
        false_redactions.len(),
        secrets.len() + innocents.len(),
        survivors.join("\n"),
        false_redactions.join("\n"),
    );
}
