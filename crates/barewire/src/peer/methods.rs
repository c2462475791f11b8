//! The methods that the peer can call: a handler for each name.

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

/// The methods of a connection: a handler for each name. Requests and notifications are handled in the same way; the
/// result of a notification's handler is dropped.
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
///     .on("hash", hash.blocking())      // computes for a while without awaiting: runs on its own thread
///     .on("echo", |_: Context, params: Raw| async move { Ok(params) })
///     .wrap(|context: Context, params: Raw, next: Next| async move {
///         let outcome = next.run(context.clone(), params).await;
///         if outcome.is_err() { /* count it */ }
///         outcome
///     });
/// ```
#[derive(Clone, Default)]
pub struct Methods {
    table: HashMap<String, Arc<dyn ErasedMethod>>,
    fallback: Option<Arc<dyn ErasedMethod>>,
    wraps: Vec<Arc<WrapFn>>,
}

impl Methods {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a method. An earlier method with the same name is replaced.
    #[must_use]
    pub fn on<M: 'static>(mut self, method: impl Into<String>, handler: impl MethodHandler<M>) -> Self {
        self.table.insert(method.into(), Arc::new(TypedMethod::new(handler)));
        self
    }

    /// Sets the handler for all methods that have no other handler. [`Context::method`] returns the method's name.
    #[must_use]
    pub fn fallback<M: 'static>(mut self, handler: impl MethodHandler<M>) -> Self {
        self.fallback = Some(Arc::new(TypedMethod::new(handler)));
        self
    }

    /// Wraps every handler, including handlers that are added later. The wrapper that is added last is the outermost.
    #[must_use]
    pub fn wrap<W, F>(mut self, wrap: W) -> Self
    where
        W: Fn(Context, Raw, Next) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Raw, Failure>> + Send + 'static,
    {
        self.wraps.push(Arc::new(move |context, params, next| Box::pin(wrap(context, params, next))));
        self
    }

    /// Returns the table of all methods, with the wrappers applied.
    pub(crate) fn finish(mut self) -> MethodTable {
        for wrap in std::mem::take(&mut self.wraps) {
            let around = |inner: Arc<dyn ErasedMethod>| -> Arc<dyn ErasedMethod> {
                Arc::new(WrappedMethod { wrap: Arc::clone(&wrap), next: inner })
            };
            self.table = self.table.into_iter().map(|(name, inner)| (name, around(inner))).collect();
            self.fallback = self.fallback.map(around);
        }
        let table = self.table.into_iter().map(|(name, handler)| (name.into(), handler)).collect();
        MethodTable { table, fallback: self.fallback, last: None }
    }
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Methods").field("names", &self.table.keys()).finish_non_exhaustive()
    }
}

/// The table of a connection's methods.
pub(crate) struct MethodTable {
    table: HashMap<Arc<str>, Arc<dyn ErasedMethod>>,
    fallback: Option<Arc<dyn ErasedMethod>>,
    /// The method that was looked up last. The next message often has the same method, and comparing a name is cheaper
    /// than hashing it.
    last: Option<(Arc<str>, Arc<dyn ErasedMethod>)>,
}

impl Service for MethodTable {
    #[inline]
    fn start(&mut self, context: Context, params: IncomingParams<'_>) -> Result<BoxedHandler, Failure> {
        match self.find(context.method()) {
            Some(handler) => handler.start(context, params.written),
            None => Err(Failure::method_not_found()),
        }
    }
}

impl MethodTable {
    #[inline]
    fn find(&mut self, method: &str) -> Option<&Arc<dyn ErasedMethod>> {
        if self.last.as_ref().is_none_or(|(name, _)| **name != *method) {
            let Some((name, found)) = self.table.get_key_value(method) else { return self.fallback.as_ref() };
            self.last = Some((Arc::clone(name), Arc::clone(found)));
        }
        self.last.as_ref().map(|(_, found)| found)
    }
}

/// A handler of a method: an async function or closure that takes a [`Context`] and the params, or a value that
/// [`Self::blocking`] returned.
///
/// `M` is a marker type that lets the compiler distinguish the kinds of handlers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of a method",
    label = "not a handler",
    note = "a handler is an async function or closure that takes a `Context` and its params in this order, and returns \
            `Result<T, Failure>` where `T` can be serialized",
    note = "the params are one type that implements `Deserialize`: a struct with a field for each parameter, or a tuple"
)]
pub trait MethodHandler<M>: Send + Sync + 'static {
    /// The type of the parameters.
    type Params: FromParams;
    /// The type of the result.
    type Result: Serialize + Send + 'static;
    /// The future of the handler.
    type Future: Future<Output = Result<Self::Result, Failure>> + Send + 'static;

    /// Creates the future that runs the handler.
    fn start(&self, context: Context, params: Self::Params) -> Self::Future;

    /// Runs the handler on a separate thread. Use this for handlers that block or compute for a long time, because they
    /// would delay everything else on the connection.
    fn blocking(self) -> Blocking<Self>
    where
        Self: Sized,
    {
        Blocking { handler: Arc::new(self), threads: Arc::new(Semaphore::new(MAX_BLOCKING_THREADS)) }
    }
}

/// The marker type of handlers that are plain functions or closures.
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

/// A handler that runs on a separate thread. See [`MethodHandler::blocking`].
#[derive(Debug)]
pub struct Blocking<H> {
    handler: Arc<H>,
    /// Limits the number of threads. The limit on requests in flight is not enough: a cancelled request is no longer in
    /// flight, but its thread still runs.
    threads: Arc<Semaphore>,
}

/// The marker type of blocking handlers.
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

/// A handler whose parameter and result types are erased.
trait ErasedMethod: Send + Sync {
    /// Deserializes the params and creates the handler's future. The handler runs when the future is polled.
    fn start(&self, context: Context, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure>;
}

struct TypedMethod<H, M> {
    handler: H,
    kind: std::marker::PhantomData<fn() -> M>,
}

impl<H: MethodHandler<M>, M> TypedMethod<H, M> {
    fn new(handler: H) -> Self {
        Self { handler, kind: std::marker::PhantomData }
    }
}

impl<H: MethodHandler<M>, M> ErasedMethod for TypedMethod<H, M> {
    #[inline]
    fn start(&self, context: Context, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
        let params = H::Params::read_params(params)?;
        Ok(HandlerFuture::boxed(self.handler.start(context, params)))
    }
}

type WrapFn = dyn Fn(Context, Raw, Next) -> WrapFuture + Send + Sync;
type WrapFuture = Pin<Box<dyn Future<Output = Result<Raw, Failure>> + Send>>;

struct WrappedMethod {
    wrap: Arc<WrapFn>,
    next: Arc<dyn ErasedMethod>,
}

impl ErasedMethod for WrappedMethod {
    fn start(&self, context: Context, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
        let next = Next(Arc::clone(&self.next));
        Ok(HandlerFuture::boxed((self.wrap)(context, Raw::from_params(params), next)))
    }
}

/// The handler that a wrapper wraps: another wrapper, or the method's own handler.
pub struct Next(Arc<dyn ErasedMethod>);

impl Next {
    /// Runs the wrapped handler.
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

/// The maximum number of threads that run one handler. It is the default size of tokio's pool of blocking threads, so a
/// higher limit would have no effect.
const MAX_BLOCKING_THREADS: usize = 512;
