//! Measures the time that a server needs, without the time in which the client answers the server's requests.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// A stopwatch that runs from the start of a connection and is paused while a request from the server is not answered.
#[derive(Debug)]
pub(super) struct Stopwatch(watch::Sender<StopwatchTime>);

#[derive(Debug)]
struct StopwatchTime {
    /// The number of requests from the server that are not answered yet.
    open_requests: u32,
    /// The elapsed time when the stopwatch was last paused.
    before: Duration,
    /// The time at which the stopwatch was started or last resumed.
    since: Instant,
}

impl Stopwatch {
    pub(super) fn start() -> Arc<Self> {
        let time = StopwatchTime { open_requests: 0, before: Duration::ZERO, since: Instant::now() };
        Arc::new(Self(watch::Sender::new(time)))
    }

    /// Pauses the stopwatch until the returned value is dropped.
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

    /// Waits for `response` and returns its output; `None` if a limit expires first.
    pub(super) async fn within<T>(&self, limits: &TimeLimits, response: impl Future<Output = T>) -> Option<T> {
        let (mut response, mut expired) = (pin!(response), pin!(self.expired(limits)));
        poll_fn(|context| match response.as_mut().poll(context) {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => expired.as_mut().poll(context).map(|()| None),
        })
        .await
    }

    async fn expired(&self, limits: &TimeLimits) {
        let mut time = self.0.subscribe();
        loop {
            // No limit expires during a pause.
            let _ = time.wait_for(|time| time.open_requests == 0).await;
            let Some(end) = limits.end() else { return std::future::pending().await };
            match end.checked_sub(self.elapsed()) {
                None | Some(Duration::ZERO) => return,
                // During the sleep, a pause or progress can only move the end to a later time, so the loop checks
                // again.
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

/// Keeps a stopwatch paused until this value is dropped.
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

/// The time limits of a call, measured by a stopwatch.
pub(super) struct TimeLimits {
    stopwatch: Arc<Stopwatch>,
    timeout: Option<Duration>,
    /// The stopwatch time at which the call times out, no matter how much progress is reported.
    hard_end: Option<Duration>,
    /// The stopwatch time at which the timeout was started or last restarted.
    since: Mutex<Duration>,
}

impl TimeLimits {
    pub(super) fn new(stopwatch: &Arc<Stopwatch>, timeout: Option<Duration>, at_most: Option<Duration>) -> Self {
        let now = stopwatch.elapsed();
        let hard_end = at_most.map(|at_most| now.saturating_add(at_most));
        Self { stopwatch: Arc::clone(stopwatch), timeout, hard_end, since: Mutex::new(now) }
    }

    /// Restarts the timeout after a progress notification, but only if the total time is limited too.
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
    async fn time_stops_while_a_server_request_is_open() {
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
    async fn progress_restarts_the_timeout_up_to_the_total_limit() {
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
