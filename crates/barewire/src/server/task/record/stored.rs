//! A task <-> the bytes in the store of a cluster.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use barewire_proto::mcp::task_rules::TaskLife;
use barewire_proto::mcp::{Era, InputRequest};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{StoredCall, TaskAnswer, TaskOutcome, TaskOwner, TaskRecord, TaskRunId};

/// A task as JSON. Its id is the name of its record.
#[derive(Serialize, Deserialize)]
struct StoredTask<'a> {
    owner: Cow<'a, str>,
    era: StoredEra,
    #[serde(default, skip_serializing_if = "is_empty")]
    scopes: Cow<'a, [String]>,
    created_ms: u64,
    updated_ms: u64,
    ttl_ms: u64,
    poll_interval_ms: u64,
    run: TaskRunId,
    changes: u64,
    #[serde(default)]
    watchers: Cow<'a, BTreeSet<u32>>,
    life: Cow<'a, TaskLife>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_message: Option<Cow<'a, str>>,
    #[serde(default)]
    questions: Cow<'a, BTreeMap<String, InputRequest>>,
    #[serde(default)]
    answers: Cow<'a, BTreeMap<String, TaskAnswer>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<Cow<'a, TaskOutcome>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<Cow<'a, StoredCall>>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredEra {
    Legacy,
    Modern,
}

fn is_empty(scopes: &[String]) -> bool {
    scopes.is_empty()
}

impl TaskRecord {
    /// Reads the record with this id. Returns `None` for one that this version does not understand.
    pub(in crate::server) fn read(id: &str, value: &[u8]) -> Option<Self> {
        let stored: StoredTask<'_> = serde_json::from_slice(value).ok()?;
        Some(Self {
            id: id.into(),
            owner: TaskOwner(stored.owner.into()),
            era: match stored.era {
                StoredEra::Legacy => Era::Legacy,
                StoredEra::Modern => Era::Modern,
            },
            run: stored.run,
            changes: stored.changes,
            watchers: stored.watchers.into_owned(),
            call: stored.call.map(|call| Arc::new(call.into_owned())),
            scopes: stored.scopes.into_owned().into(),
            created_ms: stored.created_ms,
            updated_ms: stored.updated_ms,
            ttl_ms: stored.ttl_ms,
            poll_interval_ms: stored.poll_interval_ms,
            life: stored.life.into_owned(),
            status_message: stored.status_message.map(Into::into),
            questions: stored.questions.into_owned(),
            answers: stored.answers.into_owned(),
            outcome: stored.outcome.map(|outcome| Arc::new(outcome.into_owned())),
        })
    }

    pub(in crate::server) fn write(&self) -> Bytes {
        let stored = StoredTask {
            owner: Cow::Borrowed(&self.owner.0),
            era: match self.era {
                Era::Legacy => StoredEra::Legacy,
                Era::Modern => StoredEra::Modern,
            },
            scopes: Cow::Borrowed(&self.scopes),
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
            ttl_ms: self.ttl_ms,
            poll_interval_ms: self.poll_interval_ms,
            run: self.run,
            changes: self.changes,
            watchers: Cow::Borrowed(&self.watchers),
            life: Cow::Borrowed(&self.life),
            status_message: self.status_message.as_deref().map(Cow::Borrowed),
            questions: Cow::Borrowed(&self.questions),
            answers: Cow::Borrowed(&self.answers),
            outcome: self.outcome.as_deref().map(Cow::Borrowed),
            call: self.call.as_deref().map(Cow::Borrowed),
        };
        serde_json::to_vec(&stored).expect("numbers, text and JSON are JSON").into()
    }
}

#[cfg(test)]
mod tests {
    use barewire_proto::mcp::{TaskError, TaskStatus};
    use barewire_proto::rpc::{Code, ErrorObject};
    use serde_json::value::RawValue;

    use super::super::{ChangedBy, TaskChange};
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("JSON")
    }

    fn again(record: &TaskRecord) -> TaskRecord {
        let read = TaskRecord::read(&record.id, &record.write()).expect("it was written by this version");
        assert_eq!(read.write(), record.write());
        assert_eq!(format!("{read:?}"), format!("{record:?}"), "nothing is lost");
        read
    }

    #[test]
    fn a_record_is_read_as_it_was_written_at_every_step_of_its_life() {
        let owner = TaskOwner::principal(Era::Legacy, "ada\n\"");
        let mut record =
            TaskRecord::new("t1".into(), owner, Era::Legacy, ["jobs".to_owned()].as_slice().into(), 60_000, 1000);
        record.run = TaskRunId { node: 7, number: 2 };
        record.watchers = [3, 9].into();
        let mut record = again(&record);
        let by = ChangedBy::Run(record.run);
        let question = InputRequest::new("elicitation/create");
        let refused = TaskError::from(ErrorObject::new(Code::INTERNAL_ERROR, "no"));
        for change in [
            TaskChange::Message("half\u{0}".into()),
            TaskChange::Ask { key: "name".into(), question: question.clone() },
            TaskChange::Ask { key: "age".into(), question },
            TaskChange::Answer { key: "name".into(), answer: Ok(raw(r#"{"n": 1.50, "n": 123456789012345678901}"#)) },
            TaskChange::Answer { key: "age".into(), answer: Err(refused) },
        ] {
            record.apply(by, change);
            record = again(&record);
        }
        assert_eq!(record.task().status, TaskStatus::Working);
        let result = r#"{"content": [],  "x": 1e400}"#;
        let mut completed = record.clone();
        completed.apply(by, TaskChange::result(false, Some("done".into()), raw(result)));
        let completed = again(&completed);
        let Some(TaskOutcome::Result(kept)) = completed.outcome.as_deref() else { panic!("{completed:?}") };
        assert_eq!(kept.get(), result, "the result is kept byte by byte");
        record.apply(by, TaskChange::error(ErrorObject::new(Code::INTERNAL_ERROR, "failed").into()));
        assert_eq!(again(&record).task().status, TaskStatus::Failed);
        let (last, changes) = (record.task(), record.changes);
        record.apply(by, TaskChange::Cancel);
        assert_eq!((again(&record).task(), record.changes), (last, changes), "a task that is over never changes");
    }

    #[test]
    fn a_record_that_is_not_a_task_is_none() {
        for value in ["", "{}", "null", "[1]", "{\"owner\":1}"] {
            assert!(TaskRecord::read("t1", value.as_bytes()).is_none(), "{value}");
        }
    }
}
