//! Runs the rounds of a call: as long as the result requires input, sends the call again with the input.
//!
//! MCP 2026-07-28, basic/patterns/mrtr. The same closures answer input requests and the requests of a legacy server.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use barewire_proto::mcp::task_rules::declares_tool_tasks;
use barewire_proto::mcp::{CallToolResult, ElicitResult, InputRequest, InputRequiredResult, Object, Revision};
use barewire_proto::rpc::Code;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::handlers::RequestRejection;
use super::params::{Members, to_raw};
use super::request::ActiveCall;
use super::small::parse_small_raw;
use super::{Client, ClientError, ClientShared, task};
use crate::Failure;
use crate::log::quoted;
use crate::peer::{Raw, shown};

/// The member that distinguishes a final result from a result that requires input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultTypeMember {
    #[serde(default)]
    result_type: Option<String>,
}

/// The members of a result that requires input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequiredInput {
    #[serde(default)]
    input_requests: Option<BTreeMap<String, InputRequest>>,
    /// The server's state. It is not parsed, because the client must send it back unchanged, byte for byte.
    #[serde(default)]
    request_state: Option<Box<RawValue>>,
}

/// Sends the request. If the result contains input requests, answers them and sends the request again, until the result
/// is final.
pub(super) async fn run(call: &ActiveCall<'_>) -> Result<Raw, ClientError> {
    if !call.link.server.revision.has_result_type() {
        return run_legacy(call).await;
    }
    let [responses, state] = ROUND_MEMBERS;
    let mut round = None;
    let mut idle = 0;
    for _ in 0..MAX_ROUNDS {
        let result = call.send_round(round).await?;
        if call.options.wants_raw_result() {
            return Ok(result);
        }
        let RequiredInput { input_requests, request_state } = match result_kind(call, &result)? {
            ResultKind::Final => return Ok(result),
            ResultKind::Task if call.options.starts_task() => return Ok(result),
            ResultKind::Task => {
                // Boxed, because few calls become tasks.
                return Box::pin(task::wait_for_result(
                    &Client(Arc::clone(call.shared)),
                    &result,
                    call.options.task_sink(),
                ))
                .await;
            }
            ResultKind::InputRequired(input) => input,
        };
        let mut more = Members::new();
        match input_requests.as_ref().map_or(0, BTreeMap::len) {
            // Without input requests the next round would follow immediately, so a pause keeps the client from flooding
            // the server with requests.
            0 => {
                tokio::time::sleep(idle_pause(idle)).await;
                idle += 1;
            }
            1..=MAX_INPUT_REQUESTS => idle = 0,
            count => {
                let what = format!("it sends {count} input requests at once; the limit is {MAX_INPUT_REQUESTS}");
                return Err(ClientError::fault(call.method, what));
            }
        }
        if let Some(requests) = input_requests {
            more.insert(responses.to_owned(), to_raw(&answer_all(&Answering::of(call), requests).await?));
        }
        if let Some(given) = request_state {
            more.insert(state.to_owned(), given);
        }
        round = Some(more);
    }
    Err(ClientError::fault(call.method, format!("it has required input {MAX_ROUNDS} times in a row")))
}

/// Sends a request to a legacy server. 2025-11-25 has tools that run only as tasks: their calls are refused, and sent
/// again as tasks.
async fn run_legacy(call: &ActiveCall<'_>) -> Result<Raw, ClientError> {
    let server = &call.link.server;
    let has_tasks = call.method == "tools/call"
        && server.revision.has_tasks()
        && declares_tool_tasks(server.capabilities.tasks.as_ref())
        && !call.options.wants_raw_result();
    let is_refused =
        |error: &ClientError| matches!(error, ClientError::Refused { error, .. } if error.code == NO_SUCH_METHOD);
    let as_task = || Some(Members::from([("task".to_owned(), to_raw(&Object::new()))]));
    if !has_tasks {
        return call.send_round(None).await;
    }
    if call.options.starts_task() {
        return match call.send_round(as_task()).await {
            // The tool does not run as a task.
            Err(error) if is_refused(&error) => call.send_round(None).await,
            result => result,
        };
    }
    let result = call.send_round(None).await;
    let needs_task = match &result {
        Err(error) => is_refused(error),
        Ok(result) => is_sdk_refusal(result),
    };
    if !needs_task {
        return result;
    }
    let created = call.send_round(as_task()).await?;
    Box::pin(task::wait_for_result(&Client(Arc::clone(call.shared)), &created, call.options.task_sink())).await
}

/// Whether this result says that the tool runs only as a task. The official TypeScript SDK writes the error -32601 as the
/// text of a result.
fn is_sdk_refusal(result: &Raw) -> bool {
    let names_it = result.as_str().is_some_and(|text| text.contains("requires task augmentation"));
    names_it
        && result.to::<CallToolResult>().is_ok_and(|result| {
            let text = result.content.first().and_then(|content| content.as_text());
            result.is_error && text.is_some_and(|text| text.starts_with("MCP error -32601: "))
        })
}

/// The kind of a modern result.
enum ResultKind {
    Final,
    InputRequired(RequiredInput),
    Task,
}

/// Returns the kind of a modern result.
fn result_kind(call: &ActiveCall<'_>, result: &Raw) -> Result<ResultKind, ClientError> {
    let method = call.method;
    if !result.as_str().is_some_and(|text| text.starts_with('{')) {
        // The result is not an object, which `parse_result` reports later.
        return Ok(ResultKind::Final);
    }
    let fault = |what: String| ClientError::fault(method, what);
    let unreadable = |error| fault(format!("its result cannot be parsed: {error}"));
    let ResultTypeMember { result_type } = result.to().map_err(unreadable)?;
    match result_type.as_deref() {
        None | Some("complete") => Ok(ResultKind::Final),
        // A server must not create a task for another method, or for a client that has not declared the extension.
        Some(task::RESULT_TYPE) if method == "tools/call" && call.link.declares_tasks() => Ok(ResultKind::Task),
        Some(InputRequiredResult::RESULT_TYPE) if !METHODS_WITH_INPUT.contains(&method) => {
            Err(fault("its result requires input, which this method does not allow".to_owned()))
        }
        Some(InputRequiredResult::RESULT_TYPE) => {
            let required: RequiredInput =
                parse_small_raw(result).map_err(|error| fault(format!("its result cannot be parsed: {error}")))?;
            if required.input_requests.is_none() && required.request_state.is_none() {
                return Err(fault(
                    "its result requires input but has neither inputRequests nor requestState".to_owned(),
                ));
            }
            Ok(ResultKind::InputRequired(required))
        }
        Some(other) => Err(fault(format!("its result has the unknown resultType \"{}\"", shown(other)))),
    }
}

/// The call whose input requests are answered.
pub(super) struct Answering<'a> {
    pub(super) shared: &'a Arc<ClientShared>,
    pub(super) revision: Revision,
    pub(super) method: &'a str,
}

impl<'a> Answering<'a> {
    fn of(call: &ActiveCall<'a>) -> Self {
        Self { shared: call.shared, revision: call.link.server.revision, method: call.method }
    }
}

/// Answers all input requests of one round concurrently.
pub(super) async fn answer_all(
    call: &Answering<'_>,
    requests: BTreeMap<String, InputRequest>,
) -> Result<Members, ClientError> {
    let mut waiting = Vec::new();
    for (key, request) in requests {
        waiting.push((key, Box::pin(answer(call, request))));
    }
    let mut answered = Members::new();
    poll_fn(|context| {
        let mut failed = None;
        waiting.retain_mut(|(key, answer)| match answer.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(Ok(answer)) => {
                answered.insert(std::mem::take(key), answer);
                false
            }
            Poll::Ready(Err(error)) => {
                failed.get_or_insert(error);
                false
            }
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if waiting.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await?;
    Ok(answered)
}

async fn answer(call: &Answering<'_>, request: InputRequest) -> Result<Box<RawValue>, ClientError> {
    let InputRequest { method, params, .. } = request;
    let revision = call.revision;
    let params = params.as_deref().map(RawValue::get);
    // The closure can panic before it returns its future, and the future can panic too.
    let started = Failure::catch(|| call.shared.settings.handlers.start(&method, params, revision));
    let outcome = match started {
        Ok(Ok(handling)) => catch_panics(handling).await,
        Ok(Err(RequestRejection::NotDeclared(what))) => {
            let what = format!("it sends an input request {}, but {what} was not declared", quoted(method.as_bytes()));
            return Err(ClientError::fault(call.method, what));
        }
        Ok(Err(RequestRejection::Params(what))) => {
            let (method, what) = (quoted(method.as_bytes()), shown(&what));
            let what = format!("it sends an input request {method} with invalid params: {what}");
            return Err(ClientError::fault(call.method, what));
        }
        Err(panic) => Err(panic),
    };
    outcome.or_else(|failure| {
        call.shared.log_failure(&method, &failure);
        match method.as_str() {
            // An input response cannot be an error, but an elicitation can be cancelled.
            "elicitation/create" => Ok(to_raw(&ElicitResult::cancel())),
            _ => Err(ClientError::Handler { error: failure.error(&method), method }),
        }
    })
}

/// Turns a panic of a handler into a failure, as the engine does in the legacy era.
async fn catch_panics<T>(
    mut handling: std::pin::Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>,
) -> Result<T, Failure> {
    poll_fn(|context| match Failure::catch(|| handling.as_mut().poll(context)) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Returns the pause before the next round, after `idle` consecutive rounds without input requests.
fn idle_pause(idle: u32) -> Duration {
    match idle {
        // MCP 2026-07-28, basic/patterns/mrtr: "the client MAY retry the original request immediately".
        0 => Duration::ZERO,
        idle => MIN_IDLE_PAUSE.saturating_mul(1 << idle.min(5)),
    }
}

/// The code with which a server refuses to run a tool as a task, or without one.
const NO_SUCH_METHOD: Code = Code::METHOD_NOT_FOUND;

/// The members of a request that differ from round to round.
pub(super) const ROUND_MEMBERS: [&str; 2] = ["inputResponses", "requestState"];

/// The methods whose results can require input.
const METHODS_WITH_INPUT: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// The maximum number of rounds of one call. No user answers so many questions for one call; a server that requires
/// more rounds is in a loop.
pub(super) const MAX_ROUNDS: usize = 32;

/// The maximum number of input requests in one round. Their handlers run at the same time, and no user answers so many
/// questions at once.
pub(super) const MAX_INPUT_REQUESTS: usize = 64;

/// Half of the first pause between rounds without input requests; each further pause is twice as long, up to 1.6
/// seconds. With these pauses, a server gets at most ten requests per second.
const MIN_IDLE_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_refusal_of_the_sdk_asks_for_a_task() {
        let refusal = "MCP error -32601: Tool report requires task augmentation (taskSupport: 'required')";
        let is_refusal = |text: &str, is_error: bool| {
            let result = json!({"content": [{"type": "text", "text": text}], "isError": is_error});
            is_sdk_refusal(&Raw::of(&result).expect("JSON"))
        };
        assert!(is_refusal(refusal, true));
        assert!(!is_refusal(refusal, false));
        assert!(!is_refusal("this requires task augmentation", true));
        assert!(!is_refusal("MCP error -32601: Method not found", true));
    }
}
