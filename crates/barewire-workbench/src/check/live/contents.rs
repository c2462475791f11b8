//! Listed resources and prompts -> requests for some of them, whose results the passive checks judge.

use barewire_proto::json::{Json, Kind};
use serde_json::{Map, Value, json};

use super::ordinary::ServerProbe;
use super::outcome::{ErrorResponse, RequestOutcome, ResultResponse};
use super::running_calls::CALL_TIMEOUT;
use crate::Error;
use crate::check::catalogue::envelope::UNANSWERED_REQUEST;
use crate::check::catalogue::lifecycle::RESULT_SHAPE;
use crate::check::catalogue::methods::{CAPABILITY_TRUTH, missing};
use crate::check::passive::INVENTED_TEXT;

/// The first resources and prompts that a server lists, as the params of the requests for them.
#[derive(Default)]
pub(super) struct ListedContents {
    resources: Vec<Value>,
    prompts: Vec<Value>,
}

impl ListedContents {
    /// Keeps the first entries of a page of `resources/list` or `prompts/list`.
    pub(super) fn keep(&mut self, page: &ResultResponse) {
        let entries = |list| page.at(&[list]).into_iter().flat_map(Json::elements);
        let room = MAX_CONTENTS.saturating_sub(self.resources.len());
        self.resources.extend(entries("resources").filter_map(read_params).take(room));
        let room = MAX_CONTENTS.saturating_sub(self.prompts.len());
        self.prompts.extend(entries("prompts").filter_map(get_params).take(room));
    }
}

/// Returns the params that read a resource; `None` if it is too large.
fn read_params(resource: Json<'_>) -> Option<Value> {
    let size = resource.member("size").and_then(|size| size.to::<f64>().ok()).unwrap_or_default();
    let uri = resource.member("uri")?.string()?;
    (size <= MAX_SIZE && uri.len() <= MAX_NAME).then(|| json!({"uri": uri}))
}

/// Returns the params that get a prompt, with a text for each required argument.
fn get_params(prompt: Json<'_>) -> Option<Value> {
    let name = prompt.member("name")?.string().filter(|name| name.len() <= MAX_NAME)?;
    let arguments = prompt.member("arguments").into_iter().flat_map(Json::elements);
    let required = arguments.filter(|it| it.member("required").is_some_and(|it| it.kind() == Kind::True));
    let text = |argument: Json<'_>| Some((argument.member("name")?.string()?.into_owned(), json!(INVENTED_TEXT)));
    let required: Map<String, Value> = required.take(MAX_ARGUMENTS).filter_map(text).collect();
    Some(if required.is_empty() { json!({"name": name}) } else { json!({"name": name, "arguments": required}) })
}

impl ServerProbe<'_> {
    /// Reads the first resources, and gets the first prompts.
    pub(super) async fn contents(&mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&RESULT_SHAPE, &CAPABILITY_TRUTH, &UNANSWERED_REQUEST]) {
            return Ok(());
        }
        let listed = std::mem::take(&mut self.listed);
        let resources = listed.resources.into_iter().map(|params| ("resources", "resources/read", params));
        let prompts = listed.prompts.into_iter().map(|params| ("prompts", "prompts/get", params));
        for (capability, method, params) in resources.chain(prompts) {
            self.reconnect_if_closed().await?;
            if self.harness.is_late() {
                break;
            }
            let _subject = self.harness.progress(method);
            let id = self.connection.send_request(method, params).await;
            // What a resource is read from may be slow, so it has as much time as a tool.
            self.connection.claim(&id);
            let outcome = self.connection.wait_for_response_within(&id, CALL_TIMEOUT).await;
            self.judge_silence(method, &outcome);
            match &outcome {
                RequestOutcome::Error(ErrorResponse { frame, code: -32601 }) if self.declares(capability) => {
                    let detail = format!("{capability} is declared, but {method} is answered with error -32601");
                    self.harness.fail_frame_under(missing(capability), &CAPABILITY_TRUTH, frame, detail);
                }
                RequestOutcome::NoResponse(_) => {
                    let detail = format!("{method} gets no response within {CALL_TIMEOUT:?}");
                    // Otherwise the server may be busy, such as with a call before.
                    if self.connection.still_answers().await {
                        self.harness.fail(&UNANSWERED_REQUEST, &self.connection, Some(&outcome), detail);
                    } else {
                        self.harness.recording.ledger().doubt(&UNANSWERED_REQUEST, detail);
                    }
                    self.connection.cancel_request(&id).await;
                    // The server may stay busy with the cancelled request, and with others like it.
                    self.reconnect().await?;
                    break;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The maximum number of resources, and of prompts, that are requested.
const MAX_CONTENTS: usize = 3;
/// The maximum size of a resource that is read, in bytes, if the server says its size.
const MAX_SIZE: f64 = 1_048_576.0;
/// The maximum length of a URI or a name, in bytes.
const MAX_NAME: usize = 4096;
/// The maximum number of arguments of a prompt.
const MAX_ARGUMENTS: usize = 64;
