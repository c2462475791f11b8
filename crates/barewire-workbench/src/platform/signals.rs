//! The signals to the tap -> the program.
//!
//! The program is in the process group of the tap. A signal to the group reaches it without us; a signal to the tap alone has
//! to be forwarded. Nothing tells the two apart, but there are two clues. A terminal signals its whole foreground group: then
//! nothing is forwarded. A host that makes a process group for its server, which we then lead, signals that group: then a
//! signal is forwarded only if the program is still running after a while. So no program gets a signal twice, which some take
//! as a request to hurry.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, getpgrp, getpid, kill_process};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::mpsc;

use super::program::RunningProgram;

/// The caught signals. They are caught before the program is started.
pub struct Signals {
    runtime: Runtime,
    caught: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Catches signals from now on.
    pub fn catch() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut caught = Vec::new();
        let context = runtime.enter();
        let ignored = ignored();
        for one in FORWARDED_SIGNALS {
            // An ignored signal stays ignored, here and in the program: `nohup` works this way.
            if ignored & 1 << (one.as_raw() - 1) == 0 {
                caught.push((one, signal(SignalKind::from_raw(one.as_raw()))?));
            }
        }
        drop(context);
        Ok(Self { runtime, caught })
    }

    /// Forwards signals until the process ends.
    pub(crate) fn forward(self, target: Arc<impl SignalTarget>) {
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

/// The program that signals are forwarded to, and the relay that is notified.
pub(crate) trait SignalTarget: Send + Sync + 'static {
    fn program(&self) -> &RunningProgram;

    /// Called when a signal asks us to end.
    fn end_requested(&self);

    /// Called when a signal was forwarded.
    fn forwarded(&self, signal: i32);
}

fn pass<T: SignalTarget>(signal: Signal, target: &Arc<T>) {
    let ends = matches!(signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT);
    if ends {
        target.end_requested();
    }
    match () {
        () if is_sent_by_terminal(signal) && is_in_foreground() => {}
        () if ends && getpgrp() == getpid() => {
            let target = Arc::clone(target);
            tokio::spawn(async move {
                tokio::time::sleep(GROUP_SIGNAL_DELAY).await;
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
        target.forwarded(signal.as_raw());
    }
}

/// Whether a terminal sends this signal to its foreground group.
fn is_sent_by_terminal(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::QUIT | Signal::TSTP | Signal::WINCH | Signal::HUP | Signal::CONT)
}

fn is_in_foreground() -> bool {
    let foreground = fs::File::open("/dev/tty").ok().and_then(|tty| rustix::termios::tcgetpgrp(tty).ok());
    foreground == Some(getpgrp())
}

/// The signals that were ignored at our start, one bit each; 0 where the system does not tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

const FORWARDED_SIGNALS: [Signal; 10] = [
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

/// Long enough for a program to end, and shorter than hosts wait.
const GROUP_SIGNAL_DELAY: Duration = Duration::from_millis(500);
