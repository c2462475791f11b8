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
mod log;
#[path = "client/pages.rs"]
mod pages;
#[path = "client/rounds.rs"]
mod rounds;
#[path = "client/script.rs"]
mod script;
#[path = "client/told.rs"]
mod told;

use std::time::Duration;

use log::Log;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
