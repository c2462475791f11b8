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
use super::answers::Unasked;
use super::params::{Members, raw};
use super::request::Asking;
use crate::Failure;
use crate::log::quoted;
use crate::peer::{Raw, shown};

/// What of a result says whether it is one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Judged {
    #[serde(default)]
    result_type: Option<String>,
}

/// What is asked by a result that is none yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Required {
    #[serde(default)]
    input_requests: Option<BTreeMap<String, InputRequest>>,
    /// As it was written: it goes back byte for byte, whatever a reader would make of its escapes.
    #[serde(default)]
    request_state: Option<Box<RawValue>>,
}

/// Asks, answers what is asked back, and asks again, until there is a result.
pub(super) async fn run(asking: &Asking<'_>) -> Result<Raw, ClientError> {
    let is_modern = asking.link.server.revision.has_result_type();
    let [responses, state] = MEMBERS;
    let mut round = None;
    let mut idle = 0;
    for _ in 0..MOST_ROUNDS {
        let result = asking.ask(round).await?;
        if !is_modern || asking.options.wants_raw_result() {
            return Ok(result);
        }
        let Some(Required { input_requests, request_state }) = judge(asking.method, &result)? else {
            return Ok(result);
        };
        let mut more = Members::new();
        match input_requests.as_ref().map_or(0, BTreeMap::len) {
            // Nothing is asked, so nobody takes time to answer: without a pause a server that waits would be flooded.
            0 => {
                tokio::time::sleep(pause(idle)).await;
                idle += 1;
            }
            1..=MOST_QUESTIONS => idle = 0,
            count => {
                let what = format!("it asks {count} things at once, and no more than {MOST_QUESTIONS} are answered");
                return Err(ClientError::fault(asking.method, what));
            }
        }
        if let Some(requests) = input_requests {
            more.insert(responses.to_owned(), raw(&answers(asking, requests).await?));
        }
        if let Some(given) = request_state {
            more.insert(state.to_owned(), given);
        }
        round = Some(more);
    }
    Err(ClientError::fault(asking.method, format!("it has asked for more input {MOST_ROUNDS} times in a row")))
}

/// `None` if the result is one, what is asked if it is none yet.
fn judge(method: &str, result: &Raw) -> Result<Option<Required>, ClientError> {
    if !result.as_str().is_some_and(|text| text.starts_with('{')) {
        // What it should have been says whoever reads it.
        return Ok(None);
    }
    let fault = |what: String| ClientError::fault(method, what);
    let unreadable = |error| fault(format!("its result cannot be read: {error}"));
    let Judged { result_type } = result.to().map_err(unreadable)?;
    match result_type.as_deref() {
        None | Some("complete") => Ok(None),
        Some(InputRequiredResult::RESULT_TYPE) if !MAY_ASK.contains(&method) => {
            Err(fault("it asks for input, which it may not do here".to_owned()))
        }
        Some(InputRequiredResult::RESULT_TYPE) => {
            let required: Required = result.to().map_err(unreadable)?;
            if required.input_requests.is_none() && required.request_state.is_none() {
                return Err(fault("it asks for input and does not say for which".to_owned()));
            }
            Ok(Some(required))
        }
        Some(other) => Err(fault(format!("its result is of a type that is not known here: \"{}\"", shown(other)))),
    }
}

/// Answers all that is asked in one round, at the same time.
async fn answers(asking: &Asking<'_>, requests: BTreeMap<String, InputRequest>) -> Result<Members, ClientError> {
    let mut waiting = Vec::new();
    for (key, request) in requests {
        waiting.push((key, Box::pin(answer(asking, request))));
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

async fn answer(asking: &Asking<'_>, request: InputRequest) -> Result<Box<RawValue>, ClientError> {
    let InputRequest { method, params, .. } = request;
    let revision = asking.link.server.revision;
    let params = params.as_deref().map(RawValue::get);
    // A closure may panic before it gives a future as well as in it.
    let asked = Failure::catch(|| asking.shared.settings.answers.ask(&method, params, revision));
    let outcome = match asked {
        Ok(Ok(asked)) => guarded(asked).await,
        Ok(Err(Unasked::NotOffered(what))) => {
            let what = format!("it asks {}, but {what} was not declared", quoted(method.as_bytes()));
            return Err(ClientError::fault(asking.method, what));
        }
        Ok(Err(Unasked::Params(what))) => {
            let (method, what) = (quoted(method.as_bytes()), shown(&what));
            let what = format!("it asks {method} with params that are not what they should be: {what}");
            return Err(ClientError::fault(asking.method, what));
        }
        Err(panic) => Err(panic),
    };
    outcome.or_else(|failure| {
        asking.shared.failed(&method, &failure);
        match method.as_str() {
            // There is no place for an error among the answers, but a user who is not there can be told of.
            "elicitation/create" => Ok(raw(&ElicitResult::cancel())),
            _ => Err(ClientError::Handler { error: failure.error(&method), method }),
        }
    })
}

/// Runs what may panic: to the server it has failed then, as it has in the legacy era.
async fn guarded<T>(
    mut asked: std::pin::Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>,
) -> Result<T, Failure> {
    poll_fn(|context| match Failure::catch(|| asked.as_mut().poll(context)) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// How long to wait before a server is asked again that has asked nothing, after so many of these in a row.
fn pause(idle: u32) -> Duration {
    match idle {
        // MCP 2026-07-28, basic/patterns/mrtr: "the client MAY retry the original request immediately".
        0 => Duration::ZERO,
        idle => IDLE.saturating_mul(1 << idle.min(5)),
    }
}

/// What belongs to one round, and to no other.
pub(super) const MEMBERS: [&str; 2] = ["inputResponses", "requestState"];

/// The requests whose results may ask for input.
const MAY_ASK: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// So many rounds one call may take. No person answers more questions for one thing; a server that asks more goes in circles.
pub(super) const MOST_ROUNDS: usize = 32;

/// So many questions one round may ask: no form has more fields, and each starts a closure of the caller's at once.
const MOST_QUESTIONS: usize = 64;

/// The shortest pause: nobody notices, and twenty requests a second flood nobody.
const IDLE: Duration = Duration::from_millis(50);
