//! The record of one task: a change -> the next state, as the table in `barewire-proto` decides.

#[cfg(feature = "http")]
mod stored;

use std::collections::BTreeMap;
#[cfg(feature = "http")]
use std::collections::BTreeSet;
use std::sync::Arc;
#[cfg(feature = "http")]
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use barewire_proto::mcp::task_rules::{TaskEffect, TaskEnd, TaskEvent, TaskLife};
use barewire_proto::mcp::{Era, InputRequest, Task, TaskDetails, TaskError, timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[cfg(feature = "http")]
use super::call::StoredCall;

/// A task, as a store keeps it.
#[derive(Debug, Clone)]
pub(in crate::server) struct TaskRecord {
    pub(in crate::server) id: Arc<str>,
    pub(in crate::server) owner: TaskOwner,
    pub(in crate::server) era: Era,
    /// The run of the handler. Changes of another run are refused.
    pub(in crate::server) run: TaskRunId,
    /// The number of changes so far.
    pub(in crate::server) changes: u64,
    /// The nodes that want to know when the task changes, besides the one that runs its handler.
    #[cfg(feature = "http")]
    pub(in crate::server) watchers: BTreeSet<u32>,
    /// The call, if the handler may run again.
    #[cfg(feature = "http")]
    pub(in crate::server) call: Option<Arc<StoredCall>>,
    /// The scopes that the call of the tool needed. Every request about the task needs them too.
    pub(super) scopes: Arc<[String]>,
    created_ms: u64,
    updated_ms: u64,
    pub(in crate::server) ttl_ms: u64,
    poll_interval_ms: u64,
    life: TaskLife,
    status_message: Option<Arc<str>>,
    /// All questions that the handler has asked so far and that are not answered.
    questions: BTreeMap<String, InputRequest>,
    /// The answers that the handler has not taken yet.
    answers: BTreeMap<String, TaskAnswer>,
    pub(super) outcome: Option<Arc<TaskOutcome>>,
}

/// One run of a handler: the node that it is on, and the number of runs before. Without a cluster, there is one node and
/// one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(in crate::server) struct TaskRunId {
    pub(in crate::server) node: u32,
    pub(in crate::server) number: u32,
}

/// The client that a task belongs to. Only this client can use the task.
///
/// An owner is a text, so that processes that share a store agree about it:
///
/// | era | principal | owner |
/// |---|---|---|
/// | any | authenticated | the era and the principal |
/// | legacy | none | the connection or HTTP session, by a random name |
/// | modern | none | none: requests have no connection in common, so a client that knows the random id may use the task |
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::server) struct TaskOwner(Arc<str>);

impl TaskOwner {
    pub(super) fn principal(era: Era, name: &str) -> Self {
        let era = if era == Era::Modern { "modern" } else { "legacy" };
        Self(format!("{era} principal {name}").into())
    }

    pub(in crate::server) fn connection(random_name: &str) -> Self {
        Self(format!("legacy connection {random_name}").into())
    }

    pub(super) fn bearer() -> Self {
        Self("modern bearer".into())
    }

    /// Returns the owner as text.
    #[cfg(feature = "http")]
    pub(in crate::server) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a principal, or a sender without authentication, may use the tasks of this owner. The era is not
    /// considered.
    #[cfg(feature = "http")]
    pub(super) fn is_sender(&self, principal: Option<&str>) -> bool {
        match principal {
            Some(name) => [Era::Legacy, Era::Modern].into_iter().any(|era| *self == Self::principal(era, name)),
            None => *self == Self::bearer(),
        }
    }
}

/// The result or the error of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::server) enum TaskOutcome {
    /// The result as JSON.
    Result(Box<RawValue>),
    Error(TaskError),
}

/// The client's answer to a question: a result as JSON, or an error, which only 2025-11-25 has.
pub(in crate::server) type TaskAnswer = Result<Box<RawValue>, TaskError>;

/// A change of a task.
#[derive(Debug, Clone)]
pub(in crate::server) enum TaskChange {
    Ask { key: String, question: InputRequest },
    Answer { key: String, answer: TaskAnswer },
    Message(Arc<str>),
    End { end: TaskEnd, message: Option<Arc<str>>, outcome: Arc<TaskOutcome> },
    Cancel,
}

/// The sender of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum ChangedBy {
    Client,
    /// This run of the handler.
    Run(TaskRunId),
}

impl TaskChange {
    pub(in crate::server) fn result(is_error: bool, message: Option<String>, result: Box<RawValue>) -> Self {
        let outcome = Arc::new(TaskOutcome::Result(result));
        Self::End { end: TaskEnd::Result { is_error }, message: message.map(Into::into), outcome }
    }

    pub(in crate::server) fn error(error: TaskError) -> Self {
        let message = Some(error.message.as_str().into());
        Self::End { end: TaskEnd::Error, message, outcome: Arc::new(TaskOutcome::Error(error)) }
    }
}

impl TaskRecord {
    pub(in crate::server) fn new(
        id: Arc<str>,
        owner: TaskOwner,
        era: Era,
        scopes: Arc<[String]>,
        ttl_ms: u64,
        poll_interval_ms: u64,
    ) -> Self {
        let now = now_ms();
        Self {
            id,
            owner,
            era,
            run: TaskRunId::default(),
            changes: 0,
            #[cfg(feature = "http")]
            watchers: BTreeSet::new(),
            #[cfg(feature = "http")]
            call: None,
            scopes,
            created_ms: now,
            updated_ms: now,
            ttl_ms,
            poll_interval_ms,
            life: TaskLife::default(),
            status_message: None,
            questions: BTreeMap::new(),
            answers: BTreeMap::new(),
            outcome: None,
        }
    }

    /// Changes the task. A store calls this function for each change, and no other function changes a task.
    pub(in crate::server) fn apply(&mut self, by: ChangedBy, change: TaskChange) -> TaskEffect {
        // To a handler that has lost its task to another run, the task is over.
        if matches!(by, ChangedBy::Run(run) if run != self.run) {
            return TaskEffect::Over;
        }
        let effect = match &change {
            TaskChange::Ask { key, .. } => self.life.step(TaskEvent::Ask(key)),
            TaskChange::Answer { key, .. } => self.life.step(TaskEvent::Answer(key)),
            TaskChange::Message(_) if self.life.end().is_some() => TaskEffect::Over,
            TaskChange::Message(_) => TaskEffect::Changed,
            TaskChange::End { end, .. } => self.life.step(TaskEvent::End(*end)),
            TaskChange::Cancel => self.life.step(TaskEvent::End(TaskEnd::Cancelled)),
        };
        if effect != TaskEffect::Changed {
            return effect;
        }
        self.updated_ms = now_ms().max(self.updated_ms);
        self.changes += 1;
        match change {
            TaskChange::Ask { key, question } => {
                self.questions.insert(key, question);
            }
            TaskChange::Answer { key, answer } => {
                self.questions.remove(&key);
                self.answers.insert(key, answer);
            }
            TaskChange::Message(message) => self.status_message = Some(message),
            TaskChange::End { message, outcome, .. } => (self.status_message, self.outcome) = (message, Some(outcome)),
            TaskChange::Cancel => self.status_message = None,
        }
        if self.is_over() {
            self.questions.clear();
            self.answers.clear();
            #[cfg(feature = "http")]
            {
                self.call = None;
            }
        }
        effect
    }

    pub(in crate::server) fn is_over(&self) -> bool {
        self.life.end().is_some()
    }

    /// Returns the open questions.
    pub(super) fn open_questions(&self) -> BTreeMap<String, InputRequest> {
        self.life.open_questions(&self.questions)
    }

    pub(super) fn answer(&self, key: &str) -> Option<&TaskAnswer> {
        self.answers.get(key)
    }

    /// Returns the state of the task, as its era defines it.
    pub(super) fn task(&self) -> Task {
        let mut task = Task::new(&*self.id, self.life.status(self.era), timestamp(self.created_ms))
            .last_updated_at(timestamp(self.updated_ms))
            .ttl_ms(self.ttl_ms)
            .poll_interval_ms(self.poll_interval_ms);
        task.status_message = self.status_message.as_deref().map(str::to_owned);
        task
    }

    /// Returns the open questions, the result or the error: what `tasks/get` of the modern era adds to the state.
    pub(super) fn details(&self) -> TaskDetails {
        let mut details = TaskDetails::default();
        let questions = self.open_questions();
        if !questions.is_empty() {
            details.input_requests = Some(questions);
        }
        match self.outcome.as_deref() {
            None => {}
            Some(TaskOutcome::Result(result)) => details.result = Some(result.clone()),
            Some(TaskOutcome::Error(error)) => details.error = Some(error.clone()),
        }
        details
    }

    /// Returns the length of the texts from the handler and the client that the record keeps, in bytes.
    pub(in crate::server) fn bytes(&self) -> usize {
        let text = |json: &RawValue| json.get().len();
        let error = |error: &TaskError| error.message.len() + error.data.as_deref().map_or(0, text);
        let answers = self.answers.values().map(|answer| answer.as_deref().map_or_else(error, text));
        let questions = self.questions.values().map(|question| question.params.as_deref().map_or(0, text));
        let outcome = match self.outcome.as_deref() {
            None => 0,
            Some(TaskOutcome::Result(result)) => text(result),
            Some(TaskOutcome::Error(failed)) => error(failed),
        };
        let message = self.status_message.as_deref().map_or(0, str::len);
        let texts = answers.sum::<usize>() + questions.sum::<usize>() + outcome + message;
        #[cfg(feature = "http")]
        let texts = texts + self.call.as_deref().map_or(0, StoredCall::bytes);
        texts
    }

    /// Returns the time that is left until the task expires.
    #[cfg(feature = "http")]
    pub(in crate::server) fn time_left(&self) -> Duration {
        Duration::from_millis(self.created_ms.saturating_add(self.ttl_ms).saturating_sub(now_ms()))
    }

    /// Returns the time at which the task expires, in milliseconds since 1970.
    #[cfg(feature = "http")]
    pub(in crate::server) fn expires_ms(&self) -> u64 {
        self.created_ms.saturating_add(self.ttl_ms)
    }
}

/// Returns the time in milliseconds since 1970.
pub(in crate::server) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    super::milliseconds(since)
}
