//! Lines from stdin, each given to a function, and what it appends to stdout: the loop of the floors.
//!
//! Lines are read in place, and the answers to all lines of a read leave in one write.

use std::io::{self, Read, Write};

/// Calls `answer` with each line and with what is to be written, until stdin ends.
pub fn serve(mut answer: impl FnMut(&[u8], &mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut input = vec![0; PIPE];
    let mut output = Vec::with_capacity(PIPE);
    // The first `held` bytes of `input` are a line that has no end yet.
    let mut held = 0;
    loop {
        // A read is never shorter than what a full pipe holds.
        if input.len() < held + PIPE {
            input.resize(2 * held + PIPE, 0);
        }
        let read = stdin.read(&mut input[held..])?;
        if read == 0 {
            return Ok(());
        }
        let (end, mut line, mut from) = (held + read, 0, held);
        while let Some(newline) = memchr::memchr(b'\n', &input[from..end]) {
            from += newline;
            answer(&input[line..from], &mut output)?;
            from += 1;
            line = from;
            if output.len() >= PIPE {
                send(&mut stdout, &mut output)?;
            }
        }
        send(&mut stdout, &mut output)?;
        // The beginning of a long line stays where it is.
        if line > 0 {
            input.copy_within(line..end, 0);
        }
        held = end - line;
    }
}

fn send(stdout: &mut impl Write, output: &mut Vec<u8>) -> io::Result<()> {
    if !output.is_empty() {
        stdout.write_all(output)?;
        stdout.flush()?;
        output.clear();
    }
    Ok(())
}

/// The default capacity of a pipe on Linux.
const PIPE: usize = 64 * 1024;
