//! Forwards signals from the tap to the program.
//!
//! The program is in the process group of the tap. A signal to the group reaches the program without our help; a signal
//! to the tap alone must be forwarded. We cannot see which of the two it was, but there are two clues. If the signal
//! comes from a terminal, it went to the whole foreground group, so it is not forwarded. If we lead our process group,
//! the host probably made the group for its server and signals the whole group, so the signal is forwarded only if the
//! program is still running after a while. So no program gets a signal twice, which some programs treat as a request to
//! exit immediately.

use std::fs;
use std::io;
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::Duration;

use rustix::process::{Signal, getpgrp, getpid, kill_process};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::mpsc;

use super::program::RunningProgram;

/// The signals that we catch. They must be caught before the program is started.
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
            // An ignored signal stays ignored, both here and in the program: `nohup` relies on this.
            if ignored & 1 << (one.as_raw() - 1) == 0 {
                caught.push((one, signal(SignalKind::from_raw(one.as_raw()))?));
            }
        }
        drop(context);
        Ok(Self { runtime, caught })
    }

    /// Forwards signals until the process ends.
    pub(crate) fn forward(self, target: Arc<impl SignalTarget>) -> PendingSignals {
        let Self { runtime, caught } = self;
        let (asker, mut asked) = mpsc::channel::<std_mpsc::Sender<()>>(1);
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
                loop {
                    tokio::select! {
                        Some(signal) = next.recv() => pass(signal, &target),
                        Some(answer) = asked.recv() => {
                            // While this task sleeps, the runtime notices signals, and then the tasks above run.
                            for _ in 0..2 {
                                tokio::time::sleep(Duration::from_millis(1)).await;
                            }
                            while let Ok(signal) = next.try_recv() {
                                pass(signal, &target);
                            }
                            let _ = answer.send(());
                        }
                        else => break,
                    }
                }
            });
        });
        PendingSignals(asker)
    }
}

/// A handle to the thread that forwards signals.
pub(crate) struct PendingSignals(mpsc::Sender<std_mpsc::Sender<()>>);

impl PendingSignals {
    /// Waits until the signals that this process has got are handled. A signal to the group can end the program before
    /// the other thread has seen the signal.
    pub(crate) fn finish(&self) {
        let (answer, done) = std_mpsc::channel();
        if self.0.try_send(answer).is_ok() {
            let _ = done.recv_timeout(MAX_SIGNAL_WAIT);
        }
    }
}

/// The program that signals are forwarded to, and callbacks for signals.
pub(crate) trait SignalTarget: Send + Sync + 'static {
    fn program(&self) -> &RunningProgram;

    /// Called when a signal asks us to end.
    fn end_requested(&self);

    /// Called when a signal was forwarded.
    fn forwarded(&self, signal: i32);

    /// Called when a signal is not forwarded, or not yet: the program gets it without us, or has ended.
    fn not_forwarded(&self, signal: i32);
}

fn pass<T: SignalTarget>(signal: Signal, target: &Arc<T>) {
    let ends = matches!(signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT);
    if ends {
        target.end_requested();
    }
    match () {
        () if is_sent_by_terminal(signal) && is_in_foreground() => target.not_forwarded(signal.as_raw()),
        () if ends && getpgrp() == getpid() => {
            target.not_forwarded(signal.as_raw());
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
        // Because this signal is caught, it does not stop us; so we stop ourselves.
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

fn send(signal: Signal, target: &impl SignalTarget) {
    if target.program().signal(signal) {
        target.forwarded(signal.as_raw());
    } else {
        target.not_forwarded(signal.as_raw());
    }
}

/// Whether a terminal sends this signal to its foreground process group.
fn is_sent_by_terminal(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::QUIT | Signal::TSTP | Signal::WINCH | Signal::HUP | Signal::CONT)
}

fn is_in_foreground() -> bool {
    let foreground = fs::File::open("/dev/tty").ok().and_then(|tty| rustix::termios::tcgetpgrp(tty).ok());
    foreground == Some(getpgrp())
}

/// Returns the signals that were ignored when we started, one bit each; 0 if the system does not report them.
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

/// The longest wait for the thread that forwards signals, which has nothing else to do.
const MAX_SIGNAL_WAIT: Duration = Duration::from_millis(200);

/// The delay before a signal to the group is forwarded: long enough for a program to end, and shorter than hosts wait.
const GROUP_SIGNAL_DELAY: Duration = Duration::from_millis(500);
