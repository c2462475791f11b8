//! A token without a necessary scope -> a finding if no request is refused for it, or not in the right way.

use std::sync::Arc;

use barewire_proto::auth::AuthChallenge;
use barewire_proto::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::AuthProbe;
use super::tokens::bearer;
use crate::Advice;
use crate::check::catalogue::authorization::{AUTH_SCOPE, SCOPE_CHALLENGE, SCOPE_STATUS};
use crate::check::live::connection::ServerConnection;
use crate::check::live::harness::initialize_params;
use crate::check::live::http_client::HttpReply;
use crate::check::live::outcome::RequestOutcome;
use crate::check::live::tool::{ListedTool, MAX_TOOLS, tools};
use crate::check::wrong_token::WrongToken;

impl AuthProbe<'_> {
    /// Sends requests with the token until one is refused: the first request, the list of tools, calls of tools.
    pub(super) async fn check_scope(&self) {
        let check = &AUTH_SCOPE;
        if !self.harness.wants(&[check]) {
            return;
        }
        let Some(token) = self.wrong_token(WrongToken::NoScope, check) else { return };
        let target = Arc::new(self.http.with_credentials(bearer(token)));
        let mut connection = self.harness.client_of(&target, self.era());
        let refused = self.first_refusal(&mut connection).await;
        match refused {
            Some((request, reply)) => self.judge_refusal(&request, &reply),
            None if self.harness.is_late() => self.harness.incomplete(check),
            None if self.harness.given_calls.is_empty() => {
                let why =
                    "all requests with the token without a scope were served, and the tool that needs it is not known";
                self.harness.skip_forbidden(check, why, Advice::NameCall);
            }
            None => {
                let names: Vec<&str> = self.harness.given_calls.iter().map(|(name, _)| name.as_str()).collect();
                let detail = format!("calls of {} with the token without the scope are served", names.join(", "));
                let last = connection.last_sent();
                let finding = super::Finding::new(check, super::Party::Server, connection.location(), detail);
                self.report(finding.with_request(last).under(&SCOPE_STATUS));
            }
        }
        self.harness.close(connection).await;
    }

    /// Returns the first request that is refused, and the response.
    async fn first_refusal(&self, connection: &mut ServerConnection) -> Option<(String, HttpReply)> {
        let version = self.legacy.unwrap_or(Revision::LATEST_LEGACY);
        let first = match self.era() {
            Era::Legacy => ("initialize", initialize_params(version.as_str())),
            Era::Modern => ("server/discover", json!({})),
        };
        if let Err(reply) = send(connection, first.0, first.1).await {
            return Some((first.0.to_owned(), reply));
        }
        if self.era() == Era::Legacy {
            self.harness.initialized(connection).await;
        }
        let listed = match send(connection, "tools/list", json!({})).await {
            Ok(RequestOutcome::Result(result)) => tools(&result).take(MAX_TOOLS).map(ListedTool::of).collect(),
            Ok(_) => Vec::new(),
            Err(reply) => return Some(("tools/list".to_owned(), reply)),
        };
        for (name, arguments) in self.calls(listed) {
            if self.harness.is_late() {
                return None;
            }
            let params = json!({"name": name, "arguments": arguments});
            if let Err(reply) = send(connection, "tools/call", params).await {
                return Some((format!("tools/call {name}"), reply));
            }
        }
        None
    }

    /// Returns the calls that may be made: those that the user names, and of tools that change nothing.
    fn calls(&self, listed: Vec<ListedTool>) -> Vec<(String, Value)> {
        let mut calls = self.harness.given_calls.clone();
        for tool in listed.into_iter().filter(|tool| tool.is_harmless || self.harness.all_calls) {
            let arguments = tool.sample().filter(Value::is_object);
            if let (Some(name), Some(arguments)) = (tool.name, arguments)
                && !calls.iter().any(|(known, _)| *known == name)
            {
                calls.push((name, arguments));
            }
        }
        calls.truncate(MAX_CALLS);
        calls
    }

    fn judge_refusal(&self, request: &str, reply: &HttpReply) {
        let check = &AUTH_SCOPE;
        self.harness.recording.ledger().inspected(check);
        let status = reply.status.unwrap_or_default();
        if status != 403 {
            let detail = format!("{request} with a token without the scope: expected 403, got {}", reply.describe());
            return self.fail(check, &SCOPE_STATUS, reply, detail);
        }
        let challenge = AuthChallenge::read(status, &reply.headers[..]);
        let missing = match (challenge.wants_scopes(), challenge.scopes.is_some()) {
            (true, true) => return,
            (false, true) => "error=\"insufficient_scope\"",
            (true, false) => "scope",
            (false, false) => "error=\"insufficient_scope\" and scope",
        };
        let detail = format!("{request} with a token without the scope: WWW-Authenticate of the 403 lacks {missing}");
        self.fail(check, &SCOPE_CHALLENGE, reply, detail);
    }
}

/// Sends a request. The error is the response, if its status is not that of a served request.
async fn send(connection: &mut ServerConnection, method: &str, params: Value) -> Result<RequestOutcome, HttpReply> {
    let id = connection.send_request(method, params).await;
    connection.claim(&id);
    let outcome = connection.wait_for_response(&id).await;
    let reply = connection.http().and_then(|client| client.reply(&id)).filter(|reply| reply.status.is_some());
    match reply {
        Some(reply) if !reply.is_ok() && matches!(reply.status, Some(300..=399 | 401 | 403)) => Err(reply),
        _ => Ok(outcome),
    }
}

/// The maximum number of tools that are called with the token.
const MAX_CALLS: usize = 16;
