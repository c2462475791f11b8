//! Progress and cancels -> whether they keep to the request they are about.

use std::collections::{HashMap, HashSet};

use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::{Message, Params};

use super::Case;
use crate::check::catalogue::flow::{LATE_ANSWER, PROGRESS_RULES};
use crate::check::ledger::Ledger;
use crate::operations::{ResponseOutcome, Relation, member};

#[derive(Default)]
pub(super) struct Flow {
    /// The last progress of what is in flight, by the number of the operation.
    progress: HashMap<u64, f64>,
    /// Tokens of what goes on as a task, by conversation.
    tasks: HashSet<(String, String)>,
}

impl Flow {
    pub(super) fn message(&mut self, case: &Case<'_>, ledger: &mut Ledger) {
        let watched = case.watched;
        match (watched.message, watched.relation) {
            (Ok(Message::Notification(notification)), tie)
                if notification.method == "notifications/progress" =>
            {
                self.progressed(case, notification.params.map(Params::json), tie, ledger);
            }
            (_, Relation::Response { operation, late, .. }) => {
                self.progress.remove(&operation.number);
                if late {
                    answered_late(case, operation, ledger);
                }
            }
            (Ok(Message::Notification(_)), Relation::Cancellation { operation })
                if !operation.is_listen() =>
            {
                ledger.look(&LATE_ANSWER);
            }
            _ => {}
        }
        self.remember_task(case);
    }

    fn progressed(
        &mut self,
        case: &Case<'_>,
        params: Option<Json<'_>>,
        tie: Relation<'_>,
        ledger: &mut Ledger,
    ) {
        ledger.look(&PROGRESS_RULES);
        let token = member(params, "progressToken");
        let value = member(params, "progress").filter(|it| it.kind() == Kind::Number);
        let value = value.and_then(|value| value.to::<f64>().ok());
        let fail = |ledger: &mut Ledger, path: &str, detail: String| {
            case.fail_in(ledger, &PROGRESS_RULES, path, detail);
        };
        let Some(token) = token.filter(|it| matches!(it.kind(), Kind::String | Kind::Number)) else {
            return fail(ledger, "/params", "it has no progressToken".to_owned());
        };
        let Some(value) = value else {
            return fail(ledger, "/params", "its progress is no number".to_owned());
        };
        let Relation::Progress { operation } = tie else {
            let key = (case.watched.conversation.name.clone(), token.as_str().to_owned());
            if !self.tasks.contains(&key) {
                let token = crate::text::shown(token.as_bytes(), 60);
                let detail = format!("nothing in flight has the token {token}");
                fail(ledger, "/params/progressToken", detail);
            }
            return;
        };
        if let Some(cancelled) = operation.cancelled
            && is_late(case, cancelled.time)
        {
            case.fail(
                ledger,
                &LATE_ANSWER,
                format!("progress of {} goes on after its cancel", operation.title()),
            );
        }
        if self.progress.len() >= MOST {
            self.progress.clear();
        }
        let before = self.progress.insert(operation.number, value);
        if let Some(before) = before
            && value <= before
        {
            fail(ledger, "/params/progress", format!("{value} comes after {before}"));
        }
    }

    /// What goes on as a task reports progress after its answer.
    fn remember_task(&mut self, case: &Case<'_>) {
        let (Ok(Message::Response(response)), Relation::Response { operation, .. }) =
            (case.watched.message, case.watched.relation)
        else {
            return;
        };
        let Ok(result) = response.outcome else { return };
        if member(Some(result), "task").is_some()
            && let Some(token) = operation.token()
            && self.tasks.len() < MOST
        {
            self.tasks.insert((operation.conversation.clone(), token.as_str().to_owned()));
        }
    }
}

fn answered_late(case: &Case<'_>, operation: &crate::operations::Operation, ledger: &mut Ledger) {
    let is_error = operation.answer().is_some_and(|answer| matches!(answer.outcome, ResponseOutcome::Error { .. }));
    let cancelled = operation.cancelled.and_then(|at| at.time);
    if !is_error && is_late(case, cancelled) {
        let detail = format!("{} is answered as if nobody had cancelled it", operation.title());
        case.fail(ledger, &LATE_ANSWER, crate::text::shown(detail.as_bytes(), 160));
    }
}

/// Long enough after the cancel that the two have not just crossed.
fn is_late(case: &Case<'_>, cancelled: Option<std::time::Duration>) -> bool {
    let now = case.watched.frame.place.and_then(|place| place.time);
    match (cancelled, now) {
        (Some(cancelled), Some(now)) => now.saturating_sub(cancelled) > case.setting.late_after,
        _ => false,
    }
}

/// More than any client has in flight.
const MOST: usize = 65_536;
