//! Wraps the future of an MCP handler for the engine to poll, and writes the handler's result as JSON, as the client's
//! revision defines it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::mcp::{
    CacheScope, CallToolResult, ClientCapabilities, CompleteResult, DiscoverResult, GetPromptResult, InitializeResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Meta, ReadResourceResult,
    Revision, code, key,
};
use barewire_proto::rpc::{Code, ErrorObject, Reply};
use pin_project_lite::pin_project;
use serde::Serialize;
use serde_json::Value;

use super::rounds::{Interrupt, QuestionMessage};
use super::{CachePolicy, Call, ServerShared, result};
use crate::Failure;
use crate::peer::{BoxedHandler, Raw, StartedHandler};

/// The result of an MCP method.
pub(super) trait McpResult: Serialize + Send + 'static {
    /// Removes or replaces the parts of the result that this revision does not support.
    fn remove_unsupported(&mut self, revision: Revision) {
        let _ = revision;
    }

    /// Takes the `_meta` out of the result, so that it can be written together with the members that the server adds to
    /// `_meta`.
    fn take_meta(&mut self) -> Option<Meta>;

    /// Takes the result's own cache policy out of the result, if it has one.
    fn take_cache(&mut self) -> Option<CachePolicy> {
        None
    }

    /// Returns the outcome of a legacy call whose client lacks these capabilities: an error, or a result that reports
    /// the failure, if results of this type can report failures.
    fn missing_capabilities(capabilities: &ClientCapabilities) -> Result<Self, Failure>
    where
        Self: Sized,
    {
        Err(ErrorObject::new(Code::INVALID_REQUEST, missing_capabilities_message(capabilities)).into())
    }
}

/// The settings for writing one result as JSON: the revision, the cache policy and additional members.
pub(super) struct ResultFormat {
    revision: Revision,
    shared: Arc<ServerShared>,
    /// The cache policy to send. `None` for methods whose results have no cache policy.
    cache: Option<CachePolicy>,
    /// Whether the result's own cache policy, if it has one, replaces `cache`.
    result_may_set_cache: bool,
    /// An additional member for `_meta`, as JSON.
    meta: Option<String>,
}

pin_project! {
    /// A handler's future, and its outcome after the future is ready.
    struct HandlerWork<F, T> {
        #[pin]
        future: F,
        // The `Call` of the handler, if it takes one. Only a handler with a `Call` can ask questions.
        call: Option<Call>,
        format: ResultFormat,
        outcome: Option<Result<HandlerOutcome<T>, Failure>>,
    }
}

/// The outcome of a handler that did not fail.
enum HandlerOutcome<T> {
    Complete(T),
    InputRequired(InputRequired),
}

/// The questions that a handler needs answered before it can continue.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    input_requests: BTreeMap<String, QuestionMessage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<String>,
}

/// Boxes the future of a handler for the engine.
pub(super) fn serve<F, T>(future: F, call: Option<Call>, format: ResultFormat) -> BoxedHandler
where
    F: Future<Output = Result<T, Failure>> + Send + 'static,
    T: McpResult,
{
    Box::pin(HandlerWork { future, call, format, outcome: None })
}

/// Boxes a result that needs no handler.
pub(super) fn ready<T: McpResult>(result: T, format: ResultFormat) -> BoxedHandler {
    serve(std::future::ready(Ok(result)), None, format)
}

impl<F, T> StartedHandler for HandlerWork<F, T>
where
    F: Future<Output = Result<T, Failure>> + Send,
    T: McpResult,
{
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let outcome = match (this.future.poll(context), &*this.call) {
            (Poll::Ready(outcome), _) => outcome.map(HandlerOutcome::Complete),
            (Poll::Pending, None) => return Poll::Pending,
            (Poll::Pending, Some(call)) => match call.rounds().poll_interrupt(context.waker()) {
                None => return Poll::Pending,
                Some(Interrupt::MissingCapabilities(capabilities)) => {
                    missing_capabilities(&capabilities, this.format.revision)
                }
                Some(Interrupt::Input { questions, carried }) => {
                    let request_state = carried.map(|carried| call.seal(carried.as_bytes())).transpose();
                    let input_requests = questions.into_iter().collect();
                    request_state.map(|request_state| {
                        HandlerOutcome::InputRequired(InputRequired { input_requests, request_state })
                    })
                }
            },
        };
        *this.outcome = Some(outcome);
        Poll::Ready(())
    }

    fn answer(self: Pin<&mut Self>, reply: Reply<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let this = self.project();
        let (format, done) = (&*this.format, this.outcome.take().expect("`poll` has returned ready")?);
        let written = match done {
            HandlerOutcome::Complete(mut result) => {
                result.remove_unsupported(format.revision);
                let members = format.extra_members(&mut result);
                match members.as_deref() {
                    Some(members) => reply.serialize_with(out, members, &result),
                    None => reply.serialize(out, &result),
                }
            }
            HandlerOutcome::InputRequired(input) => reply.serialize_with(out, &format.shared.input_required, &input),
        };
        written.map_err(|(_, error)| Failure::unserializable(&error))
    }

    fn failure(self: Pin<&mut Self>) -> Option<Failure> {
        self.project().outcome.take().expect("`poll` has returned ready").err()
    }

    fn outcome(self: Pin<&mut Self>) -> Result<Raw, Failure> {
        let this = self.project();
        let (format, done) = (&*this.format, this.outcome.take().expect("`poll` has returned ready")?);
        let (value, members) = match done {
            HandlerOutcome::Complete(mut result) => {
                result.remove_unsupported(format.revision);
                let members = format.extra_members(&mut result);
                (serde_json::to_value(&result), members)
            }
            HandlerOutcome::InputRequired(input) => {
                (serde_json::to_value(&input), Some(format.shared.input_required.clone().into()))
            }
        };
        let whole = value.and_then(|mut value| {
            if let (Some(members), Value::Object(own)) = (members, &mut value) {
                own.extend(serde_json::from_str::<Meta>(&format!("{{{members}}}"))?);
            }
            Raw::of(&value)
        });
        whole.map_err(|error| Failure::unserializable(&error))
    }
}

impl ResultFormat {
    #[inline]
    pub(super) fn new(revision: Revision, shared: Arc<ServerShared>, cache: Option<CachePolicy>) -> Self {
        Self { revision, shared, cache, result_may_set_cache: true, meta: None }
    }

    /// Forbids caching, even if the result has its own cache policy.
    pub(super) fn uncached(mut self) -> Self {
        (self.cache, self.result_may_set_cache) = (self.cache.map(|_| CachePolicy::none()), false);
        self
    }

    /// Adds this member, given as JSON, to the `_meta` of the result.
    pub(super) fn with_meta(mut self, member: String) -> Self {
        self.meta = Some(member);
        self
    }

    /// Returns the JSON members to add to the result's own members, or `None` if no members are added.
    fn extra_members(&self, result: &mut impl McpResult) -> Option<Cow<'_, str>> {
        let (meta, own) = (result.take_meta(), result.take_cache());
        if !self.revision.has_result_type() {
            return meta.map(|meta| format!(r#""_meta":{}"#, meta_json(&meta)).into());
        }
        if meta.is_none() && self.meta.is_none() && self.cache.is_none() {
            return Some((&*self.shared.complete).into());
        }
        let mut members = match (meta, &self.meta) {
            (None, None) => self.shared.complete.clone(),
            (None, Some(more)) => {
                let info = &self.shared.info_json;
                format!(r#""resultType":"complete","_meta":{{"{}":{info},{more}}}"#, key::SERVER_INFO)
            }
            (Some(mut meta), _) => {
                meta.entry(key::SERVER_INFO).or_insert_with(|| self.shared.info_value());
                format!(r#""resultType":"complete","_meta":{}"#, meta_json(&meta))
            }
        };
        if let Some(cache) = self.cache {
            members.push_str(&own.filter(|_| self.result_may_set_cache).unwrap_or(cache).members());
        }
        Some(members.into())
    }
}

fn meta_json(meta: &Meta) -> String {
    serde_json::to_string(meta).expect("a map of JSON is JSON")
}

/// Returns the outcome of a call whose client lacks capabilities that the handler needs.
fn missing_capabilities<T: McpResult>(
    capabilities: &ClientCapabilities,
    revision: Revision,
) -> Result<HandlerOutcome<T>, Failure> {
    if !revision.is_modern() {
        return T::missing_capabilities(capabilities).map(HandlerOutcome::Complete);
    }
    Err(missing_capabilities_error(capabilities).into())
}

/// Returns the error for a modern client that lacks capabilities.
pub(super) fn missing_capabilities_error(capabilities: &ClientCapabilities) -> ErrorObject {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct MissingCapabilityData<'a> {
        required_capabilities: &'a ClientCapabilities,
    }
    let error = ErrorObject::new(code::MISSING_CLIENT_CAPABILITY, missing_capabilities_message(capabilities));
    error.with_data(&MissingCapabilityData { required_capabilities: capabilities })
}

fn missing_capabilities_message(capabilities: &ClientCapabilities) -> String {
    let needed = serde_json::to_string(capabilities).expect("capabilities are JSON");
    format!("Missing required client capability: {needed}")
}

impl McpResult for CallToolResult {
    fn remove_unsupported(&mut self, revision: Revision) {
        result::remove_unsupported(self, revision);
    }

    fn take_meta(&mut self) -> Option<Meta> {
        self.meta.take()
    }

    fn missing_capabilities(capabilities: &ClientCapabilities) -> Result<Self, Failure> {
        Ok(Self::error(missing_capabilities_message(capabilities)))
    }
}

impl McpResult for GetPromptResult {
    fn remove_unsupported(&mut self, revision: Revision) {
        for message in &mut self.messages {
            result::replace_unsupported(&mut message.content, revision);
        }
    }

    fn take_meta(&mut self) -> Option<Meta> {
        self.meta.take()
    }
}

macro_rules! mcp_results {
    ($($result:ty)*) => {$(
        impl McpResult for $result {
            fn take_meta(&mut self) -> Option<Meta> {
                self.meta.take()
            }
        }
    )*};
}

impl McpResult for ReadResourceResult {
    fn take_meta(&mut self) -> Option<Meta> {
        self.meta.take()
    }

    fn take_cache(&mut self) -> Option<CachePolicy> {
        let (time, scope) = (self.ttl_ms.take(), self.cache_scope.take());
        let is_set = time.is_some() || scope.is_some();
        let time = Duration::from_millis(time.unwrap_or_default());
        is_set.then(|| CachePolicy { time, scope: scope.unwrap_or(CacheScope::Private) })
    }
}

// These results need no `remove_unsupported`: they are created for the revision of the request.
mcp_results!(CompleteResult DiscoverResult InitializeResult);
mcp_results!(ListToolsResult ListPromptsResult ListResourcesResult ListResourceTemplatesResult);

/// A result without members of its own.
#[derive(Debug, Default, Serialize)]
pub(super) struct EmptyResult {}

impl McpResult for EmptyResult {
    fn take_meta(&mut self) -> Option<Meta> {
        None
    }
}
