//! Requests for what a server has declared, and whether the responses fit the declaration.

use barewire_proto::json::Kind;
use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::connection::ServerConnection;
use super::ordinary::{Judgement, LISTS, NO_SUCH_URI, ServerProbe};
use super::outcome::{ErrorResponse, RequestOutcome, ResultResponse};
use super::recording::LocatedFrame;
use crate::Error;
use crate::check::catalogue::envelope::UNANSWERED_REQUEST;
use crate::check::catalogue::methods::{CAPABILITY_TRUTH, EMPTY_UNDECLARED, missing, undeclared};
use crate::check::ledger::SkipReason;
use crate::check::origin::NO_SUCH;

impl ServerProbe<'_> {
    /// Requests methods of declared capabilities, and checks that the server has them.
    pub(super) async fn capabilities(&mut self) -> Result<(), Error> {
        let is_selected = self.harness.wants(&[&CAPABILITY_TRUTH, &UNANSWERED_REQUEST]);
        if !is_selected || self.facts.capability(&[]).is_none_or(|it| it.kind() == Kind::Null) {
            return Ok(());
        }
        let _subject = self.harness.progress("capabilities");
        for (capability, method, params) in capability_requests(&self.connection) {
            if self.declares(capability) {
                let judgement = Judgement::Capability { capability, method, is_declared: true };
                self.ask(method, params, judgement).await?;
            }
        }
        // A server with resources need not have templates, but must answer.
        if self.declares("resources") {
            self.ask("resources/templates/list", json!({}), Judgement::Passive).await?;
        }
        let subscribes = self.facts.capability(&["resources", "subscribe"]).is_some_and(|it| it.kind() == Kind::True);
        if self.connection.era == Era::Legacy && subscribes {
            for method in ["resources/subscribe", "resources/unsubscribe"] {
                let judgement = Judgement::Capability { capability: "resources.subscribe", method, is_declared: true };
                self.ask(method, json!({"uri": NO_SUCH_URI}), judgement).await?;
            }
        }
        Ok(())
    }

    pub(super) fn judge_capability(&self, capability: &str, method: &str, is_declared: bool, outcome: &RequestOutcome) {
        // `unanswered-request` reports a missing response.
        if outcome.frame().is_none() && !outcome.is_refused() {
            let why = SkipReason::Nothing(format!("{method} got no response").into());
            self.harness.recording.ledger().skip(&CAPABILITY_TRUTH, why);
            return;
        }
        self.harness.recording.ledger().inspected(&CAPABILITY_TRUTH);
        let (rule, frame, detail) = match (is_declared, outcome) {
            (true, RequestOutcome::Error(ErrorResponse { frame, code: -32601 })) => {
                let detail = format!("{capability} is declared, but {method} is answered with error -32601");
                (missing(capability), frame, detail)
            }
            (false, RequestOutcome::Result(ResultResponse { frame })) if is_empty(frame) => {
                let detail = format!("{capability} is not declared, but {method} is answered with an empty result");
                (&EMPTY_UNDECLARED, frame, detail)
            }
            (false, RequestOutcome::Result(ResultResponse { frame })) => {
                let detail = format!("{capability} is not declared, but {method} is answered with a result");
                (undeclared(capability), frame, detail)
            }
            _ => return,
        };
        self.harness.fail_frame_under(rule, &CAPABILITY_TRUTH, frame, detail);
    }
}

/// Returns the requests that belong to capabilities: the capability, the method and the params.
pub(super) fn capability_requests(connection: &ServerConnection) -> Vec<(&'static str, &'static str, Value)> {
    let completion = json!({"ref": {"type": "ref/prompt", "name": NO_SUCH}, "argument": {"name": "a", "value": ""}});
    let mut requests: Vec<_> = LISTS.iter().map(|(name, method)| (*name, *method, json!({}))).collect();
    if connection.revision.has_completions_capability() {
        requests.push(("completions", "completion/complete", completion));
    }
    if connection.era == Era::Legacy {
        requests.push(("logging", "logging/setLevel", json!({"level": "error"})));
    }
    requests
}

/// Whether a result is a list, completion or object without content. Some hosts ask for every list, whatever is
/// declared, and give up a server that answers with an error.
fn is_empty(response: &LocatedFrame) -> bool {
    let Some(result) = response.json().and_then(|message| message.member("result")) else { return false };
    let values = result.at(&["completion", "values"]);
    let content = result.members().filter(|member| LISTS.iter().any(|(list, _)| member.name == *list));
    let mut lists = content.map(|member| member.value).chain(values);
    lists.all(|list| list.kind() == Kind::Array && list.elements().next().is_none())
}
