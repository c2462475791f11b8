//! The time that a server takes, without the time that the user takes to answer it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Measures how long questions to the user have been open.
#[derive(Debug, Default)]
pub(super) struct Stopwatch(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    before: Duration,
    /// How many are open, and since when there has been one.
    open: u32,
    since: Option<Instant>,
}

impl Stopwatch {
    /// A question is open until what comes back is dropped.
    pub(super) fn pause(self: &Arc<Self>) -> Paused {
        let mut asked = self.asked();
        asked.open += 1;
        asked.since.get_or_insert_with(Instant::now);
        Paused(Arc::clone(self))
    }

    /// Waits until the server has taken this long from now on.
    pub(super) async fn over(&self, limit: Duration) {
        let (began, before) = (Instant::now(), self.total());
        loop {
            let taken = began.elapsed().saturating_sub(self.total() - before);
            match limit.checked_sub(taken) {
                None | Some(Duration::ZERO) => return,
                // A question that opens meanwhile makes it later, never earlier.
                Some(left) => tokio::time::sleep(left).await,
            }
        }
    }

    fn total(&self) -> Duration {
        let asked = self.asked();
        asked.before + asked.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The user is being asked.
pub(super) struct Paused(Arc<Stopwatch>);

impl Drop for Paused {
    fn drop(&mut self) {
        let mut asked = self.0.asked();
        asked.open -= 1;
        if asked.open == 0
            && let Some(since) = asked.since.take()
        {
            asked.before += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn time_stands_still_while_the_user_is_asked() {
        let watch = Arc::new(Stopwatch::default());
        let began = Instant::now();
        let answer = async {
            let paused = watch.pause();
            tokio::time::sleep(Duration::from_millis(200)).await;
            drop(paused);
        };
        tokio::join!(watch.over(Duration::from_millis(50)), answer);
        assert!(began.elapsed() >= Duration::from_millis(250), "{:?}", began.elapsed());
    }
}
