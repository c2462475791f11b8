//! The tasks of a cluster: any node answers about any task, and one node at a time runs its handler.
//!
//! ```text
//!  tasks/*, at any node ─ store ─┬─ task/ID             the record of a task, which each change replaces
//!                                ├─ tasks-of/OWNER      the tasks of a legacy client, for its lists          index
//!                                ├─ tasks/NODE          the tasks that a node has begun to run, a log        index
//!                                └─ tasks/nodes         the nodes that run tasks                             index
//!
//!  a change at one node ─ message ─ the nodes that run or watch the task ─ local ─ handlers, listens
//!
//!  keeper ─ a task whose node is dead ─ failed, or run again here
//! ```

mod index;
mod keeper;
mod local;
mod store;

pub(super) use local::NodeTasks;
pub(in super::super) use store::ClusterTaskStore;
