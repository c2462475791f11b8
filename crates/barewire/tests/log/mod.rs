//! The events that the library logs on the thread of a test.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// The events on this thread from now on. The handlers and connections of a test run on the same thread.
pub(super) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl Default for Log {
    fn default() -> Self {
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
