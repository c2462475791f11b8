//! Calls that the server runs as tasks: waits for their results by notifications and polls, and answers their
//! questions.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use barewire_proto::mcp::{CallToolResult, Era, InputRequests, SubscriptionFilter, Task, TaskDetails, TaskStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::notifications::ServerNotification;
use super::request::{Request, parse_result};
use super::rounds::{Answering, MAX_INPUT_REQUESTS, answer_all};
use super::{Client, ClientError, Listen};
use crate::peer::{Raw, shown};

/// A tool call that has been started: the server has answered with the result, or runs the call as a task. See
/// [`Client::start_tool`].
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a call has a result or becomes a task")]
pub enum StartedTool {
    /// The server has answered with the result.
    Result(CallToolResult),
    /// The server runs the call as a task.
    Task(ToolTask),
}

impl StartedTool {
    /// Waits for the result.
    pub async fn wait(self) -> Result<CallToolResult, ClientError> {
        match self {
            Self::Result(result) => Ok(result),
            Self::Task(task) => task.wait().await,
        }
    }
}

/// A tool call that a server runs as a task. Dropping this value does not cancel the task: keep the id, and pass it to
/// [`Client::task`] later, even in another process.
#[derive(Clone)]
pub struct ToolTask {
    client: Client,
    id: String,
}

impl Client {
    /// Starts a tool call without waiting for its result, if the server can run it as a task. A server that cannot
    /// answers with the result.
    ///
    /// ```no_run
    /// use barewire::client::StartedTool;
    ///
    /// # async fn example(client: barewire::Client) -> Result<(), barewire::ClientError> {
    /// match client.start_tool("report", serde_json::json!({ "year": 2025 })).await? {
    ///     StartedTool::Result(result) => tracing::info!(?result),
    ///     StartedTool::Task(task) => {
    ///         tracing::info!(id = task.id(), status = task.status().await?.status.as_str());
    ///         let result = task.wait().await?;
    ///         tracing::info!(?result);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn start_tool(
        &self,
        name: impl AsRef<str>,
        arguments: impl Serialize,
    ) -> Result<StartedTool, ClientError> {
        self.call_tool(name, arguments).start().await
    }

    /// Returns the task with this id, which this client or another one has started. Nothing is sent. A server of
    /// 2025-11-25 without authentication knows the task only in the session that has started it.
    pub fn task(&self, id: impl Into<String>) -> ToolTask {
        ToolTask { client: self.clone(), id: id.into() }
    }
}

impl Request<CallToolResult> {
    /// Sends the call, but does not wait for the result if the server runs the call as a task.
    pub async fn start(mut self) -> Result<StartedTool, ClientError> {
        self.options.start_task();
        let client = self.client.clone();
        let result = self.run().await?;
        Ok(match created_task(&result)? {
            Some(task) => StartedTool::Task(client.task(task.task_id)),
            None => StartedTool::Result(parse_result(TOOLS_CALL, result)?),
        })
    }
}

impl ToolTask {
    /// Returns the id of the task.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Asks for the state of the task.
    pub async fn status(&self) -> Result<Task, ClientError> {
        Ok(self.get().await?.task)
    }

    /// Waits for the result, and answers the questions of the task with the closures of the
    /// [`Builder`](super::Builder). If this future is dropped, the task goes on.
    pub async fn wait(&self) -> Result<CallToolResult, ClientError> {
        self.wait_with(|_| {}).await
    }

    /// Like [`Self::wait`], and calls `changed` with each state that the client learns of.
    pub async fn wait_with(&self, changed: impl FnMut(&Task) + Send) -> Result<CallToolResult, ClientError> {
        let result = self.wait_raw(changed).await?;
        parse_result(TOOLS_CALL, result)
    }

    /// Like [`Self::wait_with`], but returns the result as the server wrote it.
    pub async fn wait_raw(&self, mut changed: impl FnMut(&Task) + Send) -> Result<Raw, ClientError> {
        let mut last = None;
        let mut report = move |task: &Task| {
            if last.as_ref() != Some(task) {
                changed(task);
                last = Some(task.clone());
            }
        };
        match self.client.era() {
            Era::Modern => self.wait_modern(&mut report).await,
            Era::Legacy => self.wait_legacy(&mut report).await,
        }
    }

    /// Asks the server to cancel the task. A modern server may still complete it.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        self.client.request("tasks/cancel", json!({ "taskId": self.id })).await.map(drop)
    }

    async fn get(&self) -> Result<TaskState, ClientError> {
        let state = self.client.request(GET, json!({ "taskId": self.id })).await?;
        TaskState::parse(GET, &state)
    }

    /// Waits by notifications, if the server sends them, and else by polls.
    async fn wait_modern(&self, report: &mut (dyn FnMut(&Task) + Send)) -> Result<Raw, ClientError> {
        let mut answered = BTreeSet::new();
        let mut listen = None;
        let mut state = self.get().await?;
        if !state.task.status.is_over() {
            listen = self.listen().await;
            // The task may have changed before the server began to send notifications.
            if listen.is_some() {
                state = self.get().await?;
            }
        }
        loop {
            let TaskState { task, details } = state;
            report(&task);
            match task.status {
                TaskStatus::Working => {}
                TaskStatus::InputRequired => self.answer(details.input_requests, &mut answered).await?,
                TaskStatus::Completed => {
                    let result = details.result.ok_or_else(|| fault("its task is completed but has no result"))?;
                    return Raw::of(&result).map_err(|error| fault(&error.to_string()));
                }
                TaskStatus::Failed => {
                    let error = details.error.ok_or_else(|| fault("its task has failed but has no error"))?;
                    return Err(ClientError::Refused { method: TOOLS_CALL.to_owned(), error: error.into() });
                }
                TaskStatus::Cancelled => return Err(ClientError::TaskCancelled { id: self.id.clone() }),
            }
            state = match self.notified(&mut listen, Instant::now() + poll_pause(&task)).await {
                Some(state) => state,
                None => self.get().await?,
            };
        }
    }

    /// Subscribes to the task. Returns `None` if the server does not send notifications about it.
    async fn listen(&self) -> Option<Listen> {
        let filter = SubscriptionFilter::default().task_ids([self.id.clone()]);
        let listen = self.client.listen(filter).await.ok()?;
        listen.acknowledged().task_ids.contains(&self.id).then_some(listen)
    }

    /// Waits for a notification about the task until `deadline`, when it is time for the next poll.
    async fn notified(&self, listen: &mut Option<Listen>, deadline: Instant) -> Option<TaskState> {
        while let Some(open) = listen {
            match timeout_at(deadline, open.next()).await {
                Err(_) => return None,
                Ok(Some(ServerNotification::Other { method, params })) if method == "notifications/tasks" => {
                    let state = TaskState::parse(&method, &params).ok().filter(|state| state.task.task_id == self.id);
                    if state.is_some() {
                        return state;
                    }
                }
                // Notifications may have been missed.
                Ok(Some(_)) => return None,
                Ok(None) => *listen = None,
            }
        }
        sleep_until(deadline).await;
        None
    }

    /// Answers the questions that have not been answered yet.
    async fn answer(
        &self,
        requests: Option<InputRequests>,
        answered: &mut BTreeSet<String>,
    ) -> Result<(), ClientError> {
        let mut requests = requests.unwrap_or_default();
        requests.retain(|key, _| !answered.contains(key));
        if requests.is_empty() {
            return Ok(());
        }
        answered.extend(requests.keys().cloned());
        if requests.len() > MAX_INPUT_REQUESTS || answered.len() > MAX_TASK_QUESTIONS {
            return Err(fault(&format!(
                "its task asks {} questions; the limit is {MAX_TASK_QUESTIONS}",
                answered.len()
            )));
        }
        let link = self.client.0.link().await?;
        let answering = Answering { shared: &self.client.0, revision: link.server.revision, method: TOOLS_CALL };
        let answers = answer_all(&answering, requests).await?;
        let params = json!({ "taskId": self.id, "inputResponses": answers });
        self.client.request("tasks/update", params).await.map(drop)
    }

    /// Waits for `tasks/result`, which the server answers when the task is over. The server sends its questions as
    /// requests in the meantime.
    async fn wait_legacy(&self, report: &mut (dyn FnMut(&Task) + Send)) -> Result<Raw, ClientError> {
        let mut state = self.get().await?.task;
        let request = self.client.request("tasks/result", json!({ "taskId": self.id })).no_timeout();
        let mut result = std::pin::pin!(request.into_future());
        loop {
            report(&state);
            match timeout_at(Instant::now() + poll_pause(&state), result.as_mut()).await {
                Err(_) => state = self.get().await?.task,
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(ClientError::Refused { method, error })) => {
                    let is_cancelled = self.get().await.is_ok_and(|state| state.task.status == TaskStatus::Cancelled);
                    return Err(match is_cancelled {
                        true => ClientError::TaskCancelled { id: self.id.clone() },
                        false => ClientError::Refused { method, error },
                    });
                }
                Ok(Err(error)) => return Err(error),
            }
        }
    }
}

impl fmt::Debug for ToolTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolTask").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The state of a task and its outcome.
struct TaskState {
    task: Task,
    details: TaskDetails,
}

impl TaskState {
    fn parse(method: &str, state: &Raw) -> Result<Self, ClientError> {
        let unreadable = |error| ClientError::fault(method, format!("its result is not a task: {error}"));
        Ok(Self { task: state.to().map_err(unreadable)?, details: state.to().map_err(unreadable)? })
    }
}

/// Returns the task in the result of a call; `None` if the result is not a task.
fn created_task(result: &Raw) -> Result<Option<Task>, ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CreatedTask {
        #[serde(default)]
        result_type: Option<String>,
        /// Only in 2025-11-25.
        #[serde(default)]
        task: Option<Task>,
    }
    let unreadable = |error: serde_json::Error| fault(&format!("its task cannot be parsed: {error}"));
    let CreatedTask { result_type, task } = result.to().map_err(unreadable)?;
    match result_type.as_deref() {
        Some(RESULT_TYPE) => result.to().map(Some).map_err(unreadable),
        _ => Ok(task),
    }
}

/// Waits for the result of a call that has become a task. If this future is dropped, the task is cancelled, as the call
/// would be.
pub(super) async fn wait_for_result(
    client: &Client,
    created: &Raw,
    sink: Option<&TaskSink>,
) -> Result<Raw, ClientError> {
    let Some(task) = created_task(created)? else { return Err(fault("its task has no id")) };
    let mut guard = CancelOnDrop(Some(client.task(task.task_id)));
    let result = match &guard.0 {
        Some(task) => task.wait_raw(|state| sink.into_iter().for_each(|sink| sink.report(state))).await,
        None => unreachable!("the guard is disarmed below"),
    };
    // A task that the client gives up on, such as one that breaks the protocol, is cancelled.
    use ClientError::{Closed, Refused, TaskCancelled};
    if matches!(result, Ok(_) | Err(Refused { .. } | TaskCancelled { .. } | Closed(_))) {
        guard.0 = None;
    }
    result
}

/// A closure that gets the states of a call's task.
#[derive(Clone)]
pub(super) struct TaskSink(Arc<Mutex<StateHandler>>);

type StateHandler = dyn FnMut(&Task) + Send;

impl TaskSink {
    pub(super) fn new(handle: impl FnMut(&Task) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(handle)))
    }

    fn report(&self, state: &Task) {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))(state);
    }
}

/// Cancels a task when it is dropped.
struct CancelOnDrop(Option<ToolTask>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some(task), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { task.cancel().await });
        }
    }
}

/// Returns the time until the next poll.
fn poll_pause(task: &Task) -> Duration {
    task.poll_interval_ms.map_or(DEFAULT_POLL_PAUSE, Duration::from_millis).max(MIN_POLL_PAUSE)
}

fn fault(what: &str) -> ClientError {
    ClientError::fault(TOOLS_CALL, shown(what).to_string())
}

const TOOLS_CALL: &str = "tools/call";
const GET: &str = "tasks/get";

/// The `resultType` of a call that has become a task.
pub(super) const RESULT_TYPE: &str = "task";

/// The pause between polls if the server names none.
const DEFAULT_POLL_PAUSE: Duration = Duration::from_secs(1);

/// The shortest pause between polls: a server that names none, or zero, must not be flooded.
const MIN_POLL_PAUSE: Duration = Duration::from_millis(50);

/// The maximum number of questions of one task. No user answers so many; a server that asks more is in a loop.
const MAX_TASK_QUESTIONS: usize = 256;
