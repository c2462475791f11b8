//! The end of the program while its sign-in is renewed: it waits until the new token is stored, because the old refresh
//! token is spent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use barewire::client::oauth::finish_renewals;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::output::stderr;
use crate::platform::{self, Signals};

/// Shuts a runtime down after the renewals that its tasks perform. A signal ends the wait. Other tasks are not waited for.
pub(crate) fn shut_down(runtime: Runtime) {
    runtime.block_on(async {
        if finish_renewals(SILENT_WAIT).await {
            return;
        }
        let _ = writeln!(stderr(), "barewire: the sign-in is being renewed; waiting until it is stored");
        let Ok(mut signals) = Signals::catch() else { return };
        tokio::select! {
            _ = finish_renewals(RENEWAL_WAIT) => {}
            _ = signals.next() => {}
        }
    });
    // Threads that look up a host name or read from the terminal are not waited for.
    runtime.shutdown_background();
}

/// Ends the program when it gets SIGINT or SIGTERM, but not while its sign-in is renewed. Dropping the value leaves the
/// signals to others.
pub(crate) struct EndAfterRenewals {
    /// Set when the signals are left to others. A signal that comes after that is theirs, also if the thread of this value
    /// sees it before it sees the end of the channel.
    is_left: Arc<AtomicBool>,
    /// Dropped to end the thread.
    _end: oneshot::Sender<()>,
}

impl Drop for EndAfterRenewals {
    fn drop(&mut self) {
        self.is_left.store(true, Ordering::SeqCst);
    }
}

impl EndAfterRenewals {
    /// Catches the signals from now on.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut signals = {
            let _context = runtime.enter();
            Signals::catch()?
        };
        let (end, left_to_others) = oneshot::channel();
        let is_left = Arc::new(AtomicBool::new(false));
        let is_theirs = Arc::clone(&is_left);
        thread::spawn(move || {
            let signal = runtime.block_on(async {
                let signal = tokio::select! {
                    signal = signals.next() => signal,
                    _ = left_to_others => return None,
                };
                if is_theirs.load(Ordering::SeqCst) {
                    return None;
                }
                tokio::select! {
                    _ = finish_renewals(RENEWAL_WAIT) => {}
                    _ = signals.next() => {}
                }
                Some(signal)
            });
            if let Some(signal) = signal {
                platform::end_by(signal);
            }
        });
        Ok(Self { is_left, _end: end })
    }
}

/// The time after which the user is told what the program waits for.
const SILENT_WAIT: Duration = Duration::from_secs(1);

/// The maximum wait: twice the time that a request to an authorization server may take, and the file.
const RENEWAL_WAIT: Duration = Duration::from_secs(70);
