//! What the library logs -> lines for people.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Says each event of the library's log as a line, from now on and in every thread. The library has escaped what a peer wrote.
pub(crate) fn start(say: impl Fn(&str) + Send + Sync + 'static) {
    // The first one stays: a verb starts its log once.
    let _ = tracing::subscriber::set_global_default(Lines(say));
}

/// The lines on stderr. If it is closed there is nobody to tell, and nothing is.
pub(crate) fn start_on_stderr() {
    start(|line| {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
    });
}

struct Lines<S>(S);

impl<S: Fn(&str) + Send + Sync + 'static> Subscriber for Lines<S> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == LIBRARY
    }

    /// So that the spans of requests cost nothing.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
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

/// The fields of an event, as text.
#[derive(Default)]
struct Fields {
    message: String,
    offset: Option<String>,
    rule: Option<String>,
    code: Option<String>,
    frame: Option<String>,
    method: Option<String>,
    error: Option<String>,
}

impl Fields {
    fn line(&self) -> String {
        let mut line = String::from("barewire: ");
        self.write(&mut line).expect("a String takes everything");
        line
    }

    fn write(&self, line: &mut String) -> fmt::Result {
        if let Some(offset) = &self.offset {
            write!(line, "frame at byte {offset}: ")?;
        }
        match (&self.rule, &self.code, &self.method, &self.error) {
            (Some(rule), Some(code), ..) => {
                let why = self.message.strip_prefix("refused: ").unwrap_or(&self.message);
                write!(line, "refused, {rule}: {why} ({code})")?;
            }
            (.., Some(method), Some(error)) => write!(line, "handler of {method} failed: {error}")?,
            _ => line.push_str(&self.message),
        }
        match &self.frame {
            Some(frame) => write!(line, ": {frame}"),
            None => Ok(()),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            "offset" => self.offset = Some(text),
            "rule" => self.rule = Some(text),
            "code" => self.code = Some(text),
            "frame" => self.frame = Some(text),
            "method" => self.method = Some(text),
            "error" => self.error = Some(text),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// The target of the library's log. Its other events are for those who debug the library.
const LIBRARY: &str = "barewire";
