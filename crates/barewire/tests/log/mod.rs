//! The events that the library logs on the thread of a test.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest, set_global_default};
use tracing::{Event, Metadata, Subscriber};

/// The events on this thread from now on. The handlers and connections of a test run on the same thread.
pub(super) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl Default for Log {
    fn default() -> Self {
        // tracing decides once for each event whether anyone wants it. While another test logs the event for the first
        // time, it can miss the subscriber of this test, and drops the event for ever. A subscriber of the whole
        // process that may want everything keeps every event.
        static EVERYTHING: Once = Once::new();
        EVERYTHING.call_once(|| set_global_default(Undecided).expect("no other test sets one"));
        let lines = Arc::default();
        Self { _guard: tracing::subscriber::set_default(Events(Arc::clone(&lines))), lines }
    }
}

impl Log {
    /// The events, one a line: the message, and the fields.
    pub(super) fn text(&self) -> String {
        self.lines.lock().expect("no panic").iter().fold(String::new(), |text, line| text + line + "\n")
    }
}

/// A subscriber that is asked about each event again, and wants none.
struct Undecided;

impl Subscriber for Undecided {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, _: &Event<'_>) {}
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Events(Arc<Mutex<Vec<String>>>);

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "barewire"
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().expect("no panic").push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let line = &mut self.0;
        match field.name() {
            "message" => write!(line, "{value:?} "),
            name => write!(line, "{name}={value:?} "),
        }
        .expect("a String takes everything");
    }
}
