//! What the other side may ask of us.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use barewire_proto::rpc::Params;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::raw::sealed::ReadParams as _;
use super::started_handler::{self, BoxedHandler, HandlerFuture};
use super::{Context, FromParams, IncomingParams, Raw, Service};
use crate::Failure;

/// The methods of a connection: a handler for each name. Requests and notifications are handled alike; what a handler
/// returns for a notification is not sent.
///
/// ```
/// use barewire::Failure;
/// use barewire::peer::{Context, MethodHandler, Methods, Next, Raw};
///
/// async fn divide(_: Context, (a, b): (f64, f64)) -> Result<f64, Failure> {
///     if b == 0.0 { Err(Failure::invalid_params("the second must not be zero")) } else { Ok(a / b) }
/// }
///
/// async fn hash(_: Context, (text,): (String,)) -> Result<u64, Failure> {
///     Ok(text.bytes().fold(0, |hash, byte| hash * 31 + u64::from(byte)))
/// }
///
/// let methods = Methods::new()
///     .on("divide", divide)
///     .on("hash", hash.blocking())      // takes its time without awaiting: on a thread of its own
///     .on("echo", |_: Context, params: Raw| async move { Ok(params) })
///     .wrap(|context: Context, params: Raw, next: Next| async move {
///         let outcome = next.run(context.clone(), params).await;
///         if outcome.is_err() { /* count it */ }
///         outcome
///     });
/// ```
#[derive(Clone, Default)]
pub struct Methods {
    table: HashMap<String, Arc<dyn Start>>,
    fallback: Option<Arc<dyn Start>>,
    wraps: Vec<Arc<Wrap>>,
}

impl Methods {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a method, or replaces it.
    #[must_use]
    pub fn on<M: 'static>(mut self, method: impl Into<String>, handler: impl MethodHandler<M>) -> Self {
        self.table.insert(method.into(), Arc::new(Erased::new(handler)));
        self
    }

    /// Handles what no other handler does. [`Context::method`] says what it is.
    #[must_use]
    pub fn fallback<M: 'static>(mut self, handler: impl MethodHandler<M>) -> Self {
        self.fallback = Some(Arc::new(Erased::new(handler)));
        self
    }

    /// Puts something around every handler, those added later included. The one that is added last is the outermost.
    #[must_use]
    pub fn wrap<W, F>(mut self, wrap: W) -> Self
    where
        W: Fn(Context, Raw, Next) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Raw, Failure>> + Send + 'static,
    {
        self.wraps.push(Arc::new(move |context, params, next| Box::pin(wrap(context, params, next))));
        self
    }

    /// The methods with everything that is around them, ready to be looked up.
    pub(crate) fn finish(mut self) -> Table {
        for wrap in std::mem::take(&mut self.wraps) {
            let around = |inner: Arc<dyn Start>| -> Arc<dyn Start> {
                Arc::new(Wrapped { wrap: Arc::clone(&wrap), next: inner })
            };
            self.table = self.table.into_iter().map(|(name, inner)| (name, around(inner))).collect();
            self.fallback = self.fallback.map(around);
        }
        let table = self.table.into_iter().map(|(name, handler)| (name.into(), handler)).collect();
        Table { table, fallback: self.fallback, last: None }
    }
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Methods").field("names", &self.table.keys()).finish_non_exhaustive()
    }
}

/// The methods as the engine sees them.
pub(crate) struct Table {
    table: HashMap<Arc<str>, Arc<dyn Start>>,
    fallback: Option<Arc<dyn Start>>,
    /// What was looked up last: it is often the next as well, and comparing a name is cheaper than hashing it.
    last: Option<(Arc<str>, Arc<dyn Start>)>,
}

impl Service for Table {
    #[inline]
    fn start(&mut self, context: Context, params: IncomingParams<'_>) -> Result<BoxedHandler, Failure> {
        match self.find(context.method()) {
            Some(handler) => handler.start(context, params.written),
            None => Err(Failure::method_not_found()),
        }
    }
}

impl Table {
    #[inline]
    fn find(&mut self, method: &str) -> Option<&Arc<dyn Start>> {
        if self.last.as_ref().is_none_or(|(name, _)| **name != *method) {
            let Some((name, found)) = self.table.get_key_value(method) else { return self.fallback.as_ref() };
            self.last = Some((Arc::clone(name), Arc::clone(found)));
        }
        self.last.as_ref().map(|(_, found)| found)
    }
}

/// An async function or closure of (context, params), or one that is [`Self::blocking`].
///
/// `M` is there for the compiler, to tell one kind of function from another.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of a method",
    label = "not a handler",
    note = "a handler is an async function or closure that takes a `Context` and its params in this order, and returns \
            `Result<T, Failure>` where `T` can be serialized",
    note = "the params are one type that derives `Deserialize`; several of them are its fields, or a tuple"
)]
pub trait MethodHandler<M>: Send + Sync + 'static {
    /// What it takes.
    type Params: FromParams;
    /// What it gives.
    type Result: Serialize + Send + 'static;
    /// What it is while it runs.
    type Future: Future<Output = Result<Self::Result, Failure>> + Send + 'static;

    /// Starts it.
    fn start(&self, context: Context, params: Self::Params) -> Self::Future;

    /// The same handler on a thread of its own: for one that computes or blocks, and would keep everything else on its
    /// connection waiting.
    fn blocking(self) -> Blocking<Self>
    where
        Self: Sized,
    {
        Blocking { handler: Arc::new(self), threads: Arc::new(Semaphore::new(THREADS)) }
    }
}

/// Tells a plain function from others.
#[derive(Debug)]
pub struct FunctionMarker<P>(std::marker::PhantomData<P>);

impl<H, P, T, F> MethodHandler<FunctionMarker<P>> for H
where
    H: Fn(Context, P) -> F + Send + Sync + 'static,
    P: FromParams,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Serialize + Send + 'static,
{
    type Params = P;
    type Result = T;
    type Future = F;

    #[inline]
    fn start(&self, context: Context, params: P) -> F {
        self(context, params)
    }
}

/// A handler that runs on a thread of its own. See [`MethodHandler::blocking`].
#[derive(Debug)]
pub struct Blocking<H> {
    handler: Arc<H>,
    /// What has begun on a thread goes on there when it is cancelled, and is no longer in flight. So it is counted here.
    threads: Arc<Semaphore>,
}

/// Tells a blocking handler from others.
#[derive(Debug)]
pub struct BlockingMarker<M>(std::marker::PhantomData<M>);

impl<H, M> MethodHandler<BlockingMarker<M>> for Blocking<H>
where
    H: MethodHandler<M>,
    H::Params: Send + 'static,
{
    type Params = H::Params;
    type Result = H::Result;
    type Future = Pin<Box<dyn Future<Output = Result<H::Result, Failure>> + Send>>;

    fn start(&self, context: Context, params: H::Params) -> Self::Future {
        let (handler, threads) = (Arc::clone(&self.handler), Arc::clone(&self.threads));
        let runtime = tokio::runtime::Handle::current();
        Box::pin(async move {
            let thread = threads.acquire_owned().await;
            let run = move || {
                let _thread = thread;
                runtime.block_on(handler.start(context, params))
            };
            match tokio::task::spawn_blocking(run).await {
                Ok(outcome) => outcome,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(Failure::internal("cancelled", "the runtime is shutting down")),
                },
            }
        })
    }
}

/// A handler of any type.
trait Start: Send + Sync {
    /// Reads the params and starts the handler. It has done nothing yet: the first poll begins.
    fn start(&self, context: Context, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure>;
}

struct Erased<H, M> {
    handler: H,
    kind: std::marker::PhantomData<fn() -> M>,
}

impl<H: MethodHandler<M>, M> Erased<H, M> {
    fn new(handler: H) -> Self {
        Self { handler, kind: std::marker::PhantomData }
    }
}

impl<H: MethodHandler<M>, M> Start for Erased<H, M> {
    #[inline]
    fn start(&self, context: Context, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
        let params = H::Params::read_params(params)?;
        Ok(HandlerFuture::boxed(self.handler.start(context, params)))
    }
}

type Wrap = dyn Fn(Context, Raw, Next) -> BoxedOutcome + Send + Sync;
type BoxedOutcome = Pin<Box<dyn Future<Output = Result<Raw, Failure>> + Send>>;

struct Wrapped {
    wrap: Arc<Wrap>,
    next: Arc<dyn Start>,
}

impl Start for Wrapped {
    fn start(&self, context: Context, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
        let next = Next(Arc::clone(&self.next));
        Ok(HandlerFuture::boxed((self.wrap)(context, Raw::from_params(params), next)))
    }
}

/// What a wrap is around: the next one, or the handler itself.
pub struct Next(Arc<dyn Start>);

impl Next {
    /// Runs it.
    pub async fn run(self, context: Context, params: Raw) -> Result<Raw, Failure> {
        let work = params.with_params(|params| self.0.start(context, params))?;
        let mut work = started_handler::run(work).await?;
        work.as_mut().outcome()
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Next")
    }
}

/// As many threads as tokio has for all that blocks, unless it is told otherwise: more would only wait for one.
const THREADS: usize = 512;
