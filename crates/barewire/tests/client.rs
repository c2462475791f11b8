//! The client, against servers that are written by hand line by line. Over memory, with time paused wherever time matters.
#![cfg(feature = "tokio")]

#[path = "client/calls.rs"]
mod calls;
mod emitted;
#[path = "client/era.rs"]
mod era;
#[path = "client/legacy.rs"]
mod legacy;
#[path = "client/listen.rs"]
mod listen;
#[path = "client/pages.rs"]
mod pages;
#[path = "client/rounds.rs"]
mod rounds;
#[path = "client/script.rs"]
mod script;
#[path = "client/told.rs"]
mod told;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// What a client logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }
}
