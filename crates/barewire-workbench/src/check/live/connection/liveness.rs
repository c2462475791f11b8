//! Finds out whether a server still answers, and whether it has stopped sending.

use std::time::{Duration, Instant};

use barewire_proto::mcp::Era;
use serde_json::json;

use super::ServerConnection;
use crate::check::live::outcome::{RequestOutcome, is_response_to};
use crate::check::live::recording::LocatedFrame;

impl ServerConnection {
    /// Returns the method to call to find out whether the server still answers. It costs the server little work.
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

    /// Sends a light request, such as a ping. Returns the other frames that arrive until shortly after its response,
    /// and whether it was answered. Responses may arrive in any order, so this also waits, for a limited time, until
    /// `is_last` returns `true` for a frame.
    pub(in crate::check::live) async fn drain_until_liveness(
        &mut self,
        mut is_last: impl FnMut(&LocatedFrame) -> bool,
    ) -> (Vec<LocatedFrame>, bool) {
        let since = Instant::now();
        let id = self.send_request(self.liveness_method(), json!({})).await;
        self.claim(&id);
        let (mut frames, mut length) = (Vec::new(), 0);
        let (mut still_answers, mut has_last) = (false, false);
        let mut deadline = self.response_deadline();
        while let Some(frame) = self.next_frame(deadline).await {
            let was_complete = still_answers && has_last;
            if frame.json().is_some_and(|message| is_response_to(message, &id)) {
                still_answers = true;
                self.set_quiet(since.elapsed());
                // Over HTTP, `next_frame` returns `None` when no exchange is open.
                if self.http().is_none() {
                    deadline = self.deadline((self.quiet * 4).max(MIN_REORDERING));
                }
            } else if frames.len() < MAX_FRAMES && length < MAX_FRAME_BYTES {
                has_last = has_last || is_last(&frame);
                length += frame.bytes.len();
                frames.push(frame);
            }
            if still_answers && has_last && !was_complete {
                deadline = self.deadline(self.quiet);
            }
        }
        (frames, still_answers)
    }

    /// Sets the time without output after which no further output is expected, from the duration of a light request.
    fn set_quiet(&mut self, took: Duration) {
        self.quiet = (took * 4).clamp(MIN_QUIET, MAX_QUIET);
    }

    /// Handles output for the time after which no further output is expected.
    pub(in crate::check::live) async fn wait_until_quiet(&mut self) {
        self.drain_for(self.quiet).await;
    }
}

/// The minimum of `quiet`; an unsolicited message would arrive sooner.
pub(super) const MIN_QUIET: Duration = Duration::from_millis(30);
/// The maximum of `quiet`, so that a run with a slow server does not take too long.
const MAX_QUIET: Duration = Duration::from_millis(500);
/// The minimum time that an earlier message has to be answered after a later request: threads of a server may wait for
/// each other on a busy machine.
const MIN_REORDERING: Duration = Duration::from_millis(500);
/// The maximum number of frames that are returned, and their length from which no more are; probes look only at the
/// first ones.
const MAX_FRAMES: usize = 1000;
const MAX_FRAME_BYTES: usize = 1024 * 1024;
