//! Progress and cancellation -> whether they follow the rules of their request.

use std::collections::{HashMap, HashSet};

use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::{Message, Params};

use super::MessageContext;
use crate::check::catalogue::Rule;
use crate::check::catalogue::flow::{LATE_ANSWER, PROGRESS_INCREASES, PROGRESS_RULES, PROGRESS_TOKEN};
use crate::check::ledger::Ledger;
use crate::operations::{Relation, ResponseOutcome, member};

#[derive(Default)]
pub(super) struct FlowChecks {
    /// Maps the operation number of each request in flight to its last progress value.
    progress: HashMap<u64, f64>,
    /// Progress tokens of tasks, each with the name of its conversation.
    tasks: HashSet<(String, String)>,
}

impl FlowChecks {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        match (tracked.message, tracked.relation) {
            (Ok(Message::Notification(notification)), relation) if notification.method == "notifications/progress" => {
                self.check_progress(context, notification.params.map(Params::json), relation, ledger);
            }
            (_, Relation::Response { operation, late, .. }) => {
                self.progress.remove(&operation.number);
                if late {
                    check_late_response(context, operation, ledger);
                }
            }
            (Ok(Message::Notification(_)), Relation::Cancellation { operation }) if !operation.is_listen() => {
                ledger.inspected(&LATE_ANSWER);
            }
            _ => {}
        }
        self.remember_task(context);
    }

    fn check_progress(
        &mut self,
        context: &MessageContext<'_>,
        params: Option<Json<'_>>,
        relation: Relation<'_>,
        ledger: &mut Ledger,
    ) {
        ledger.inspected(&PROGRESS_RULES);
        let token = member(params, "progressToken");
        let value = member(params, "progress").filter(|it| it.kind() == Kind::Number);
        let value = value.and_then(|value| value.to::<f64>().ok());
        let fail = |ledger: &mut Ledger, path: &str, rule: &'static Rule, detail: String| {
            context.note(ledger, context.finding(&PROGRESS_RULES, 0, detail).at(path).under(rule));
        };
        let Some(token) = token.filter(|it| matches!(it.kind(), Kind::String | Kind::Number)) else {
            let detail = "progressToken is missing, or neither a string nor a number".to_owned();
            return fail(ledger, "/params", &PROGRESS_TOKEN, detail);
        };
        let Some(value) = value else {
            return fail(ledger, "/params", &PROGRESS_INCREASES, "progress is missing or not a number".to_owned());
        };
        let Relation::Progress { operation } = relation else {
            let key = (context.tracked.conversation.name.clone(), token.as_str().to_owned());
            if !self.tasks.contains(&key) {
                let token = crate::text::shown(token.as_bytes(), 60);
                let detail = format!("no request in flight has the token {token}");
                fail(ledger, "/params/progressToken", &PROGRESS_TOKEN, detail);
            }
            return;
        };
        if let Some(cancelled) = operation.cancelled
            && is_late(context, cancelled.time)
        {
            context.fail(
                ledger,
                &LATE_ANSWER,
                format!("progress of {} continues after its cancellation", operation.title()),
            );
        }
        if self.progress.len() >= MAX_REQUESTS {
            self.progress.clear();
        }
        let before = self.progress.insert(operation.number, value);
        if let Some(before) = before
            && value <= before
        {
            let detail = format!("progress is {value} after {before}");
            fail(ledger, "/params/progress", &PROGRESS_INCREASES, detail);
        }
    }

    /// Remembers the progress token of a task, because a task may report progress even after the response.
    fn remember_task(&mut self, context: &MessageContext<'_>) {
        let (Ok(Message::Response(response)), Relation::Response { operation, .. }) =
            (context.tracked.message, context.tracked.relation)
        else {
            return;
        };
        let Ok(result) = response.outcome else { return };
        if member(Some(result), "task").is_some()
            && let Some(token) = operation.token()
            && self.tasks.len() < MAX_REQUESTS
        {
            self.tasks.insert((operation.conversation.clone(), token.as_str().to_owned()));
        }
    }
}

fn check_late_response(context: &MessageContext<'_>, operation: &crate::operations::Operation, ledger: &mut Ledger) {
    let is_error = operation.answer().is_some_and(|answer| matches!(answer.outcome, ResponseOutcome::Error { .. }));
    let cancelled = operation.cancelled.and_then(|at| at.time);
    if !is_error && is_late(context, cancelled) {
        let detail = format!("{} is answered with a result after its cancellation", operation.title());
        context.fail(ledger, &LATE_ANSWER, crate::text::shown(detail.as_bytes(), 160));
    }
}

/// Whether the message follows so late that its sender must have received the cancellation before sending it.
fn is_late(context: &MessageContext<'_>, cancelled: Option<std::time::Duration>) -> bool {
    let now = context.tracked.frame.place.and_then(|place| place.time);
    match (cancelled, now) {
        (Some(cancelled), Some(now)) => now.saturating_sub(cancelled) > context.state.late_after,
        _ => false,
    }
}

/// The maximum number of requests that are tracked; more than any client has in flight.
const MAX_REQUESTS: usize = 65_536;
