//! The messages of a wire -> the formats of other programs: HAR for tools that show HTTP, OTLP for tools that show
//! traces.
//!
//! The exporters are [`Observer`](crate::pipeline::Observer)s and write while the wire is read. What they keep until
//! its end, such as requests without a response, is limited. Secrets are replaced, as in captures.

mod clock;
mod har;
mod har_entry;
mod har_http;
mod otlp;
mod otlp_span;

pub use har::HarExporter;
pub use otlp::OtlpExporter;

#[cfg(test)]
mod tests;
