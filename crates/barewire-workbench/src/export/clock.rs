//! The header of a wire and the time of a frame -> a wall-clock time.

use std::time::Duration;

use barewire_proto::transcript::Header;

use crate::capture::rfc_3339;
use crate::frames::{WireFrame, started_nanos};

/// The wall-clock time at which a wire begins; 1970 if the wire does not say it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WallClock {
    started: Duration,
}

impl WallClock {
    pub(super) fn of(header: &Header) -> Self {
        let nanos = started_nanos(header).and_then(|nanos| u64::try_from(nanos).ok());
        Self { started: Duration::from_nanos(nanos.unwrap_or_default()) }
    }

    /// Returns the time since 1970.
    pub(super) fn at(self, time: Duration) -> Duration {
        self.started.saturating_add(time)
    }

    pub(super) fn text(self, time: Duration) -> String {
        rfc_3339(self.at(time))
    }
}

/// Returns the time of a frame since the start. Frames without a time keep their order: each is a microsecond after the
/// frame before it.
pub(super) fn time_of(frame: &WireFrame<'_>) -> Duration {
    frame.place.and_then(|place| place.time).unwrap_or(Duration::from_micros(frame.number))
}
