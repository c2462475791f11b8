//! stdout: buffered, coloured only where somebody looks, and safe to look at.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use barewire::proto::transcript::{escape, is_clean};
use unicode_width::UnicodeWidthStr;

/// Where results go.
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    coloured: bool,
    width: usize,
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
        // https://no-color.org: any value that is not empty.
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_terminal = stdout.is_terminal();
        let coloured = is_terminal && !refused && !dumb;
        // Prose reads best in lines of at most a hundred characters; in a pipe nobody says how many there are.
        let columns = terminal_size::terminal_size_of(&stdout).map_or(80, |(width, _)| usize::from(width.0));
        let width = columns.clamp(40, 100);
        Self { stdout: BufWriter::with_capacity(64 * 1024, stdout.lock()), is_terminal, coloured, width }
    }

    /// Whether somebody looks.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How many columns prose should take.
    pub(crate) fn width(&self) -> usize {
        self.width
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
        self.stdout.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
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
