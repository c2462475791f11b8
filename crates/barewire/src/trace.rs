//! W3C trace context in `_meta`, which links a call to the operation that caused it.

use serde::{Deserialize, Serialize};

/// The W3C trace context of a call, which links the call to the operation that caused it. Values are not interpreted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TraceContext {
    /// The id of the trace and of the span in which the call is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Additional data that is specific to a tracing system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// Application data that is passed along with the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baggage: Option<String>,
}

impl TraceContext {
    /// Sets [`traceparent`](#structfield.traceparent).
    #[must_use]
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.traceparent = Some(traceparent.into());
        self
    }

    /// Sets [`tracestate`](#structfield.tracestate).
    #[must_use]
    pub fn tracestate(mut self, tracestate: impl Into<String>) -> Self {
        self.tracestate = Some(tracestate.into());
        self
    }

    /// Sets [`baggage`](#structfield.baggage).
    #[must_use]
    pub fn baggage(mut self, baggage: impl Into<String>) -> Self {
        self.baggage = Some(baggage.into());
        self
    }
}
