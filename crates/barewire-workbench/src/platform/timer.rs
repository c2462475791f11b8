//! Waits until a point in time with a precision of microseconds. The timers of tokio have a resolution of a
//! millisecond; at a fixed request rate, this error would be added to every latency.

use std::io;
use std::time::Instant;

#[cfg(target_os = "linux")]
mod os {
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::net::unix::pipe;

    use super::{Instant, io};

    /// A timer of the Linux kernel.
    pub(crate) struct PreciseTimer {
        timer: pipe::Receiver,
        set: Option<Instant>,
    }

    impl PreciseTimer {
        pub(crate) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            // A timer is not a pipe but is read like one; tokio's type for other file descriptors needs unsafe code.
            Ok(Self { timer: pipe::Receiver::from_owned_fd_unchecked(timer)?, set: None })
        }

        /// Waits until this time. If the wait is dropped and started again for the same time, the timer stays set.
        pub(crate) async fn wait_until(&mut self, at: Instant) -> io::Result<()> {
            if self.set != Some(at) {
                // A timeout of zero would switch the timer off.
                let wait = at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
                let value = Timespec {
                    tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: wait.subsec_nanos().into(),
                };
                let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
                let timer = Itimerspec { it_interval: zero, it_value: value };
                timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)?;
                self.set = Some(at);
            }
            loop {
                self.timer.readable().await?;
                match self.timer.try_read(&mut [0; 8]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => {
                        self.set = None;
                        return read.map(drop);
                    }
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    use super::{Instant, io};

    /// A timer with the precision of tokio.
    pub(crate) struct PreciseTimer;

    impl PreciseTimer {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) async fn wait_until(&mut self, at: Instant) -> io::Result<()> {
            tokio::time::sleep_until(at.into()).await;
            Ok(())
        }
    }
}

pub(crate) use os::PreciseTimer;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_timer_never_fires_early() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut timer = PreciseTimer::new().expect("a timer");
            for wait in [0, 300, 5_000] {
                let at = Instant::now() + Duration::from_micros(wait);
                timer.wait_until(at).await.expect("it waits");
                assert!(Instant::now() >= at);
            }
        });
    }
}
