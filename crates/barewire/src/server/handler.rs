//! The trait [`Handler`], which async functions and closures with any of four parameter lists implement.

use std::future::Future;
use std::marker::PhantomData;

use super::{Call, IncomingRequest};
use crate::Failure;

/// An async function or closure behind a tool, a resource or a prompt. Its parameters are: none, the arguments, a
/// [`Call`], or a [`Call`] and the arguments.
///
/// `M` lets the compiler tell these four signatures apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of a tool, a resource or a prompt",
    label = "not a handler",
    note = "a handler is an async function or closure that takes one of: nothing, its arguments, a `Call`, or a `Call` \
            and its arguments in this order",
    note = "the arguments are one type that derives `Deserialize` (and `JsonSchema` for a tool or a prompt); several \
            arguments are fields of that type",
    note = "its future and everything that it captures must be `Send` and `'static`"
)]
pub trait Handler<M>: Send + Sync + 'static {
    /// The type of the handler's arguments.
    type Arguments;
    /// The type that the handler's future resolves to.
    type Output;
    /// The future that the handler returns.
    type Future: Future<Output = Self::Output> + Send + 'static;
    /// [`Call`], or `()` if the handler does not take one.
    type Context: HandlerContext;

    /// Calls the handler.
    fn start(&self, context: Self::Context, arguments: Self::Arguments) -> Self::Future;
}

/// The first argument of a handler: a [`Call`], or `()` for a handler that takes none.
pub trait HandlerContext: sealed::FromRequest + Send + 'static {}

impl HandlerContext for Call {}
impl HandlerContext for () {}

pub(super) mod sealed {
    use super::*;

    /// A value that can be made from a request before its handler starts.
    pub trait FromRequest: Sized {
        /// Creates the value from the request. `()` does not read the request.
        #[expect(private_interfaces, reason = "the trait is sealed, so other crates cannot use it")]
        fn from_request(request: &IncomingRequest<'_>) -> Result<Self, Failure>;

        /// Creates the value from an existing `Call`.
        fn from_call(call: &Call) -> Self;

        /// Returns the `Call`, if the handler takes one.
        fn call(&self) -> Option<Call>;
    }

    #[expect(private_interfaces, reason = "the trait is sealed, so other crates cannot use it")]
    impl FromRequest for Call {
        fn from_request(request: &IncomingRequest<'_>) -> Result<Self, Failure> {
            Self::new(request)
        }

        fn from_call(call: &Call) -> Self {
            call.clone()
        }

        fn call(&self) -> Option<Call> {
            Some(self.clone())
        }
    }

    #[expect(private_interfaces, reason = "the trait is sealed, so other crates cannot use it")]
    impl FromRequest for () {
        fn from_request(_: &IncomingRequest<'_>) -> Result<Self, Failure> {
            Ok(())
        }

        fn from_call(_: &Call) {}

        fn call(&self) -> Option<Call> {
            None
        }
    }
}

/// Marks a handler without parameters: `|| async { … }`.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker type: no value of it is ever created")]
pub struct TakesNothing;

/// Marks a handler that takes its arguments: `|arguments| async { … }`.
#[derive(Debug)]
pub struct TakesArguments<A>(PhantomData<A>);

/// Marks a handler that takes the call: `|call: Call| async { … }`.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker type: no value of it is ever created")]
pub struct TakesCall;

/// Marks a handler that takes the call and its arguments: `|call: Call, arguments| async { … }`.
#[derive(Debug)]
pub struct TakesCallAndArguments<A>(PhantomData<A>);

impl<H, F> Handler<TakesNothing> for H
where
    H: Fn() -> F + Send + Sync + 'static,
    F: Future + Send + 'static,
{
    type Arguments = ();
    type Output = F::Output;
    type Future = F;
    type Context = ();

    fn start(&self, (): (), (): ()) -> F {
        self()
    }
}

impl<H, A, F> Handler<TakesArguments<A>> for H
where
    H: Fn(A) -> F + Send + Sync + 'static,
    F: Future + Send + 'static,
    A: serde::de::DeserializeOwned,
{
    type Arguments = A;
    type Output = F::Output;
    type Future = F;
    type Context = ();

    #[inline]
    fn start(&self, (): (), arguments: A) -> F {
        self(arguments)
    }
}

impl<H, F> Handler<TakesCall> for H
where
    H: Fn(Call) -> F + Send + Sync + 'static,
    F: Future + Send + 'static,
{
    type Arguments = ();
    type Output = F::Output;
    type Future = F;
    type Context = Call;

    fn start(&self, call: Call, (): ()) -> F {
        self(call)
    }
}

impl<H, A, F> Handler<TakesCallAndArguments<A>> for H
where
    H: Fn(Call, A) -> F + Send + Sync + 'static,
    F: Future + Send + 'static,
    A: serde::de::DeserializeOwned,
{
    type Arguments = A;
    type Output = F::Output;
    type Future = F;
    type Context = Call;

    #[inline]
    fn start(&self, call: Call, arguments: A) -> F {
        self(call, arguments)
    }
}
