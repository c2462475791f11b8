//! Serves a call of a tool that can run as a task: directly, with a task, or with a refusal.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::json::Json;
use barewire_proto::mcp::task_rules::{TaskCreation, creation, granted_ttl};
use barewire_proto::mcp::{Era, Task, TaskMembers, key};
use barewire_proto::rpc::{Code, ErrorObject, Reply};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::Instrument;

#[cfg(feature = "http")]
use super::call::StoredCall;
use super::methods::{declares_extension, missing_extension, owner};
use super::record::{TaskOwner, TaskRecord};
use super::run::{TaskRun, run};
use super::{Tasks, milliseconds};
use crate::Failure;
use crate::peer::{BoxedHandler, Raw, StartedHandler, poll_handler, run_handler};
use crate::server::connection::{ClientEra, IncomingRequest};
use crate::server::layer::{InvocationTarget, start_layered};
use crate::server::seal::{self, SealError};
use crate::server::{Call, ServerShared, Tool};

/// Starts a call of a tool that can run as a task, or whose client has asked for a task.
pub(in crate::server) fn serve_tool(request: &IncomingRequest<'_>, tool: &Arc<Tool>) -> Result<BoxedHandler, Failure> {
    let wants_task = match &request.client {
        ClientEra::Modern(modern) => declares_extension(modern.client_capabilities),
        // A server that does not declare tasks ignores `task`: MCP 2025-11-25, "Task Support and Handling".
        ClientEra::Legacy(_) => request.entries.has_tasks && request.params.task.is_some(),
    };
    match creation(request.revision, tool.task_support(), wants_task) {
        TaskCreation::Direct => request.start_directly(tool),
        TaskCreation::Task => start(request, tool),
        TaskCreation::MissingExtension => Err(missing_extension()),
        TaskCreation::TaskRequired => refusal("This tool runs only as a task, and the call does not ask for one"),
        TaskCreation::TaskForbidden => refusal("This tool does not run as a task"),
    }
}

fn refusal(why: &str) -> Result<BoxedHandler, Failure> {
    Err(ErrorObject::new(Code::METHOD_NOT_FOUND, why).into())
}

fn start(request: &IncomingRequest<'_>, tool: &Arc<Tool>) -> Result<BoxedHandler, Failure> {
    let era = request.revision.era();
    let tasks = request.shared.settings.tasks.clone();
    let new = NewTask {
        owner: owner(request)?,
        era,
        scopes: tool.scopes.as_slice().into(),
        ttl: Duration::from_millis(granted_ttl(requested_ttl(request.params.task)?, milliseconds(tasks.policy.ttl))),
        // Questions before the task are rounds of the call, which only the modern era has.
        questions_first: tool.asks_before_task() && era == Era::Modern,
        // Without room for a task, a modern server may answer with the result.
        may_run_directly: era == Era::Modern && !tool.runs_only_as_task(),
        #[cfg(feature = "http")]
        call: match tool.is_restartable() && tasks.store.keeps_calls() {
            true => Some(Arc::new(StoredCall::of(request)?)),
            false => None,
        },
        tasks,
    };
    let target = InvocationTarget::Tool(Arc::clone(tool));
    let (call, work) = start_layered(request, target, request.format(None))?;
    let future = Box::pin(new.start(call, work));
    Ok(Box::pin(TaskStart { future, outcome: None, shared: Arc::clone(request.shared), era }))
}

/// Reads `task.ttl`, with which a client of 2025-11-25 asks for a time to live. The modern era ignores `task`.
fn requested_ttl(task: Option<Json<'_>>) -> Result<Option<u64>, Failure> {
    #[derive(Deserialize)]
    struct TaskParams {
        #[serde(default)]
        ttl: Option<f64>,
    }
    let Some(task) = task else { return Ok(None) };
    let TaskParams { ttl } =
        task.to().map_err(|_| Failure::invalid_params("task must be an object, and task.ttl a number"))?;
    Ok(ttl.map(|ms| milliseconds(Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default())))
}

/// A task that is about to be created.
struct NewTask {
    owner: TaskOwner,
    era: Era,
    scopes: Arc<[String]>,
    ttl: Duration,
    questions_first: bool,
    may_run_directly: bool,
    /// The call, if the handler may run again.
    #[cfg(feature = "http")]
    call: Option<Arc<StoredCall>>,
    tasks: Tasks,
}

/// The answer to a call of a tool that can run as a task.
enum TaskStarted {
    Task(Task),
    /// The handler has finished without a task, or asks its questions before there is one.
    Direct(BoxedHandler),
}

impl NewTask {
    async fn start(self, call: Call, mut work: BoxedHandler) -> Result<TaskStarted, Failure> {
        if self.questions_first {
            match poll_fn(|context| Poll::Ready(poll_handler(&mut work, context))).await {
                Poll::Ready(Ok(())) => return Ok(TaskStarted::Direct(work)),
                Poll::Ready(Err(panic)) => return Err(panic),
                Poll::Pending => {}
            }
        }
        let Self { owner, era, scopes, ttl, tasks, .. } = self;
        let id = task_id()?;
        let poll_interval = milliseconds(tasks.policy.poll_interval);
        let mut record = TaskRecord::new(Arc::clone(&id), owner, era, scopes, milliseconds(ttl), poll_interval);
        record.run = tasks.store.first_run();
        #[cfg(feature = "http")]
        {
            record.call = self.call;
        }
        let (task, run_id) = (record.task(), record.run);
        // The task can be found before the client learns its id.
        if tasks.store.create(record).await? {
            let started = TaskRun { tasks, id, run: run_id };
            call.enter_task(started.clone());
            tokio::spawn(run(started, era, ttl, work, call).in_current_span());
            return Ok(TaskStarted::Task(task));
        }
        if self.may_run_directly {
            return run_handler(work).await.map(TaskStarted::Direct);
        }
        Err(ErrorObject::new(Code::INTERNAL_ERROR, "This server has too many tasks: try again later").into())
    }
}

/// The handler that answers with a task.
struct TaskStart {
    future: Pin<Box<dyn Future<Output = Result<TaskStarted, Failure>> + Send>>,
    outcome: Option<Result<TaskStarted, Failure>>,
    shared: Arc<ServerShared>,
    era: Era,
}

/// The result of a call of 2025-11-25 that has become a task.
#[derive(Serialize)]
struct LegacyTaskResult<'a> {
    task: TaskMembers<'a>,
}

impl TaskStart {
    fn take(&mut self) -> Result<TaskStarted, Failure> {
        self.outcome.take().expect("`poll` has returned ready")
    }

    /// Returns the members of a modern result that is a task.
    fn task_members(&self) -> String {
        format!(r#""resultType":"task","_meta":{{"{}":{}}}"#, key::SERVER_INFO, self.shared.info_json)
    }
}

impl StartedHandler for TaskStart {
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.future.as_mut().poll(context).map(|outcome| self.outcome = Some(outcome))
    }

    fn answer(mut self: Pin<&mut Self>, reply: Reply<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let task = match self.take()? {
            TaskStarted::Direct(mut work) => return work.as_mut().answer(reply, out),
            TaskStarted::Task(task) => task,
        };
        let written = match self.era {
            Era::Modern => reply.serialize_with(out, &self.task_members(), &task.in_era(self.era)),
            Era::Legacy => reply.serialize(out, &LegacyTaskResult { task: task.in_era(self.era) }),
        };
        written.map_err(|(_, error)| Failure::unserializable(&error))
    }

    fn failure(mut self: Pin<&mut Self>) -> Option<Failure> {
        match self.take() {
            Ok(TaskStarted::Direct(mut work)) => work.as_mut().failure(),
            Ok(TaskStarted::Task(_)) => None,
            Err(failure) => Some(failure),
        }
    }

    fn outcome(mut self: Pin<&mut Self>) -> Result<Raw, Failure> {
        let task = match self.take()? {
            TaskStarted::Direct(mut work) => return work.as_mut().outcome(),
            TaskStarted::Task(task) => task,
        };
        let whole = match self.era {
            Era::Legacy => Raw::of(&LegacyTaskResult { task: task.in_era(self.era) }),
            Era::Modern => serde_json::to_value(task.in_era(self.era)).and_then(|mut value| {
                if let Value::Object(own) = &mut value {
                    own.extend(serde_json::from_str::<barewire_proto::mcp::Meta>(&format!(
                        "{{{}}}",
                        self.task_members()
                    ))?);
                }
                Raw::of(&value)
            }),
        };
        whole.map_err(|error| Failure::unserializable(&error))
    }
}

/// Returns the id of a new task, which cannot be guessed. It starts with a letter, because people write it on command
/// lines, where a `-` would start an option.
fn task_id() -> Result<Arc<str>, SealError> {
    Ok(format!("t{}", seal::random_name()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_looks_like_an_option() {
        for _ in 0..1000 {
            let id = task_id().expect("random bytes");
            assert!(id.starts_with('t') && id.len() > 20, "{id}");
        }
    }
}
