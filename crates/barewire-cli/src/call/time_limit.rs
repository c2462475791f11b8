//! The time limit of a whole call: all its requests, pages and rounds, without the time in which the user answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::ask::no_answer::REQUEST_FIRST;

/// The time limit of a call. Only a question to the user moves its end.
pub(super) struct TimeLimit(watch::Sender<LimitState>);

#[derive(Clone, Copy)]
enum LimitState {
    /// There is no limit, or it does not run yet.
    Off,
    Running {
        end: Instant,
    },
    /// The user is answering a question.
    Paused {
        left: Duration,
    },
}

impl TimeLimit {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(LimitState::Off)))
    }

    /// Starts the limit; without a timeout there is none.
    pub(super) fn start(&self, timeout: Option<Duration>) {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout)?.checked_add(REQUEST_FIRST));
        self.0.send_replace(end.map_or(LimitState::Off, |end| LimitState::Running { end }));
    }

    /// Pauses the limit until the returned value is dropped. Pauses do not overlap.
    pub(super) fn pause(self: &Arc<Self>) -> LimitPause {
        self.0.send_modify(|state| {
            if let LimitState::Running { end } = *state {
                *state = LimitState::Paused { left: end.saturating_duration_since(Instant::now()) };
            }
        });
        LimitPause(Arc::clone(self))
    }

    /// Waits until the time is over.
    pub(super) async fn expired(&self) {
        let mut state = self.0.subscribe();
        loop {
            let now = *state.borrow_and_update();
            match now {
                LimitState::Running { end } => tokio::select! {
                    biased;
                    () = sleep_until(end) => return,
                    _ = state.changed() => {}
                },
                LimitState::Off | LimitState::Paused { .. } => drop(state.changed().await),
            }
        }
    }
}

/// Keeps a time limit paused until this value is dropped.
pub(super) struct LimitPause(Arc<TimeLimit>);

impl Drop for LimitPause {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| {
            if let LimitState::Paused { left } = *state {
                *state = LimitState::Running { end: Instant::now() + left };
            }
        });
    }
}
