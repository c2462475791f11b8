//! Answers clients with the messages that the server sent in the capture.

pub(crate) mod connection;
pub(crate) mod delivery;
mod http;
mod stream;

use barewire_proto::frame::DEFAULT_LIMIT;

use super::path_pattern::PathPattern;

pub use connection::HTTP_PATH;
pub use http::serve_http;
pub use stream::serve;

/// The rules for matching received requests with recorded ones.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServeOptions {
    /// Whether a request is answered only if it is the next one in the capture.
    pub in_order: bool,
    /// Whether a request is answered only as many times as in the capture. Otherwise the last response is repeated.
    pub strict: bool,
    /// Whether responses take as long as in the capture.
    pub real_time: bool,
    /// Places in params that are not compared.
    pub ignore: Vec<PathPattern>,
    /// The maximum length of a frame from a client, in bytes.
    pub max_frame: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { in_order: false, strict: false, real_time: false, ignore: Vec::new(), max_frame: DEFAULT_LIMIT }
    }
}

/// The numbers of requests while a capture was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeReport {
    /// The number of requests that matched a recorded one.
    pub matched: usize,
    /// The number of requests that matched no recorded one.
    pub unmatched: usize,
    /// The number of recorded requests that no client sent.
    pub unused: usize,
}
