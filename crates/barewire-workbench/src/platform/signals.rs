//! The signals that are sent to the tap -> the program.
//!
//! The program is in the tap's process group, so whatever is sent to the group reaches it without us, and what is sent to us alone
//! has to be passed on. Nothing says which of the two a signal was. Two things tell as much as can be told: a terminal
//! signals the whole group in its foreground; and a host that made a process group for its server, of which we are then
//! the leader, ends that group. In the first case nothing is passed on; in the second, only if the program is still there after a
//! while. A program with a handler for the second Ctrl-C or SIGTERM is so not made to hurry.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, getpgrp, getpid, kill_process};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::mpsc;

use super::program::Running;

/// The signals that are caught, from before the program is started.
pub struct Signals {
    runtime: Runtime,
    caught: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Catches them from now on.
    pub fn catch() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut caught = Vec::new();
        let context = runtime.enter();
        let ignored = ignored();
        for one in PASSED_ON {
            // One that is ignored stays so, here and in the program: that is what nohup is.
            if ignored & 1 << (one.as_raw() - 1) == 0 {
                caught.push((one, signal(SignalKind::from_raw(one.as_raw()))?));
            }
        }
        drop(context);
        Ok(Self { runtime, caught })
    }

    /// Passes them on, until the process ends.
    pub(crate) fn pass_on(self, target: Arc<impl SignalTarget>) {
        let Self { runtime, caught } = self;
        std::thread::spawn(move || {
            runtime.block_on(async {
                let (sender, mut next) = mpsc::channel(16);
                for (signal, mut stream) in caught {
                    let sender = sender.clone();
                    tokio::spawn(
                        async move { while stream.recv().await.is_some() && sender.send(signal).await.is_ok() {} },
                    );
                }
                drop(sender);
                while let Some(signal) = next.recv().await {
                    pass(signal, &target);
                }
            });
        });
    }
}

/// The program that signals are passed on to, and the relay that hears of them.
pub(crate) trait SignalTarget: Send + Sync + 'static {
    /// The program.
    fn program(&self) -> &Running;

    /// A signal has come that says that we should end.
    fn told_to_end(&self);

    /// A signal was passed on.
    fn passed_on(&self, signal: i32);
}

fn pass<T: SignalTarget>(signal: Signal, target: &Arc<T>) {
    let ends = matches!(signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT);
    if ends {
        target.told_to_end();
    }
    match () {
        () if of_the_terminal(signal) && in_the_foreground() => {}
        () if ends && getpgrp() == getpid() => {
            let target = Arc::clone(target);
            tokio::spawn(async move {
                tokio::time::sleep(GROUP_END).await;
                if target.program().is_there() {
                    send(signal, &*target);
                }
            });
        }
        () => send(signal, &**target),
    }
    if signal == Signal::TSTP {
        // Caught, it does not stop us by itself.
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

fn send(signal: Signal, target: &impl SignalTarget) {
    if target.program().signal(signal) {
        target.passed_on(signal.as_raw());
    }
}

/// What a terminal sends to the whole group in its foreground.
fn of_the_terminal(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::QUIT | Signal::TSTP | Signal::WINCH | Signal::HUP | Signal::CONT)
}

fn in_the_foreground() -> bool {
    let foreground = fs::File::open("/dev/tty").ok().and_then(|tty| rustix::termios::tcgetpgrp(tty).ok());
    foreground == Some(getpgrp())
}

/// The signals that were ignored when we were started, a bit each; where the system does not say it, none.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

const PASSED_ON: [Signal; 10] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];

/// Long enough for a program to end, and not so long that a host loses patience.
const GROUP_END: Duration = Duration::from_millis(500);
