//! Whether a server still answers, and whether nothing more comes.

use std::time::{Duration, Instant};

use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::ServerConnection;
use crate::check::live::outcome::{RequestOutcome, is_answer};
use crate::check::live::recording::LocatedFrame;

impl ServerConnection {
    /// The lightest request there is.
    pub(in crate::check::live) const fn liveness_method(&self) -> &'static str {
        match self.era {
            Era::Legacy => self.liveness,
            Era::Modern => "server/discover",
        }
    }

    /// Asks this from now on to see whether the server still answers.
    pub(in crate::check::live) fn set_liveness_method(&mut self, light: &'static str) {
        self.liveness = light;
    }

    /// Whether the server still answers.
    pub(in crate::check::live) async fn still_answers(&mut self) -> bool {
        let since = Instant::now();
        let id = self.send_request(self.liveness_method(), json!({})).await;
        self.claim(&id);
        let answer = self.wait_for_response(&id).await;
        self.answered_after(since.elapsed());
        matches!(answer, RequestOutcome::Result(..) | RequestOutcome::Error(_))
    }

    /// All that comes until a light request is answered, and a little longer; and whether it was.
    pub(in crate::check::live) async fn drain_until_liveness(&mut self) -> (Vec<LocatedFrame>, bool) {
        let since = Instant::now();
        let id = self.send_request(self.liveness_method(), json!({})).await;
        self.claim(&id);
        let mut frames = Vec::new();
        let mut still_answers = false;
        let mut deadline = self.deadline_for_answer();
        while let Some(line) = self.next_frame(deadline).await {
            let value: Value = serde_json::from_slice(&line.bytes).unwrap_or_default();
            if is_answer(&value, &id) {
                still_answers = true;
                self.answered_after(since.elapsed());
                deadline = Instant::now() + self.quiet;
            } else if frames.len() < MOST_FRAMES {
                frames.push(line);
            }
        }
        (frames, still_answers)
    }

    /// A light request was answered so late: what else comes may come as much later.
    fn answered_after(&mut self, took: Duration) {
        self.quiet = (took * 4).clamp(QUIET, MOST_QUIET);
    }

    /// Waits until it is quiet: until nothing has come for so long that nothing will.
    pub(in crate::check::live) async fn wait_until_quiet(&mut self) {
        self.drain_for(self.quiet).await;
    }
}

/// What is sent unasked is sent soon.
pub(super) const QUIET: Duration = Duration::from_millis(30);
/// Somebody who is slow is not waited for much longer than anybody else.
const MOST_QUIET: Duration = Duration::from_millis(500);
/// What is looked for is among the first, or it is not there.
const MOST_FRAMES: usize = 1000;
