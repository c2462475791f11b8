//! Messages about tasks -> whether tasks are created, described and ended as their revision says.
//!
//! | | 2025-11-25 | the extension, 2026-07-28 |
//! |---|---|---|
//! | a new task | `{"task":{…}}` | `{"resultType":"task",…}` |
//! | its state | `tasks/get`, `tasks/cancel`, `tasks/list`, `notifications/tasks/status` | `tasks/get`, `notifications/tasks` |
//! | its result | `tasks/result` | in its state |

use std::collections::HashMap;

use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::mcp::{Revision, Side, TaskStatus, key, method};
use barewire_proto::rpc::{Message, Params, Request};

use super::{MAX_REQUESTS, MessageContext};
use crate::check::catalogue::tasks::{
    NOTIFIED_DETAILS, TASK_BEGINS, TASK_CANCEL, TASK_CANCELLED, TASK_DETAILS, TASK_EXTENSION, TASK_ID_TYPE, TASK_IDS,
    TASK_RESULT_METADATA, TASK_RESULT_TYPE, TASK_SHAPE, TASK_STATUS, TASK_TIMES, TASK_TTL, TASK_UNDECLARED,
    UNASKED_TASK,
};
use crate::check::catalogue::{Check, Rule};
use crate::check::ledger::Ledger;
use crate::operations::{Relation, member};
use crate::text::shown;

#[derive(Default)]
pub(super) struct TaskChecks {
    /// The tasks of all servers, each with the scope of its server.
    tasks: HashMap<(String, String), SeenTask>,
    /// Maps the operation number of each unanswered request about a task to what is known about it.
    requests: HashMap<u64, TaskRequest>,
}

/// A task whose state was seen.
#[derive(Default)]
struct SeenTask {
    /// The time of creation in the result that created the task, as JSON text.
    created_at: Option<String>,
    /// The status after which nothing can follow.
    end: Option<TaskStatus>,
}

/// A request that creates a task or names one.
struct TaskRequest {
    /// The id that the request names.
    task: Option<String>,
    /// The status with which the task was over when the request was sent. A response to an earlier request may
    /// describe an earlier state.
    end: Option<TaskStatus>,
    /// Whether the request has the member `task`.
    asks_for_task: bool,
}

/// The form of a task's state.
#[derive(Clone, Copy, PartialEq)]
enum TaskForm {
    /// That of 2025-11-25.
    Legacy,
    /// That of the extension.
    Modern,
}

impl TaskChecks {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        match (tracked.message, tracked.relation) {
            (Ok(Message::Request(request)), Relation::Request { operation, .. }) if tracked.sender == Side::Client => {
                self.request(context, request, operation.number);
            }
            (Ok(Message::Response(response)), Relation::Response { operation, .. })
                if tracked.sender == Side::Server =>
            {
                let request = self.requests.remove(&operation.number);
                let Some(form) = form(context) else { return };
                match response.outcome {
                    Ok(result) if result.kind() == Kind::Object => {
                        self.result(context, form, &operation.method, request, result, ledger);
                    }
                    Ok(_) => {}
                    // The task has expired, and its id may be used again.
                    Err(_) if operation.method == "tasks/get" => self.forget(context, request),
                    Err(_) => {}
                }
            }
            (Ok(Message::Notification(notification)), _) if tracked.sender == Side::Server => {
                let (form, name) = (form(context), notification.method.to_name());
                let params = notification.params.map(Params::json);
                match (form, &*name, params) {
                    (Some(form @ TaskForm::Legacy), "notifications/tasks/status", Some(state)) => {
                        check_shape(context, form, "/params", state, false, ledger);
                    }
                    (Some(form @ TaskForm::Modern), "notifications/tasks", Some(state)) => {
                        check_shape(context, form, "/params", state, false, ledger);
                        check_details(context, "/params", state, Some(&NOTIFIED_DETAILS), ledger);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn request(&mut self, context: &MessageContext<'_>, request: &Request<'_>, number: u64) {
        let method = request.method.to_name();
        if method != "tools/call" && !method.starts_with("tasks/") {
            return;
        }
        let params = request.params.map(Params::json);
        let task = member(params, "taskId").and_then(id_text);
        let known = task.as_ref().and_then(|task| self.tasks.get(&(context.scope(), task.clone())));
        let end = known.and_then(|task| task.end);
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.clear();
        }
        let asks_for_task = member(params, "task").is_some();
        self.requests.insert(number, TaskRequest { task, end, asks_for_task });
    }

    fn forget(&mut self, context: &MessageContext<'_>, request: Option<TaskRequest>) {
        if let Some(task) = request.and_then(|request| request.task) {
            self.tasks.remove(&(context.scope(), task));
        }
    }

    fn result(
        &mut self,
        context: &MessageContext<'_>,
        form: TaskForm,
        method: &str,
        request: Option<TaskRequest>,
        result: Json<'_>,
        ledger: &mut Ledger,
    ) {
        if form == TaskForm::Modern {
            check_result_type(context, method, result, ledger);
        }
        match method {
            "tools/call" => self.called(context, form, request.as_ref(), result, ledger),
            "tasks/get" => {
                check_shape(context, form, "/result", result, true, ledger);
                if form == TaskForm::Modern {
                    check_extension(context, method, ledger);
                    check_details(context, "/result", result, None, ledger);
                }
                self.state(context, request.as_ref(), result, ledger);
            }
            "tasks/cancel" if form == TaskForm::Legacy => {
                check_shape(context, form, "/result", result, false, ledger);
                ledger.inspected(&TASK_CANCEL);
                if let Some(end) = request.as_ref().and_then(|request| request.end) {
                    let detail = format!("tasks/cancel of a task that is {} is answered with a result", end.as_str());
                    context.fail_in(ledger, &TASK_CANCEL, "/result", detail);
                } else if let Some(status) = status(result).filter(|status| *status != TaskStatus::Cancelled) {
                    let detail = format!("the result of tasks/cancel has the status {}", status.as_str());
                    fail(context, ledger, &TASK_STATUS, Some(&TASK_CANCELLED), "/result/status", detail);
                }
                self.state(context, None, result, ledger);
            }
            "tasks/cancel" | "tasks/update" if form == TaskForm::Modern => {
                check_extension(context, method, ledger);
                ledger.inspected(&TASK_CANCEL);
                let mut more = result.members().map(|member| member.name.to_name());
                if let Some(name) = more.find(|name| name != "resultType" && name != "_meta") {
                    let detail = format!("the result of {method} has the member {}", shown(name.as_bytes(), 40));
                    context.fail_in(ledger, &TASK_CANCEL, "/result", detail);
                }
            }
            "tasks/result" if form == TaskForm::Legacy => check_related(context, request.as_ref(), result, ledger),
            "tasks/list" if form == TaskForm::Legacy => {
                let states = member(Some(result), "tasks").into_iter().flat_map(Json::elements);
                for (at, state) in states.enumerate() {
                    check_shape(context, form, &format!("/result/tasks/{at}"), state, false, ledger);
                }
            }
            _ => {}
        }
    }

    /// Checks the result of a call, if it is a task.
    fn called(
        &mut self,
        context: &MessageContext<'_>,
        form: TaskForm,
        request: Option<&TaskRequest>,
        result: Json<'_>,
        ledger: &mut Ledger,
    ) {
        let (path, state) = match form {
            TaskForm::Modern if is_task(result) => ("/result", result),
            TaskForm::Legacy => match member(Some(result), "task") {
                // A result with content is the result of the tool.
                Some(task) if task.kind() == Kind::Object && member(Some(result), "content").is_none() => {
                    ("/result/task", task)
                }
                _ => return,
            },
            TaskForm::Modern => return,
        };
        check_agreement(context, form, request, path, ledger);
        check_shape(context, form, path, state, false, ledger);
        if form == TaskForm::Legacy
            && let Some(status) = status(state).filter(|status| *status != TaskStatus::Working)
        {
            let detail = format!("a new task has the status {}", status.as_str());
            fail(context, ledger, &TASK_STATUS, Some(&TASK_BEGINS), &format!("{path}/status"), detail);
        }
        let Some(id) = member(Some(state), "taskId").and_then(id_text) else { return };
        ledger.inspected(&TASK_IDS);
        let created_at = member(Some(state), "createdAt").map(|time| shown(time.as_bytes(), 60));
        if self.tasks.len() >= MAX_TASKS {
            self.tasks.clear();
        }
        let new = SeenTask { created_at, end: status(state).filter(|status| status.is_over()) };
        let key = (context.scope(), id);
        // A modern server may answer two calls with one task. It has then one time of creation.
        if let Some(known) = self.tasks.get(&key)
            && (form == TaskForm::Legacy || known.created_at != new.created_at)
        {
            let detail = format!("the id {} was that of an earlier task", shown(key.1.as_bytes(), 60));
            context.fail_in(ledger, &TASK_IDS, &format!("{path}/taskId"), detail);
        }
        self.tasks.insert(key, new);
    }

    /// Compares the status of a task with the one that it had when the request was sent.
    fn state(
        &mut self,
        context: &MessageContext<'_>,
        request: Option<&TaskRequest>,
        state: Json<'_>,
        ledger: &mut Ledger,
    ) {
        let Some(status) = status(state) else { return };
        ledger.inspected(&TASK_STATUS);
        if let Some(end) = request.and_then(|request| request.end)
            && end != status
        {
            let detail = format!("the status is {} after {}", status.as_str(), end.as_str());
            context.fail_in(ledger, &TASK_STATUS, "/result/status", detail);
        }
        let Some(id) = member(Some(state), "taskId").and_then(id_text).filter(|_| status.is_over()) else { return };
        if self.tasks.len() >= MAX_TASKS {
            self.tasks.clear();
        }
        self.tasks.entry((context.scope(), id)).or_default().end.get_or_insert(status);
    }
}

/// Returns the form of tasks in the revision of a message; `None` if the revision has no tasks or is unknown.
fn form(context: &MessageContext<'_>) -> Option<TaskForm> {
    match context.revision? {
        Revision::V2025_11_25 => Some(TaskForm::Legacy),
        revision if revision.is_modern() => Some(TaskForm::Modern),
        _ => None,
    }
}

fn fail(
    context: &MessageContext<'_>,
    ledger: &mut Ledger,
    check: &'static Check,
    rule: Option<&'static Rule>,
    path: &str,
    detail: impl Into<String>,
) {
    let finding = context.finding(check, 0, detail).at(path);
    context.note(
        ledger,
        match rule {
            Some(rule) => finding.under(rule),
            None => finding,
        },
    );
}

/// Checks that the result of another method than `tools/call` does not say that it is a task.
fn check_result_type(context: &MessageContext<'_>, method: &str, result: Json<'_>, ledger: &mut Ledger) {
    if method != "tools/call" && is_task(result) {
        ledger.inspected(&TASK_UNDECLARED);
        let detail = format!("the result of {method} has the resultType task");
        fail(context, ledger, &TASK_UNDECLARED, Some(&TASK_RESULT_TYPE), "/result/resultType", detail);
    }
}

/// Checks that client and server have agreed that the call may become a task.
fn check_agreement(
    context: &MessageContext<'_>,
    form: TaskForm,
    request: Option<&TaskRequest>,
    path: &str,
    ledger: &mut Ledger,
) {
    ledger.inspected(&TASK_UNDECLARED);
    match form {
        TaskForm::Modern if declares_extension(context) == Some(false) => {
            let detail = "the result is a task, but the request does not declare the extension";
            context.fail_in(ledger, &TASK_UNDECLARED, path, detail);
        }
        TaskForm::Modern => {}
        TaskForm::Legacy => {
            let declared = context.tracked.conversation.server_capabilities.as_deref();
            let declared = declared.and_then(|text| Json::parse(text.as_bytes()).ok());
            let lacks_tasks = declared.is_some_and(|it| it.at(&["tasks", "requests", "tools", "call"]).is_none());
            if lacks_tasks {
                let detail = "the result is a task, but the server has not declared tasks.requests.tools.call";
                context.fail_in(ledger, &TASK_UNDECLARED, path, detail);
            } else if request.is_some_and(|request| !request.asks_for_task) {
                let detail = "the result is a task, but the call does not have the member task";
                fail(context, ledger, &TASK_UNDECLARED, Some(&UNASKED_TASK), path, detail);
            }
        }
    }
}

/// Checks that a request about a task, which got a result, declares the extension.
fn check_extension(context: &MessageContext<'_>, method: &str, ledger: &mut Ledger) {
    if declares_extension(context) == Some(false) {
        ledger.inspected(&TASK_EXTENSION);
        let detail = format!("{method} is answered with a result, but the request does not declare the extension");
        context.fail_in(ledger, &TASK_EXTENSION, "/result", detail);
    }
}

/// Whether the request of this response declares the extension; `None` if it is not known.
fn declares_extension(context: &MessageContext<'_>) -> Option<bool> {
    let request = context.request?;
    // Without capabilities, `modern-meta` reports the request.
    let declared = Json::parse(request.capabilities.as_ref()?.as_bytes()).ok()?;
    let extensions = declared.member("extensions");
    Some(extensions.is_some_and(|extensions| extensions.members().any(|member| member.name == method::TASKS)))
}

/// Checks the members that every state of a task has. `is_get` is true for the result of `tasks/get`.
fn check_shape(
    context: &MessageContext<'_>,
    form: TaskForm,
    path: &str,
    state: Json<'_>,
    is_get: bool,
    ledger: &mut Ledger,
) {
    ledger.inspected(&TASK_SHAPE);
    let (ttl, poll) = match form {
        TaskForm::Legacy => ("ttl", "pollInterval"),
        TaskForm::Modern => ("ttlMs", "pollIntervalMs"),
    };
    let is_legacy = form == TaskForm::Legacy;
    let is_time = |it: Json<'_>| match form {
        TaskForm::Legacy => it.kind() == Kind::Number,
        TaskForm::Modern => it.kind() == Kind::Number && it.to::<f64>().is_ok_and(|ms| ms.fract() == 0.0),
    };
    let time = if is_legacy { "a number" } else { "an integer" };
    let wrong = |name: &str, expected: &str| match member(Some(state), name) {
        None => format!("{name} is missing"),
        Some(_) => format!("{name} is not {expected}"),
    };
    let mut report = |name: &str, rule: Option<&'static Rule>, expected: &str| {
        let is_missing = member(Some(state), name).is_none();
        let path = if is_missing { path.to_owned() } else { format!("{path}/{name}") };
        fail(context, ledger, &TASK_SHAPE, rule.filter(|_| is_legacy), &path, wrong(name, expected));
    };
    let is_string = |name| member(Some(state), name).is_some_and(|it| it.kind() == Kind::String);
    if !is_string("taskId") {
        report("taskId", Some(&TASK_ID_TYPE), "a string");
    }
    if status(state).is_none() {
        report("status", None, "a status of tasks");
    }
    for name in ["createdAt", "lastUpdatedAt"] {
        if !is_string(name) {
            report(name, Some(&TASK_TIMES), "a string");
        }
    }
    if !member(Some(state), ttl).is_some_and(|it| it.kind() == Kind::Null || is_time(it)) {
        report(ttl, Some(&TASK_TTL).filter(|_| is_get), &format!("{time} or null"));
    }
    if member(Some(state), poll).is_some_and(|it| !is_time(it)) {
        report(poll, None, time);
    }
}

/// Checks that a state has the result, the error or the questions that its status promises.
fn check_details(
    context: &MessageContext<'_>,
    path: &str,
    state: Json<'_>,
    rule: Option<&'static Rule>,
    ledger: &mut Ledger,
) {
    let Some(status) = status(state) else { return };
    let name = match status {
        TaskStatus::Completed => "result",
        TaskStatus::Failed => "error",
        TaskStatus::InputRequired => "inputRequests",
        _ => return,
    };
    ledger.inspected(&TASK_DETAILS);
    let what = match member(Some(state), name) {
        Some(it) if it.kind() == Kind::Object => return,
        Some(_) => "is not an object",
        None => "is missing",
    };
    fail(context, ledger, &TASK_DETAILS, rule, path, format!("the task is {}, and {name} {what}", status.as_str()));
}

/// Checks that the result of `tasks/result` names its task.
fn check_related(context: &MessageContext<'_>, request: Option<&TaskRequest>, result: Json<'_>, ledger: &mut Ledger) {
    ledger.inspected(&TASK_RESULT_METADATA);
    let related = result.at(&["_meta", key::RELATED_TASK, "taskId"]).and_then(id_text);
    let detail = match (related, request.and_then(|request| request.task.as_ref())) {
        (None, _) => format!("{} is missing in _meta", key::RELATED_TASK),
        (Some(related), Some(task)) if related != *task => {
            format!("{} names the task {}", key::RELATED_TASK, shown(related.as_bytes(), 60))
        }
        _ => return,
    };
    context.fail_in(ledger, &TASK_RESULT_METADATA, "/result", detail);
}

/// Whether a modern result says that it is a task.
fn is_task(result: Json<'_>) -> bool {
    member(Some(result), "resultType").and_then(Text::from_json).is_some_and(|kind| kind == "task")
}

fn status(state: Json<'_>) -> Option<TaskStatus> {
    member(Some(state), "status")?.to().ok()
}

/// Returns an id that is short enough to be kept.
fn id_text(id: Json<'_>) -> Option<String> {
    let id = id.string()?;
    (id.len() <= MAX_ID_LENGTH).then(|| id.into_owned())
}

/// The maximum number of tasks that are tracked; more than a client can poll.
const MAX_TASKS: usize = 65_536;
/// The maximum length of a task's id that is tracked; more than every generator of ids writes.
const MAX_ID_LENGTH: usize = 1024;

#[cfg(test)]
mod tests;
