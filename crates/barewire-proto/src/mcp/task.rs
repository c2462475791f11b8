//! Tasks: the state of a call that is answered later, as `tasks/get` and the notifications about tasks carry it.
//!
//! 2025-11-25 and the extension [`TASKS`](super::method::TASKS) of the modern era have the same members, but two of
//! them under other names, and only the extension has the outcome of the task among them.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::member::{or_default, whole};
use super::{Era, InputRequests};
use crate::rpc::{Code, ErrorObject};

/// The state of a task, without its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Task {
    /// The id of the task.
    pub task_id: String,
    /// The status.
    pub status: TaskStatus,
    /// A description of the status, for people and models.
    #[serde(default)]
    pub status_message: Option<String>,
    /// The time at which the task was created, in the format of RFC 3339.
    #[serde(default, deserialize_with = "or_default")]
    pub created_at: String,
    /// The time at which the task last changed, in the format of RFC 3339.
    #[serde(default, deserialize_with = "or_default")]
    pub last_updated_at: String,
    /// The number of milliseconds from the creation of the task until it may be discarded; `None` for no limit. In
    /// 2025-11-25, the name of the member is `ttl`.
    #[serde(default, alias = "ttl", deserialize_with = "whole")]
    pub ttl_ms: Option<u64>,
    /// The number of milliseconds to wait between two polls. In 2025-11-25, the name of the member is `pollInterval`.
    #[serde(default, alias = "pollInterval", deserialize_with = "whole")]
    pub poll_interval_ms: Option<u64>,
}

impl Task {
    /// Creates the state of a task that is changed for the last time when it is created.
    pub fn new(task_id: impl Into<String>, status: TaskStatus, created_at: impl Into<String>) -> Self {
        let created_at = created_at.into();
        Self {
            task_id: task_id.into(),
            status,
            status_message: None,
            last_updated_at: created_at.clone(),
            created_at,
            ttl_ms: None,
            poll_interval_ms: None,
        }
    }

    /// Returns the members of the task as this era names them.
    pub fn in_era(&self, era: Era) -> TaskMembers<'_> {
        TaskMembers { task: self, era, details: None, meta: None }
    }

    /// Returns the members of the task together with its outcome or its questions, as the extension of the modern era
    /// has them.
    pub fn with_details<'a>(&'a self, details: &'a TaskDetails) -> TaskMembers<'a> {
        TaskMembers { task: self, era: Era::Modern, details: Some(details), meta: None }
    }
}

setters! { Task {
    status_message: Option<impl Into<String>>, last_updated_at: impl Into<String>, ttl_ms: Option<u64>,
    poll_interval_ms: Option<u64>,
} }

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a finished specification defines the set")]
pub enum TaskStatus {
    /// The handler runs.
    Working,
    /// The handler waits for input from the client.
    InputRequired,
    /// There is a result.
    Completed,
    /// There is an error. In 2025-11-25, a result with `isError` counts as an error too.
    Failed,
    /// The task was cancelled before there was a result.
    Cancelled,
}

impl TaskStatus {
    /// Returns the name of the status on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the status can never change again.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The part of a task that depends on its status, in the modern era: the questions, the result or the error.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskDetails {
    /// The questions that the client has not answered yet, if the status is `input_required`.
    #[serde(default)]
    pub input_requests: Option<InputRequests>,
    /// The result of the call as JSON, if the status is `completed`.
    #[serde(default)]
    pub result: Option<Box<RawValue>>,
    /// The error of the call, if the status is `failed`.
    #[serde(default)]
    pub error: Option<TaskError>,
}

setters! { TaskDetails {
    input_requests: Option<InputRequests>, result: Option<Box<RawValue>>, error: Option<TaskError>,
} }

/// The JSON-RPC error of a failed task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskError {
    /// The error code.
    pub code: i64,
    /// The error message.
    pub message: String,
    /// Additional details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl From<ErrorObject> for TaskError {
    fn from(error: ErrorObject) -> Self {
        Self { code: error.code.get(), message: error.message, data: error.data }
    }
}

impl From<TaskError> for ErrorObject {
    fn from(error: TaskError) -> Self {
        Self { code: Code::received(error.code), message: error.message, data: error.data }
    }
}

/// The members of a [`Task`], written with the names of an era.
#[derive(Debug, Clone, Copy)]
pub struct TaskMembers<'a> {
    task: &'a Task,
    era: Era,
    details: Option<&'a TaskDetails>,
    meta: Option<&'a RawValue>,
}

impl<'a> TaskMembers<'a> {
    /// Adds the member `_meta`.
    #[must_use]
    pub fn meta(mut self, meta: &'a RawValue) -> Self {
        self.meta = Some(meta);
        self
    }
}

impl Serialize for TaskMembers<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Task { task_id, status, status_message, created_at, last_updated_at, ttl_ms, poll_interval_ms } = self.task;
        let (ttl_name, interval_name) = match self.era {
            Era::Legacy => ("ttl", "pollInterval"),
            Era::Modern => ("ttlMs", "pollIntervalMs"),
        };
        let mut members = to.serialize_map(None)?;
        if let Some(meta) = self.meta {
            members.serialize_entry("_meta", meta)?;
        }
        members.serialize_entry("taskId", task_id)?;
        members.serialize_entry("status", status)?;
        if let Some(message) = status_message {
            members.serialize_entry("statusMessage", message)?;
        }
        members.serialize_entry("createdAt", created_at)?;
        members.serialize_entry("lastUpdatedAt", last_updated_at)?;
        // Null is a value of its own here: the task is kept without a time limit.
        members.serialize_entry(ttl_name, ttl_ms)?;
        if let Some(interval) = poll_interval_ms {
            members.serialize_entry(interval_name, interval)?;
        }
        if let Some(TaskDetails { input_requests, result, error }) = self.details {
            if let Some(requests) = input_requests {
                members.serialize_entry("inputRequests", requests)?;
            }
            if let Some(result) = result {
                members.serialize_entry("result", result)?;
            }
            if let Some(error) = error {
                members.serialize_entry("error", error)?;
            }
        }
        members.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task::new("t", TaskStatus::Working, "2025-11-25T10:30:00.000Z").ttl_ms(60_000).poll_interval_ms(5000)
    }

    #[test]
    fn each_era_has_its_own_names() {
        let text = |era| serde_json::to_string(&task().in_era(era)).expect("JSON");
        let legacy = text(Era::Legacy);
        assert!(legacy.contains(r#""ttl":60000,"pollInterval":5000"#), "{legacy}");
        let modern = text(Era::Modern);
        assert!(modern.contains(r#""ttlMs":60000,"pollIntervalMs":5000"#), "{modern}");
        for text in [legacy, modern] {
            assert_eq!(serde_json::from_str::<Task>(&text).expect("a task"), task());
        }
    }

    #[test]
    fn a_task_without_a_time_limit_has_null() {
        let unlimited = Task { ttl_ms: None, poll_interval_ms: None, ..task() };
        let text = serde_json::to_string(&unlimited.in_era(Era::Modern)).expect("JSON");
        assert!(text.ends_with(r#""ttlMs":null}"#), "{text}");
        assert_eq!(serde_json::from_str::<Task>(&text).expect("a task"), unlimited);
    }

    #[test]
    fn the_outcome_is_written_after_the_state() {
        let error = ErrorObject::new(Code::INTERNAL_ERROR, "API rate limit exceeded");
        let details = TaskDetails::default().error(TaskError::from(error));
        let failed = Task { status: TaskStatus::Failed, ..task() };
        let text = serde_json::to_string(&failed.with_details(&details)).expect("JSON");
        assert!(text.ends_with(r#","error":{"code":-32603,"message":"API rate limit exceeded"}}"#), "{text}");
        let read: TaskDetails = serde_json::from_str(&text).expect("details");
        assert_eq!(read.error.expect("an error").code, -32603);
    }
}
