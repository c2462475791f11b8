//! The client over HTTP, on real sockets: with our own server in every revision, and with scripted servers for
//! behaviour that our server does not have.
#![cfg(feature = "http")]

#[path = "client_http/access.rs"]
mod access;
mod eventually;
#[path = "client_http/http_sse.rs"]
mod http_sse;
mod log;
#[path = "client_http/negotiation.rs"]
mod negotiation;
#[path = "client_http/own_server.rs"]
mod own_server;
#[path = "client_http/responses.rs"]
mod responses;
#[path = "client_http/script.rs"]
mod script;
#[path = "client_http/sessions.rs"]
mod sessions;
#[cfg(feature = "oauth")]
#[path = "client_http/sign_in.rs"]
mod sign_in;
#[path = "client_http/tools.rs"]
mod tools;

use std::time::Duration;

use barewire::Client;
use barewire::client::Builder;
use log::Log;

/// A builder for the client.
fn tester() -> Builder {
    Client::builder("tester", "0.1")
}

/// Longer than any step of these tests takes.
const TEST_TIMEOUT: Duration = eventually::DEADLINE;

/// Waits for a future that must complete in time.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, what).await.expect("in time")
}
