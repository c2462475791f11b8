//! How a process ended -> a sentence about it.

use std::fmt;

use barewire_proto::transcript::escape;

/// How a process on the other side ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// The program, as it was named.
    pub program: String,
    /// Its exit code, if it exited by itself.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Whether we ended it.
    pub by_us: bool,
    /// The last of what it wrote to stderr.
    pub stderr: String,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = show(self.program.as_bytes());
        match (self.code, self.signal, self.by_us) {
            (Some(code), _, false) => write!(f, "{program} exited with code {code}")?,
            (Some(code), _, true) => write!(f, "{program} had to be told to end and exited with code {code}")?,
            (None, Some(signal), false) => write!(f, "{program} was ended by signal {signal}")?,
            (None, Some(signal), true) => write!(f, "{program} had to be ended with signal {signal}")?,
            (None, None, false) => write!(f, "{program} ended, nobody knows how")?,
            (None, None, true) => write!(f, "{program} has been killed and is not gone yet")?,
        }
        let lines: Vec<_> = self.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        match lines[lines.len().saturating_sub(SHOWN_LINES)..] {
            [] => Ok(()),
            [line] => write!(f, "; its stderr ends with: {}", show(line.as_bytes())),
            ref lines => {
                write!(f, "; its stderr ends with:")?;
                lines.iter().try_for_each(|line| write!(f, "\n  {}", show(line.as_bytes())))
            }
        }
    }
}

/// A line of a program, safe to look at. Tabs are wide: stack traces are indented with them.
pub(super) fn show(line: &[u8]) -> String {
    let words: Vec<_> = line.split(|byte| *byte == b'\t').map(escape).collect();
    words.join("    ")
}

/// A stack trace fits; a screen is not filled.
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
