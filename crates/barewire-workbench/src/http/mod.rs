//! Sends messages as HTTP requests, each on its own connection, and gives access to every byte of their responses.
//!
//! This module is for tools that need full control of the bytes on the wire. To get only the responses, use the client
//! of the library.

pub mod decoder;
mod exchange;
pub(crate) mod head;
mod request;
pub(crate) mod session;

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) use exchange::ExchangeEvent;
pub(crate) use request::{HttpRequest, is_modern};

use head::RequestKind;

/// Closes a connection after the client has read the last bytes. Closing it with unread input could drop those bytes.
pub(crate) async fn linger(mut client: TcpStream) {
    if client.shutdown().await.is_err() {
        return;
    }
    let mut rest = vec![0; 4096];
    let drained = async { while matches!(client.read(&mut rest).await, Ok(1..)) {} };
    let _ = tokio::time::timeout(LINGER_TIMEOUT, drained).await;
}

/// The maximum wait for the client to close: long enough for a client on this machine to read its response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
