//! Writes entries as lines of text.

use std::fmt::Write;
use std::time::Duration;

use super::entry::{Bytes, Channel, End, Entry, Event, Header, Marks};
use crate::escape::{is_clean, push_exact, push_word};

impl Entry {
    /// Appends the entry as a line, with its line break.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Header(Header { version, facts }) => {
                push(out, format_args!("wire {version}"));
                for (key, value) in facts {
                    push(out, format_args!(" {}=", key.as_str()));
                    push_word(out, value);
                }
            }
            Self::Bytes(Bytes { stream, channel, payload, end, marks }) => {
                let end = match end {
                    End::Lf => "",
                    End::CrLf => "crlf",
                    End::None => "noeol",
                };
                line(out, stream.sigil(), channel, marks, end, payload);
            }
            Self::Event(Event { channel, note, marks }) => {
                line(out, '@', channel, marks, "", &note.text());
            }
            Self::Expect(text) => text_line(out, '=', text),
            Self::Comment(text) => text_line(out, '#', text),
            Self::Blank => {}
        }
        out.push('\n');
    }
}

fn line(out: &mut String, sigil: char, channel: &Channel, marks: &Marks, end: &str, payload: &[u8]) {
    out.push(sigil);
    out.push_str(channel.as_str());
    let Marks { time, truncated, redacted, other } = marks;
    let clean = is_clean(payload);
    let mut words = Vec::new();
    words.extend(time.map(seconds));
    if !clean {
        words.push("esc".to_owned());
    }
    if !end.is_empty() {
        words.push(end.to_owned());
    }
    words.extend(truncated.as_ref().map(|t| format!("truncated={}:{}", t.length, t.sha256)));
    if *redacted {
        words.push("redacted".to_owned());
    }
    words.extend(other.iter().cloned());
    if !words.is_empty() {
        push(out, format_args!("({})", words.join(" ")));
    }
    if payload.is_empty() {
        return;
    }
    out.push(' ');
    match std::str::from_utf8(payload) {
        Ok(text) if clean => out.push_str(text),
        _ => push_exact(out, payload),
    }
}

fn text_line(out: &mut String, sigil: char, text: &str) {
    out.push(sigil);
    if !text.is_empty() {
        out.push(' ');
        // Line breaks become spaces, because the text must stay on one line.
        out.extend(text.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }));
    }
}

/// Formats a time in seconds with six decimals, or with nine if the time is not a whole number of microseconds.
fn seconds(time: Duration) -> String {
    let nanos = time.subsec_nanos();
    if nanos.is_multiple_of(1000) {
        format!("+{}.{:06}", time.as_secs(), nanos / 1000)
    } else {
        format!("+{}.{nanos:09}", time.as_secs())
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}
