//! Tasks, in both eras: a tool that is over at its third poll.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::Server;
use crate::surface::{ServerRequest, text_result};
use crate::wire::{Outcome, error, modern_key};

#[derive(Default)]
pub(crate) struct Tasks {
    /// Maps the id of each task to its state.
    states: HashMap<String, TaskState>,
}

#[derive(Default)]
struct TaskState {
    /// The number of the task, which also decides its time of creation.
    number: usize,
    /// The number of `tasks/get` so far.
    polls: u32,
    is_cancelled: bool,
}

impl TaskState {
    fn status(&self) -> &'static str {
        match (self.is_cancelled, self.polls) {
            (true, _) => "cancelled",
            (false, 0..2) => "working",
            (false, _) => "completed",
        }
    }
}

impl Server {
    pub(crate) fn declare_tasks(&self, capabilities: &mut Value, is_modern: bool) {
        match (&self.tasks, is_modern) {
            (None, _) => {}
            (Some(_), true) => capabilities["extensions"] = json!({modern_key("tasks"): {}}),
            (Some(_), false) => {
                capabilities["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
            }
        }
    }

    pub(crate) fn task_tool(&self, is_modern: bool) -> Option<Value> {
        self.tasks.as_ref()?;
        let mut tool = json!({
            "name": "job",
            "description": "Runs as a task",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true},
        });
        if !is_modern {
            tool["execution"] = json!({"taskSupport": "optional"});
        }
        Some(tool)
    }

    /// Runs the tool `job`, as a task if the client can poll.
    pub(crate) fn job(&mut self, request: &ServerRequest<'_>) -> Outcome {
        let wants_task = match request.is_modern {
            true => has_extension(request) || self.has("task-for-everybody"),
            false => request.params.get("task").is_some() || self.has("unasked-task"),
        };
        if !wants_task {
            return Ok(text_result("done"));
        }
        let is_constant = self.has("one-id-for-all-tasks");
        let begins_completed = self.has("task-begins-completed") && !request.is_modern;
        let states = &mut self.tasks.as_mut().expect("the server has tasks").states;
        let number = states.values().map(|state| state.number).max().unwrap_or(0) + 1;
        let id = format!("task-{}-{}", std::process::id(), if is_constant { 0 } else { number });
        let polls = if begins_completed { 3 } else { 0 };
        states.insert(id.clone(), TaskState { number, polls, is_cancelled: false });
        let mut state = self.state(&id, request.is_modern);
        if request.is_modern {
            state["resultType"] = json!("task");
            return Ok(state);
        }
        Ok(json!({"task": state}))
    }

    /// Returns the state of a task, without what depends on its status.
    fn state(&self, id: &str, is_modern: bool) -> Value {
        let task = &self.tasks.as_ref().expect("the server has tasks").states[id];
        let [ttl, poll] = if is_modern { ["ttlMs", "pollIntervalMs"] } else { ["ttl", "pollInterval"] };
        let time = format!("2026-07-28T10:30:{:02}Z", task.number % 60);
        let mut state = json!({"taskId": id, "status": task.status(), "createdAt": time, "lastUpdatedAt": time});
        state[ttl] = json!(60_000);
        state[poll] = json!(10);
        let members = state.as_object_mut().expect("an object");
        if self.has("task-without-ttl") {
            members.remove(ttl);
        }
        if self.has("task-without-times") {
            members.remove("createdAt");
        }
        if self.has("ttl-as-text") {
            members.insert(ttl.to_owned(), json!("60000"));
        }
        if self.has("poll-interval-as-text") {
            members.insert(poll.to_owned(), json!("10 ms"));
        }
        state
    }

    pub(crate) fn is_about_tasks(&self, request: &ServerRequest<'_>) -> bool {
        let only_in_one_era = if request.is_modern { "tasks/update" } else { "tasks/result" };
        self.tasks.is_some()
            && (matches!(request.method, "tasks/get" | "tasks/cancel") || request.method == only_in_one_era)
    }

    pub(crate) fn task_method(&mut self, request: &ServerRequest<'_>) -> Outcome {
        if request.is_modern && !has_extension(request) && !self.has("tasks-without-extension") {
            let required = json!({"requiredCapabilities": {"extensions": {modern_key("tasks"): {}}}});
            return Err((-32021, "Missing required client capability".to_owned(), Some(required)));
        }
        let id = request.params["taskId"].as_str().unwrap_or_default().to_owned();
        let any_exists = self.has("any-task-exists") && request.method == "tasks/get";
        let comes_back = self.has("task-comes-back");
        let states = &mut self.tasks.as_mut().expect("the server has tasks").states;
        if any_exists {
            states.entry(id.clone()).or_default();
        }
        let Some(task) = states.get_mut(&id) else {
            let code = if self.has("unknown-task-as-invalid-request") { -32600 } else { -32602 };
            return error(code, "Task not found");
        };
        let is_over = task.status() != "working";
        match request.method {
            "tasks/get" => {
                task.polls = if comes_back && is_over { 0 } else { task.polls + 1 };
                Ok(self.detailed(&id, request.is_modern))
            }
            "tasks/cancel" if request.is_modern => {
                task.is_cancelled |= !is_over;
                match self.has("acknowledges-with-a-state") {
                    true => Ok(self.state(&id, true)),
                    false => Ok(json!({})),
                }
            }
            "tasks/cancel" if is_over && self.fault != "cancels-what-is-over" => error(-32602, "the task is over"),
            "tasks/cancel" => {
                task.is_cancelled = true;
                Ok(self.state(&id, false))
            }
            "tasks/result" => {
                let mut result = text_result("done");
                if !self.has("result-without-task") {
                    result["_meta"] = json!({modern_key("related-task"): {"taskId": id}});
                }
                Ok(result)
            }
            _ => Ok(json!({})),
        }
    }

    /// Returns the result of `tasks/get`.
    fn detailed(&self, id: &str, is_modern: bool) -> Value {
        let mut state = self.state(id, is_modern);
        if is_modern && state["status"] == "completed" && !self.has("completed-without-result") {
            state["result"] = text_result("done");
        }
        if is_modern && self.has("task-as-its-own-state") {
            state["resultType"] = json!("task");
        }
        state
    }
}

fn has_extension(request: &ServerRequest<'_>) -> bool {
    request.params["_meta"][modern_key("clientCapabilities")]["extensions"].get(modern_key("tasks")).is_some()
}
