//! A clock that is read after every handler: a few milliseconds coarse where that makes it cheap.

use std::time::Duration;

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tick(Duration);

impl Tick {
    /// Now, as of the last tick of the kernel: reading it costs a fifth of what the exact time does.
    #[cfg(target_os = "linux")]
    #[inline]
    pub(super) fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
        Self(Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default()))
    }

    /// Now.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn now() -> Self {
        use std::sync::OnceLock;
        use std::time::Instant;

        static BEGAN: OnceLock<Instant> = OnceLock::new();
        Self(BEGAN.get_or_init(Instant::now).elapsed())
    }

    /// How long ago `earlier` was.
    pub(super) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
