//! A handler of MCP at work: its future behind what the engine polls, and its outcome on the way out, as the client's
//! revision has it.

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

use super::rounds::{Asked, Interrupt};
use super::{Cache, Call, Shared, result};
use crate::Failure;
use crate::peer::{BoxedHandler, Raw, StartedHandler};

/// A result of a method of MCP.
pub(super) trait Answer: Serialize + Send + 'static {
    /// Leaves out what a revision does not have.
    fn fit(&mut self, revision: Revision) {
        let _ = revision;
    }

    /// What is to stand in its `_meta`, which is written by whoever writes the rest of that.
    fn take_meta(&mut self) -> Option<Meta>;

    /// For how long it says itself that it may be kept.
    fn take_cache(&mut self) -> Option<Cache> {
        None
    }

    /// What becomes of a legacy call whose client cannot be asked: an error, unless a result can say it.
    fn lacking(capabilities: &ClientCapabilities) -> Result<Self, Failure>
    where
        Self: Sized,
    {
        Err(ErrorObject::new(Code::INVALID_REQUEST, lacks(capabilities)).into())
    }
}

/// How a result is written.
pub(super) struct Style {
    revision: Revision,
    shared: Arc<Shared>,
    /// For how long it may be kept, if results of its kind may.
    cache: Option<Cache>,
    /// Whether the result may say that itself.
    may_cache: bool,
    /// What stands in its `_meta` besides the server's name, written.
    meta: Option<String>,
}

pin_project! {
    /// A future of a handler, and what came of it.
    struct Serving<F, T> {
        #[pin]
        future: F,
        // What the handler was given, if it can ask.
        call: Option<Call>,
        style: Style,
        outcome: Option<Result<Done<T>, Failure>>,
    }
}

/// How a handler ended.
enum Done<T> {
    Complete(T),
    InputRequired(InputRequired),
}

/// What a handler wants to know before it can go on.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    input_requests: BTreeMap<String, Asked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<String>,
}

/// A handler that is still to run.
pub(super) fn serve<F, T>(future: F, call: Option<Call>, style: Style) -> BoxedHandler
where
    F: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Answer,
{
    Box::pin(Serving { future, call, style, outcome: None })
}

/// A result that is there already.
pub(super) fn ready<T: Answer>(result: T, style: Style) -> BoxedHandler {
    serve(std::future::ready(Ok(result)), None, style)
}

impl<F, T> StartedHandler for Serving<F, T>
where
    F: Future<Output = Result<T, Failure>> + Send,
    T: Answer,
{
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let outcome = match (this.future.poll(context), &*this.call) {
            (Poll::Ready(outcome), _) => outcome.map(Done::Complete),
            (Poll::Pending, None) => return Poll::Pending,
            (Poll::Pending, Some(call)) => match call.rounds().interrupt(context.waker()) {
                None => return Poll::Pending,
                Some(Interrupt::Lacks(capabilities)) => lacking(&capabilities, this.style.revision),
                Some(Interrupt::Input { questions, kept }) => {
                    let request_state = kept.map(|kept| call.seal(kept.as_bytes())).transpose();
                    let input_requests = questions.into_iter().collect();
                    request_state
                        .map(|request_state| Done::InputRequired(InputRequired { input_requests, request_state }))
                }
            },
        };
        *this.outcome = Some(outcome);
        Poll::Ready(())
    }

    fn answer(self: Pin<&mut Self>, reply: Reply<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let this = self.project();
        let (style, done) = (&*this.style, this.outcome.take().expect("polled until it was ready")?);
        let written = match done {
            Done::Complete(mut result) => {
                result.fit(style.revision);
                let members = style.members(&mut result);
                match members.as_deref() {
                    Some(members) => reply.serialize_with(out, members, &result),
                    None => reply.serialize(out, &result),
                }
            }
            Done::InputRequired(input) => reply.serialize_with(out, &style.shared.input_required, &input),
        };
        written.map_err(|(_, error)| Failure::unserializable(&error))
    }

    fn failure(self: Pin<&mut Self>) -> Option<Failure> {
        self.project().outcome.take().expect("polled until it was ready").err()
    }

    fn outcome(self: Pin<&mut Self>) -> Result<Raw, Failure> {
        let this = self.project();
        let (style, done) = (&*this.style, this.outcome.take().expect("polled until it was ready")?);
        let (value, members) = match done {
            Done::Complete(mut result) => {
                result.fit(style.revision);
                let members = style.members(&mut result);
                (serde_json::to_value(&result), members)
            }
            Done::InputRequired(input) => {
                (serde_json::to_value(&input), Some(style.shared.input_required.clone().into()))
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

impl Style {
    #[inline]
    pub(super) fn new(revision: Revision, shared: Arc<Shared>, cache: Option<Cache>) -> Self {
        Self { revision, shared, cache, may_cache: true, meta: None }
    }

    /// Not to be kept, whatever the result says.
    pub(super) fn uncached(mut self) -> Self {
        (self.cache, self.may_cache) = (self.cache.map(|_| Cache::none()), false);
        self
    }

    /// With this member in its `_meta`, written.
    pub(super) fn with_meta(mut self, member: String) -> Self {
        self.meta = Some(member);
        self
    }

    /// The members that a result has beside its own, written; `None` if there are none.
    fn members(&self, result: &mut impl Answer) -> Option<Cow<'_, str>> {
        let (meta, own) = (result.take_meta(), result.take_cache());
        if !self.revision.has_result_type() {
            return meta.map(|meta| format!(r#""_meta":{}"#, json(&meta)).into());
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
                format!(r#""resultType":"complete","_meta":{}"#, json(&meta))
            }
        };
        if let Some(cache) = self.cache {
            members.push_str(&own.filter(|_| self.may_cache).unwrap_or(cache).members());
        }
        Some(members.into())
    }
}

fn json(meta: &Meta) -> String {
    serde_json::to_string(meta).expect("a map of JSON is JSON")
}

/// The client cannot be asked what the handler needs to know.
fn lacking<T: Answer>(capabilities: &ClientCapabilities, revision: Revision) -> Result<Done<T>, Failure> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data<'a> {
        required_capabilities: &'a ClientCapabilities,
    }
    if !revision.is_modern() {
        return T::lacking(capabilities).map(Done::Complete);
    }
    let error = ErrorObject::new(code::MISSING_CLIENT_CAPABILITY, lacks(capabilities));
    Err(error.with_data(&Data { required_capabilities: capabilities }).into())
}

fn lacks(capabilities: &ClientCapabilities) -> String {
    let needed = serde_json::to_string(capabilities).expect("capabilities are JSON");
    format!("Missing required client capability: {needed}")
}

impl Answer for CallToolResult {
    fn fit(&mut self, revision: Revision) {
        result::fit(self, revision);
    }

    fn take_meta(&mut self) -> Option<Meta> {
        self.meta.take()
    }

    fn lacking(capabilities: &ClientCapabilities) -> Result<Self, Failure> {
        Ok(Self::error(lacks(capabilities)))
    }
}

impl Answer for GetPromptResult {
    fn fit(&mut self, revision: Revision) {
        for message in &mut self.messages {
            result::fit_content(&mut message.content, revision);
        }
    }

    fn take_meta(&mut self) -> Option<Meta> {
        self.meta.take()
    }
}

macro_rules! answers {
    ($($answer:ty)*) => {$(
        impl Answer for $answer {
            fn take_meta(&mut self) -> Option<Meta> {
                self.meta.take()
            }
        }
    )*};
}

impl Answer for ReadResourceResult {
    fn take_meta(&mut self) -> Option<Meta> {
        self.meta.take()
    }

    fn take_cache(&mut self) -> Option<Cache> {
        let (time, scope) = (self.ttl_ms.take(), self.cache_scope.take());
        let says = time.is_some() || scope.is_some();
        let time = Duration::from_millis(time.unwrap_or_default());
        says.then(|| Cache { time, scope: scope.unwrap_or(CacheScope::Private) })
    }
}

// What these hold is fitted to the revision where they are made.
answers!(CompleteResult DiscoverResult InitializeResult);
answers!(ListToolsResult ListPromptsResult ListResourcesResult ListResourceTemplatesResult);

/// A result that says no more than that it is done.
#[derive(Debug, Default, Serialize)]
pub(super) struct Empty {}

impl Answer for Empty {
    fn take_meta(&mut self) -> Option<Meta> {
        None
    }
}
