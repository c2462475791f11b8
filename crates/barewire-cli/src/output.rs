//! Standard output and standard error: everything is escaped, and in colour only on a terminal.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stderr, StdoutLock, Write};

use barewire_proto::transcript::SafeText;

pub(crate) use barewire_workbench::text::{
    SafeJson, Style, TextWriter, Tone, displayed_duration, pad, safe_json, shown, size, took, took_precisely, wrap,
};

/// The standard output of this process. It is for results only; everything else goes to [`stderr`].
///
/// `write!` escapes everything, so text from a peer cannot control the terminal. The only other way to write is
/// [`Output::data`], for results that must not be changed, and not on a terminal.
pub(crate) struct Output {
    text: TextWriter<Destination>,
    is_terminal: bool,
    width: usize,
    /// The number of columns of the terminal, or of `COLUMNS`.
    columns: Option<usize>,
}

/// Text that this program has written to an [`Output`], escaped and with its colours.
pub(crate) struct WrittenText(Vec<u8>);

struct Destination {
    stdout: BufWriter<StdoutLock<'static>>,
    /// Receives everything that is written while [`Output::capture`] runs.
    captured: Option<Vec<u8>>,
}

impl Output {
    pub(crate) fn stdout() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the type that escapes")]
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        // If stdout is not a terminal, the environment variable `COLUMNS` sets the width.
        let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
        let columns = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
        // Lines of more than 100 characters are hard to read.
        let columns = columns.or_else(variable);
        let width = columns.unwrap_or(80).clamp(40, 100);
        let stdout = BufWriter::with_capacity(64 * 1024, stdout.lock());
        let destination = Destination { stdout, captured: None };
        let text = match is_coloured(is_terminal, |name| std::env::var_os(name)) {
            true => TextWriter::coloured(destination),
            false => TextWriter::new(destination),
        };
        Self { text, is_terminal, width, columns }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(crate) fn is_coloured(&self) -> bool {
        self.text.has_colours()
    }

    /// Writes text, escaped. `write!` and `writeln!` call this.
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.text.write_fmt(text)
    }

    /// From now on, all text is JSON, and is escaped as JSON.
    pub(crate) fn write_json(&mut self) {
        self.text.write_json();
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.text.flush()
    }

    /// Returns a writer that changes nothing, for a result that another program reads. Returns `None` on a terminal.
    pub(crate) fn data(&mut self) -> Option<&mut impl Write> {
        (!self.is_terminal).then(|| self.text.unescaped())
    }

    /// Writes a text that is the result of a command: unchanged for another program, escaped for a terminal.
    pub(crate) fn write_result(&mut self, text: &str) -> io::Result<()> {
        match self.data() {
            Some(data) => data.write_all(text.as_bytes()),
            None => write!(self, "{}", shown_lines(text)),
        }
    }

    /// Runs `write` and returns everything that it writes, instead of printing it.
    pub(crate) fn capture(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<WrittenText> {
        self.text.unescaped().captured = Some(Vec::new());
        let done = write(self);
        let captured = self.text.unescaped().captured.take().unwrap_or_default();
        done.map(|()| WrittenText(captured))
    }

    /// Prints the result of [`Output::capture`].
    pub(crate) fn print(&mut self, text: &WrittenText) -> io::Result<()> {
        self.text.unescaped().write_all(&text.0)
    }

    /// Returns `text` in the colour of `tone`, or unchanged if colours are off.
    pub(crate) fn paint(&self, tone: Tone, text: impl fmt::Display) -> String {
        self.text.paint(tone, text)
    }

    /// Returns the maximum width of a line of prose, in columns.
    pub(crate) fn width(&self) -> usize {
        self.width
    }
}

impl WrittenText {
    /// Returns the text that another process of this program has printed.
    pub(crate) fn of_this_program(printed: Vec<u8>) -> Self {
        Self(printed)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Style for Output {
    fn paint(&self, tone: Tone, text: &str) -> String {
        Self::paint(self, tone, text)
    }

    fn width(&self) -> usize {
        self.width
    }

    fn line_width(&self) -> usize {
        self.columns.map_or(FILE_LINE_WIDTH, |columns| columns.clamp(40, FILE_LINE_WIDTH))
    }
}

/// The width of a line in a file, and the maximum width of a line that must not be wrapped.
const FILE_LINE_WIDTH: usize = 177;

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(captured) = &mut self.captured { captured.write(bytes) } else { self.stdout.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// The standard error of this process. Everything that is written is escaped. The text of one value appears as a whole,
/// when the value is dropped, so that the lines of different threads do not mix.
pub(crate) type ErrorOutput = TextWriter<BufWriter<Stderr>>;

pub(crate) fn stderr() -> ErrorOutput {
    TextWriter::new(BufWriter::new(raw_stderr()))
}

/// Returns the standard error of this process, to ask about the terminal, or for bytes that must not be changed.
pub(crate) fn raw_stderr() -> Stderr {
    #[expect(clippy::disallowed_methods, reason = "its name says what it is for")]
    io::stderr()
}

/// Replaces the status line at the bottom of the terminal by another one, or by nothing.
pub(crate) fn draw_status(line: &str) {
    let mut stderr = stderr();
    // Write errors are ignored, because there is no other place to report them.
    let _ = stderr.unescaped().write_all(ERASE_LINE).and_then(|()| write!(stderr, "{line}"));
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

/// Returns text of several lines from a peer, escaped. Line ends of Windows become those of Unix.
pub(crate) fn shown_lines(text: &str) -> SafeText {
    SafeText::new(text.replace("\r\n", "\n"))
}

/// Moves to the start of the line and erases it.
pub(crate) const ERASE_LINE: &[u8] = b"\r\x1b[K";

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
