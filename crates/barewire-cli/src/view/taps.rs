//! The taps that run on this machine -> a source for each, as long as it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use barewire_workbench::capture::Redactor;
use barewire_workbench::index::{IndexWriter, IndexedCapture};
use barewire_workbench::view::taps::{RunningTap, TapEnd, TapFinder};
use barewire_workbench::view::{Source, SourceKind, SourceState, View};

/// The thread that looks for taps.
pub(super) struct TapWatch(Arc<AtomicBool>);

impl TapWatch {
    /// Starts to look for all taps, or for the one with this socket.
    pub(super) fn start(view: &View, only: Option<PathBuf>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (view, stopped) = (view.clone(), Arc::clone(&stop));
        thread::spawn(move || {
            let mut finder = only.map_or_else(TapFinder::new, TapFinder::of_socket);
            while !stopped.load(Ordering::Relaxed) {
                for tap in finder.look() {
                    show(tap, &view, Arc::clone(&stopped));
                }
                thread::sleep(LOOK_PAUSE);
            }
        });
        Self(stop)
    }

    /// Asks all threads to stop.
    pub(super) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Adds a source for a tap, and reads the tap on a thread of its own.
fn show(tap: RunningTap, view: &View, stop: Arc<AtomicBool>) {
    let identity = tap.identity();
    let name = format!("{} ({})", identity.server, identity.pid);
    let index = Arc::new(IndexedCapture::new());
    let source = Source::new(SourceKind::Tap, name, SourceState::Live, Arc::clone(&index));
    let source = view.add(source.with_secrets(!identity.redacted));
    let view = view.clone();
    thread::spawn(move || {
        // The tap has replaced the secrets already, unless it was told not to.
        let (_, end) = tap.read(IndexWriter::new(index, Redactor::off()), &stop);
        match end {
            TapEnd::Lost => {
                let note = "the tap was killed, or the connection to it was lost; if it is started again, it is shown";
                source.set_state(SourceState::Lost, Some(note.to_owned()));
            }
            _ => source.set_state(SourceState::Ended, None),
        }
        drop(source);
        forget_oldest(&view);
    });
}

/// Removes the oldest taps that have ended, if there are many: the view can run for as long as the user is logged in.
fn forget_oldest(view: &View) {
    let is_over = |source: &Arc<Source>| matches!(source.state(), SourceState::Ended | SourceState::Lost);
    let over: Vec<_> = view.sources().into_iter().filter(is_over).collect();
    let surplus = over.len().saturating_sub(MAX_ENDED);
    over[..surplus].iter().for_each(|source| view.remove(source));
}

/// The number of taps that have ended which are still shown: more than a person looks at.
const MAX_ENDED: usize = 50;

/// The time between two looks: a person does not notice it.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_taps_that_have_ended_are_forgotten() {
        let view = View::new(true, |_| None);
        let add = |kind, state| view.add(Source::new(kind, "", state, Arc::new(IndexedCapture::new())));
        let live = add(SourceKind::Tap, SourceState::Live);
        let over: Vec<_> = (0..MAX_ENDED + 2).map(|_| add(SourceKind::Tap, SourceState::Ended)).collect();
        forget_oldest(&view);
        let ids: Vec<_> = view.sources().iter().map(|source| source.id()).collect();
        let expected = std::iter::once(&live).chain(&over[2..]);
        assert_eq!(ids, expected.map(|source| source.id()).collect::<Vec<_>>());
    }
}
