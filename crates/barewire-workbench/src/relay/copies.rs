//! The destinations of the copies of relayed bytes: the observation, and the viewers.

use std::sync::Arc;
use std::time::Duration;

use barewire_proto::transcript::{Note, Stream};

use super::live::{Announcement, LiveCopies};
use super::observation::{Observation, ObservationSender};
use super::queue::ExchangeNumber;
use crate::capture::CaptureClock;

/// The destinations of the copies that a relay makes; by default there are none.
#[derive(Clone, Default)]
pub struct RelayCopies {
    observation: Option<ObservationSender>,
    live: Option<Arc<LiveCopies>>,
}

impl From<Option<&Observation>> for RelayCopies {
    fn from(observation: Option<&Observation>) -> Self {
        Self { observation: observation.map(Observation::sender), live: None }
    }
}

impl RelayCopies {
    /// Also copies to the viewers of an announced relay.
    pub fn announced(mut self, announcement: Option<&Announcement>) -> Self {
        self.live = announcement.map(|announcement| Arc::clone(&announcement.live));
        self
    }

    /// Whether there is an observation or an announcement.
    pub(super) fn is_any(&self) -> bool {
        self.observation.is_some() || self.live.is_some()
    }

    /// Returns the clock of the observation or of the viewers, or starts one.
    pub(super) fn clock(&self) -> CaptureClock {
        let observed = self.observation.as_ref().map(ObservationSender::clock);
        observed.or_else(|| self.live.as_ref().map(|live| live.clock)).unwrap_or_else(CaptureClock::start)
    }

    /// Copies bytes that were relayed, with the time when they were read.
    pub(crate) fn bytes(&self, exchange: ExchangeNumber, stream: Stream, bytes: &[u8], time: Duration) {
        if let Some(observation) = &self.observation {
            observation.bytes(exchange, stream, bytes, time);
        }
        if let Some(live) = &self.live {
            live.bytes(exchange, stream, bytes, time);
        }
    }

    /// Copies an event that happens now.
    pub(crate) fn note(&self, exchange: ExchangeNumber, note: Note) {
        if let Some(live) = &self.live {
            live.note(exchange, &note);
        }
        if let Some(observation) = &self.observation {
            observation.note(exchange, note);
        }
    }
}
