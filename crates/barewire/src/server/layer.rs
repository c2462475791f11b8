//! Layers: a tool call, a prompt or a reading of a resource -> functions around it, one inside the other -> its handler.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use barewire_proto::mcp::{CallToolResult, GetPromptResult, ReadResourceResult};
use barewire_proto::rpc::{Code, ErrorObject};

use super::serving::{Answer, Style, serve};
use super::{Call, Calling, Prompt, ProtocolError, Resource, Template, Tool};
use crate::Failure;
use crate::peer::BoxedHandler;

/// An async function or closure around every tool call, prompt and reading of a resource: it takes an [`Invocation`] and the
/// [`NextLayer`], and gives what that gives, or something of its own. See [`Server::layer`](super::Server::layer).
///
/// Every such function is one; the trait is there to be returned: `fn rate_limit(calls: u32) -> impl Layer`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer",
    label = "not a layer",
    note = "a layer is an async function or closure that takes an `Invocation` and a `NextLayer`, and returns \
            `Result<Served, ProtocolError>`"
)]
pub trait Layer: Fn(Invocation, NextLayer) -> <Self as Layer>::Future + Send + Sync + 'static {
    /// The layer while it runs.
    type Future: Future<Output = Result<Served, ProtocolError>> + Send + 'static;
}

impl<L, F> Layer for L
where
    L: Fn(Invocation, NextLayer) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Served, ProtocolError>> + Send + 'static,
{
    type Future = F;
}

/// One tool call, prompt or reading of a resource, on its way through the layers.
#[derive(Debug)]
pub struct Invocation {
    call: Call,
    kind: InvocationKind,
}

/// The kinds of entries whose handlers layers are around.
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

/// The result of an [`Invocation`], of its kind.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Served {
    /// Of a tool, which may say that it failed.
    Tool(CallToolResult),
    /// Of a prompt.
    Prompt(GetPromptResult),
    /// Of a resource.
    Resource(ReadResourceResult),
}

/// The layers inside of this one, and the handler in the middle.
pub struct NextLayer {
    layers: Layers,
    /// The number of the layer that is next; the handler comes after the last.
    index: usize,
    entry: Entry,
}

/// The layers of a server, the outermost first.
#[derive(Clone, Default)]
pub(super) struct Layers(Arc<Vec<Arc<BoxedLayer>>>);

type BoxedLayer = dyn Fn(Invocation, NextLayer) -> BoxedOutcome<Served, ProtocolError> + Send + Sync;

/// A handler, or a layer, at work.
pub(super) type BoxedOutcome<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The tool, prompt or resource whose handler is in the middle.
pub(super) enum Entry {
    Tool(Arc<Tool>),
    Prompt(Arc<Prompt>),
    Resource(Arc<Resource>),
    Template(Arc<Template>),
}

impl Invocation {
    /// Whether it is a tool, a prompt or a resource.
    pub fn kind(&self) -> InvocationKind {
        self.kind
    }

    /// The name of the tool or the prompt, or the URI of the resource.
    pub fn name(&self) -> &str {
        self.call.name()
    }

    /// The arguments as the client wrote them: JSON that has not been checked by the schema yet. A resource has none.
    pub fn arguments(&self) -> Option<&str> {
        self.call.arguments_json()
    }

    /// The call, with the client behind it. A layer can do with it what a handler can: ask the user, or log.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The answer of a layer that does not let it through: a tool's result with `isError`, which the model reads; the error
    /// -32600 for a prompt or a resource, because their results cannot say so.
    pub fn refuse(&self, why: impl Into<String>) -> Result<Served, ProtocolError> {
        match self.kind {
            InvocationKind::Tool => Ok(Served::Tool(CallToolResult::error(why.into()))),
            InvocationKind::Prompt | InvocationKind::Resource => {
                Err(ProtocolError(ErrorObject::new(Code::INVALID_REQUEST, why.into()).into()))
            }
        }
    }
}

impl Served {
    /// Whether it is the result of a tool that failed.
    pub fn is_tool_error(&self) -> bool {
        matches!(self, Self::Tool(result) if result.is_error)
    }
}

impl NextLayer {
    /// Runs what is inside of this layer. A handler that panics is an error of the protocol here.
    ///
    /// In the modern era a handler that asks something ends here: this never returns, the layer is dropped, and it runs again
    /// in the next round.
    pub async fn run(self, invocation: Invocation) -> Result<Served, ProtocolError> {
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
        F: Future<Output = Result<Served, ProtocolError>> + Send + 'static,
    {
        let boxed = move |invocation, next| -> BoxedOutcome<_, _> { Box::pin(layer(invocation, next)) };
        Arc::make_mut(&mut self.0).push(Arc::new(boxed));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Entry {
    fn kind(&self) -> InvocationKind {
        match self {
            Self::Tool(_) => InvocationKind::Tool,
            Self::Prompt(_) => InvocationKind::Prompt,
            Self::Resource(_) | Self::Template(_) => InvocationKind::Resource,
        }
    }

    /// Runs the handler.
    async fn run(self, call: Call) -> Result<Served, Failure> {
        let mut handler = Box::pin(async move {
            match self {
                Self::Tool(tool) => tool.outcome(&call).await.map(Served::Tool),
                Self::Prompt(prompt) => prompt.outcome(&call).await.map(Served::Prompt),
                Self::Resource(resource) => resource.outcome(&call).await.map(Served::Resource),
                Self::Template(template) => template.outcome(&call).await.map(Served::Resource),
            }
        });
        let done = poll_fn(|context| match Failure::catch(|| handler.as_mut().poll(context)) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        });
        match done.await {
            Ok(outcome) => outcome,
            Err(panic) => {
                // What a panic has left of it may panic once more.
                let _ = Failure::catch(|| drop(handler));
                Err(panic)
            }
        }
    }
}

/// Starts the outermost layer around a handler.
pub(super) fn serve_layered<T: LayerResult>(
    calling: &Calling<'_>,
    entry: Entry,
    style: Style,
) -> Result<BoxedHandler, Failure> {
    let call = Call::new(calling)?;
    let invocation = Invocation { call: call.clone(), kind: entry.kind() };
    let next = NextLayer { layers: calling.shared.settings.layers.clone(), index: 0, entry };
    let outcome = async move {
        let served = next.run(invocation).await?;
        T::from_served(served)
            .ok_or_else(|| Failure::internal("Layer", "a layer returned the result of another kind of entry"))
    };
    Ok(serve(outcome, Some(call), style))
}

/// A result that layers give.
pub(super) trait LayerResult: Answer {
    fn from_served(served: Served) -> Option<Self>
    where
        Self: Sized;
}

macro_rules! layer_results {
    ($($kind:ident $result:ty)*) => {$(
        impl LayerResult for $result {
            fn from_served(served: Served) -> Option<Self> {
                match served {
                    Served::$kind(result) => Some(result),
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
