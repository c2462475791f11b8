//! What a program leaves behind when it ends -> how long it is still listened to.
//!
//! Whoever was started by it and still holds its stdin and stdout is as good a server as it was: a launcher ends, and what it has
//! launched goes on. Without a tap the host would hear of the end at once and could talk on. A tap cannot end and go on, so it goes
//! on for as long as the host can talk to somebody. When it cannot any more, or has told us to end, it may be waiting for us to
//! end: then there is a limit. What the program itself has written comes in any case.

use std::time::{Duration, Instant};

/// A program that has ended.
pub(super) struct Leaving {
    /// Of stdout and stderr: what the program has written itself, as far as it is not passed on.
    owed: [Owed; 2],
    /// When something was passed on last.
    moved: Instant,
    /// What is waited for at most, and since when.
    limit: Option<(Limit, Instant)>,
    /// That somebody is left was said.
    said: bool,
}

enum Owed {
    /// So many bytes are still to be read.
    Unread(u64),
    /// All of it was.
    Nothing,
}

/// How things are.
pub(super) struct Scene {
    /// Somebody reads what the host says.
    pub(super) is_heard: bool,
    pub(super) stdout: Side,
    pub(super) stderr: Side,
    /// Something was passed on in any direction since the last time.
    pub(super) moved: bool,
    /// A signal has come that says so.
    pub(super) told_to_end: bool,
}

/// Of stdout or stderr.
pub(super) struct Side {
    /// Somebody holds it, and the host listens.
    pub(super) is_open: bool,
    /// Something is held back, or cannot be written yet.
    pub(super) is_busy: bool,
    /// How much was read since the last time.
    pub(super) read: u64,
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Nothing, until then or until something happens.
    Wait(Option<Instant>),
    /// The same; and somebody is there whom the program has left, which is said once.
    Left,
    Over,
}

/// How long it is waited.
#[derive(Clone, Copy, PartialEq)]
struct Limit {
    /// While nothing comes.
    silent: Duration,
    /// Whatever comes.
    in_all: Duration,
}

impl Leaving {
    /// It has ended now; so much of what it has written to stdout and stderr is not read yet.
    pub(super) fn new(unread: [u64; 2], now: Instant) -> Self {
        Self { owed: unread.map(Owed::Unread), moved: now, limit: None, said: false }
    }

    pub(super) fn judge(&mut self, scene: &Scene, now: Instant) -> Verdict {
        for (owed, side) in self.owed.iter_mut().zip([&scene.stdout, &scene.stderr]) {
            owed.less(side);
        }
        if scene.moved {
            self.moved = now;
        }
        if !scene.stdout.is_open && !scene.stderr.is_open {
            return Verdict::Over;
        }
        let is_owing = self.owed.iter().any(|owed| matches!(owed, Owed::Unread(_)));
        let over = self.limit(scene, is_owing, now);
        if over.is_some_and(|over| over <= now) {
            return Verdict::Over;
        }
        if self.said || is_owing || !scene.stdout.is_open {
            return Verdict::Wait(over);
        }
        let known = self.moved + BRIEFLY;
        if known <= now {
            self.said = true;
            return Verdict::Left;
        }
        Verdict::Wait(Some(over.map_or(known, |over| over.min(known))))
    }

    /// When it is over if nothing more happens.
    fn limit(&mut self, scene: &Scene, is_owing: bool, now: Instant) -> Option<Instant> {
        let limit = match scene {
            Scene { told_to_end: true, .. } => Some(TOLD_TO_END),
            Scene { stdout: Side { is_open: false, .. }, .. } => Some(ONLY_STDERR),
            Scene { is_heard: false, .. } => Some(ONLY_STDOUT),
            _ => None,
        };
        let before = self.limit.take();
        // What the program itself has written is never cut off.
        let limit = limit.filter(|_| !is_owing)?;
        let since = match before {
            Some((same, since)) if same == limit => since,
            _ => now,
        };
        self.limit = Some((limit, since));
        let in_all = since + limit.in_all;
        if scene.stdout.is_busy || scene.stderr.is_busy {
            return Some(in_all);
        }
        Some(in_all.min(self.moved.max(since) + limit.silent))
    }
}

impl Owed {
    fn less(&mut self, side: &Side) {
        if let Self::Unread(bytes) = self {
            *bytes = bytes.saturating_sub(side.read);
            if !side.is_open || *bytes == 0 && !side.is_busy {
                *self = Self::Nothing;
            }
        }
    }
}

/// As long as somebody takes who is there and has something to say already.
const BRIEFLY: Duration = Duration::from_millis(100);

/// A host that has sent a signal is about to send a harder one.
const TOLD_TO_END: Limit = Limit { silent: BRIEFLY, in_all: Duration::from_secs(1) };

/// The conversation is over.
const ONLY_STDERR: Limit = Limit { silent: BRIEFLY, in_all: Duration::from_secs(1) };

/// A host that has closed stdin gives a server two seconds before it sends a signal; one that does not send any is not kept for
/// much longer.
const ONLY_STDOUT: Limit = Limit { silent: Duration::from_secs(1), in_all: Duration::from_secs(5) };

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> Scene {
        let side = || Side { is_open: true, is_busy: false, read: 0 };
        Scene { is_heard: true, stdout: side(), stderr: side(), moved: false, told_to_end: false }
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// When it is over if nothing comes; `None` if that is never.
    fn over(leaving: &mut Leaving, scene: &Scene, start: Instant) -> Option<Duration> {
        let mut now = start;
        loop {
            match leaving.judge(scene, now) {
                Verdict::Wait(None) => return None,
                Verdict::Wait(Some(next)) => now = next,
                Verdict::Left => {}
                Verdict::Over => return Some(now - start),
            }
        }
    }

    #[test]
    fn somebody_who_can_be_talked_to_is_listened_to() {
        let start = Instant::now();
        let mut leaving = Leaving::new([0, 0], start);
        assert_eq!(leaving.judge(&scene(), start), Verdict::Wait(Some(start + BRIEFLY)));
        assert_eq!(leaving.judge(&scene(), start + BRIEFLY), Verdict::Left);
        assert_eq!(leaving.judge(&scene(), start + BRIEFLY), Verdict::Wait(None));
    }

    #[test]
    fn whoever_cannot_is_listened_to_for_a_while() {
        let start = Instant::now();
        let closed = || Side { is_open: false, is_busy: false, read: 0 };
        for (scene, limit) in [
            (Scene { is_heard: false, ..scene() }, 1000),
            (Scene { told_to_end: true, ..scene() }, 100),
            (Scene { stdout: closed(), ..scene() }, 100),
            (Scene { is_heard: false, stdout: Side { is_busy: true, ..scene().stdout }, ..scene() }, 5000),
            (Scene { stdout: closed(), stderr: closed(), ..scene() }, 0),
        ] {
            let mut leaving = Leaving::new([0, 0], start);
            // What was owed is paid.
            leaving.owed = [Owed::Nothing, Owed::Nothing];
            assert_eq!(over(&mut leaving, &scene, start), Some(millis(limit)));
        }
        // Somebody who never stops.
        let mut leaving = Leaving::new([0, 0], start);
        let talking = Scene { is_heard: false, moved: true, ..scene() };
        let last = (0..).find(|step| leaving.judge(&talking, start + millis(10 * step)) == Verdict::Over);
        assert_eq!(last, Some(500));
    }

    #[test]
    fn what_the_program_has_written_comes_first() {
        let start = Instant::now();
        let mut leaving = Leaving::new([100, 0], start);
        let mut slow = Scene { is_heard: false, ..scene() };
        assert_eq!(over(&mut leaving, &slow, start), None);
        // Read, and not written yet.
        slow.stdout = Side { is_busy: true, read: 100, ..slow.stdout };
        assert_eq!(over(&mut leaving, &slow, start + millis(20_000)), None);
        slow.stdout = Side { is_busy: false, read: 0, ..slow.stdout };
        assert_eq!(over(&mut leaving, &slow, start + millis(40_000)), Some(millis(1000)));
        let told = Scene { told_to_end: true, ..scene() };
        assert_eq!(over(&mut Leaving::new([100, 0], start), &told, start), None);
    }
}
