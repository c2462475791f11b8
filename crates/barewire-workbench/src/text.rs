//! Formats peers' text, times and sizes for people: escaped, cut to a width, and with at most three significant digits.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::time::Duration;

use barewire_proto::transcript::{escape, is_clean};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub use crate::nearest::nearest;
pub use crate::text_writer::TextWriter;

/// The meaning of a part of a text, which can be shown as a colour. The text without colours has the same information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tone {
    /// An important name.
    Strong,
    /// A minor detail.
    Faint,
    /// A request.
    Request,
    /// A notification.
    Notification,
    /// Something correct.
    Good,
    /// Something wrong.
    Bad,
    /// Something noteworthy.
    Noted,
}

/// The width and the colours of a text.
pub trait Style {
    /// Returns a part of a text, coloured for its tone.
    fn paint(&self, tone: Tone, text: &str) -> String;

    /// Returns the number of columns for prose.
    fn width(&self) -> usize;

    /// Returns the number of columns for a line that must not be wrapped, because the line below it marks a part of it.
    fn line_width(&self) -> usize {
        MAX_LINE_WIDTH
    }
}

/// The number of columns of a line that is written to a file: two lines of a terminal, and the label of the line.
pub(crate) const MAX_LINE_WIDTH: usize = 177;

/// Text without colours and with 80 columns, for files, pipes and messages of tests.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Plain;

impl Style for Plain {
    fn paint(&self, _tone: Tone, text: &str) -> String {
        text.to_owned()
    }

    fn width(&self) -> usize {
        80
    }
}

/// Returns a peer's text for one line of a terminal: escaped, and at most `most` columns wide.
pub fn shown(bytes: &[u8], most: usize) -> String {
    // A character has at most four bytes, so this many bytes are enough for `most` columns.
    let text = escape(bytes.get(..most * 4).map_or(bytes, |start| start));
    if text.width() <= most && bytes.len() <= most * 4 {
        return text.into_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        if cut.width() + c.width().unwrap_or(0) + 1 > most {
            break;
        }
        cut.push(c);
    }
    cut.push('…');
    cut
}

/// Returns a peer's JSON text for one line of JSON output. The value stays the same, but no character can control a
/// terminal: in strings, such characters become `\uNNNN`. Tabs and line breaks, which occur only outside strings,
/// become spaces.
pub fn safe_json(text: &str) -> Cow<'_, str> {
    if is_clean(text.as_bytes()) { Cow::Borrowed(text) } else { Cow::Owned(SafeJson(text).to_string()) }
}

/// A peer's JSON text that is written like [`safe_json`], for long texts: the escaped text, which can be six times as
/// long, is never in memory as a whole.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "it is nothing but the text")]
pub struct SafeJson<'a>(pub &'a str);

impl fmt::Display for SafeJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut clean = 0;
        for (at, c) in self.0.char_indices() {
            if is_clean(c.encode_utf8(&mut [0; 4]).as_bytes()) {
                continue;
            }
            f.write_str(&self.0[clean..at])?;
            clean = at + c.len_utf8();
            if let '\t' | '\n' | '\r' = c {
                f.write_char(' ')?;
            } else {
                write_json_escape(f, c)?;
            }
        }
        f.write_str(&self.0[clean..])
    }
}

/// Writes a character as an escape in a JSON string.
pub(crate) fn write_json_escape(out: &mut impl fmt::Write, c: char) -> fmt::Result {
    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}

/// Wraps a paragraph into lines of at most `room` columns. A longer word gets a line of its own.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && line.width() + 1 + word.width() > room {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Pads a text with spaces to at least this width.
pub fn pad(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(text.width()))
}

/// Formats a duration with at most three significant digits.
pub fn took(time: Duration) -> String {
    let &(step, unit, name, _) = scale(time);
    let steps = (time.as_nanos() + step / 2) / step;
    match unit / step {
        1 => format!("{steps} {name}"),
        parts => {
            let digits = parts.ilog10() as usize;
            format!("{}.{:0digits$} {name}", steps / parts, steps % parts)
        }
    }
}

/// Formats a duration with three significant digits, even below 100 microseconds.
pub fn took_precisely(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    match us {
        us if us < 9.995 => format!("{us:.2} us"),
        us if us < 99.95 => format!("{us:.1} us"),
        _ => took(time),
    }
}

/// Returns the duration that [`took`] shows, with the same rounding.
pub fn displayed_duration(time: Duration) -> Duration {
    let &(step, ..) = scale(time);
    let nanos = (time.as_nanos() + step / 2) / step * step;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the scale for a time: the step to round to, the unit and its name, and the time at which the next scale
/// begins, in nanoseconds. A time that would be rounded up to 1000 gets the next larger unit.
fn scale(time: Duration) -> &'static (u128, u128, &'static str, u128) {
    const US: u128 = 1_000;
    const MS: u128 = 1_000 * US;
    const S: u128 = 1_000 * MS;
    const MIN: u128 = 60 * S;
    const H: u128 = 60 * MIN;
    const D: u128 = 24 * H;
    const SCALES: [(u128, u128, &str, u128); 14] = [
        (US, US, "us", 999_500),
        (MS / 100, MS, "ms", 9_995 * US),
        (MS / 10, MS, "ms", 99_950 * US),
        (MS, MS, "ms", 999_500 * US),
        (S / 100, S, "s", 9_995 * MS),
        (S / 10, S, "s", 99_950 * MS),
        (S, S, "s", 999_500 * MS),
        (MIN / 10, MIN, "min", 5_997 * S),
        (H / 100, H, "h", 35_982 * S),
        (H / 10, H, "h", 359_820 * S),
        (D / 100, D, "d", 863_568 * S),
        (D / 10, D, "d", 8_635_680 * S),
        (D, D, "d", 86_356_800 * S),
        (D, D, "d", u128::MAX),
    ];
    let nanos = time.as_nanos();
    SCALES.iter().find(|scale| nanos < scale.3).expect("the last scale has no end")
}

/// Formats a number of bytes with a unit.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut unit, mut divisor) = (0, 1024u64);
    while bytes / divisor >= 1024 && unit + 1 < UNITS.len() {
        divisor *= 1024;
        unit += 1;
    }
    format!("{}.{} {}", bytes / divisor, bytes % divisor * 10 / divisor, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{displayed_duration, took};

    #[test]
    #[rustfmt::skip] // a table
    fn durations_have_three_digits() {
        let (nanos, millis, seconds) = (Duration::from_nanos, Duration::from_millis, Duration::from_secs);
        for (time, text) in [
            (nanos(0), "0 us"), (nanos(499), "0 us"), (nanos(999_499), "999 us"), (nanos(999_500), "1.00 ms"),
            (nanos(1_234_567), "1.23 ms"), (millis(12), "12.0 ms"), (millis(456), "456 ms"), (seconds(1), "1.00 s"),
            (millis(59_960), "60.0 s"), (seconds(3_600), "60.0 min"), (seconds(999), "999 s"),
            (seconds(1_000), "16.7 min"), (seconds(6_000), "1.67 h"), (seconds(90_000), "25.0 h"),
            (seconds(400_000), "4.63 d"), (seconds(999_999_999), "11574 d"), (seconds(u64::MAX), "213503982334601 d"),
        ] {
            assert_eq!(took(time), text);
        }
    }

    #[test]
    fn a_displayed_duration_is_displayed_the_same() {
        let mut nanos = 1_u64;
        while nanos < u64::MAX / 200 {
            let time = Duration::from_nanos(nanos);
            assert_eq!(took(time), took(displayed_duration(time)), "{time:?}");
            nanos = nanos * 101 / 99 + 1;
        }
    }
}
