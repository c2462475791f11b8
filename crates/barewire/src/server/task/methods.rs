//! Serves `tasks/get`, `tasks/update`, `tasks/cancel` and `tasks/list`. Each request is checked: the task must belong
//! to its sender. Over HTTP, the scopes of the sender have been checked before, except for `tasks/list`.

use std::collections::BTreeMap;

use barewire_proto::json::Json;
use barewire_proto::mcp::task_rules::{
    CancelAnswer, TaskEffect, TaskMethod, cancel_answer, declares_tasks, tasks_extension,
};
use barewire_proto::mcp::{Era, Meta, Object, Task, TaskDetails};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::record::{ChangedBy, TaskChange, TaskOwner, TaskRecord};
use super::store::TaskChanged;
use super::{Tasks, result};
use crate::Failure;
use crate::peer::{BoxedHandler, Context};
use crate::server::call::{has_scopes, principal};
use crate::server::connection::{ClientEra, IncomingRequest};
use crate::server::handler_work::{EmptyResult, McpResult, serve};
use crate::server::page;

/// Serves a method of `tasks/*`. Returns the error "method not found" for other methods, and if the server has no
/// tasks.
pub(in crate::server) fn serve_task_method(request: &IncomingRequest<'_>) -> Result<BoxedHandler, Failure> {
    let method = TaskMethod::find(request.context.method(), request.revision);
    let Some(method) = method.filter(|_| request.entries.has_tasks) else { return Err(Failure::method_not_found()) };
    require_extension(request)?;
    let (tasks, owner) = (request.shared.settings.tasks.clone(), owner(request)?);
    let format = request.format(None);
    if method == TaskMethod::List {
        let after = page::parse_cursor(LIST_NAME, request.params.cursor)?;
        let size = request.shared.settings.page_size;
        let context = request.context.clone();
        return Ok(serve(async move { list(&tasks, &owner, after, size, &context).await }, None, format));
    }
    let id = request.required_string("taskId", request.params.task_id)?.into_owned();
    let era = request.revision.era();
    Ok(match method {
        TaskMethod::Get => serve(async move { get(&tasks, &id, &owner, era).await }, None, format),
        TaskMethod::Cancel => serve(async move { cancel(&tasks, &id, &owner, era).await }, None, format),
        TaskMethod::Update => {
            let answers = answers(request.params.input_responses)?;
            serve(async move { update(&tasks, &id, &owner, answers).await }, None, format)
        }
        TaskMethod::Result => {
            let context = request.context.clone();
            serve(async move { result::wait(tasks, id, &owner, context).await }, None, format)
        }
        TaskMethod::List => unreachable!("served above"),
    })
}

/// Returns the owner of the tasks that this request creates, and of those that it may use.
pub(super) fn owner(request: &IncomingRequest<'_>) -> Result<TaskOwner, Failure> {
    if let Some(name) = principal(&request.context) {
        return Ok(TaskOwner::principal(request.revision.era(), name));
    }
    match &request.client {
        ClientEra::Modern(_) => Ok(TaskOwner::bearer()),
        ClientEra::Legacy(client) => client.task_owner(),
    }
}

/// Removes the tasks of a legacy connection that has ended: no other client may use them.
pub(in crate::server) fn connection_ended(tasks: &Tasks, owner: &TaskOwner) {
    let (tasks, owner) = (tasks.clone(), owner.clone());
    // Without a runtime, no handler of a task is running.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { tasks.store.remove_all_of(&owner).await });
    }
}

/// Whether these capabilities of a modern client declare the extension.
pub(in crate::server) fn declares_extension(capabilities: Json<'_>) -> bool {
    let extensions = capabilities.members().filter(|member| member.name.to_name() == "extensions").last();
    let extensions = extensions.and_then(|member| member.value.to::<Object>().ok());
    declares_tasks(extensions.as_ref())
}

/// Refuses a modern request whose client has not declared the extension.
fn require_extension(request: &IncomingRequest<'_>) -> Result<(), Failure> {
    match &request.client {
        ClientEra::Modern(modern) if !declares_extension(modern.client_capabilities) => Err(missing_extension()),
        ClientEra::Modern(_) | ClientEra::Legacy(_) => Ok(()),
    }
}

/// Returns the error for a client that has not declared the extension.
pub(in crate::server) fn missing_extension() -> Failure {
    crate::server::handler_work::missing_capabilities_error(&tasks_extension()).into()
}

/// Returns the task, or the same error for a task that does not exist and for one that belongs to another client.
pub(super) async fn find(tasks: &Tasks, id: &str, owner: &TaskOwner) -> Result<TaskRecord, Failure> {
    let found = tasks.store.get(id).await?.filter(|record| record.owner == *owner);
    found.ok_or_else(|| Failure::invalid_params("there is no such task, or it has expired"))
}

async fn get(tasks: &Tasks, id: &str, owner: &TaskOwner, era: Era) -> Result<TaskResult, Failure> {
    let record = find(tasks, id, owner).await?;
    let details = match era {
        Era::Modern => record.details(),
        // The result is fetched with `tasks/result`.
        Era::Legacy => TaskDetails::default(),
    };
    Ok(TaskResult { task: record.task(), era, details })
}

async fn update(
    tasks: &Tasks,
    id: &str,
    owner: &TaskOwner,
    answers: BTreeMap<String, Box<RawValue>>,
) -> Result<EmptyResult, Failure> {
    find(tasks, id, owner).await?;
    for (key, answer) in answers {
        // An answer to a question that is not open is ignored. One for which there is no room leaves the question open.
        tasks.store.change(id, ChangedBy::Client, TaskChange::Answer { key, answer: Ok(answer) }).await?;
    }
    Ok(EmptyResult::default())
}

fn answers(given: Option<Json<'_>>) -> Result<BTreeMap<String, Box<RawValue>>, Failure> {
    given
        .and_then(|answers| answers.to().ok())
        .ok_or_else(|| Failure::invalid_params("inputResponses must be there, and an object"))
}

async fn cancel(tasks: &Tasks, id: &str, owner: &TaskOwner, era: Era) -> Result<CancelResult, Failure> {
    find(tasks, id, owner).await?;
    let (effect, record) = match tasks.store.change(id, ChangedBy::Client, TaskChange::Cancel).await? {
        Some(TaskChanged::Applied(effect, record)) => (effect, record),
        // The task has expired in the meantime.
        Some(TaskChanged::TooLarge) | None => (TaskEffect::Over, find(tasks, id, owner).await?),
    };
    match cancel_answer(effect, era) {
        CancelAnswer::Acknowledgement => Ok(CancelResult(None)),
        CancelAnswer::State => {
            Ok(CancelResult(Some(TaskResult { task: record.task(), era, details: TaskDetails::default() })))
        }
        CancelAnswer::Refusal => {
            let status = record.task().status.as_str();
            Err(Failure::invalid_params(format!("the task is over: its status is {status}")))
        }
    }
}

/// Lists the tasks that the sender may use. A page has fewer tasks than `size` if the sender lacks the scopes of some.
async fn list(
    tasks: &Tasks,
    owner: &TaskOwner,
    after: u64,
    size: usize,
    context: &Context,
) -> Result<TaskList, Failure> {
    let (records, next) = tasks.store.list(owner, after, size).await?;
    let tasks = records.iter().filter(|record| has_scopes(context, &record.scopes)).map(TaskRecord::task).collect();
    Ok(TaskList { tasks, next_cursor: next.map(|next| page::write_cursor(LIST_NAME, next)) })
}

/// The result of `tasks/get`.
pub(super) struct TaskResult {
    task: Task,
    era: Era,
    details: TaskDetails,
}

impl Serialize for TaskResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.era {
            Era::Legacy => self.task.in_era(self.era).serialize(to),
            Era::Modern => self.task.with_details(&self.details).serialize(to),
        }
    }
}

/// The result of `tasks/cancel`: the state of the task, or nothing.
struct CancelResult(Option<TaskResult>);

impl Serialize for CancelResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(task) => task.serialize(to),
            None => EmptyResult::default().serialize(to),
        }
    }
}

/// The result of `tasks/list`.
struct TaskList {
    tasks: Vec<Task>,
    next_cursor: Option<String>,
}

impl Serialize for TaskList {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let tasks: Vec<_> = self.tasks.iter().map(|task| task.in_era(Era::Legacy)).collect();
        let mut list = to.serialize_struct("TaskList", 2)?;
        list.serialize_field("tasks", &tasks)?;
        match &self.next_cursor {
            Some(cursor) => list.serialize_field("nextCursor", cursor)?,
            None => list.skip_field("nextCursor")?,
        }
        list.end()
    }
}

macro_rules! results_without_meta {
    ($($result:ty)*) => {$(
        impl McpResult for $result {
            fn take_meta(&mut self) -> Option<Meta> {
                None
            }
        }
    )*};
}

results_without_meta!(TaskResult CancelResult TaskList);

/// The name of the list of tasks in cursors.
const LIST_NAME: &str = "tasks";
