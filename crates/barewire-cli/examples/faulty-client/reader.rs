//! The output of the server -> messages, with the faults of readers.

use std::io::Read;
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

/// The messages of the server. A reader with a fault ends at the first message that it does not understand.
pub(crate) struct Reader(Receiver<Value>);

impl Reader {
    pub(crate) fn start(mut stdout: ChildStdout, fault: &str) -> Self {
        let (sender, receiver) = channel();
        let fault = fault.to_owned();
        std::thread::spawn(move || {
            let mut rest = Vec::new();
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                rest.extend_from_slice(&buffer[..count]);
                if fault == "reads-chunks" && !rest.ends_with(b"\n") {
                    return;
                }
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    let Some(message) = parse(&line[..end], &fault) else { return };
                    if sender.send(message).is_err() {
                        return;
                    }
                }
                if fault == "short-lines" && rest.len() > 65_536 {
                    return;
                }
            }
        });
        Self(receiver)
    }

    /// Returns the next message; `None` if the server has ended, or nothing comes in this time.
    pub(crate) fn next(&self, limit: Duration) -> Option<Value> {
        self.0.recv_timeout(limit).ok()
    }
}

fn parse(line: &[u8], fault: &str) -> Option<Value> {
    let text = std::str::from_utf8(line).ok()?;
    let is_short = |text: &str| fault != "short-lines" || text.len() <= 65_536;
    let text = match fault {
        // As `splitlines` of Python does it.
        "splits-at-separators" => text.split(['\u{2028}', '\u{2029}', '\u{85}']).next()?,
        _ => text,
    };
    let message: Value = serde_json::from_str(text).ok().filter(|_| is_short(text))?;
    let levels = text.bytes().scan(0_i32, |depth, byte| {
        *depth += i32::from(matches!(byte, b'[' | b'{')) - i32::from(matches!(byte, b']' | b'}'));
        Some(*depth)
    });
    let is_deep = fault == "shallow" && levels.max() > Some(32);
    let is_strange = fault == "strict-members" && message["result"]["tools"][0].get("barewireUnknown").is_some();
    (!is_deep && !is_strange).then_some(message)
}
