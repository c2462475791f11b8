//! Requests of the page to drive a server -> calls, replies, raw frames and replays, and what became of them.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::Drive;
use super::catalog::Catalog;
use super::questions::QuestionReply;
use crate::view::{Answer, AnswerError, Driver, ViewRequest};

/// Finds the file of a source, if it is a file.
type FileOfSource = dyn Fn(&str) -> Option<PathBuf> + Send + Sync;

/// Answers the page's requests for a driven server.
pub struct DrivenServer {
    drive: Arc<Drive>,
    /// Finds the file of a source, for a replay.
    file: Box<FileOfSource>,
    /// The catalogue, as JSON, after it was fetched.
    catalog: std::sync::Mutex<Option<String>>,
}

#[derive(Deserialize)]
struct CallBody {
    method: String,
    /// The params as JSON text; absent or empty for none.
    #[serde(default)]
    params: Option<String>,
}

#[derive(Deserialize)]
struct SendBody {
    text: String,
}

#[derive(Deserialize)]
struct ReplayBody {
    source: Box<RawValue>,
}

/// The result of `completion/complete`.
#[derive(Deserialize)]
struct CompleteAnswer {
    completion: CompletedValues,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompletedValues {
    values: Vec<String>,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default)]
    has_more: Option<bool>,
}

impl DrivenServer {
    /// Creates the answers for a session. `file` finds the file of a source.
    pub fn new(drive: Arc<Drive>, file: impl Fn(&str) -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        Self { drive, file: Box::new(file), catalog: std::sync::Mutex::default() }
    }

    fn catalog(&self, is_fresh: bool) -> Answer {
        let known = || self.catalog.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(catalog) = known().clone().filter(|_| !is_fresh) {
            return Answer::Json(catalog);
        }
        let catalog = self.drive.runtime.block_on(Catalog::fetch(&self.drive.client));
        let catalog = serde_json::to_string(&catalog).unwrap_or_default();
        *known() = Some(catalog.clone());
        Answer::Json(catalog)
    }

    fn call(&self, body: &[u8]) -> Result<Answer, AnswerError> {
        let CallBody { method, params } = read(body)?;
        let params = params.filter(|params| !params.trim().is_empty());
        let params = params.map(RawValue::from_string).transpose();
        let params = params.map_err(|error| AnswerError::new(400, format!("the params are not JSON: {error}")))?;
        let Drive { runtime, client, calls, .. } = &*self.drive;
        let call = calls.start(runtime, client, (method, params)).map_err(|why| AnswerError::new(429, why))?;
        Answer::json(&json!({"call": call}))
    }

    fn complete(&self, body: &[u8]) -> Result<Answer, AnswerError> {
        let params: Box<RawValue> = read(body)?;
        let request = self.drive.client.request("completion/complete", params).timeout(COMPLETION_TIME);
        let result = self.drive.runtime.block_on(async { request.await });
        let result = result.map_err(|error| AnswerError::new(502, error))?;
        let answer: CompleteAnswer = result.to().map_err(|error| AnswerError::new(502, error))?;
        let CompletedValues { values, total, has_more } = answer.completion;
        let values: Vec<_> = values.into_iter().take(MAX_COMPLETIONS).collect();
        Answer::json(&json!({"values": values, "total": total, "more": has_more.unwrap_or(false)}))
    }

    fn reply(&self, id: u64, body: &[u8]) -> Result<Answer, AnswerError> {
        let reply = QuestionReply::parse(body);
        let reply = reply.map_err(|error| AnswerError::new(400, format!("the body cannot be read: {error}")))?;
        match self.drive.questions.reply(id, reply) {
            true => Ok(Answer::Done),
            false => Err(AnswerError::not_found("the question is not open any more")),
        }
    }

    fn replay(&self, body: &[u8]) -> Result<Answer, AnswerError> {
        let ReplayBody { source } = read(body)?;
        let file = (self.file)(source.get().trim_matches('"')).ok_or_else(|| {
            AnswerError::new(400, "the source is not a file").with_hint("open a capture, and replay that")
        })?;
        let run = self.drive.replays.start(file, self.drive.target.clone());
        Answer::json(&json!({"run": run.map_err(|why| AnswerError::new(429, why))?}))
    }
}

impl Driver for DrivenServer {
    fn answer(&self, path: &[&str], request: &ViewRequest) -> Option<Result<Answer, AnswerError>> {
        let Drive { calls, frames, questions, replays, .. } = &*self.drive;
        let found =
            |json: Option<String>, what: &str| json.map(Answer::Json).ok_or_else(|| AnswerError::not_found(what));
        let body = &request.body;
        Some(match (request.is_post, path) {
            (false, ["catalog"]) => Ok(self.catalog(request.parameter("refresh").is_some())),
            (true, ["call"]) => self.call(body),
            (false, ["call", call]) => {
                found(call.parse().ok().and_then(|call| calls.json(call)), "there is no such call")
            }
            (true, ["call", call, "cancel"]) => match call.parse().is_ok_and(|call| calls.cancel(call)) {
                true => Ok(Answer::Done),
                false => Err(AnswerError::new(409, "the call is not running")),
            },
            (false, ["questions"]) => Ok(Answer::Json(questions.json(|method| frames.of_question(method)))),
            (true, ["questions", id]) => self.reply(id.parse().unwrap_or(0), body),
            (true, ["complete"]) => self.complete(body),
            (true, ["send"]) => read::<SendBody>(body).and_then(|SendBody { text }| {
                let sent = self.drive.send(text.into_bytes());
                sent.map(|()| Answer::Done).map_err(|why| AnswerError::new(409, why))
            }),
            (true, ["replay"]) => self.replay(body),
            (false, ["replay", run]) => {
                found(run.parse().ok().and_then(|run| replays.json(run)), "there is no such replay")
            }
            _ => return None,
        })
    }

    fn open(&self) -> (u64, u64) {
        (self.drive.calls.running(), self.drive.questions.count())
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, AnswerError> {
    serde_json::from_slice(body).map_err(|error| AnswerError::new(400, format!("the body cannot be read: {error}")))
}

/// The maximum wait for completions, the same as for a page of a list: a busy machine makes any server slow.
const COMPLETION_TIME: std::time::Duration = std::time::Duration::from_secs(60);

/// The maximum number of completions, as in the specification.
const MAX_COMPLETIONS: usize = 100;
