//! The reasons why a server should get no new sessions -> whether it is ready, and the text of `/readyz`.

use crate::sync::atomic::{AtomicU8, Ordering};

/// A reason why a server should get no new sessions.
///
/// A new reason is a variant, its place in [`Self::ALL`], and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotReady {
    /// The server will be stopped soon, and still serves everything.
    Draining,
    /// The server finishes the running requests and accepts no others.
    ShuttingDown,
    /// The store of the cluster is away, without which there are no new sessions.
    StoreAway,
}

impl NotReady {
    const ALL: [Self; 3] = [Self::Draining, Self::ShuttingDown, Self::StoreAway];

    /// Returns the line of `/readyz`. Anybody can read it, so it names no hosts, paths or errors.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Draining => "draining: the server will shut down soon",
            Self::ShuttingDown => "shutting down",
            Self::StoreAway => "the store of the cluster is away",
        }
    }

    /// Returns the bit of the reason in [`Readiness`].
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The reasons that apply now. A server is ready if there are none.
#[derive(Debug)]
pub(super) struct Readiness {
    reasons: AtomicU8,
}

impl Readiness {
    pub(super) fn new() -> Self {
        Self { reasons: AtomicU8::new(0) }
    }

    /// Sets a reason, or clears it.
    pub(super) fn set(&self, reason: NotReady, applies: bool) {
        if applies {
            self.reasons.fetch_or(reason.bit(), Ordering::AcqRel);
        } else {
            self.reasons.fetch_and(!reason.bit(), Ordering::AcqRel);
        }
    }

    /// Returns the reasons that apply now; none if the server is ready.
    pub(super) fn reasons(&self) -> impl Iterator<Item = NotReady> {
        let now = self.reasons.load(Ordering::Acquire);
        NotReady::ALL.into_iter().filter(move |reason| now & reason.bit() != 0)
    }
}

#[cfg(all(test, not(barewire_loom)))]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_set_and_cleared_one_by_one() {
        let readiness = Readiness::new();
        let now = || readiness.reasons().collect::<Vec<_>>();
        assert_eq!(now(), []);
        for reason in NotReady::ALL {
            readiness.set(reason, true);
            readiness.set(reason, true);
            assert_eq!(now(), [reason]);
            readiness.set(reason, false);
            assert_eq!(now(), []);
        }
        readiness.set(NotReady::ShuttingDown, true);
        readiness.set(NotReady::Draining, true);
        assert_eq!(now(), [NotReady::Draining, NotReady::ShuttingDown]);
        readiness.set(NotReady::Draining, false);
        assert_eq!(now(), [NotReady::ShuttingDown]);
    }

    #[test]
    fn each_reason_is_one_line() {
        for reason in NotReady::ALL {
            assert!(!reason.text().is_empty() && !reason.text().contains('\n'), "{reason:?}");
        }
    }
}
