//! Runs the handler of a task without the request that created it, and keeps the result until the task expires.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::{CallToolResult, Era, InputRequest, TaskStatus};
use barewire_proto::rpc::{Code, ErrorObject};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, sleep_until};

use super::Tasks;
use super::record::{ChangedBy, TaskAnswer, TaskChange, TaskRecord, TaskRunId};
use super::store::{TaskChanged, TaskWatch};
use crate::Failure;
use crate::log::Log;
use crate::peer::{BoxedHandler, Raw, run_handler};
use crate::server::Call;
use crate::until::until;

/// The task that a [`Call`] runs as, and the run of its handler.
#[derive(Debug, Clone)]
pub(in crate::server) struct TaskRun {
    pub(super) tasks: Tasks,
    pub(super) id: Arc<str>,
    pub(super) run: TaskRunId,
}

impl TaskRun {
    /// Asks the client a question, and waits for the answer. The client fetches the question with `tasks/get` (modern),
    /// or gets it while it waits for `tasks/result` (2025-11-25). If the store is away, this waits until it is back.
    pub(in crate::server) async fn ask(&self, key: String, question: InputRequest) -> Result<TaskAnswer, Failure> {
        let watch = patiently(|| TaskWatch::of(&*self.tasks.store, &self.id)).await;
        if let Some(TaskChanged::TooLarge) = self.change(TaskChange::Ask { key: key.clone(), question }).await {
            return Err(no_room("the question"));
        }
        loop {
            match self.record().await {
                Some(record) if self.is_running(&record) => {
                    if let Some(answer) = record.answer(&key) {
                        return Ok(answer.clone());
                    }
                    watch.changed().await;
                }
                // The handler of a task that is over is dropped.
                _ => std::future::pending().await,
            }
        }
    }

    /// Sets the message that describes the status. A message for which there is no room is dropped, and so is one that
    /// comes while the store is away.
    pub(in crate::server) async fn set_message(&self, message: String) {
        let change = TaskChange::Message(shortened(&message).into());
        let _ = self.tasks.store.change(&self.id, ChangedBy::Run(self.run), change).await;
    }

    /// Changes the task as its handler. If the store is away, this tries again until the task expires, when the handler
    /// is dropped.
    async fn change(&self, change: TaskChange) -> Option<TaskChanged> {
        patiently(|| self.tasks.store.change(&self.id, ChangedBy::Run(self.run), change.clone())).await
    }

    async fn record(&self) -> Option<TaskRecord> {
        patiently(|| self.tasks.store.get(&self.id)).await
    }

    /// Whether this run of the handler is the one that the task waits for.
    fn is_running(&self, record: &TaskRecord) -> bool {
        !record.is_over() && record.run == self.run
    }
}

/// Asks the store until it answers.
async fn patiently<T, F: Future<Output = Result<T, Failure>>>(ask: impl Fn() -> F) -> T {
    let mut pause = FIRST_PAUSE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(_) => sleep(pause).await,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Runs the handler of a task until it has finished, is cancelled or expires. Afterwards the task is kept until it
/// expires.
pub(super) async fn run(task: TaskRun, era: Era, ttl: Duration, work: BoxedHandler, call: Call) {
    let expiry = Instant::now() + ttl;
    let is_kept = until(run_to_end(&task, era, work, call), sleep_until(expiry)).await;
    task.tasks.store.run_ended(&task.id, task.run);
    if is_kept.is_some() {
        sleep_until(expiry).await;
    }
    let _ = task.tasks.store.remove(&task.id).await;
}

/// Runs the handler until the task is over.
async fn run_to_end(task: &TaskRun, era: Era, work: BoxedHandler, call: Call) -> Result<(), Failure> {
    let mut cancel = CancelOnDrop(Some(call.clone()));
    let watch = patiently(|| TaskWatch::of(&*task.tasks.store, &task.id)).await;
    let mut told = TaskStatus::Working;
    let stop = until_over(task, era, &call, &watch, &mut told);
    if let Some(done) = until(run_handler(work), stop).await {
        let outcome = done.and_then(|mut work| {
            let take = || {
                let outcome = work.as_mut().outcome();
                // The handler is dropped here, where panics are caught, because values that it holds may panic.
                drop(work);
                outcome
            };
            Failure::catch(take).and_then(|outcome| outcome)
        });
        cancel.disarm();
        finish(task, outcome).await;
    }
    tell(task, era, &call, &mut told).await
}

/// Stores the outcome of the handler. An outcome for which there is no room is replaced by an error.
async fn finish(task: &TaskRun, outcome: Result<Raw, Failure>) {
    let change = match outcome.and_then(into_result) {
        Ok(change) => change,
        Err(failure) => {
            Log::default().failed(TOOLS_CALL, &failure);
            TaskChange::error(failure.error(TOOLS_CALL).into())
        }
    };
    if let Some(TaskChanged::TooLarge) = task.change(change).await {
        task.change(TaskChange::error(no_room("the result").error(TOOLS_CALL).into())).await;
    }
}

/// Returns the end of a task with this result. If the tool failed, the text of its result describes the status.
fn into_result(result: Raw) -> Result<TaskChange, Failure> {
    let CallToolResult { is_error, content, .. } = result.to()?;
    let message = content.first().filter(|_| is_error).and_then(|content| content.as_text()).map(shortened);
    let result = RawValue::from_string(result.as_str().unwrap_or("{}").to_owned())?;
    Ok(TaskChange::result(is_error, message, result))
}

fn shortened(message: &str) -> String {
    message.chars().take(MAX_MESSAGE_CHARS).collect()
}

/// Waits until the task is over or removed, or has another run, and tells the client of each change of the status.
async fn until_over(task: &TaskRun, era: Era, call: &Call, watch: &TaskWatch, told: &mut TaskStatus) {
    loop {
        watch.changed().await;
        match task.record().await {
            Some(record) if task.is_running(&record) => {}
            _ => return,
        }
        let _ = tell(task, era, call, told).await;
    }
}

/// Tells a client of 2025-11-25 of a changed status: notifications/tasks/status, which are optional. A modern client
/// subscribes to notifications.
async fn tell(task: &TaskRun, era: Era, call: &Call, told: &mut TaskStatus) -> Result<(), Failure> {
    if era == Era::Modern {
        return Ok(());
    }
    let Some(record) = task.tasks.store.get(&task.id).await? else { return Ok(()) };
    let state = record.task();
    if std::mem::replace(told, state.status) != state.status {
        // The client learns the id of the task from the response, so no notification is sent before it.
        call.context().finished().await;
        // If the connection is closed, there is no client to tell.
        let _ = call.context().peer().notify("notifications/tasks/status", state.in_era(era)).await;
    }
    Ok(())
}

/// Marks a call as cancelled if its handler is dropped before it has finished.
struct CancelOnDrop(Option<Call>);

impl CancelOnDrop {
    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(call) = &self.0 {
            call.context().cancel();
        }
    }
}

/// Returns the failure of a task for whose texts there is no room.
fn no_room(what: &str) -> Failure {
    let message = format!("There is no room for {what} of the task: the tasks of this server take too much memory");
    ErrorObject::new(Code::INTERNAL_ERROR, message).into()
}

pub(super) const TOOLS_CALL: &str = "tools/call";

/// The time after which the store is asked again for the first time. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The maximum time after which the store is asked again: a store that is back has to answer many tasks at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// The maximum length of a status message: a few lines for people.
const MAX_MESSAGE_CHARS: usize = 1000;
