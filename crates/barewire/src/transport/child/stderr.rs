//! The stderr of a process: its lines are passed to a callback or to our stderr, and its last bytes are kept for error
//! messages.

use std::fmt;
use std::io::{self, PipeReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::platform::wait_for_bytes;
use crate::transport::exit::escape_line;

/// The destination of a process's stderr. The last four kilobytes of stderr are always kept for error messages.
#[derive(Clone)]
pub struct Stderr(Sink);

#[derive(Clone)]
enum Sink {
    Inherit,
    Discard,
    Lines(Arc<Mutex<OnLine>>),
}

type OnLine = dyn FnMut(&[u8]) + Send;

impl Stderr {
    /// Writes each line to the stderr of this process, with control characters escaped.
    pub fn inherit() -> Self {
        Self(Sink::Inherit)
    }

    /// Drops the output of the process.
    pub fn discard() -> Self {
        Self(Sink::Discard)
    }

    /// Calls `on_line` with each line, without the line end. A line longer than 8 KiB is passed in pieces. The callback
    /// runs on its own thread. If it is slow, the process waits when it writes to stderr.
    pub fn lines(on_line: impl FnMut(&[u8]) + Send + 'static) -> Self {
        Self(Sink::Lines(Arc::new(Mutex::new(on_line))))
    }

    fn line(&mut self, line: &[u8]) {
        match &self.0 {
            Sink::Inherit => {
                // Each line is written with one call, so that lines of several processes do not mix. An error is
                // ignored, because our stderr might be closed.
                let _ = io::stderr().write_all(format!("{}\n", escape_line(line)).as_bytes());
            }
            Sink::Discard => {}
            Sink::Lines(on_line) => {
                let call = || on_line.lock().unwrap_or_else(PoisonError::into_inner)(line);
                // The panic hook has already reported the panic. Further lines are read and dropped, so that a full
                // pipe does not block the process.
                if catch_unwind(AssertUnwindSafe(call)).is_err() {
                    self.0 = Sink::Discard;
                }
            }
        }
    }
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Sink::Inherit => "Stderr::inherit()",
            Sink::Discard => "Stderr::discard()",
            Sink::Lines(_) => "Stderr::lines(..)",
        })
    }
}

/// The last four kilobytes of stderr.
#[derive(Debug, Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(bytes);
        let surplus = tail.len().saturating_sub(TAIL_SIZE);
        tail.drain(..surplus);
    }

    pub(super) fn text(&self) -> String {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&tail).into_owned()
    }
}

/// Starts a thread that reads `pipe` until its end, or until the other end of `stop` is dropped and no more bytes are
/// available. Then the thread calls `done`.
pub(super) fn follow_stderr(
    pipe: ChildStderr,
    stop: PipeReader,
    mut to: Stderr,
    done: impl FnOnce() + Send + 'static,
) -> io::Result<StderrTail> {
    let tail = StderrTail::default();
    let kept = tail.clone();
    thread::Builder::new().name("barewire-stderr".to_owned()).spawn(move || {
        let mut lines = LineSplitter::default();
        read_until(pipe, stop, |bytes| {
            kept.push(bytes);
            lines.push(bytes, |line| to.line(line));
        });
        lines.finish(|line| to.line(line));
        done();
    })?;
    Ok(tail)
}

/// Passes the bytes of `pipe` to `on_bytes` until the end of the pipe, or until the other end of `stop` is dropped.
/// Then closes the pipe.
fn read_until(mut pipe: ChildStderr, stop: PipeReader, mut on_bytes: impl FnMut(&[u8])) {
    let mut buf = vec![0; MAX_LINE];
    let mut reads_after_stop = MAX_READS_AFTER_STOP;
    while reads_after_stop > 0 {
        let Ok(state) = wait_for_bytes(&pipe, &stop) else { return };
        if !state.is_readable {
            return;
        }
        match pipe.read(&mut buf) {
            Ok(0) => return,
            Ok(n) => on_bytes(&buf[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
        if state.is_stopped {
            reads_after_stop -= 1;
        }
    }
}

/// Splits bytes into lines of at most `MAX_LINE` bytes, without their line ends.
#[derive(Debug, Default)]
struct LineSplitter {
    unfinished: Vec<u8>,
}

impl LineSplitter {
    fn push(&mut self, bytes: &[u8], mut on_line: impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.unfinished.extend_from_slice(part);
            while self.unfinished.len() > MAX_LINE + 1 {
                on_line(&self.unfinished[..MAX_LINE]);
                self.unfinished.drain(..MAX_LINE);
            }
            if self.unfinished.ends_with(b"\n") {
                self.unfinished.pop();
                if self.unfinished.ends_with(b"\r") {
                    self.unfinished.pop();
                }
                on_line(&self.unfinished);
                self.unfinished.clear();
            }
        }
    }

    fn finish(&mut self, mut on_line: impl FnMut(&[u8])) {
        if !self.unfinished.is_empty() {
            on_line(&self.unfinished);
            self.unfinished.clear();
        }
    }
}

/// The maximum length of a line in bytes, longer than any line that people are meant to read.
const MAX_LINE: usize = 8 * 1024;

/// The number of bytes of stderr that are kept: enough for a stack trace.
const TAIL_SIZE: usize = 4 * 1024;

/// The maximum number of reads after the other end of `stop` is dropped: enough to empty a pipe, but limited in case
/// another process keeps writing.
const MAX_READS_AFTER_STOP: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut lines, mut seen) = (LineSplitter::default(), Vec::new());
        for part in parts {
            lines.push(part, |line| seen.push(line.to_vec()));
        }
        lines.finish(|line| seen.push(line.to_vec()));
        seen
    }

    #[test]
    fn lines_come_whole_however_they_were_read() {
        let expected = [b"one".to_vec(), b"".to_vec(), b"two".to_vec(), b"end".to_vec()];
        let all = b"one\n\ntwo\r\nend";
        for cut in 0..all.len() {
            assert_eq!(lines(&[&all[..cut], &all[cut..]]), expected);
        }
    }

    #[test]
    fn a_long_line_comes_in_pieces() {
        let long = vec![b'x'; MAX_LINE];
        assert_eq!(lines(&[&long, b"\n"]), std::slice::from_ref(&long));
        assert_eq!(lines(&[&long, &long, b"yz\n"]), [long.clone(), long, b"yz".to_vec()]);
    }

    #[test]
    fn the_tail_is_the_end() {
        let tail = StderrTail::default();
        tail.push(&[b'a'; TAIL_SIZE]);
        tail.push(b"end");
        assert_eq!(tail.text().len(), TAIL_SIZE);
        assert!(tail.text().ends_with("aend"));
    }
}
