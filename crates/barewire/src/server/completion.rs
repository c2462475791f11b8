//! What a user has begun to write -> what it could become.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// An argument that is being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// What there is of it.
    pub value: String,
    /// The arguments that are complete, by name. Since 2025-06-18.
    pub arguments: BTreeMap<String, String>,
}

/// A function for each argument that can be completed.
#[derive(Clone, Default)]
pub(super) struct Completers(HashMap<String, Arc<Complete>>);

type Complete = dyn Fn(CompletionRequest) -> Completed + Send + Sync;

/// What can be put in.
pub(super) type Completed = Pin<Box<dyn Future<Output = Vec<String>> + Send>>;

impl Completers {
    pub(super) fn add<F>(&mut self, argument: String, complete: impl Fn(CompletionRequest) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Vec<String>> + Send + 'static,
    {
        self.0.insert(argument, Arc::new(move |completing| Box::pin(complete(completing))));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn complete(&self, argument: &str, completing: CompletionRequest) -> Option<Completed> {
        self.0.get(argument).map(|complete| complete(completing))
    }
}
