//! One operation -> one span of OTLP/JSON, with the attributes of the semantic conventions for MCP.

use std::time::Duration;

use serde_json::{Value, json};

/// A span that has ended.
#[derive(Debug)]
pub(super) struct OtlpSpan {
    pub(super) ids: SpanIds,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    /// The times since 1970.
    pub(super) began: Duration,
    pub(super) ended: Duration,
    pub(super) attributes: Attributes,
    /// Why the operation failed, if it did.
    pub(super) error: Option<String>,
}

/// The ids of a span: of its trace, of itself, and of the span that waits for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SpanIds {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
}

/// The kind of a span, with the numbers of OTLP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SpanKind {
    Internal = 1,
    Client = 3,
}

/// The attributes of a span, in order.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<Value>);

impl Attributes {
    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.0.push(json!({ "key": key, "value": { "stringValue": value } }));
    }

    /// Adds a number. JSON of Protocol Buffers has 64-bit integers as strings.
    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.0.push(json!({ "key": key, "value": { "intValue": value.to_string() } }));
    }
}

impl OtlpSpan {
    pub(super) fn json(self) -> Value {
        let nanos = |time: Duration| time.as_nanos().to_string();
        let status = match &self.error {
            Some(message) => json!({ "code": STATUS_ERROR, "message": message }),
            None => json!({}),
        };
        let mut span = json!({
            "traceId": hex(&self.ids.trace),
            "spanId": hex(&self.ids.span),
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": nanos(self.began),
            "endTimeUnixNano": nanos(self.ended.max(self.began)),
            "attributes": self.attributes.0,
            "status": status,
        });
        if let Some(parent) = self.ids.parent {
            span["parentSpanId"] = json!(hex(&parent));
        }
        span
    }
}

/// The ids of the trace and of the span in a `traceparent` of W3C Trace Context, if it is valid.
pub(super) fn trace_parent(text: &str) -> Option<([u8; 16], [u8; 8])> {
    let mut parts = text.split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    if version.len() != 2 || version == "ff" || parts.next()?.len() != 2 {
        return None;
    }
    let (trace, span) = (from_hex::<16>(trace)?, from_hex::<8>(span)?);
    (trace != [0; 16] && span != [0; 8]).then_some((trace, span))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * N || !text.bytes().all(is_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

const STATUS_ERROR: u8 = 2;

#[cfg(test)]
mod tests {
    use super::trace_parent;

    #[test]
    fn only_a_valid_traceparent_is_used() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let parsed = trace_parent(&format!("00-{trace}-{span}-01")).expect("valid");
        assert_eq!((parsed.0[0], parsed.1[7]), (0x0a, 0x31));
        let none = "0".repeat(32);
        for bad in [
            "",
            "00",
            &format!("ff-{trace}-{span}-01"),
            &format!("00-{none}-{span}-01"),
            &format!("00-{span}-{trace}-01"),
        ] {
            assert_eq!(trace_parent(bad), None, "{bad}");
        }
    }
}
