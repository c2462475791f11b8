//! Standard output: buffered, in colour only on a terminal, and with text from peers escaped.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use barewire_proto::transcript::{escape, is_clean};

pub(crate) use barewire_workbench::text::{
    SafeJson, Style, Tone, displayed_duration, pad, safe_json, shown, size, took, took_precisely, wrap,
};

/// The standard output of this process. It is for results only; everything else goes to stderr.
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    coloured: bool,
    width: usize,
    /// Receives everything that is written while [`Output::capture`] runs.
    captured: Option<Vec<u8>>,
}

impl Output {
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let coloured = is_coloured(is_terminal, |name| std::env::var_os(name));
        // If stdout is not a terminal, the environment variable `COLUMNS` sets the width.
        let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
        let columns = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
        // Lines of more than 100 characters are hard to read.
        let width = columns.or_else(variable).unwrap_or(80).clamp(40, 100);
        let stdout = BufWriter::with_capacity(64 * 1024, stdout.lock());
        Self { stdout, is_terminal, coloured, width, captured: None }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(crate) fn is_coloured(&self) -> bool {
        self.coloured
    }

    /// Runs `write` and returns everything that it writes, instead of printing it.
    pub(crate) fn capture(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<Vec<u8>> {
        self.captured = Some(Vec::new());
        let done = write(self);
        let captured = self.captured.take().unwrap_or_default();
        done.map(|()| captured)
    }

    /// Returns `text` in the colour of `tone`, or unchanged if colours are off.
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

    /// Returns the maximum width of a line of prose, in columns.
    pub(crate) fn width(&self) -> usize {
        self.width
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

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(captured) = &mut self.captured { captured.write(bytes) } else { self.stdout.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Prints a label and a wrapped paragraph, which is indented by the width of the label.
pub(crate) fn wrapped(output: &mut Output, label: &str, text: &str) -> io::Result<()> {
    for (index, line) in wrap(text, output.width.saturating_sub(label.len())).iter().enumerate() {
        let label = if index == 0 { output.paint(Tone::Strong, label) } else { " ".repeat(label.len()) };
        writeln!(output, "{label}{line}")?;
    }
    Ok(())
}

/// Whether to use colours, by the rules of <https://no-color.org> and <https://bixense.com/clicolors>, as clap does.
fn is_coloured(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let is = |name, value: &str| variable(name).is_some_and(|it| it == value);
    if is_set("NO_COLOR") {
        return false;
    }
    is_set("CLICOLOR_FORCE") || is_terminal && !is("CLICOLOR", "0") && !is("TERM", "dumb")
}

/// Returns text from a peer: with every line escaped if stdout is a terminal, unchanged otherwise.
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
    fn colours_follow_the_environment() {
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
