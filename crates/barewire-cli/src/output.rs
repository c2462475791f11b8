//! stdout: buffered, coloured only where somebody looks, and safe to look at.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::time::Duration;

use barewire_proto::transcript::{escape, is_clean};
use unicode_width::UnicodeWidthStr;

/// Where results go.
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    coloured: bool,
    width: usize,
    /// What is written goes here, while it is not known whether it is wanted.
    held: Option<Vec<u8>>,
}

/// What a colour says. Nothing is said by colour alone.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Strong,
    Faint,
    Request,
    Notification,
    Good,
    Bad,
    Noted,
}

impl Output {
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let coloured = is_coloured(is_terminal, |name| std::env::var_os(name));
        // In a pipe nobody says how many columns there are, unless the user does.
        let told = || std::env::var("COLUMNS").ok()?.parse().ok();
        let columns = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
        // Prose reads best in lines of at most a hundred characters.
        let width = columns.or_else(told).unwrap_or(80).clamp(40, 100);
        let stdout = BufWriter::with_capacity(64 * 1024, stdout.lock());
        Self { stdout, is_terminal, coloured, width, held: None }
    }

    /// Whether somebody looks.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How many columns prose should take.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// What `write` writes, kept instead of written.
    pub(crate) fn hold(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<Vec<u8>> {
        self.held = Some(Vec::new());
        let done = write(self);
        let held = self.held.take().unwrap_or_default();
        done.map(|()| held)
    }

    /// `text` in a tone, or as it is where colours are not wanted.
    pub(crate) fn paint(&self, tone: Tone, text: impl fmt::Display) -> String {
        if !self.coloured {
            return text.to_string();
        }
        let code = match tone {
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Request => "36",
            Tone::Notification => "35",
            Tone::Good => "32",
            Tone::Bad => "1;31",
            Tone::Noted => "33",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.held {
            Some(held) => held.write(bytes),
            None => self.stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Whether colours are wanted: the rules of <https://no-color.org> and <https://bixense.com/clicolors>, which clap's help and errors
/// follow as well.
fn is_coloured(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let is = |name, value: &str| variable(name).is_some_and(|it| it == value);
    if is_set("NO_COLOR") {
        return false;
    }
    is_set("CLICOLOR_FORCE") || is_terminal && !is("CLICOLOR", "0") && !is("TERM", "dumb")
}

/// Text of a peer for one line of a terminal: escaped, and no wider than `most` columns.
pub(crate) fn shown(bytes: &[u8], most: usize) -> String {
    // Four columns a byte is the most that escaping makes of it.
    let text = escape(bytes.get(..most * 4).map_or(bytes, |start| start));
    if text.width() <= most && bytes.len() <= most * 4 {
        return text.into_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        if cut.width() + 2 > most {
            break;
        }
        cut.push(c);
    }
    cut.push('…');
    cut
}

/// JSON text of a peer for one line of JSON output: the same value, with what must not reach a terminal written as
/// `\uNNNN`. Such a character can only stand inside a string, where the escape means the same; but for tabs and line
/// breaks, which can only stand outside of strings, where a space means the same.
pub(crate) fn safe_json(text: &str) -> Cow<'_, str> {
    if is_clean(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if let '\t' | '\n' | '\r' = c {
            out.push(' ');
        } else if is_clean(c.encode_utf8(&mut [0; 4]).as_bytes()) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("a String takes everything");
            }
        }
    }
    Cow::Owned(out)
}

/// Text of a peer over several lines: as it is in a pipe, and with every line escaped where somebody looks.
#[cfg(unix)]
pub(crate) fn text_for(is_terminal: bool, text: &str) -> Cow<'_, str> {
    let clean = |line: &str| line.split('\t').all(|part| is_clean(part.as_bytes()));
    if !is_terminal || text.split('\n').all(clean) {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| {
        let parts: Vec<_> = line.split('\t').map(|part| escape(part.as_bytes())).collect();
        parts.join("\t")
    };
    let lines: Vec<_> = text.split('\n').map(|it| line(it.strip_suffix('\r').unwrap_or(it))).collect();
    Cow::Owned(lines.join("\n"))
}

/// A paragraph in lines of at most `room` columns, as far as its words allow.
pub(crate) fn wrap(text: &str, room: usize) -> Vec<String> {
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

/// Text in a column of at least this width.
pub(crate) fn pad(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(text.width()))
}

/// How long something took, in three digits.
pub(crate) fn took(time: Duration) -> String {
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

/// The same, also of times that are so short that it matters.
#[cfg(unix)]
pub(crate) fn precisely(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    match us {
        us if us < 9.995 => format!("{us:.2} us"),
        us if us < 99.95 => format!("{us:.1} us"),
        _ => took(time),
    }
}

/// The time that [`took`] tells.
pub(crate) fn as_told(time: Duration) -> Duration {
    let &(step, ..) = scale(time);
    let nanos = (time.as_nanos() + step / 2) / step * step;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The step in which a time is told, its unit and the name of that, and up to where. What would be rounded up to 1000 is one of
/// the next unit.
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
    SCALES.iter().find(|scale| nanos < scale.3).expect("the last has no end")
}

/// A number of bytes as people say it.
pub(crate) fn size(bytes: u64) -> String {
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

    use super::{as_told, is_coloured, took};

    #[test]
    fn times_are_told_in_three_digits() {
        let cases =
            [(0, "0 us"), (499, "0 us"), (999_499, "999 us"), (999_500, "1.00 ms"), (1_234_567, "1.23 ms")];
        for (nanos, told) in cases {
            assert_eq!(took(Duration::from_nanos(nanos)), told);
        }
        let cases = [
            (12, "12.0 ms"),
            (456, "456 ms"),
            (1_000, "1.00 s"),
            (59_960, "60.0 s"),
            (3_600_000, "60.0 min"),
        ];
        for (millis, told) in cases {
            assert_eq!(took(Duration::from_millis(millis)), told);
        }
        let cases = [(999, "999 s"), (1_000, "16.7 min"), (6_000, "1.67 h"), (90_000, "25.0 h")];
        for (seconds, told) in cases {
            assert_eq!(took(Duration::from_secs(seconds)), told);
        }
        let cases = [(400_000, "4.63 d"), (999_999_999, "11574 d"), (u64::MAX, "213503982334601 d")];
        for (seconds, told) in cases {
            assert_eq!(took(Duration::from_secs(seconds)), told);
        }
    }

    #[test]
    fn a_time_as_it_is_told_is_told_the_same() {
        let mut nanos = 1_u64;
        while nanos < u64::MAX / 200 {
            let time = Duration::from_nanos(nanos);
            assert_eq!(took(time), took(as_told(time)), "{time:?}");
            nanos = nanos * 101 / 99 + 1;
        }
    }

    #[test]
    fn colours_are_where_they_are_wanted() {
        let cases: [(bool, &[&str], bool); 10] = [
            (true, &[], true),
            (false, &[], false),
            (true, &["NO_COLOR=1"], false),
            (true, &["NO_COLOR="], true),
            (true, &["NO_COLOR=1", "CLICOLOR_FORCE=1"], false),
            (false, &["CLICOLOR_FORCE=1"], true),
            (false, &["CLICOLOR_FORCE="], false),
            (false, &["CLICOLOR=1"], false),
            (true, &["CLICOLOR=0"], false),
            (true, &["TERM=dumb"], false),
        ];
        for (is_terminal, set, wanted) in cases {
            let pairs = set.iter().map(|it| it.split_once('=').expect("a name and a value"));
            let variable =
                |name: &str| pairs.clone().find(|(it, _)| *it == name).map(|(_, value)| value.into());
            assert_eq!(is_coloured(is_terminal, variable), wanted, "{is_terminal} {set:?}");
        }
    }
}
