//! Whether a server still answers, and whether nothing more comes.

use std::time::{Duration, Instant};

use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::Talk;
use crate::check::live::answer::{Answer, is_answer};
use crate::check::live::tape::Line;

impl Talk {
    /// The lightest request there is.
    pub(in crate::check::live) const fn light(&self) -> &'static str {
        match self.era {
            Era::Legacy => self.light,
            Era::Modern => "server/discover",
        }
    }

    /// Asks this from now on to see whether the server still answers.
    pub(in crate::check::live) fn probe_with(&mut self, light: &'static str) {
        self.light = light;
    }

    /// Whether the server still answers.
    pub(in crate::check::live) async fn goes_on(&mut self) -> bool {
        let since = Instant::now();
        let id = self.begin(self.light(), json!({})).await;
        self.claim(&id);
        let answer = self.answer(&id).await;
        self.answered_after(since.elapsed());
        matches!(answer, Answer::Result(..) | Answer::Error(_))
    }

    /// All that comes until a light request is answered, and a little longer; and whether it was.
    pub(in crate::check::live) async fn until_light(&mut self) -> (Vec<Line>, bool) {
        let since = Instant::now();
        let id = self.begin(self.light(), json!({})).await;
        self.claim(&id);
        let mut frames = Vec::new();
        let mut goes_on = false;
        let mut deadline = self.deadline_for_answer();
        while let Some(line) = self.next(deadline).await {
            let value: Value = serde_json::from_slice(&line.bytes).unwrap_or_default();
            if is_answer(&value, &id) {
                goes_on = true;
                self.answered_after(since.elapsed());
                deadline = Instant::now() + self.quiet;
            } else if frames.len() < MOST_FRAMES {
                frames.push(line);
            }
        }
        (frames, goes_on)
    }

    /// A light request was answered so late: what else comes may come as much later.
    fn answered_after(&mut self, took: Duration) {
        self.quiet = (took * 4).clamp(QUIET, MOST_QUIET);
    }

    /// Waits until it is quiet: until nothing has come for so long that nothing will.
    pub(in crate::check::live) async fn quieten(&mut self) {
        self.settle(self.quiet).await;
    }
}

/// What is sent unasked is sent soon.
pub(super) const QUIET: Duration = Duration::from_millis(30);
/// Somebody who is slow is not waited for much longer than anybody else.
const MOST_QUIET: Duration = Duration::from_millis(500);
/// What is looked for is among the first, or it is not there.
const MOST_FRAMES: usize = 1000;
