//! The time that a server takes, without the time that our own answers to its questions take.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Runs from the beginning of a connection, and stands still while a question of the server is open.
#[derive(Debug)]
pub(super) struct Stopwatch(watch::Sender<StopwatchTime>);

#[derive(Debug)]
struct StopwatchTime {
    /// How many questions are open.
    open_requests: u32,
    /// What it showed when it last stood still.
    before: Duration,
    /// When it began to run after that.
    since: Instant,
}

impl Stopwatch {
    pub(super) fn start() -> Arc<Self> {
        let time = StopwatchTime { open_requests: 0, before: Duration::ZERO, since: Instant::now() };
        Arc::new(Self(watch::Sender::new(time)))
    }

    /// A question is open until what comes back is dropped.
    pub(super) fn pause(self: &Arc<Self>) -> StopwatchPause {
        self.0.send_modify(|time| {
            time.before = time.elapsed();
            time.open_requests += 1;
        });
        StopwatchPause(Arc::clone(self))
    }

    fn elapsed(&self) -> Duration {
        self.0.borrow().elapsed()
    }

    /// Waits for `answer`; `None` if the server has taken too long for it.
    pub(super) async fn within<T>(&self, limits: &TimeLimits, answer: impl Future<Output = T>) -> Option<T> {
        let (mut answer, mut expired) = (pin!(answer), pin!(self.expired(limits)));
        poll_fn(|context| match answer.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => expired.as_mut().poll(context).map(|()| None),
        })
        .await
    }

    async fn expired(&self, limits: &TimeLimits) {
        let mut time = self.0.subscribe();
        loop {
            // While it stands still, nobody gets late.
            let _ = time.wait_for(|time| time.open_requests == 0).await;
            let Some(end) = limits.end() else { return std::future::pending().await };
            match end.checked_sub(self.elapsed()) {
                None | Some(Duration::ZERO) => return,
                // A question that opens meanwhile and progress make it later, never earlier.
                Some(left) => tokio::time::sleep(left).await,
            }
        }
    }
}

impl StopwatchTime {
    fn elapsed(&self) -> Duration {
        if self.open_requests > 0 { self.before } else { self.before + self.since.elapsed() }
    }
}

/// A question of the server is open.
pub(super) struct StopwatchPause(Arc<Stopwatch>);

impl Drop for StopwatchPause {
    fn drop(&mut self) {
        self.0.0.send_modify(|time| {
            time.open_requests -= 1;
            if time.open_requests == 0 {
                time.since = Instant::now();
            }
        });
    }
}

/// How long an answer may take, as a stopwatch has it.
pub(super) struct TimeLimits {
    stopwatch: Arc<Stopwatch>,
    timeout: Option<Duration>,
    /// When it is over in any case.
    hard_end: Option<Duration>,
    /// When the timeout began.
    since: Mutex<Duration>,
}

impl TimeLimits {
    pub(super) fn new(stopwatch: &Arc<Stopwatch>, timeout: Option<Duration>, at_most: Option<Duration>) -> Self {
        let now = stopwatch.elapsed();
        let hard_end = at_most.map(|at_most| now.saturating_add(at_most));
        Self { stopwatch: Arc::clone(stopwatch), timeout, hard_end, since: Mutex::new(now) }
    }

    /// There is progress. The timeout begins anew if there is another limit.
    pub(super) fn reset(&self) {
        if self.hard_end.is_none() {
            return;
        }
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = self.stopwatch.elapsed();
    }

    fn end(&self) -> Option<Duration> {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let end = self.timeout.map(|timeout| since.saturating_add(timeout));
        [end, self.hard_end].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn time_stands_still_while_a_question_is_open() {
        let watch = Stopwatch::start();
        let (first, second) = (watch.pause(), watch.pause());
        tokio::time::sleep(10 * SECOND).await;
        drop(first);
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(watch.elapsed(), Duration::ZERO);
        drop(second);
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(watch.elapsed(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_begins_the_timeout_anew_up_to_the_end() {
        let (watch, began) = (Stopwatch::start(), Instant::now());
        let limits = TimeLimits::new(&watch, Some(2 * SECOND), Some(5 * SECOND));
        let work = async {
            for _ in 0..10 {
                tokio::time::sleep(SECOND).await;
                limits.reset();
            }
        };
        assert_eq!(watch.within(&limits, work).await, None);
        assert_eq!(began.elapsed(), 5 * SECOND);
        let limits = TimeLimits::new(&watch, None, None);
        assert_eq!(watch.within(&limits, tokio::time::sleep(3600 * SECOND)).await, Some(()));
    }
}
