//! The end of the program while its sign-in is renewed: it waits until the new token is stored, because the old refresh
//! token is spent.

use std::io;
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
pub(crate) struct EndAfterRenewals(#[allow(dead_code, reason = "dropping it ends the thread")] oneshot::Sender<()>);

impl EndAfterRenewals {
    /// Catches the signals from now on.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut signals = {
            let _context = runtime.enter();
            Signals::catch()?
        };
        let (sender, left_to_others) = oneshot::channel();
        thread::spawn(move || {
            let signal = runtime.block_on(async {
                let signal = tokio::select! {
                    signal = signals.next() => signal,
                    _ = left_to_others => return None,
                };
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
        Ok(Self(sender))
    }
}

/// The time after which the user is told what the program waits for.
const SILENT_WAIT: Duration = Duration::from_secs(1);

/// The maximum wait: twice the time that a request to an authorization server may take, and the file.
const RENEWAL_WAIT: Duration = Duration::from_secs(70);
