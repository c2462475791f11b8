//! Layers: functions that wrap every tool call, prompt and resource read. The first layer wraps the second, and so on;
//! the last one wraps the handler.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use barewire_proto::mcp::{CallToolResult, GetPromptResult, ReadResourceResult};
use barewire_proto::rpc::{Code, ErrorObject};

use super::handler_work::{McpResult, ResultFormat, serve};
use super::{Call, IncomingRequest, Prompt, ProtocolError, Resource, Template, Tool};
use crate::Failure;
use crate::peer::BoxedHandler;

/// An async function or closure that wraps every tool call, prompt and resource read. It takes an [`Invocation`] and
/// the [`NextLayer`], and returns the result of the next layer or a result of its own. See
/// [`Server::layer`](super::Server::layer).
///
/// All functions and closures with this signature implement the trait. A function that returns a layer can use the
/// trait as its return type: `fn rate_limit(calls: u32) -> impl Layer`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer",
    label = "not a layer",
    note = "a layer is an async function or closure that takes an `Invocation` and a `NextLayer`, and returns \
            `Result<InvocationResult, ProtocolError>`"
)]
pub trait Layer: Fn(Invocation, NextLayer) -> <Self as Layer>::Future + Send + Sync + 'static {
    /// The future that the layer returns.
    type Future: Future<Output = Result<InvocationResult, ProtocolError>> + Send + 'static;
}

impl<L, F> Layer for L
where
    L: Fn(Invocation, NextLayer) -> F + Send + Sync + 'static,
    F: Future<Output = Result<InvocationResult, ProtocolError>> + Send + 'static,
{
    type Future = F;
}

/// One tool call, prompt request or resource read, as a layer receives it.
#[derive(Debug)]
pub struct Invocation {
    call: Call,
    kind: InvocationKind,
}

/// The kind of an [`Invocation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvocationKind {
    /// `tools/call`.
    Tool,
    /// `prompts/get`.
    Prompt,
    /// `resources/read`.
    Resource,
}

/// The result of an [`Invocation`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum InvocationResult {
    /// The result of a tool. The result can report that the tool failed.
    Tool(CallToolResult),
    /// The result of a prompt.
    Prompt(GetPromptResult),
    /// The result of a resource read.
    Resource(ReadResourceResult),
}

/// The rest of the chain: the layers that the current layer wraps, and the handler.
pub struct NextLayer {
    layers: Layers,
    /// The index of the next layer. If there is no layer at this index, the handler is next.
    index: usize,
    entry: InvocationTarget,
}

/// The layers of a server, the outermost first.
#[derive(Clone, Default)]
pub(super) struct Layers(Arc<Vec<Arc<BoxedLayer>>>);

type BoxedLayer = dyn Fn(Invocation, NextLayer) -> ResultFuture<InvocationResult, ProtocolError> + Send + Sync;

/// The future of a running handler or layer.
pub(super) type ResultFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The tool, prompt or resource whose handler the last layer wraps.
pub(super) enum InvocationTarget {
    Tool(Arc<Tool>),
    Prompt(Arc<Prompt>),
    Resource(Arc<Resource>),
    Template(Arc<Template>),
}

impl Invocation {
    /// Returns the kind of the invocation: a tool call, a prompt request or a resource read.
    pub fn kind(&self) -> InvocationKind {
        self.kind
    }

    /// Returns the name of the tool or the prompt, or the URI of the resource.
    pub fn name(&self) -> &str {
        self.call.name()
    }

    /// Returns the arguments as the client wrote them. They have not been checked against the schema yet. Resource
    /// reads have no arguments.
    pub fn arguments(&self) -> Option<&str> {
        self.call.arguments_json()
    }

    /// Returns the [`Call`], with which a layer can do everything that a handler can do, such as ask the user or log.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// Creates a refusal, which a layer returns instead of running the next layer. For a tool, the refusal is a result
    /// with `isError`, which the model reads. For a prompt or a resource, the refusal is the error -32600, because
    /// their results cannot report a failure.
    pub fn refuse(&self, why: impl Into<String>) -> Result<InvocationResult, ProtocolError> {
        match self.kind {
            InvocationKind::Tool => Ok(InvocationResult::Tool(CallToolResult::error(why.into()))),
            InvocationKind::Prompt | InvocationKind::Resource => {
                Err(ProtocolError(ErrorObject::new(Code::INVALID_REQUEST, why.into()).into()))
            }
        }
    }
}

impl InvocationResult {
    /// Whether this is the result of a tool that failed.
    pub fn is_tool_error(&self) -> bool {
        matches!(self, Self::Tool(result) if result.is_error)
    }
}

impl NextLayer {
    /// Runs the next layers and the handler, and returns their result. A panic of the handler is returned as a protocol
    /// error.
    ///
    /// When the handler asks a modern client a question, this future never resolves: the layer and the handler are
    /// dropped, and both run again when the client sends the answer.
    pub async fn run(self, invocation: Invocation) -> Result<InvocationResult, ProtocolError> {
        let Self { layers, index, entry } = self;
        match layers.0.get(index).map(Arc::clone) {
            Some(layer) => layer(invocation, Self { layers, index: index + 1, entry }).await,
            None => entry.run(invocation.call).await.map_err(ProtocolError),
        }
    }
}

impl Layers {
    pub(super) fn add<L, F>(&mut self, layer: L)
    where
        L: Fn(Invocation, NextLayer) -> F + Send + Sync + 'static,
        F: Future<Output = Result<InvocationResult, ProtocolError>> + Send + 'static,
    {
        let boxed = move |invocation, next| -> ResultFuture<_, _> { Box::pin(layer(invocation, next)) };
        Arc::make_mut(&mut self.0).push(Arc::new(boxed));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl InvocationTarget {
    fn kind(&self) -> InvocationKind {
        match self {
            Self::Tool(_) => InvocationKind::Tool,
            Self::Prompt(_) => InvocationKind::Prompt,
            Self::Resource(_) | Self::Template(_) => InvocationKind::Resource,
        }
    }

    async fn run(self, call: Call) -> Result<InvocationResult, Failure> {
        let mut handler = Box::pin(async move {
            match self {
                Self::Tool(tool) => tool.run_layered(&call).await.map(InvocationResult::Tool),
                Self::Prompt(prompt) => prompt.run_layered(&call).await.map(InvocationResult::Prompt),
                Self::Resource(resource) => resource.run_layered(&call).await.map(InvocationResult::Resource),
                Self::Template(template) => template.run_layered(&call).await.map(InvocationResult::Resource),
            }
        });
        let done = poll_fn(|context| match Failure::catch(|| handler.as_mut().poll(context)) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        });
        match done.await {
            Ok(outcome) => outcome,
            Err(panic) => {
                // Dropping a handler that panicked may panic again.
                let _ = Failure::catch(|| drop(handler));
                Err(panic)
            }
        }
    }
}

/// Starts the outermost layer around a handler.
pub(super) fn serve_layered<T: LayerResult>(
    request: &IncomingRequest<'_>,
    entry: InvocationTarget,
    format: ResultFormat,
) -> Result<BoxedHandler, Failure> {
    start_layered_as::<T>(request, entry, format).map(|(_, work)| work)
}

/// Starts the layers, if there are any, around the handler of a tool. Returns its [`Call`] too.
pub(super) fn start_layered(
    request: &IncomingRequest<'_>,
    entry: InvocationTarget,
    format: ResultFormat,
) -> Result<(Call, BoxedHandler), Failure> {
    start_layered_as::<CallToolResult>(request, entry, format)
}

fn start_layered_as<T: LayerResult>(
    request: &IncomingRequest<'_>,
    entry: InvocationTarget,
    format: ResultFormat,
) -> Result<(Call, BoxedHandler), Failure> {
    let call = Call::new(request)?;
    let invocation = Invocation { call: call.clone(), kind: entry.kind() };
    let next = NextLayer { layers: request.shared.settings.layers.clone(), index: 0, entry };
    let outcome = async move {
        let served = next.run(invocation).await?;
        T::from_invocation_result(served)
            .ok_or_else(|| Failure::internal("Layer", "a layer returned a result of another kind than the request"))
    };
    let work = serve(outcome, Some(call.clone()), format);
    Ok((call, work))
}

/// A type of result that an [`InvocationResult`] can hold.
pub(super) trait LayerResult: McpResult {
    fn from_invocation_result(served: InvocationResult) -> Option<Self>
    where
        Self: Sized;
}

macro_rules! layer_results {
    ($($kind:ident $result:ty)*) => {$(
        impl LayerResult for $result {
            fn from_invocation_result(served: InvocationResult) -> Option<Self> {
                match served {
                    InvocationResult::$kind(result) => Some(result),
                    _ => None,
                }
            }
        }
    )*};
}

layer_results!(Tool CallToolResult Prompt GetPromptResult Resource ReadResourceResult);

impl fmt::Debug for NextLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextLayer").field("layers", &self.layers).finish_non_exhaustive()
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layers({})", self.0.len())
    }
}
