//! Plays a script to a server, and compares the server's messages with the recorded ones.

mod clock;
mod exchanges;
mod http;
mod stream;

use std::collections::BTreeSet;
use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::transcript::SafeText;

use super::difference::Difference;
use super::path_pattern::PathPattern;

pub use http::play_http;
pub use stream::play;

/// The rules of the comparison, and the timing of the messages.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PlayOptions {
    /// Places in messages that are not compared.
    pub ignore: Vec<PathPattern>,
    /// Places where the server generates strings and numbers: these may differ, and later messages of the client return
    /// the live values.
    pub generated: Vec<PathPattern>,
    /// Whether notifications are compared. Their order does not matter.
    pub compare_notifications: bool,
    /// The maximum wait for the next expected message, from the time when the message before it was sent or received;
    /// `None` for no limit. Nothing else that the server sends or reads extends the wait.
    pub timeout: Option<Duration>,
    /// Whether each message is sent no earlier than in the capture.
    pub real_time: bool,
    /// The maximum length of a frame from the server, in bytes.
    pub max_frame: usize,
}

impl Default for PlayOptions {
    fn default() -> Self {
        Self {
            ignore: Vec::new(),
            generated: Vec::new(),
            compare_notifications: false,
            timeout: Some(Duration::from_secs(10)),
            real_time: false,
            max_frame: DEFAULT_LIMIT,
        }
    }
}

/// The result of playing a script to a server.
#[derive(Debug)]
#[non_exhaustive]
pub struct PlayReport {
    /// The differences from the capture; empty if the server answered as recorded.
    pub differences: Vec<Difference>,
    /// Remarks about things that are not differences, such as another version of the server.
    pub notes: BTreeSet<SafeText>,
    /// The number of frames that were sent.
    pub sent: usize,
    /// The number of responses and requests from the server that were compared.
    pub compared: usize,
}
