//! Finds out whether a server still answers, and whether it has stopped sending.

use std::time::{Duration, Instant};

use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::ServerConnection;
use crate::check::live::outcome::{RequestOutcome, is_response_to};
use crate::check::live::recording::LocatedFrame;

impl ServerConnection {
    /// The method of light requests, which only show whether the server answers: `ping`, a list, or `server/discover`.
    pub(in crate::check::live) const fn liveness_method(&self) -> &'static str {
        match self.era {
            Era::Legacy => self.liveness,
            Era::Modern => "server/discover",
        }
    }

    pub(in crate::check::live) async fn still_answers(&mut self) -> bool {
        let since = Instant::now();
        let outcome = self.claimed_request(self.liveness_method(), json!({})).await;
        self.set_quiet(since.elapsed());
        matches!(outcome, RequestOutcome::Result(..) | RequestOutcome::Error(_))
    }

    /// Sends a light request. Returns the other frames that arrive until shortly after its response, and whether it was
    /// answered.
    pub(in crate::check::live) async fn drain_until_liveness(&mut self) -> (Vec<LocatedFrame>, bool) {
        let since = Instant::now();
        let id = self.send_request(self.liveness_method(), json!({})).await;
        self.claim(&id);
        let mut frames = Vec::new();
        let mut still_answers = false;
        let mut deadline = self.response_deadline();
        while let Some(frame) = self.next_frame(deadline).await {
            let value: Value = serde_json::from_slice(&frame.bytes).unwrap_or_default();
            if is_response_to(&value, &id) {
                still_answers = true;
                self.set_quiet(since.elapsed());
                deadline = Instant::now() + self.quiet;
            } else if frames.len() < MAX_FRAMES {
                frames.push(frame);
            }
        }
        (frames, still_answers)
    }

    /// Sets the time of silence after which nothing more is expected, based on the time that the server took for a
    /// light request.
    fn set_quiet(&mut self, took: Duration) {
        self.quiet = (took * 4).clamp(MIN_QUIET, MAX_QUIET);
    }

    /// Waits until the server has been silent for so long that nothing more is expected.
    pub(in crate::check::live) async fn wait_until_quiet(&mut self) {
        self.drain_for(self.quiet).await;
    }
}

/// The minimum time of silence after which nothing more is expected; an unsolicited message would follow sooner.
pub(super) const MIN_QUIET: Duration = Duration::from_millis(30);
/// The maximum time of silence to wait for, so that a run with a slow server does not take too long.
const MAX_QUIET: Duration = Duration::from_millis(500);
/// The maximum number of frames that are returned; probes look only at the first ones.
const MAX_FRAMES: usize = 1000;
