//! A frame together with its parsed message and the members of its params, so that frame and params are read only once.

use super::{RequestMeta, RequestParams};
use crate::json::{Json, ValueSpan};
use crate::rpc::{ParsedFrame, Message, Parsed, span_of};

/// A frame with its parsed message, and the members of its params if they were read.
#[derive(Debug, Clone)]
pub struct ParsedMessage<B> {
    frame: ParsedFrame<B>,
    /// Invariant: every span is the position of a JSON value in the frame that the scanner has accepted.
    params: Option<ParamSpans>,
}

impl<B: AsRef<[u8]>> ParsedMessage<B> {
    /// Parses a frame, and reads the params of a request or a notification.
    pub fn read(bytes: B, max_depth: usize) -> Self {
        let frame = ParsedFrame::parse(bytes, max_depth);
        let params = match frame.parsed() {
            Parsed::Message(Message::Request(request)) => Some(RequestParams::read(request.params)),
            Parsed::Message(Message::Notification(notification)) => Some(RequestParams::read(notification.params)),
            _ => None,
        };
        let params = params.map(|params| ParamSpans::new(frame.bytes(), &params));
        Self { frame, params }
    }

    /// Returns the bytes of the frame.
    pub fn bytes(&self) -> &[u8] {
        self.frame.bytes()
    }

    /// Returns the result of parsing, without parsing again.
    pub fn parsed(&self) -> Parsed<'_> {
        self.frame.parsed()
    }

    /// Returns the members of the params, if they were read, without parsing again.
    pub fn params(&self) -> Option<RequestParams<'_>> {
        self.params.as_ref().map(|params| params.within(self.bytes()))
    }
}

impl ParsedMessage<Box<[u8]>> {
    /// Copies `frame`, and keeps the result of parsing it and the positions of its params if they were read.
    ///
    /// # Panics
    ///
    /// Panics if `parsed` or `params` were not read from `frame`.
    pub fn copy(frame: &[u8], parsed: &Parsed<'_>, params: Option<&RequestParams<'_>>) -> Self {
        let params = params.map(|params| ParamSpans::new(frame, params));
        Self { frame: ParsedFrame::copy(frame, parsed), params }
    }
}

/// Converts a parsed frame to a message whose params are not read.
impl<B> From<ParsedFrame<B>> for ParsedMessage<B> {
    fn from(frame: ParsedFrame<B>) -> Self {
        Self { frame, params: None }
    }
}

/// The positions of the members of [`RequestParams`], and of its `_meta`.
#[derive(Debug, Clone)]
struct ParamSpans {
    name: Option<ValueSpan>,
    uri: Option<ValueSpan>,
    arguments: Option<ValueSpan>,
    cursor: Option<ValueSpan>,
    input_responses: Option<ValueSpan>,
    request_state: Option<ValueSpan>,
    task_id: Option<ValueSpan>,
    task: Option<ValueSpan>,
    meta: Option<ValueSpan>,
    protocol_version: Option<ValueSpan>,
    client_info: Option<ValueSpan>,
    client_capabilities: Option<ValueSpan>,
    log_level: Option<ValueSpan>,
    traceparent: Option<ValueSpan>,
    tracestate: Option<ValueSpan>,
    baggage: Option<ValueSpan>,
}

impl ParamSpans {
    fn new(frame: &[u8], params: &RequestParams<'_>) -> Self {
        let at = |json: Option<Json<'_>>| json.map(|json| span_of(frame, json.as_bytes(), json.kind()));
        let &RequestParams { name, uri, arguments, cursor, input_responses, request_state, .. } = params;
        let &RequestParams { task_id, task, meta, .. } = params;
        let RequestMeta { json, protocol_version, client_info, client_capabilities, log_level, .. } = meta;
        let RequestMeta { traceparent, tracestate, baggage, .. } = meta;
        Self {
            name: at(name),
            uri: at(uri),
            arguments: at(arguments),
            cursor: at(cursor),
            input_responses: at(input_responses),
            request_state: at(request_state),
            task_id: at(task_id),
            task: at(task),
            meta: at(json),
            protocol_version: at(protocol_version),
            client_info: at(client_info),
            client_capabilities: at(client_capabilities),
            log_level: at(log_level),
            traceparent: at(traceparent),
            tracestate: at(tracestate),
            baggage: at(baggage),
        }
    }

    fn within<'a>(&self, frame: &'a [u8]) -> RequestParams<'a> {
        let json = |value: Option<ValueSpan>| value.map(|value| Json::scanned(frame, value));
        let meta = RequestMeta {
            json: json(self.meta),
            protocol_version: json(self.protocol_version),
            client_info: json(self.client_info),
            client_capabilities: json(self.client_capabilities),
            log_level: json(self.log_level),
            traceparent: json(self.traceparent),
            tracestate: json(self.tracestate),
            baggage: json(self.baggage),
        };
        RequestParams {
            name: json(self.name),
            uri: json(self.uri),
            arguments: json(self.arguments),
            cursor: json(self.cursor),
            input_responses: json(self.input_responses),
            request_state: json(self.request_state),
            task_id: json(self.task_id),
            task: json(self.task),
            meta,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{DEFAULT_DEPTH, parse};

    /// Returns the params as text, to compare them.
    fn shown(params: &RequestParams<'_>) -> String {
        format!("{params:?}")
    }

    #[test]
    fn a_batch_has_no_params() {
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a"}}]"#;
        assert!(ParsedMessage::read(batch, DEFAULT_DEPTH).params().is_none());
    }

    #[test]
    fn a_parsed_message_returns_the_params_that_were_read() {
        let params = [
            r#""params":{"name":"a","arguments":{"x":1},"uri":"u:","cursor":"c","inputResponses":{},"requestState":"s","taskId":"t","task":{}}"#,
            r#""params":{"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info","traceparent":"t","tracestate":"u","baggage":"v"}}"#,
            r#""params":{"_meta":7}"#,
            r#""params":[1]"#,
            r#""other":1"#,
        ];
        for params in params {
            let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m",{params}}}"#);
            let parsed = parse(frame.as_bytes(), DEFAULT_DEPTH);
            let Parsed::Message(Message::Request(request)) = &parsed else { panic!("{frame}") };
            let read = RequestParams::read(request.params);
            let message = ParsedMessage::read(frame.clone(), DEFAULT_DEPTH);
            assert_eq!(message.parsed(), parsed);
            assert_eq!(message.params().map(|message| shown(&message)), Some(shown(&read)));
            let copy = ParsedMessage::copy(frame.as_bytes(), &parsed, Some(&read));
            assert_eq!(copy.params().map(|message| shown(&message)), Some(shown(&read)));
            assert!(ParsedMessage::copy(frame.as_bytes(), &parsed, None).params().is_none());
        }
    }
}
