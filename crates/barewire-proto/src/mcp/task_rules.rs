//! The rules of tasks: when a call becomes a task, which status follows which, and what is answered in which era.
//!
//! MCP 2025-11-25, basic/utilities/tasks; the extension io.modelcontextprotocol/tasks of the modern era.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{ClientCapabilities, Era, Object, Revision, TaskStatus, TaskSupport, method};

/// How a `tools/call` is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every decision")]
pub enum TaskCreation {
    /// The call is answered with the result of the tool.
    Direct,
    /// The call is answered with a task.
    Task,
    /// The call is refused with -32021: the tool runs only as a task, and the client has not declared the extension.
    MissingExtension,
    /// The call is refused with -32601: the tool runs only as a task, and the client has not asked for one.
    TaskRequired,
    /// The call is refused with -32601: the client has asked for a task, and the tool cannot run as one.
    TaskForbidden,
}

/// Decides how a `tools/call` is served. `wants_task` says whether the client has declared the extension in this
/// request (modern era), or has sent `task` (2025-11-25).
///
/// | revision | `taskSupport` | `wants_task` | result |
/// |---|---|---|---|
/// | modern | absent, `forbidden` | | direct |
/// | modern | `optional` | no | direct |
/// | modern | `optional`, `required` | yes | task: the server decides, and it always prefers a task |
/// | modern | `required` | no | -32021 |
/// | 2025-11-25 | absent, `forbidden` | no | direct |
/// | 2025-11-25 | absent, `forbidden` | yes | -32601 |
/// | 2025-11-25 | `optional` | no | direct |
/// | 2025-11-25 | `optional`, `required` | yes | task |
/// | 2025-11-25 and older | `required` | no | -32601 |
/// | older | other | | direct: a member `task` is not part of the protocol |
pub fn creation(revision: Revision, support: Option<TaskSupport>, wants_task: bool) -> TaskCreation {
    let support = support.unwrap_or(TaskSupport::Forbidden);
    let wants_task = wants_task && (revision.is_modern() || revision.has_tasks());
    match (support, wants_task) {
        (TaskSupport::Optional | TaskSupport::Required, true) => TaskCreation::Task,
        (TaskSupport::Required, false) if revision.is_modern() => TaskCreation::MissingExtension,
        (TaskSupport::Required, false) => TaskCreation::TaskRequired,
        (TaskSupport::Forbidden, true) if revision.has_tasks() => TaskCreation::TaskForbidden,
        (TaskSupport::Forbidden, _) | (TaskSupport::Optional, false) => TaskCreation::Direct,
    }
}

/// A method of `tasks/*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "finished specifications define the set")]
#[allow(missing_docs, reason = "the names are those of the methods")]
pub enum TaskMethod {
    Get,
    Result,
    List,
    Update,
    Cancel,
}

impl TaskMethod {
    /// Returns the method with this name, if `revision` has it: in 2025-11-25 as part of the protocol, in the modern
    /// era as part of the extension.
    ///
    /// | method | 2025-11-25 | modern |
    /// |---|---|---|
    /// | `tasks/get`, `tasks/cancel` | yes | yes |
    /// | `tasks/result`, `tasks/list` | yes | no |
    /// | `tasks/update` | no | yes |
    pub fn find(name: &str, revision: Revision) -> Option<Self> {
        let (found, legacy, modern) = match name {
            "tasks/get" => (Self::Get, true, true),
            "tasks/cancel" => (Self::Cancel, true, true),
            "tasks/result" => (Self::Result, true, false),
            "tasks/list" => (Self::List, true, false),
            "tasks/update" => (Self::Update, false, true),
            _ => return None,
        };
        (legacy && revision.has_tasks() || modern && revision.is_modern()).then_some(found)
    }
}

/// Whether these capabilities declare the extension of the modern era.
pub fn declares_tasks(extensions: Option<&Object>) -> bool {
    extensions.is_some_and(|extensions| extensions.get(method::TASKS).is_some_and(serde_json::Value::is_object))
}

/// Whether the `tasks` capability of a server of 2025-11-25 includes `tools/call`.
pub fn declares_tool_tasks(tasks: Option<&Object>) -> bool {
    let requests = tasks.and_then(|tasks| tasks.get("requests"));
    requests.and_then(|requests| requests.get("tools")?.get("call")).is_some_and(serde_json::Value::is_object)
}

/// Returns the capabilities that declare only the extension, for `data.requiredCapabilities` of the error -32021.
pub fn tasks_extension() -> ClientCapabilities {
    ClientCapabilities::default().extensions(extensions_with_tasks())
}

/// Returns an `extensions` object that declares only the extension.
pub fn extensions_with_tasks() -> Object {
    [(method::TASKS.to_owned(), Object::new().into())].into_iter().collect()
}

/// The end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a call has a result or an error, or is cancelled")]
pub enum TaskEnd {
    /// The call has a result. `is_error` is the member `isError` of the result.
    Result {
        /// Whether the result reports that the tool failed.
        is_error: bool,
    },
    /// The call has an error.
    Error,
    /// The task was cancelled.
    Cancelled,
}

/// A change of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must be able to name every change")]
pub enum TaskEvent<'a> {
    /// The handler asks the client a question with this key.
    Ask(&'a str),
    /// The client answers the question with this key.
    Answer(&'a str),
    /// The call ends.
    End(TaskEnd),
}

/// The effect of a [`TaskEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every effect")]
pub enum TaskEffect {
    /// The task has changed.
    Changed,
    /// The event is ignored: no such question is open, or the key was used before.
    Ignored,
    /// The event is ignored: the task is over, and its status can never change again.
    Over,
}

/// The life of a task: its open questions, and its end. It can be written as JSON, for a store that several processes
/// share.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskLife {
    open: BTreeSet<String>,
    /// The keys of all answered questions. A key is never used again: a late answer would be taken for the answer to
    /// another question.
    answered: BTreeSet<String>,
    end: Option<TaskEnd>,
}

impl TaskLife {
    /// Changes the task.
    ///
    /// | event | running | over |
    /// |---|---|---|
    /// | ask | changed; ignored if the key was used before | over |
    /// | answer | changed; ignored if no such question is open | over |
    /// | end | changed; all questions are withdrawn | over |
    pub fn step(&mut self, event: TaskEvent<'_>) -> TaskEffect {
        if self.end.is_some() {
            return TaskEffect::Over;
        }
        match event {
            TaskEvent::Ask(key) if self.open.contains(key) || self.answered.contains(key) => TaskEffect::Ignored,
            TaskEvent::Ask(key) => {
                self.open.insert(key.to_owned());
                TaskEffect::Changed
            }
            TaskEvent::Answer(key) if !self.open.remove(key) => TaskEffect::Ignored,
            TaskEvent::Answer(key) => {
                self.answered.insert(key.to_owned());
                TaskEffect::Changed
            }
            TaskEvent::End(end) => {
                self.open.clear();
                self.end = Some(end);
                TaskEffect::Changed
            }
        }
    }

    /// Returns the status, as this era defines it.
    ///
    /// | end | questions | 2025-11-25 | modern |
    /// |---|---|---|---|
    /// | none | none | `working` | `working` |
    /// | none | some | `input_required` | `input_required` |
    /// | a result | | `completed` | `completed` |
    /// | a result with `isError` | | `failed` | `completed` |
    /// | an error | | `failed` | `failed` |
    /// | cancelled | | `cancelled` | `cancelled` |
    pub fn status(&self, era: Era) -> TaskStatus {
        match (self.end, era) {
            (None, _) if self.open.is_empty() => TaskStatus::Working,
            (None, _) => TaskStatus::InputRequired,
            (Some(TaskEnd::Result { is_error: true }), Era::Legacy) => TaskStatus::Failed,
            (Some(TaskEnd::Result { .. }), _) => TaskStatus::Completed,
            (Some(TaskEnd::Error), _) => TaskStatus::Failed,
            (Some(TaskEnd::Cancelled), _) => TaskStatus::Cancelled,
        }
    }

    /// Returns the end of the task; `None` while it runs.
    pub fn end(&self) -> Option<TaskEnd> {
        self.end
    }

    /// Returns the questions of `asked` that are open.
    pub fn open_questions<T: Clone>(&self, asked: &BTreeMap<String, T>) -> BTreeMap<String, T> {
        let open = asked.iter().filter(|(key, _)| self.open.contains(*key));
        open.map(|(key, question)| (key.clone(), question.clone())).collect()
    }
}

/// The answer to a `tasks/cancel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every answer")]
pub enum CancelAnswer {
    /// An empty result.
    Acknowledgement,
    /// The state of the task.
    State,
    /// The error -32602.
    Refusal,
}

/// Decides how a `tasks/cancel` that had this effect is answered.
///
/// | the task was | 2025-11-25 | modern |
/// |---|---|---|
/// | running | its state, which is now `cancelled` | an empty result |
/// | over | -32602 | an empty result |
pub fn cancel_answer(effect: TaskEffect, era: Era) -> CancelAnswer {
    match (effect, era) {
        (_, Era::Modern) => CancelAnswer::Acknowledgement,
        (TaskEffect::Over, Era::Legacy) => CancelAnswer::Refusal,
        (TaskEffect::Changed | TaskEffect::Ignored, Era::Legacy) => CancelAnswer::State,
    }
}

/// Returns the time to live of a new task, in milliseconds. 2025-11-25 lets the client ask for one, which the server
/// may shorten but need not extend; the modern era does not.
pub fn granted_ttl(requested_ms: Option<u64>, max_ms: u64) -> u64 {
    requested_ms.map_or(max_ms, |requested| requested.clamp(1, max_ms.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_creation_table() {
        use TaskCreation::{Direct, MissingExtension, Task, TaskForbidden, TaskRequired};
        let (optional, required) = (Some(TaskSupport::Optional), Some(TaskSupport::Required));
        let (modern, november, june) = (Revision::V2026_07_28, Revision::V2025_11_25, Revision::V2025_06_18);
        for (revision, support, wants_task, expected) in [
            (modern, None, false, Direct),
            (modern, None, true, Direct),
            (modern, Some(TaskSupport::Forbidden), true, Direct),
            (modern, optional, false, Direct),
            (modern, optional, true, Task),
            (modern, required, true, Task),
            (modern, required, false, MissingExtension),
            (november, None, false, Direct),
            (november, None, true, TaskForbidden),
            (november, Some(TaskSupport::Forbidden), true, TaskForbidden),
            (november, optional, false, Direct),
            (november, optional, true, Task),
            (november, required, true, Task),
            (november, required, false, TaskRequired),
            (june, required, false, TaskRequired),
            (june, required, true, TaskRequired),
            (june, optional, true, Direct),
            (june, None, true, Direct),
        ] {
            assert_eq!(creation(revision, support, wants_task), expected, "{revision} {support:?} {wants_task}");
        }
    }

    #[test]
    fn each_era_has_its_own_methods() {
        let names = ["tasks/get", "tasks/result", "tasks/list", "tasks/update", "tasks/cancel", "tasks/other"];
        let found = |revision| names.map(|name| TaskMethod::find(name, revision).is_some());
        assert_eq!(found(Revision::V2025_11_25), [true, true, true, false, true, false]);
        assert_eq!(found(Revision::V2026_07_28), [true, false, false, true, true, false]);
        assert_eq!(found(Revision::V2025_06_18), [false; 6]);
    }

    #[test]
    fn the_methods_agree_with_the_table_of_all_methods() {
        for known in method::METHODS.iter().filter(|method| method.name.starts_with("tasks/")) {
            let modern = TaskMethod::find(known.name, Revision::V2026_07_28).is_some();
            assert_eq!(modern, known.extension.is_some(), "{}", known.name);
            let legacy = TaskMethod::find(known.name, Revision::V2025_11_25).is_some();
            assert_eq!(legacy, known.by_client.is_some(), "{}", known.name);
        }
    }

    #[test]
    fn a_question_is_open_until_it_is_answered_and_its_key_is_never_used_again() {
        let mut life = TaskLife::default();
        assert_eq!(life.status(Era::Modern), TaskStatus::Working);
        assert_eq!(life.step(TaskEvent::Answer("name")), TaskEffect::Ignored);
        assert_eq!(life.step(TaskEvent::Ask("name")), TaskEffect::Changed);
        assert_eq!(life.step(TaskEvent::Ask("name")), TaskEffect::Ignored);
        assert_eq!(life.step(TaskEvent::Ask("age")), TaskEffect::Changed);
        assert_eq!(life.status(Era::Legacy), TaskStatus::InputRequired);
        assert_eq!(life.step(TaskEvent::Answer("name")), TaskEffect::Changed);
        assert_eq!(life.status(Era::Modern), TaskStatus::InputRequired);
        let asked = ["age", "name"].map(|key| (key.to_owned(), ())).into_iter().collect();
        assert_eq!(life.open_questions(&asked).into_keys().collect::<Vec<_>>(), ["age"]);
        assert_eq!(life.step(TaskEvent::Answer("age")), TaskEffect::Changed);
        assert_eq!(life.status(Era::Modern), TaskStatus::Working);
        assert_eq!(life.step(TaskEvent::Ask("name")), TaskEffect::Ignored);
    }

    #[test]
    fn a_task_that_is_over_never_changes() {
        let ends = [
            (TaskEnd::Result { is_error: false }, TaskStatus::Completed, TaskStatus::Completed),
            (TaskEnd::Result { is_error: true }, TaskStatus::Failed, TaskStatus::Completed),
            (TaskEnd::Error, TaskStatus::Failed, TaskStatus::Failed),
            (TaskEnd::Cancelled, TaskStatus::Cancelled, TaskStatus::Cancelled),
        ];
        for (end, legacy, modern) in ends {
            let mut life = TaskLife::default();
            assert_eq!(life.step(TaskEvent::Ask("name")), TaskEffect::Changed);
            assert_eq!(life.step(TaskEvent::End(end)), TaskEffect::Changed);
            for event in [TaskEvent::Ask("x"), TaskEvent::Answer("name"), TaskEvent::End(TaskEnd::Cancelled)] {
                assert_eq!(life.step(event), TaskEffect::Over);
            }
            assert_eq!((life.status(Era::Legacy), life.status(Era::Modern)), (legacy, modern));
            assert!(life.status(Era::Legacy).is_over() && life.status(Era::Modern).is_over());
        }
    }

    #[test]
    fn only_2025_11_25_refuses_to_cancel_a_task_that_is_over() {
        assert_eq!(cancel_answer(TaskEffect::Changed, Era::Legacy), CancelAnswer::State);
        assert_eq!(cancel_answer(TaskEffect::Over, Era::Legacy), CancelAnswer::Refusal);
        for effect in [TaskEffect::Changed, TaskEffect::Over] {
            assert_eq!(cancel_answer(effect, Era::Modern), CancelAnswer::Acknowledgement);
        }
    }

    #[test]
    fn a_client_may_ask_for_a_shorter_time_to_live() {
        assert_eq!(granted_ttl(None, 1000), 1000);
        assert_eq!(granted_ttl(Some(10), 1000), 10);
        assert_eq!(granted_ttl(Some(0), 1000), 1);
        assert_eq!(granted_ttl(Some(u64::MAX), 1000), 1000);
    }
}
