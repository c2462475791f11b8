//! The calls that the page has started: running, or with their results.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use barewire::client::{Client, ClientError};
use barewire_proto::mcp::ProgressParams;
use barewire_proto::rpc::ErrorObject;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::frames::CallFrames;

/// The calls by number, the oldest first.
pub(super) struct Calls {
    list: Mutex<CallList>,
    frames: Arc<CallFrames>,
}

#[derive(Default)]
struct CallList {
    last: u64,
    calls: BTreeMap<u64, CallRecord>,
}

struct CallRecord {
    started: Instant,
    /// The time from the start to the end, in seconds.
    elapsed: Option<f64>,
    progress: Option<ShownProgress>,
    outcome: CallOutcome,
    task: Option<AbortHandle>,
}

enum CallOutcome {
    Running,
    Cancelled,
    /// The result as JSON text; `None` if it is too long, and is only in the frame.
    Result(Option<String>),
    Refused(ErrorObject),
    /// There is no response, for this reason.
    Failed(String),
}

#[derive(Clone, Serialize)]
struct ShownProgress {
    done: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[derive(Serialize)]
struct ShownCall {
    state: &'static str,
    frames: ShownFrames,
    progress: Option<ShownProgress>,
    result: Option<String>,
    /// Whether the result is only in the frame, because it is long.
    cut: bool,
    error: Option<ShownError>,
    elapsed: f64,
}

#[derive(Serialize)]
struct ShownFrames {
    request: Option<u64>,
    response: Option<u64>,
}

#[derive(Serialize)]
struct ShownError {
    code: Option<i64>,
    message: String,
    data: Option<Box<RawValue>>,
}

impl Calls {
    pub(super) fn new(frames: Arc<CallFrames>) -> Self {
        Self { list: Mutex::default(), frames }
    }

    /// Starts a call, and returns its number. An error says why it cannot be started.
    pub(super) fn start(
        self: &Arc<Self>,
        runtime: &Handle,
        client: &Client,
        (method, params): (String, Option<Box<RawValue>>),
    ) -> Result<u64, String> {
        let mut list = self.lock();
        if list.running() >= MAX_RUNNING {
            return Err(format!("{MAX_RUNNING} calls are running: cancel some of them first"));
        }
        list.last += 1;
        let call = list.last;
        while list.calls.len() >= MAX_CALLS {
            let Some(oldest) = list.calls.iter().find(|(_, it)| it.elapsed.is_some()).map(|(number, _)| *number) else {
                break;
            };
            list.calls.remove(&oldest);
            self.frames.forget(oldest);
        }
        let record = CallRecord {
            started: Instant::now(),
            elapsed: None,
            progress: None,
            outcome: CallOutcome::Running,
            task: None,
        };
        list.calls.insert(call, record);
        self.frames.expect(&method, params.as_deref(), call);
        let (calls, updates) = (Arc::clone(self), Arc::clone(self));
        let request =
            client.request(method, params).no_timeout().on_progress(move |progress| updates.progress(call, progress));
        let task = runtime.spawn(async move {
            let outcome = match request.await {
                Ok(result) => {
                    let text = result.as_str().unwrap_or("null");
                    CallOutcome::Result((text.len() <= MAX_RESULT).then(|| text.to_owned()))
                }
                Err(ClientError::Refused { error, .. }) => CallOutcome::Refused(error),
                Err(error) => {
                    if was_not_sent(&error) {
                        calls.frames.do_not_expect(call);
                    }
                    CallOutcome::Failed(error.to_string())
                }
            };
            calls.end(call, outcome);
        });
        if let Some(record) = list.calls.get_mut(&call) {
            record.task = Some(task.abort_handle());
        }
        Ok(call)
    }

    /// Cancels a call. The server is notified. Returns `false` if it is not running.
    pub(super) fn cancel(&self, call: u64) -> bool {
        let mut list = self.lock();
        let running = list.calls.get_mut(&call).filter(|it| it.elapsed.is_none());
        running.is_some_and(|record| {
            if let Some(task) = record.task.take() {
                task.abort();
            }
            record.end(CallOutcome::Cancelled);
            // It may not have been sent, because the server does not read.
            self.frames.do_not_expect(call);
            true
        })
    }

    pub(super) fn cancel_all(&self) {
        let running: Vec<u64> = self.lock().calls.keys().copied().collect();
        for call in running {
            self.cancel(call);
        }
    }

    pub(super) fn running(&self) -> u64 {
        self.lock().running() as u64
    }

    /// Returns a call as JSON.
    pub(super) fn json(&self, call: u64) -> Option<String> {
        let (request, response) = self.frames.of_call(call);
        let list = self.lock();
        let record = list.calls.get(&call)?;
        let failed = |message: &str| ShownError { code: None, message: message.to_owned(), data: None };
        let (state, result, cut, error) = match &record.outcome {
            CallOutcome::Running => ("running", None, false, None),
            CallOutcome::Cancelled => ("cancelled", None, false, None),
            CallOutcome::Result(result) => ("done", result.clone(), result.is_none(), None),
            CallOutcome::Refused(error) => {
                let data = error.data.clone().filter(|data| data.get().len() <= MAX_RESULT);
                let error = ShownError { code: Some(error.code.get()), message: error.message.clone(), data };
                ("done", None, false, Some(error))
            }
            CallOutcome::Failed(why) => ("failed", None, false, Some(failed(why))),
        };
        let shown = ShownCall {
            state,
            frames: ShownFrames { request, response },
            progress: record.progress.clone(),
            result,
            cut,
            error,
            elapsed: record.elapsed.unwrap_or_else(|| record.started.elapsed().as_secs_f64()),
        };
        serde_json::to_string(&shown).ok()
    }

    fn progress(&self, call: u64, progress: ProgressParams) {
        let message = progress.message.map(|message| message.chars().take(MAX_MESSAGE).collect());
        if let Some(record) = self.lock().calls.get_mut(&call) {
            record.progress = Some(ShownProgress { done: progress.progress, total: progress.total, message });
        }
    }

    fn end(&self, call: u64, outcome: CallOutcome) {
        if let Some(record) = self.lock().calls.get_mut(&call) {
            record.end(outcome);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallList {
    fn running(&self) -> usize {
        self.calls.values().filter(|record| record.elapsed.is_none()).count()
    }
}

impl CallRecord {
    fn end(&mut self, outcome: CallOutcome) {
        if self.elapsed.is_none() {
            self.elapsed = Some(self.started.elapsed().as_secs_f64());
            self.outcome = outcome;
            self.task = None;
        }
    }
}

/// Whether the call has failed before its request was sent.
const fn was_not_sent(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Params(_)
            | ClientError::NotOffered { .. }
            | ClientError::NotInRevision { .. }
            | ClientError::Spawn(_)
            | ClientError::Handshake { .. }
            | ClientError::Version { .. }
            | ClientError::GaveUp { .. }
    )
}

/// The maximum number of running calls: more than a person starts.
const MAX_RUNNING: usize = 64;

/// The maximum number of calls whose results are kept.
const MAX_CALLS: usize = 200;

/// The maximum length of a result that is kept, in bytes. A longer one is only in its frame.
const MAX_RESULT: usize = 256 * 1024;

/// The maximum length of a progress message, in characters.
const MAX_MESSAGE: usize = 1000;
