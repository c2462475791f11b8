//! A script and clients -> what the server said to them in the capture.

mod connection;
mod http;
mod stream;

use barewire_proto::frame::DEFAULT_LIMIT;

use super::path_pattern::PathPattern;

pub use connection::HTTP_PATH;
pub use http::serve_http;
pub use stream::serve;

/// The rules by which requests are found in the capture.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServeOptions {
    /// Whether a request is answered only if it is the next one of the capture.
    pub in_order: bool,
    /// Whether a request is answered only as often as it is in the capture. Otherwise the last answer is given again.
    pub strict: bool,
    /// Whether answers take as long as they did in the capture.
    pub real_time: bool,
    /// Places in params that are not compared.
    pub ignore: Vec<PathPattern>,
    /// The longest frame that is taken from a client, in bytes.
    pub max_frame: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        let (in_order, strict, real_time) = (false, false, false);
        Self { in_order, strict, real_time, ignore: Vec::new(), max_frame: DEFAULT_LIMIT }
    }
}

/// The number of requests that clients made while a capture was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeReport {
    /// Requests that were answered as in the capture.
    pub matched: usize,
    /// Requests that nothing in the capture answers.
    pub unmatched: usize,
    /// Requests of the capture that no client made.
    pub unused: usize,
}
