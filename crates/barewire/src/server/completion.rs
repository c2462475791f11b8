//! Completion: proposes values for an argument that the user is typing.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// An argument that the user is typing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// The text typed so far.
    pub value: String,
    /// The values of the other arguments that are already known, by name. Clients send them since revision 2025-06-18.
    pub arguments: BTreeMap<String, String>,
}

/// Maps the names of arguments to their completion functions.
#[derive(Clone, Default)]
pub(super) struct Completers(HashMap<String, Arc<CompletionFn>>);

type CompletionFn = dyn Fn(CompletionRequest) -> CompletionFuture + Send + Sync;

/// The future of a completion function. It resolves to the possible values.
pub(super) type CompletionFuture = Pin<Box<dyn Future<Output = Vec<String>> + Send>>;

impl Completers {
    pub(super) fn add<F>(&mut self, argument: String, complete: impl Fn(CompletionRequest) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Vec<String>> + Send + 'static,
    {
        self.0.insert(argument, Arc::new(move |request| Box::pin(complete(request))));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn complete(&self, argument: &str, request: CompletionRequest) -> Option<CompletionFuture> {
        self.0.get(argument).map(|complete| complete(request))
    }
}
