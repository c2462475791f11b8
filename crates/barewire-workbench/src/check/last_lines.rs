//! The lines of stderr -> the last lines, or those around the last error: the cause of an exit.

use std::collections::VecDeque;

use memchr::memmem;

use super::key_lines::KeyLines;

/// The last lines on stderr.
#[derive(Default)]
pub(super) struct LastLines {
    lines: VecDeque<Vec<u8>>,
    /// The lines up to the last one that looks like an error, and a few lines after it.
    error: Vec<Vec<u8>>,
    /// The number of lines after the last error.
    after: usize,
    keys: KeyLines,
}

impl LastLines {
    pub(super) fn push(&mut self, line: &[u8]) {
        if self.keys.contains(line) || line.trim_ascii().is_empty() {
            return;
        }
        let line = line[..line.len().min(MAX_LINE)].to_vec();
        let is_error = ERROR_MARKS.iter().any(|mark| memmem::find(&line, mark).is_some());
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
        if is_error {
            let before = self.lines.len().saturating_sub(LINES_BEFORE_ERROR + 1);
            self.error = self.lines.iter().skip(before).cloned().collect();
            self.after = 0;
        } else if !self.error.is_empty() && self.after < LINES_AFTER_ERROR {
            // A panic of Rust has its message in the line after the error.
            self.error.extend(self.lines.back().cloned());
            self.after += 1;
        }
    }

    /// Returns the lines around the last error or, without an error, the last lines. The last line is often part of a
    /// stack trace, or names the runtime.
    pub(super) fn cause(&self) -> impl Iterator<Item = &[u8]> {
        let last = self.lines.iter().filter(|_| self.error.is_empty());
        self.error.iter().chain(last).map(Vec::as_slice)
    }
}

/// Texts that mark a line on stderr as an error.
const ERROR_MARKS: &[&[u8]] = &[b"rror:", b"xception:", b"panicked at", b"FATAL", b"atal:"];
/// The maximum number of bytes that are kept of a line; the name of an exception is at its start.
const MAX_LINE: usize = 1024;
/// The number of lines that are kept: the last call of a traceback, and the error.
const KEPT_LINES: usize = 4;
/// The number of lines before an error that belong to it: the last call of a traceback of Python.
const LINES_BEFORE_ERROR: usize = 2;
/// The number of lines after an error that belong to it: the message of a panic of Rust, or the first call of Node.
const LINES_AFTER_ERROR: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(text: &str) -> Vec<String> {
        let mut lines = LastLines::default();
        text.lines().for_each(|line| lines.push(line.as_bytes()));
        lines.cause().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    #[test]
    fn the_end_of_a_traceback_is_kept() {
        let python = "Traceback (most recent call last):\n  File \"a.py\", line 1\n    main()\n  File \"a.py\", line 7\n    \
                      int(x)\nValueError: bad date\n";
        assert_eq!(cause(python), ["  File \"a.py\", line 7", "    int(x)", "ValueError: bad date"]);
        let node = "/app/a.js:3\nthrow new Error('no key')\n^\n\nError: no key\n    at Object.<anonymous> (/app/a.js:3)\n    \
                    at Module._compile\n    at node:internal\n\nNode.js v22\n";
        let expected = ["throw new Error('no key')", "^", "Error: no key", "    at Object.<anonymous> (/app/a.js:3)"];
        assert_eq!(cause(node), expected);
        let rust = "starting\nthread 'main' panicked at src/main.rs:2:5:\nno key\nnote: run with RUST_BACKTRACE=1\n";
        assert_eq!(cause(rust), ["starting", "thread 'main' panicked at src/main.rs:2:5:", "no key"]);
    }

    #[test]
    fn without_an_error_the_last_lines_are_kept() {
        assert_eq!(cause("1\n2\n\n3\n4\n5\n"), ["2", "3", "4", "5"]);
    }
}
