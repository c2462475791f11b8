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
    /// What it is told of the call.
    type Told: Told;

    /// Starts it.
    fn start(&self, told: Self::Told, arguments: Self::Arguments) -> Self::Future;
}

/// What a handler is told of the call: all of it, or nothing.
pub trait Told: sealed::FromCalling + Send + 'static {}

impl Told for Call {}
impl Told for () {}

pub(super) mod sealed {
    use super::*;

    /// Made of a call that is about to be handled.
    pub trait FromCalling: Sized {
        /// Looks at no more of the call than it needs.
        #[expect(private_interfaces, reason = "sealed")]
        fn from_calling(calling: &Calling<'_>) -> Result<Self, Failure>;

        /// The call, if it is told of it.
        fn call(&self) -> Option<Call>;
    }

    #[expect(private_interfaces, reason = "sealed")]
    impl FromCalling for Call {
        fn from_calling(calling: &Calling<'_>) -> Result<Self, Failure> {
            Self::new(calling)
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

        fn call(&self) -> Option<Call> {
            None
        }
    }
}

/// Takes nothing.
#[derive(Debug)]
pub struct OfNothing;

/// Takes its arguments.
#[derive(Debug)]
pub struct OfArguments<A>(PhantomData<A>);

/// Takes the call.
#[derive(Debug)]
pub struct OfCall;

/// Takes the call and its arguments.
#[derive(Debug)]
pub struct OfBoth<A>(PhantomData<A>);

impl<H, F> Handler<OfNothing> for H
where
    H: Fn() -> F + Send + Sync + 'static,
    F: Future + Send + 'static,
{
    type Arguments = ();
    type Output = F::Output;
    type Future = F;
    type Told = ();

    fn start(&self, (): (), (): ()) -> F {
        self()
    }
}

impl<H, A, F> Handler<OfArguments<A>> for H
where
    H: Fn(A) -> F + Send + Sync + 'static,
    F: Future + Send + 'static,
    A: serde::de::DeserializeOwned,
{
    type Arguments = A;
    type Output = F::Output;
    type Future = F;
    type Told = ();

    #[inline]
    fn start(&self, (): (), arguments: A) -> F {
        self(arguments)
    }
}

impl<H, F> Handler<OfCall> for H
where
    H: Fn(Call) -> F + Send + Sync + 'static,
    F: Future + Send + 'static,
{
    type Arguments = ();
    type Output = F::Output;
    type Future = F;
    type Told = Call;

    fn start(&self, call: Call, (): ()) -> F {
        self(call)
    }
}

impl<H, A, F> Handler<OfBoth<A>> for H
where
    H: Fn(Call, A) -> F + Send + Sync + 'static,
    F: Future + Send + 'static,
    A: serde::de::DeserializeOwned,
{
    type Arguments = A;
    type Output = F::Output;
    type Future = F;
    type Told = Call;

    #[inline]
    fn start(&self, call: Call, arguments: A) -> F {
        self(call, arguments)
    }
}
