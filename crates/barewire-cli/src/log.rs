//! Log events of the library -> lines on stderr.

use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::output::stderr;

/// Calls `write_line` for each log event of the library, in every thread.
pub(crate) fn start(write_line: impl Fn(&str) + Send + Sync + 'static) {
    // A second call has no effect. Each verb calls this function at most once.
    let _ = tracing::subscriber::set_global_default(LogSubscriber(write_line));
}

pub(crate) fn start_on_stderr() {
    start(|line| {
        let _ = writeln!(stderr(), "{line}");
    });
}

struct LogSubscriber<W>(W);

impl<W: Fn(&str) + Send + Sync + 'static> Subscriber for LogSubscriber<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == LIBRARY_TARGET
    }

    /// This hint disables the spans that the library creates for requests, so they cost nothing.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        (self.0)(&fields.line());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The names and values of an event's fields.
#[derive(Default)]
struct EventFields(Vec<(&'static str, String)>);

impl EventFields {
    fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| *field == name).map(|(_, value)| &**value)
    }

    fn line(&self) -> String {
        let message = self.find("message").unwrap_or_default();
        let offset = self.find("offset").map_or(String::new(), |offset| format!("frame at byte {offset}: "));
        let text = match (self.find("rule"), self.find("code"), self.find("method"), self.find("error")) {
            (Some(rule), Some(code), ..) => {
                let reason = message.strip_prefix("refused: ").unwrap_or(message);
                format!("refused, {rule}: {reason} ({code})")
            }
            (.., Some(method), Some(error)) => format!("handler of {method} failed: {error}"),
            _ => message.to_owned(),
        };
        let frame = self.find("frame").map_or(String::new(), |frame| format!(": {frame}"));
        format!("barewire: {offset}{text}{frame}")
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }
}

/// The target of log events for users. Events with other targets are for debugging the library.
const LIBRARY_TARGET: &str = "barewire";
