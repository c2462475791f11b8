//! How calls have ended -> counts, and whether each has ended once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Modern,
    ModernQuestion,
    Legacy,
    LegacyQuestion,
    Stream,
    /// A call that runs as a task, whose result is fetched.
    Task,
    /// A call that is cancelled; one session in three ends with it.
    Cancel,
    /// A change that several listens hear of.
    Listen,
}

/// When a call began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Before,
    During,
    After,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server has said why.
    Told(String),
    /// The connection broke before there was anything to resume.
    Broken(String),
}

/// How the calls of a run have ended.
#[derive(Default)]
pub(crate) struct Tally(Mutex<TallyState>);

#[derive(Default)]
struct TallyState {
    counts: BTreeMap<(Phase, Kind), Counts>,
    reasons: BTreeMap<String, u32>,
    answered: HashSet<String>,
    resumed: u32,
    /// The number of changes that were announced again, because a listen had not heard of them.
    announced_again: u32,
    slowest: Duration,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) answered: u32,
    pub(crate) told: u32,
    pub(crate) broken: u32,
    time: Duration,
}

impl Counts {
    pub(crate) fn all(self) -> u32 {
        self.answered + self.told + self.broken
    }
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, TallyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, phase: Phase, kind: Kind, token: String, ended: Result<(), Trouble>, time: Duration) {
        let mut state = self.lock();
        state.slowest = state.slowest.max(time);
        let counts = state.counts.entry((phase, kind)).or_default();
        counts.time += time;
        let reason = match ended {
            Ok(()) => {
                counts.answered += 1;
                assert!(state.answered.insert(token), "a token is used once");
                return;
            }
            Err(Trouble::Told(why)) => {
                counts.told += 1;
                format!("told: {why}")
            }
            Err(Trouble::Broken(why)) => {
                counts.broken += 1;
                format!("broken: {why}")
            }
        };
        *state.reasons.entry(format!("{phase:?} {kind:?} {reason}")).or_default() += 1;
    }

    pub(crate) fn add_resumed(&self) {
        self.lock().resumed += 1;
    }

    pub(crate) fn add_announced_again(&self) {
        self.lock().announced_again += 1;
    }

    pub(crate) fn resumed(&self) -> u32 {
        self.lock().resumed
    }

    /// Returns the number of calls that have ended.
    pub(crate) fn calls(&self) -> u32 {
        self.lock().counts.values().map(|counts| counts.all()).sum()
    }

    pub(crate) fn counts(&self, phase: Phase, kind: Kind) -> Counts {
        self.lock().counts.get(&(phase, kind)).copied().unwrap_or_default()
    }

    /// Checks that no call has run twice, and that each call with a result has run.
    pub(crate) fn check_ran(&self, ran: &[String]) {
        let mut times: HashMap<&str, u32> = HashMap::new();
        for token in ran {
            *times.entry(token).or_default() += 1;
        }
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "these calls ran more than once: {twice:?}");
        let state = self.lock();
        let never: Vec<_> = state.answered.iter().filter(|token| !times.contains_key(token.as_str())).collect();
        assert!(never.is_empty(), "these calls have a result and did not run: {never:?}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        for ((phase, kind), counts) in &state.counts {
            let Counts { answered, told, broken, time } = counts;
            let ms = time.as_millis() / u128::from(counts.all());
            let (phase, kind) = (format!("{phase:?}"), format!("{kind:?}"));
            writeln!(f, "  {phase:<7} {kind:<15}{answered:>7} answered {told:>6} told {broken:>6} broken {ms:>6} ms")?;
        }
        for (reason, count) in &state.reasons {
            writeln!(f, "  {count:>6} x {reason}")?;
        }
        let TallyState { resumed, announced_again, slowest, .. } = &*state;
        write!(f, "  {resumed} streams resumed, {announced_again} changes announced again; ")?;
        write!(f, "the slowest call took {slowest:.1?}")
    }
}
