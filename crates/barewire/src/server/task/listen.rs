//! Sends `notifications/tasks` for the tasks of a `subscriptions/listen`: whenever a task changes, its state as
//! `tasks/get` returns it.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::Tasks;
use super::methods::{declares_extension, find, missing_extension, owner};
use super::record::{TaskOwner, TaskRecord};
use super::store::TaskWatch;
use crate::Failure;
use crate::peer::Context;
use crate::server::connection::{ClientEra, IncomingRequest};

/// The tasks that a client wants to be notified of.
pub(in crate::server) struct TaskListen {
    tasks: Tasks,
    owner: TaskOwner,
    watch: Arc<TaskWatch>,
}

impl TaskListen {
    /// Creates the subscription to tasks. Returns an error if the client has not declared the extension.
    pub(in crate::server) fn new(request: &IncomingRequest<'_>, ids: &[String]) -> Result<Self, Failure> {
        if let ClientEra::Modern(modern) = &request.client
            && !declares_extension(modern.client_capabilities)
        {
            return Err(missing_extension());
        }
        if ids.len() > MAX_LISTENED_TASKS {
            return Err(Failure::invalid_params(format!("taskIds may have at most {MAX_LISTENED_TASKS} ids")));
        }
        let tasks = request.shared.settings.tasks.clone();
        Ok(Self { tasks, owner: owner(request)?, watch: Arc::default() })
    }

    /// Begins to watch these tasks. Returns the ids of those that exist and belong to the client.
    pub(in crate::server) async fn begin(&self, ids: Vec<String>) -> Vec<String> {
        let mut honoured = Vec::new();
        for id in ids {
            if find(&self.tasks, &id, &self.owner).await.is_ok()
                && self.tasks.store.add_watch(&id, &self.watch).await.is_ok()
            {
                honoured.push(id);
            }
        }
        honoured
    }

    /// Sends notifications until sending fails.
    pub(in crate::server) async fn send_changes(self, context: Context, meta: Box<RawValue>) {
        loop {
            for id in self.watch.changed().await {
                // A task that has expired has no state.
                let Ok(record) = find(&self.tasks, &id, &self.owner).await else { continue };
                if context.notify("notifications/tasks", TaskParams { record: &record, meta: &meta }).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The params of `notifications/tasks`.
struct TaskParams<'a> {
    record: &'a TaskRecord,
    meta: &'a RawValue,
}

impl Serialize for TaskParams<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (task, details) = (self.record.task(), self.record.details());
        task.with_details(&details).meta(self.meta).serialize(to)
    }
}

/// The maximum number of tasks of one `subscriptions/listen`: as many as a server keeps by default.
pub(super) const MAX_LISTENED_TASKS: usize = 1000;
