//! Requests about tasks: for tasks that do not exist, and for those that calls of permitted tools create.

use std::time::Duration;

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{Era, TaskStatus, key, method};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::ordinary::{Judgement, ServerProbe};
use super::outcome::{RequestOutcome, ResultResponse};
use crate::Error;
use crate::check::catalogue::Check;
use crate::check::catalogue::tasks::{
    CHECKS, TASK_CANCEL, TASK_DETAILS, TASK_EXTENSION, TASK_IDS, TASK_RESULT_METADATA, TASK_SHAPE, TASK_STATUS,
    TASK_UNDECLARED, TASK_UNKNOWN_ID,
};
use crate::check::origin::NO_SUCH;

impl ServerProbe<'_> {
    /// Checks the tasks of a server that declares them.
    pub(super) async fn tasks(&mut self) -> Result<(), Error> {
        if !self.harness.wants(CHECKS) {
            return Ok(());
        }
        let is_modern = self.connection.era == Era::Modern;
        let is_declared = match is_modern {
            true => self.has_capability(&["extensions", method::TASKS]),
            false => self.connection.revision.has_tasks() && self.has_capability(&["tasks"]),
        };
        if !is_declared {
            self.harness.skip_all(CHECKS, "the server declares no tasks");
            return Ok(());
        }
        let _subject = self.harness.progress("tasks");
        self.unknown_tasks().await?;
        if is_modern {
            let params = json!({"taskId": NO_SUCH});
            self.expect_code(&TASK_EXTENSION, "tasks/get without the extension", "tasks/get", params, &[-32021])
                .await?;
        }
        self.settle().await;
        self.running_tasks().await
    }

    fn has_capability(&self, path: &[&str]) -> bool {
        self.facts.capability(path).is_some_and(|it| it.kind() != Kind::Null)
    }

    async fn unknown_tasks(&mut self) -> Result<(), Error> {
        let mut methods = vec!["tasks/get"];
        if self.connection.era == Era::Legacy {
            methods.push("tasks/result");
            methods.extend(self.has_capability(&["tasks", "cancel"]).then_some("tasks/cancel"));
        }
        for method in methods {
            let (what, params) = (format!("{method} of an unknown task"), self.about(NO_SUCH));
            let judgement = Judgement::Code { check: (&TASK_UNKNOWN_ID).into(), what, codes: &[-32602] };
            self.ask(method, params, judgement).await?;
        }
        Ok(())
    }

    /// Creates two tasks of a tool, and follows one of them to its end and beyond; of another tool, if that task does
    /// not end soon. The passive checks judge all responses.
    async fn running_tasks(&mut self) -> Result<(), Error> {
        let is_modern = self.connection.era == Era::Modern;
        let is_legacy_task =
            |has_tasks: bool| has_tasks && self.has_capability(&["tasks", "requests", "tools", "call"]);
        let callable = self.tools.iter().filter(|tool| tool.is_harmless || self.harness.all_calls);
        let callable = callable.filter(|tool| is_modern || is_legacy_task(tool.has_tasks));
        let calls: Vec<Value> = callable
            .filter_map(|tool| Some(json!({"name": tool.name.as_ref()?, "arguments": tool.sample()?})))
            .take(MAX_TRIED_TOOLS)
            .collect();
        let since = Instant::now();
        let mut has_task = false;
        for mut call in calls {
            if since.elapsed() >= MAX_TASKS_TIME {
                break;
            }
            if is_modern {
                declare_extension(&mut call);
            } else {
                call["task"] = json!({});
            }
            let Some(task) = self.create(call.clone()).await? else { continue };
            has_task = true;
            let is_over = self.follow(&task).await;
            if let Some(second) = self.create(call).await? {
                self.cancel_task(&second).await;
            }
            if is_over {
                return Ok(());
            }
        }
        if !has_task {
            self.harness.skip_all(OF_A_TASK, "no tool that may be called repeatedly runs as a task");
        }
        Ok(())
    }

    /// Calls a tool, and returns the id of the task that it becomes.
    async fn create(&mut self, call: Value) -> Result<Option<String>, Error> {
        self.reconnect_if_closed().await?;
        if self.harness.is_late() {
            return Ok(None);
        }
        match self.connection.claimed_request("tools/call", call).await {
            RequestOutcome::Result(result) => {
                let path: &[&str] = if self.connection.era == Era::Modern { &["taskId"] } else { &["task", "taskId"] };
                Ok(result.string(path).map(|id| id.into_owned()))
            }
            _ => Ok(None),
        }
    }

    /// Polls a task until it is over, and then asks for its state, its result and its end once more. Returns false if
    /// the task does not end soon; it is then cancelled.
    async fn follow(&mut self, task: &str) -> bool {
        let since = Instant::now();
        loop {
            let outcome = self.connection.claimed_request("tasks/get", self.about(task)).await;
            let RequestOutcome::Result(state) = outcome else { return false };
            let Some(status) = status(&state) else { return false };
            if status.is_over() {
                break;
            }
            // No user is here to answer a question.
            let has_time = since.elapsed() < MAX_TASK_TIME && !self.harness.is_late();
            if status == TaskStatus::InputRequired || !has_time {
                self.cancel_task(task).await;
                return false;
            }
            sleep(poll_interval(&state)).await;
        }
        self.connection.claimed_request("tasks/get", self.about(task)).await;
        if self.connection.era == Era::Legacy {
            self.connection.claimed_request("tasks/result", self.about(task)).await;
        }
        self.cancel_task(task).await;
        true
    }

    async fn cancel_task(&mut self, task: &str) {
        if self.connection.era == Era::Modern || self.has_capability(&["tasks", "cancel"]) {
            self.connection.claimed_request("tasks/cancel", self.about(task)).await;
        }
    }

    /// Returns the params of a request about a task.
    fn about(&self, task: &str) -> Value {
        let mut params = json!({"taskId": task});
        if self.connection.era == Era::Modern {
            declare_extension(&mut params);
        }
        params
    }
}

fn declare_extension(params: &mut Value) {
    params["_meta"] = json!({key::CLIENT_CAPABILITIES: {"extensions": {method::TASKS: {}}}});
}

fn status(state: &ResultResponse) -> Option<TaskStatus> {
    state.at(&["status"])?.to().ok()
}

/// Returns the time until the next poll that the server asks for, within bounds.
fn poll_interval(state: &ResultResponse) -> Duration {
    let interval = state.at(&["pollInterval"]).or_else(|| state.at(&["pollIntervalMs"]));
    let ms = interval.filter(|it| it.kind() == Kind::Number).and_then(|it: Json<'_>| it.to::<f64>().ok());
    let interval = ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
    interval.unwrap_or(MIN_POLL_INTERVAL).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

/// The checks that need a task.
const OF_A_TASK: &[&Check] =
    &[&TASK_UNDECLARED, &TASK_SHAPE, &TASK_STATUS, &TASK_IDS, &TASK_DETAILS, &TASK_RESULT_METADATA, &TASK_CANCEL];

/// The maximum number of tools that are called to find one that runs as a task; as many as are called at all.
const MAX_TRIED_TOOLS: usize = 40;
/// The time after which a task that is not over is cancelled. It allows for a few polls.
const MAX_TASK_TIME: Duration = Duration::from_secs(4);
/// The time after which no other tool is tried; as long as one call may take.
const MAX_TASKS_TIME: Duration = Duration::from_secs(10);
/// The bounds of the time between two polls: a server need not wait for us, and we not for a server.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(5);
