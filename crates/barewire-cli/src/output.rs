//! stdout: buffered, coloured only where somebody looks, and safe to look at.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use barewire_proto::transcript::{escape, is_clean};

pub(crate) use barewire_workbench::text::{
    Style, Tone, displayed_duration, pad, safe_json, shown, size, took, took_precisely, wrap,
};

/// Where results go.
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    coloured: bool,
    width: usize,
    /// What is written goes here, while it is not known whether it is wanted.
    held: Option<Vec<u8>>,
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

    /// What `write` writes, kept instead of written.
    pub(crate) fn hold(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<Vec<u8>> {
        self.held = Some(Vec::new());
        let done = write(self);
        let held = self.held.take().unwrap_or_default();
        done.map(|()| held)
    }
}

impl Style for Output {
    fn paint(&self, tone: Tone, text: &str) -> String {
        Self::paint(self, tone, text)
    }

    fn width(&self) -> usize {
        self.width
    }
}

impl Output {
    /// Returns `text` in a tone, or as it is where colours are not wanted.
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
            _ => return text.to_string(),
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// How many columns prose should take.
    pub(crate) fn width(&self) -> usize {
        self.width
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

/// Text of a peer over several lines: as it is in a pipe, and with every line escaped where somebody looks.
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

#[cfg(test)]
mod tests {
    use super::is_coloured;

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
            let variable = |name: &str| pairs.clone().find(|(it, _)| *it == name).map(|(_, value)| value.into());
            assert_eq!(is_coloured(is_terminal, variable), wanted, "{is_terminal} {set:?}");
        }
    }
}
