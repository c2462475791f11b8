//! The loop of the floors: lines of stdin -> a function -> stdout.
//!
//! Lines are read in place, and the answers to all lines of one read are written at once.

use std::io::{self, Read, Write};

/// Calls `answer` with each line and the output buffer, until stdin ends.
pub fn serve(mut answer: impl FnMut(&[u8], &mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut input = vec![0; PIPE_SIZE];
    let mut output = Vec::with_capacity(PIPE_SIZE);
    // The first `held` bytes of `input` are an incomplete line.
    let mut held = 0;
    loop {
        // There is always room for the contents of a full pipe.
        if input.len() < held + PIPE_SIZE {
            input.resize(2 * held + PIPE_SIZE, 0);
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
            if output.len() >= PIPE_SIZE {
                send(&mut stdout, &mut output)?;
            }
        }
        send(&mut stdout, &mut output)?;
        // The beginning of a long line stays in place.
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
const PIPE_SIZE: usize = 64 * 1024;
