//! Text for people, or JSON -> bytes, in which nothing that a peer sent can control a terminal.

use std::fmt::{self, Write as _};
use std::io;

use barewire_proto::transcript::{escape, is_clean};

use crate::text::{Tone, write_json_escape};

/// A writer for text that may quote a peer. All that is written is escaped; line breaks and tabs are kept.
///
/// ```
/// use barewire_workbench::text::TextWriter;
///
/// let mut bytes = Vec::new();
/// let version = "1.0\u{9b}2J";
/// writeln!(TextWriter::new(&mut bytes), "note: the version is {version}")?;
/// assert_eq!(bytes, b"note: the version is 1.0\\xc2\\x9b2J\n");
/// # std::io::Result::Ok(())
/// ```
///
/// It does not implement [`io::Write`], so bytes cannot reach the inner writer by mistake:
///
/// ```compile_fail
/// use std::io::Write;
/// use barewire_workbench::text::TextWriter;
///
/// let mut bytes = Vec::new();
/// TextWriter::new(&mut bytes).write_all(b"1.0\xc2\x9b2J")?;
/// # std::io::Result::Ok(())
/// ```
///
/// [`unescaped`](Self::unescaped) is the only other way to the inner writer.
#[derive(Debug)]
pub struct TextWriter<W> {
    inner: W,
    has_colours: bool,
    is_json: bool,
}

impl<W: io::Write> TextWriter<W> {
    /// Makes a writer of text without colours.
    pub fn new(inner: W) -> Self {
        Self { inner, has_colours: false, is_json: false }
    }

    /// Makes a writer of text whose painted parts have colours.
    pub fn coloured(inner: W) -> Self {
        Self { inner, has_colours: true, is_json: false }
    }

    /// Whether painted parts have colours.
    pub fn has_colours(&self) -> bool {
        self.has_colours
    }

    /// From now on, escapes characters in the notation of JSON strings. The text must be JSON.
    pub fn write_json(&mut self) {
        self.is_json = true;
    }

    /// Returns a part of a text, marked to get the colour of `tone`. Only this writer can write the result.
    pub fn paint(&self, tone: Tone, text: impl fmt::Display) -> String {
        match MARKS.iter().find(|(marked, ..)| *marked == tone) {
            Some((_, mark, _)) if self.has_colours => format!("{mark}{text}{END_MARK}"),
            _ => text.to_string(),
        }
    }

    /// Writes formatted text, escaped. `write!` and `writeln!` call this.
    ///
    /// # Errors
    ///
    /// Returns the error of the inner writer.
    pub fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let mut pieces = PieceWriter { writer: self, error: None };
        // Only a `Display` that fails by itself returns an error without an I/O error.
        let written = pieces.write_fmt(text);
        let error = pieces.error.take();
        written.map_err(|_| error.unwrap_or_else(|| io::Error::other("a value could not be formatted")))
    }

    /// Flushes the inner writer.
    ///
    /// # Errors
    ///
    /// Returns the error of the inner writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    /// Returns the inner writer, for bytes that must not be changed: results that another program reads.
    pub fn unescaped(&mut self) -> &mut W {
        &mut self.inner
    }

    fn piece(&mut self, text: &str) -> io::Result<()> {
        for piece in text.split_inclusive(['\n', '\t']) {
            let line = piece.strip_suffix(['\n', '\t']).unwrap_or(piece);
            if is_clean(line.as_bytes()) {
                self.inner.write_all(piece.as_bytes())?;
                continue;
            }
            let mut out = String::with_capacity(piece.len() + 16);
            line.chars().for_each(|c| self.push(&mut out, c));
            out.push_str(&piece[line.len()..]);
            self.inner.write_all(out.as_bytes())?;
        }
        Ok(())
    }

    fn push(&self, out: &mut String, c: char) {
        let mut bytes = [0; 4];
        let bytes = c.encode_utf8(&mut bytes).as_bytes();
        let colour = || MARKS.iter().find(|(_, mark, _)| *mark == c).map(|(.., colour)| *colour);
        match c {
            c if is_clean(bytes) => out.push(c),
            END_MARK if self.has_colours => out.push_str("\x1b[0m"),
            c => match colour().filter(|_| self.has_colours) {
                Some(colour) => write!(out, "\x1b[{colour}m").expect("writing to a String cannot fail"),
                None if self.is_json => write_json_escape(out, c).expect("writing to a String cannot fail"),
                None => out.push_str(&escape(bytes)),
            },
        }
    }
}

/// Receives the pieces of a formatted text, and keeps the error of the inner writer.
struct PieceWriter<'a, W> {
    writer: &'a mut TextWriter<W>,
    error: Option<io::Error>,
}

impl<W: io::Write> fmt::Write for PieceWriter<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.writer.piece(text).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

/// The marks at the start of a painted part, and their colours as the parameters of the ANSI sequence SGR. The marks
/// are noncharacters, which Unicode reserves for use inside a program, so they never occur in a text. A peer that sends
/// one anyway could at most colour its text.
const MARKS: [(Tone, char, &str); 7] = [
    (Tone::Strong, '\u{fdd0}', "1"),
    (Tone::Faint, '\u{fdd1}', "2"),
    (Tone::Request, '\u{fdd2}', "36"),
    (Tone::Notification, '\u{fdd3}', "35"),
    (Tone::Good, '\u{fdd4}', "32"),
    (Tone::Bad, '\u{fdd5}', "1;31"),
    (Tone::Noted, '\u{fdd6}', "33"),
];

/// The mark at the end of a painted part.
const END_MARK: char = '\u{fdd7}';

#[cfg(test)]
mod tests {
    use super::{TextWriter, Tone};

    fn written(mut writer: TextWriter<Vec<u8>>, text: &str) -> String {
        let painted = writer.paint(Tone::Bad, "bad\u{1b}");
        write!(writer, "{painted}|{text}").expect("written");
        String::from_utf8(std::mem::take(writer.unescaped())).expect("UTF-8")
    }

    #[test]
    fn only_paint_makes_colours() {
        let text = "\u{1b}[31m\u{9b}31m\u{202e}ä\t\r\n";
        assert_eq!(
            written(TextWriter::coloured(Vec::new()), text),
            "\u{1b}[1;31mbad\\x1b\u{1b}[0m|\\x1b[31m\\xc2\\x9b31m\\xe2\\x80\\xaeä\t\\x0d\n"
        );
        let plain = written(TextWriter::new(Vec::new()), "\u{fdd0}\u{1b}");
        assert_eq!(plain, "bad\\x1b|\\xef\\xb7\\x90\\x1b");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "a": "\u{9b}\u{202e}\u{e0041}\n" });
        let mut writer = TextWriter::new(Vec::new());
        writer.write_json();
        writeln!(writer, "{value:#}").expect("written");
        let text = String::from_utf8(std::mem::take(writer.unescaped())).expect("UTF-8");
        assert_eq!(text, "{\n  \"a\": \"\\u009b\\u202e\\udb40\\udc41\\n\"\n}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }
}
