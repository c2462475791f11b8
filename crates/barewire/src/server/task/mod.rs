//! Tasks: calls that are answered at once with an id, and whose result is fetched later, in both eras.
//!
//! ```text
//! tools/call ─ start ─ run ─ your handler       a call becomes a task, and its handler runs without the request
//!                │      │
//!              store ─ record                   the state of all tasks, of which each change goes through a table
//!              call                             a call that another node of a cluster can run again
//!                │
//!  tasks/* ─ methods, result, listen            what clients ask about tasks
//!            scopes                             which scopes a request about a task needs
//! ```

#[cfg(feature = "http")]
mod call;
mod listen;
mod memory_store;
mod methods;
mod record;
mod result;
mod run;
#[cfg(feature = "http")]
mod scopes;
mod start;
mod store;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "http")]
pub(super) use call::run_again;
pub(super) use listen::TaskListen;
use memory_store::MemoryTaskStore;
pub(super) use methods::{connection_ended, serve_task_method};
pub(super) use record::TaskOwner;
#[cfg(feature = "http")]
pub(super) use record::{ChangedBy, TaskChange, TaskRecord, TaskRunId, now_ms};
use result::QuestionClaims;
pub(super) use run::TaskRun;
#[cfg(feature = "http")]
pub(super) use scopes::{scopes_of_tasks, task_ids};
pub(super) use start::serve_tool;
pub(super) use store::TaskStore;
#[cfg(feature = "http")]
pub(super) use store::{StoreFuture, TaskChanged, TaskWatch};

/// How long tasks are kept, how often clients poll them, and how many of them there may be. See
/// [`Server::task_policy`](super::Server::task_policy).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPolicy {
    /// The time from the creation of a task until it is discarded together with its result, even if it still runs. The
    /// default is an hour. A client of 2025-11-25 can ask for a shorter time.
    pub ttl: Duration,
    /// The time that clients should wait between two polls. The default is a second.
    pub poll_interval: Duration,
    /// The maximum number of tasks, running or finished. The default is 1000. At this number, a tool that need not run
    /// as a task runs without one for modern clients; other calls are refused with -32603.
    pub max_tasks: usize,
    /// The maximum length of all results together, in bytes. The default is 64 MiB. A task whose result does not fit
    /// fails.
    pub max_bytes: usize,
}

impl Default for TaskPolicy {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(60 * 60),
            poll_interval: Duration::from_secs(1),
            max_tasks: 1000,
            max_bytes: 64 << 20,
        }
    }
}

impl TaskPolicy {
    /// Sets [`ttl`](#structfield.ttl).
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets [`poll_interval`](#structfield.poll_interval).
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets [`max_tasks`](#structfield.max_tasks).
    #[must_use]
    pub fn max_tasks(mut self, tasks: usize) -> Self {
        self.max_tasks = tasks;
        self
    }

    /// Sets [`max_bytes`](#structfield.max_bytes).
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// The tasks of a server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Tasks {
    pub(super) policy: TaskPolicy,
    store: Arc<dyn TaskStore>,
    claims: Arc<QuestionClaims>,
}

impl Tasks {
    pub(super) fn new(policy: TaskPolicy) -> Self {
        Self {
            policy,
            store: Arc::new(MemoryTaskStore::new(policy.max_tasks, policy.max_bytes)),
            claims: Arc::default(),
        }
    }

    /// Returns tasks with the same policy that are kept in this store.
    #[cfg(feature = "http")]
    pub(super) fn stored_in(&self, store: Arc<dyn TaskStore>) -> Self {
        Self { policy: self.policy, store, claims: Arc::default() }
    }
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Returns a time as milliseconds that every JSON reader represents exactly.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(MAX_SAFE_INTEGER).min(MAX_SAFE_INTEGER)
}

/// The largest integer that every JSON reader represents exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
