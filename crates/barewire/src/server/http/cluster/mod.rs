//! Several machines that serve the same sessions, behind a balancer that knows nothing of them.
//!
//! ```text
//!              any node: enter ─ the session, here ─ route ┬─ this node                      requests
//!  client ──── balancer                                    ├─ the node that has asked        answers
//!              any node                                    └─ all nodes of the session       cancellations
//!
//!  events of a stream ─ log ─ the store ─ any node that resumes the stream                   follow
//! ```
//!
//! A request is handled where it lands, and its response is there.
//! [`HttpBuilder::cluster`](super::HttpBuilder::cluster) joins a server to a cluster; `docs/scaling.md` says what is
//! guaranteed. A modern request needs no session, and does not touch the store, unless it is about a task: `tasks`
//! keeps them there.

mod check_store;
mod copies;
mod enter;
mod follow;
mod keys;
mod link;
mod log;
mod measured;
mod memory;
mod message;
mod node;
mod numbers;
mod outbox;
mod record;
mod route;
mod store;
mod tasks;
mod write;

pub use check_store::{check_death, check_store};
pub(super) use follow::{OpenedStream, RemoteStream};
pub(super) use link::SessionLink;
pub(super) use log::ClusterEvents;
pub(super) use measured::MeasuredStore;
pub use memory::{MemoryCluster, MemoryNode};
pub(super) use node::ClusterNode;
pub(super) use route::ClientRoute;
pub use store::{
    ClusterFuture, ClusterStore, LogEntry, MAX_LOG_BYTES, MAX_NODE, MAX_UNREAD_MESSAGES, NODE_LEASE, Record, StoreError,
};
pub(super) use tasks::ClusterTaskStore;
pub(super) use write::task_owner;
