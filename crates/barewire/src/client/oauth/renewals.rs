//! The renewals that are under way in this process. A program waits for them before it ends.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The number of renewals under way. A program has one, because it ends once.
static RUNNING: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// A renewal under way, from before its refresh token is sent until the new one is stored. Dropping the value ends it.
pub(super) struct Renewal(());

impl Renewal {
    pub(super) fn begin() -> Self {
        RUNNING.send_modify(|running| *running += 1);
        Self(())
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        RUNNING.send_modify(|running| *running -= 1);
    }
}

/// Waits until no sign-in of this process is being renewed, at most this long. Returns whether that is so.
///
/// A refresh token that was sent may be spent, and the response may be the only place where the next one is. So a program
/// calls this function before it ends or drops its runtime, on the runtime that the requests were made on; otherwise its
/// user may have to sign in again. A renewal ends within the
/// [`request_timeout`](super::SignIn::request_timeout), or twice that if the server requires a nonce.
pub async fn finish_renewals(within: Duration) -> bool {
    let mut running = RUNNING.subscribe();
    timeout(within, running.wait_for(|running| *running == 0)).await.is_ok()
}
