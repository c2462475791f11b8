//! Runs the rounds of a call: as long as the result requires input, sends the call again with the input.
//!
//! MCP 2026-07-28, basic/patterns/mrtr. The same closures answer input requests and the requests of a legacy server.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use barewire_proto::mcp::{ElicitResult, InputRequest, InputRequiredResult};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ClientError;
use super::handlers::RequestRejection;
use super::params::{Members, to_raw};
use super::request::ActiveCall;
use super::small::parse_small_raw;
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
    let is_modern = call.link.server.revision.has_result_type();
    let [responses, state] = ROUND_MEMBERS;
    let mut round = None;
    let mut idle = 0;
    for _ in 0..MAX_ROUNDS {
        let result = call.send_round(round).await?;
        if !is_modern || call.options.wants_raw_result() {
            return Ok(result);
        }
        let Some(RequiredInput { input_requests, request_state }) = input_required(call.method, &result)? else {
            return Ok(result);
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
            more.insert(responses.to_owned(), to_raw(&answer_all(call, requests).await?));
        }
        if let Some(given) = request_state {
            more.insert(state.to_owned(), given);
        }
        round = Some(more);
    }
    Err(ClientError::fault(call.method, format!("it has required input {MAX_ROUNDS} times in a row")))
}

/// Returns the input that a result requires; `None` for a final result.
fn input_required(method: &str, result: &Raw) -> Result<Option<RequiredInput>, ClientError> {
    if !result.as_str().is_some_and(|text| text.starts_with('{')) {
        // The result is not an object, which `parse_result` reports later.
        return Ok(None);
    }
    let fault = |what: String| ClientError::fault(method, what);
    let unreadable = |error| fault(format!("its result cannot be parsed: {error}"));
    let ResultTypeMember { result_type } = result.to().map_err(unreadable)?;
    match result_type.as_deref() {
        None | Some("complete") => Ok(None),
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
            Ok(Some(required))
        }
        Some(other) => Err(fault(format!("its result has the unknown resultType \"{}\"", shown(other)))),
    }
}

/// Answers all input requests of one round concurrently.
async fn answer_all(call: &ActiveCall<'_>, requests: BTreeMap<String, InputRequest>) -> Result<Members, ClientError> {
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

async fn answer(call: &ActiveCall<'_>, request: InputRequest) -> Result<Box<RawValue>, ClientError> {
    let InputRequest { method, params, .. } = request;
    let revision = call.link.server.revision;
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

/// The members of a request that differ from round to round.
pub(super) const ROUND_MEMBERS: [&str; 2] = ["inputResponses", "requestState"];

/// The methods whose results can require input.
const METHODS_WITH_INPUT: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// The maximum number of rounds of one call. No user answers so many questions for one call; a server that requires
/// more rounds is in a loop.
pub(super) const MAX_ROUNDS: usize = 32;

/// The maximum number of input requests in one round. Their handlers run at the same time, and no user answers so many
/// questions at once.
const MAX_INPUT_REQUESTS: usize = 64;

/// Half of the first pause between rounds without input requests; each further pause is twice as long, up to 1.6
/// seconds. With these pauses, a server gets at most ten requests per second.
const MIN_IDLE_PAUSE: Duration = Duration::from_millis(50);
