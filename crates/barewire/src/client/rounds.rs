//! A result that asks for input -> the answers, and the same call once more with them, until there is a result.
//!
//! MCP 2026-07-28, basic/patterns/mrtr. The closures that answer a legacy server's requests answer these as well.

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
use crate::Failure;
use crate::log::quoted;
use crate::peer::{Raw, shown};

/// What of a result says whether it is one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultTypeMember {
    #[serde(default)]
    result_type: Option<String>,
}

/// What is asked by a result that is none yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    #[serde(default)]
    input_requests: Option<BTreeMap<String, InputRequest>>,
    /// As it was written: it goes back byte for byte, whatever a reader would make of its escapes.
    #[serde(default)]
    request_state: Option<Box<RawValue>>,
}

/// Asks, answers what is asked back, and asks again, until there is a result.
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
        let Some(InputRequired { input_requests, request_state }) = input_required(call.method, &result)? else {
            return Ok(result);
        };
        let mut more = Members::new();
        match input_requests.as_ref().map_or(0, BTreeMap::len) {
            // Nothing is asked, so nobody takes time to answer: without a pause a server that waits would be flooded.
            0 => {
                tokio::time::sleep(idle_pause(idle)).await;
                idle += 1;
            }
            1..=MAX_INPUT_REQUESTS => idle = 0,
            count => {
                let what =
                    format!("it asks {count} things at once, and no more than {MAX_INPUT_REQUESTS} are answered");
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
    Err(ClientError::fault(call.method, format!("it has asked for more input {MAX_ROUNDS} times in a row")))
}

/// `None` if the result is one, what is asked if it is none yet.
fn input_required(method: &str, result: &Raw) -> Result<Option<InputRequired>, ClientError> {
    if !result.as_str().is_some_and(|text| text.starts_with('{')) {
        // What it should have been says whoever reads it.
        return Ok(None);
    }
    let fault = |what: String| ClientError::fault(method, what);
    let unreadable = |error| fault(format!("its result cannot be read: {error}"));
    let ResultTypeMember { result_type } = result.to().map_err(unreadable)?;
    match result_type.as_deref() {
        None | Some("complete") => Ok(None),
        Some(InputRequiredResult::RESULT_TYPE) if !METHODS_WITH_INPUT.contains(&method) => {
            Err(fault("it asks for input, which it may not do here".to_owned()))
        }
        Some(InputRequiredResult::RESULT_TYPE) => {
            let required: InputRequired = result.to().map_err(unreadable)?;
            if required.input_requests.is_none() && required.request_state.is_none() {
                return Err(fault("it asks for input and does not say for which".to_owned()));
            }
            Ok(Some(required))
        }
        Some(other) => Err(fault(format!("its result is of a type that is not known here: \"{}\"", shown(other)))),
    }
}

/// Handlers all that is asked in one round, at the same time.
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
    // A closure may panic before it gives a future as well as in it.
    let started = Failure::catch(|| call.shared.settings.handlers.start(&method, params, revision));
    let outcome = match started {
        Ok(Ok(handling)) => catch_panics(handling).await,
        Ok(Err(RequestRejection::NotDeclared(what))) => {
            let what = format!("it asks {}, but {what} was not declared", quoted(method.as_bytes()));
            return Err(ClientError::fault(call.method, what));
        }
        Ok(Err(RequestRejection::Params(what))) => {
            let (method, what) = (quoted(method.as_bytes()), shown(&what));
            let what = format!("it asks {method} with params that are not what they should be: {what}");
            return Err(ClientError::fault(call.method, what));
        }
        Err(panic) => Err(panic),
    };
    outcome.or_else(|failure| {
        call.shared.log_failure(&method, &failure);
        match method.as_str() {
            // There is no place for an error among the answers, but a user who is not there can be told of.
            "elicitation/create" => Ok(to_raw(&ElicitResult::cancel())),
            _ => Err(ClientError::Handler { error: failure.error(&method), method }),
        }
    })
}

/// Runs what may panic: to the server it has failed then, as it has in the legacy era.
async fn catch_panics<T>(
    mut handling: std::pin::Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>,
) -> Result<T, Failure> {
    poll_fn(|context| match Failure::catch(|| handling.as_mut().poll(context)) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// How long to wait before a server is asked again that has asked nothing, after so many of these in a row.
fn idle_pause(idle: u32) -> Duration {
    match idle {
        // MCP 2026-07-28, basic/patterns/mrtr: "the client MAY retry the original request immediately".
        0 => Duration::ZERO,
        idle => MIN_IDLE_PAUSE.saturating_mul(1 << idle.min(5)),
    }
}

/// What belongs to one round, and to no other.
pub(super) const ROUND_MEMBERS: [&str; 2] = ["inputResponses", "requestState"];

/// The requests whose results may ask for input.
const METHODS_WITH_INPUT: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// So many rounds one call may take. No person answers more questions for one thing; a server that asks more goes in circles.
pub(super) const MAX_ROUNDS: usize = 32;

/// So many questions one round may ask: no form has more fields, and each starts a closure of the caller's at once.
const MAX_INPUT_REQUESTS: usize = 64;

/// The shortest pause: nobody notices, and twenty requests a second flood nobody.
const MIN_IDLE_PAUSE: Duration = Duration::from_millis(50);
