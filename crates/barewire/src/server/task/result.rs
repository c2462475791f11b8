//! Serves `tasks/result` of 2025-11-25: waits until the task is over, asks the client the handler's questions in the
//! meantime, and returns what the call would have returned.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use barewire_proto::mcp::{InputRequest, Meta, key};
use barewire_proto::rpc::{Code, ErrorObject};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Tasks;
use super::methods::find;
use super::record::{ChangedBy, TaskChange, TaskOutcome, TaskOwner};
use super::store::TaskWatch;
use crate::Failure;
use crate::peer::{CallError, Context, Raw};
use crate::server::call::QUESTION_TIMEOUT;
use crate::server::handler_work::McpResult;

/// The result of a call, which has run as a task.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct CallResult(Meta);

impl McpResult for CallResult {
    fn take_meta(&mut self) -> Option<Meta> {
        match self.0.remove("_meta") {
            Some(Value::Object(meta)) => Some(meta),
            _ => None,
        }
    }
}

/// Waits for the result of a task.
pub(super) async fn wait(tasks: Tasks, id: String, owner: &TaskOwner, context: Context) -> Result<CallResult, Failure> {
    find(&tasks, &id, owner).await?;
    let watch = TaskWatch::of(&*tasks.store, &id).await?;
    // The questions that this request has sent to the client. Dropping the set ends those that are not answered.
    let (mut asking, mut asked) = (JoinSet::new(), BTreeSet::new());
    loop {
        let record = find(&tasks, &id, owner).await?;
        if record.is_over() {
            return match record.outcome.as_deref() {
                Some(TaskOutcome::Result(result)) => call_result(result.get(), &id),
                Some(TaskOutcome::Error(error)) => Err(ErrorObject::from(error.clone()).into()),
                None => Err(ErrorObject::new(Code::INTERNAL_ERROR, "The task was cancelled").into()),
            };
        }
        for (key, question) in record.open_questions() {
            if asked.insert(key.clone()) {
                asking.spawn(ask(tasks.clone(), id.clone(), context.clone(), key, question));
            }
        }
        watch.changed().await;
    }
}

/// The questions that are being sent to a client. Of several `tasks/result` for one task, only one asks a question.
#[derive(Default)]
pub(super) struct QuestionClaims {
    claimed: Mutex<HashSet<(String, String)>>,
    released: Notify,
}

/// The right to ask a question, until it is dropped.
struct QuestionClaim {
    claims: Arc<QuestionClaims>,
    question: (String, String),
}

impl QuestionClaim {
    /// Waits until no other request asks this question.
    async fn of(claims: &Arc<QuestionClaims>, id: &str, key: &str) -> Self {
        let question = (id.to_owned(), key.to_owned());
        loop {
            let mut released = std::pin::pin!(claims.released.notified());
            // Registered before the check, so that a release after the check is not missed.
            released.as_mut().enable();
            if claims.claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(question.clone()) {
                return Self { claims: Arc::clone(claims), question };
            }
            released.await;
        }
    }
}

impl Drop for QuestionClaim {
    fn drop(&mut self) {
        self.claims.claimed.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.question);
        self.claims.released.notify_waiters();
    }
}

/// Sends a question to the client, and stores the answer. If the connection ends first, the question stays open, for
/// another `tasks/result`.
async fn ask(tasks: Tasks, id: String, context: Context, key: String, question: InputRequest) {
    let _claim = QuestionClaim::of(&tasks.claims, &id, &key).await;
    match tasks.store.get(&id).await {
        Ok(Some(record)) if record.open_questions().contains_key(&key) => {}
        _ => return,
    }
    let mut params: Meta =
        question.params.as_deref().and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
    let meta = params.entry("_meta").or_insert_with(|| Meta::new().into());
    if let Value::Object(meta) = meta {
        meta.insert(key::RELATED_TASK.to_owned(), json!({ "taskId": id }));
    }
    let answer = match context.call::<Raw>(question.method, params).timeout(QUESTION_TIMEOUT).await {
        Ok(answer) => match serde_json::value::to_raw_value(&answer) {
            Ok(answer) => Ok(answer),
            Err(_) => return,
        },
        Err(CallError::Refused(error)) => Err(error.into()),
        Err(_) => return,
    };
    let _ = tasks.store.change(&id, ChangedBy::Client, TaskChange::Answer { key, answer }).await;
}

/// Returns the stored result, with the id of the task in its `_meta`.
fn call_result(result: &str, id: &str) -> Result<CallResult, Failure> {
    let mut members: Meta = serde_json::from_str(result)?;
    let meta = members.entry("_meta").or_insert_with(|| Meta::new().into());
    if let Value::Object(meta) = meta {
        meta.insert(key::RELATED_TASK.to_owned(), json!({ "taskId": id }));
    }
    Ok(CallResult(members))
}
