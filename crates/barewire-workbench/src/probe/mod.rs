//! A server that puts the host which starts it to the test: it does everything that the specification allows a server
//! to do, and records the session. [`Target::host`](crate::check::Target::host) makes a report of the captures.
//!
//! ```text
//! messages of a client -> ProbeServer -> messages to write, now or later -> { the client, a capture }
//! ```

mod answers;
mod at_url;
mod http;
mod lists;
mod modern;
mod rounds;
mod server;
mod stdio;
mod tools;

use std::path::Path;

use crate::Error;
use crate::capture::{CaptureClock, CaptureWriter, ExistingCapture, Redactor};
use crate::check::Scenario;

pub use at_url::ProbeAtUrl;
pub use stdio::{StdioEnd, serve_stdio};

/// Creates the capture of one start of the probe. Each start has its own file in the folder: `probe.wire`,
/// `probe.2.wire` and so on.
pub fn capture(
    folder: &Path,
    scenario: Scenario,
    clock: CaptureClock,
    redactor: Redactor,
) -> Result<CaptureWriter, Error> {
    let path = folder.join("probe.wire");
    CaptureWriter::create(&path, ExistingCapture::Keep, clock, redactor, &[("probe", scenario.as_str())])
}
