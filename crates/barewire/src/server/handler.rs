//! Functions and closures of several shapes -> one trait: what they take, what they give.

use std::future::Future;
use std::marker::PhantomData;

use super::{Call, Calling};
use crate::Failure;

/// An async function or closure that a tool, a resource or a prompt is made of: of nothing, of its arguments, of a
/// [`Call`], or of a [`Call`] and its arguments.
///
/// `M` is there for the compiler, to tell one shape from another.
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
    /// What it takes.
    type Arguments;
    /// What it gives.
    type Output;
    /// What it is while it runs.
    type Future: Future<Output = Self::Output> + Send + 'static;
    /// The [`Call`], or `()` if it does not take one.
    type Context: HandlerContext;

    /// Starts it.
    fn start(&self, context: Self::Context, arguments: Self::Arguments) -> Self::Future;
}

/// What a handler is given besides its arguments: a [`Call`], or nothing.
pub trait HandlerContext: sealed::FromCalling + Send + 'static {}

impl HandlerContext for Call {}
impl HandlerContext for () {}

pub(super) mod sealed {
    use super::*;

    /// Made of a call that is about to be handled.
    pub trait FromCalling: Sized {
        /// Looks at no more of the call than it needs.
        #[expect(private_interfaces, reason = "sealed")]
        fn from_calling(calling: &Calling<'_>) -> Result<Self, Failure>;

        /// The same of a call that is known already.
        fn from_call(call: &Call) -> Self;

        /// The call, if it is told of it.
        fn call(&self) -> Option<Call>;
    }

    #[expect(private_interfaces, reason = "sealed")]
    impl FromCalling for Call {
        fn from_calling(calling: &Calling<'_>) -> Result<Self, Failure> {
            Self::new(calling)
        }

        fn from_call(call: &Call) -> Self {
            call.clone()
        }

        fn call(&self) -> Option<Call> {
            Some(self.clone())
        }
    }

    #[expect(private_interfaces, reason = "sealed")]
    impl FromCalling for () {
        fn from_calling(_: &Calling<'_>) -> Result<Self, Failure> {
            Ok(())
        }

        fn from_call(_: &Call) {}

        fn call(&self) -> Option<Call> {
            None
        }
    }
}

/// The shape of a handler that takes nothing: `|| async { … }`.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker, of which there is never a value")]
pub struct TakesNothing;

/// The shape of a handler that takes its arguments: `|arguments| async { … }`.
#[derive(Debug)]
pub struct TakesArguments<A>(PhantomData<A>);

/// The shape of a handler that takes the call: `|call: Call| async { … }`.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker, of which there is never a value")]
pub struct TakesCall;

/// The shape of a handler that takes both: `|call: Call, arguments| async { … }`.
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
