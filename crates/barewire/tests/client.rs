//! The client against scripted servers over memory, with paused time where time matters.
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
#[path = "client/notifications.rs"]
mod notifications;
#[path = "client/pages.rs"]
mod pages;
#[path = "client/rounds.rs"]
mod rounds;
#[path = "client/script.rs"]
mod script;

use std::time::Duration;

use log::Log;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
