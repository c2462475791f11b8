//! The exit status of a process, and the text that describes it.

use std::fmt;

use barewire_proto::transcript::escape;

/// The exit status of a peer's process, and the last part of its stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// The name or path of the program, as it was given.
    pub program: String,
    /// The exit code, if the process was not terminated by a signal.
    pub code: Option<i32>,
    /// The signal that terminated the process, if there was one.
    pub signal: Option<i32>,
    /// Whether this side terminated the process.
    pub by_us: bool,
    /// The last part of the process's stderr, at most four kilobytes.
    pub stderr: String,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = escape_line(self.program.as_bytes());
        match (self.code, self.signal, self.by_us) {
            (Some(code), _, false) => write!(f, "{program} exited with code {code}")?,
            (Some(code), _, true) => write!(f, "{program} had to be asked to end, and exited with code {code}")?,
            (None, Some(signal), false) => write!(f, "{program} was ended by signal {signal}")?,
            (None, Some(signal), true) => write!(f, "{program} had to be ended with signal {signal}")?,
            (None, None, false) => write!(f, "{program} ended, and its exit status is unknown")?,
            (None, None, true) => write!(f, "{program} was killed, but has not exited yet")?,
        }
        let lines: Vec<_> = self.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        match lines[lines.len().saturating_sub(SHOWN_LINES)..] {
            [] => Ok(()),
            [line] => write!(f, "; its stderr ends with: {}", escape_line(line.as_bytes())),
            ref lines => {
                write!(f, "; its stderr ends with:")?;
                lines.iter().try_for_each(|line| write!(f, "\n  {}", escape_line(line.as_bytes())))
            }
        }
    }
}

/// Escapes a line of a program's output for a terminal. A tab becomes four spaces, because stack traces are indented
/// with tabs.
pub(super) fn escape_line(line: &[u8]) -> String {
    let words: Vec<_> = line.split(|byte| *byte == b'\t').map(escape).collect();
    words.join("    ")
}

/// The maximum number of stderr lines in a message: enough for a stack trace, less than a screen.
const SHOWN_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: Option<i32>, signal: Option<i32>, by_us: bool, stderr: &str) -> String {
        Exit { program: "server".to_owned(), code, signal, by_us, stderr: stderr.to_owned() }.to_string()
    }

    #[test]
    fn reads_as_a_sentence() {
        assert_eq!(exit(Some(0), None, false, ""), "server exited with code 0");
        assert_eq!(exit(None, Some(11), false, "\n"), "server was ended by signal 11");
        assert_eq!(exit(None, Some(9), true, ""), "server had to be ended with signal 9");
        assert_eq!(
            exit(Some(3), None, false, "no such file\n"),
            "server exited with code 3; its stderr ends with: no such file"
        );
        assert_eq!(
            exit(Some(1), None, false, "Error\n\tat main\n"),
            "server exited with code 1; its stderr ends with:\n  Error\n      at main"
        );
    }

    #[test]
    fn text_of_the_program_is_escaped_and_bounded() {
        assert!(exit(Some(1), None, false, "\x1b[2J").ends_with(r"\x1b[2J"));
        let long = exit(Some(1), None, false, &"line\n".repeat(1000));
        assert_eq!(long.lines().count(), 1 + SHOWN_LINES);
    }
}
