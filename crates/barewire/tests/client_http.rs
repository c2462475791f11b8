//! The client over HTTP, on real sockets: with our server in every revision, and with servers that are written by hand
//! request by request for what ours does not do.
#![cfg(feature = "http")]

#[path = "client_http/access.rs"]
mod access;
#[path = "client_http/answers.rs"]
mod answers;
mod eventually;
#[path = "client_http/finding.rs"]
mod finding;
mod log;
#[path = "client_http/old.rs"]
mod old;
#[path = "client_http/ours.rs"]
mod ours;
#[path = "client_http/script.rs"]
mod script;
#[path = "client_http/sessions.rs"]
mod sessions;
#[path = "client_http/tools.rs"]
mod tools;

use std::time::Duration;

use barewire::Client;
use barewire::client::Builder;
use log::Log;

/// A client to be built.
fn tester() -> Builder {
    Client::builder("tester", "0.1")
}

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// Waits for something that must come.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.expect("in time")
}
