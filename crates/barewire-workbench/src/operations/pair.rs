//! Messages -> which operation each begins, answers, reports of or gives up.

use barewire_proto::mcp::{RequestParams, Side};
use barewire_proto::rpc::{Id, Invalid, Message, Notification, Params, Shape};

use super::asked::{Asked, name_of};
use super::sessions::Elsewhere;
use super::state::{ConversationState, Waits};
use super::{MessagePosition, Operation, OperationResponse, OperationTracker, ResponseOutcome, Round, member};
use crate::frames::MessageResult;

/// Where a message stands.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    /// The name of its conversation, which is entered.
    pub(super) name: &'a str,
    pub(super) channel: &'a str,
    pub(super) sender: Side,
    pub(super) at: MessagePosition,
}

/// A [`Relation`](super::Relation) before there is anything to borrow from.
#[derive(Clone, Copy)]
pub(super) enum PairResult {
    None,
    Request { number: u64, id_in_use: bool },
    Response { number: u64, late: bool },
    Progress(u64),
    Cancellation(u64),
    RefusesUnidentified,
    Duplicate,
    Unsolicited,
}

impl OperationTracker {
    pub(super) fn tie(&mut self, here: Here<'_>, message: &MessageResult<'_>) -> PairResult {
        let Here { name, sender, .. } = here;
        match message {
            Ok(Message::Request(request)) => {
                let params = RequestParams::read(request.params);
                self.talk(name).about.asked(sender, request, &params.meta);
                self.asks(here, Asked::of(request, &params))
            }
            Ok(Message::Notification(notification)) => self.notes(here, notification),
            Ok(Message::Response(response)) => {
                let outcome = ResponseOutcome::of(response);
                let knot = self.answers(here, &response.id, outcome);
                if let PairResult::Response { number, .. } = knot
                    && let Some(operation) = self.open.get_mut(&number)
                {
                    if let Ok(result) = response.outcome {
                        let state = member(Some(result), "requestState");
                        operation.state = state.map(|state| state.as_str().into());
                    }
                    let method = operation.method.clone();
                    self.talk(name).about.answered(&method, response);
                }
                knot
            }
            Ok(Message::OrphanError(_)) => {
                if self.talk(name).refuses(sender.other()) {
                    PairResult::RefusesUnidentified
                } else {
                    PairResult::Unsolicited
                }
            }
            Err(invalid) => self.invalid(here, invalid),
        }
    }

    /// A frame that is no message may still be the request that an error answers, or an answer that somebody waits for.
    fn invalid(&mut self, here: Here<'_>, invalid: &Invalid<'_>) -> PairResult {
        match (invalid.shape, &invalid.id) {
            (Shape::Request, Some(id)) => {
                let method = invalid.method.map_or(String::new(), name_of);
                let asked = Asked { id: id.clone().into_owned(), method, about: None, token: None, retry: None };
                self.asks(here, asked)
            }
            (Shape::Response, Some(id)) => self.answers(here, id, ResponseOutcome::Unreadable),
            (Shape::Notification | Shape::Response, _) => PairResult::None,
            (Shape::Request | Shape::Unknown, _) => {
                self.talk(here.name).cannot_be_read(here.sender);
                PairResult::None
            }
        }
    }

    fn asks(&mut self, here: Here<'_>, asked: Asked) -> PairResult {
        let Here { name, sender: asker, at, .. } = here;
        let round = Round { id: asked.id.clone(), asked: at, answered: None };
        let number = match self.suspended(asker, &asked) {
            Some(number) => {
                let operation = self.open.get_mut(&number).expect("what waits is open");
                operation.rounds.push(round);
                name.clone_into(&mut operation.conversation);
                here.channel.clone_into(&mut operation.channel);
                operation.token.clone_from(&asked.token);
                number
            }
            None => {
                self.last += 1;
                let operation = Operation {
                    number: self.last,
                    conversation: name.to_owned(),
                    channel: here.channel.to_owned(),
                    asker,
                    method: asked.method,
                    name: asked.about,
                    rounds: vec![round],
                    progress: 0,
                    cancelled: None,
                    token: asked.token.clone(),
                    state: None,
                };
                self.open.insert(self.last, operation);
                self.last
            }
        };
        let id_in_use = self.talk(name).asks((asker, asked.id), asked.token, number);
        if self.open.len() > MOST_OPEN {
            let oldest = *self.open.keys().next().expect("there are many");
            self.forget(oldest);
        }
        PairResult::Request { number, id_in_use }
    }

    /// The operation that is asked for again, now with what the server wanted to know.
    fn suspended(&mut self, asker: Side, asked: &Asked) -> Option<u64> {
        let retry = asked.retry.as_ref()?;
        let same = |operation: &Operation| {
            operation.asker == asker
                && operation.method == asked.method
                && operation.name == asked.about
                && operation.state.as_deref() == retry.state.as_deref()
        };
        let at = self.suspended.iter().rposition(|number| self.open.get(number).is_some_and(same))?;
        self.suspended.remove(at)
    }

    fn answers(&mut self, here: Here<'_>, id: &Id<'_>, outcome: ResponseOutcome) -> PairResult {
        let Here { name, channel, sender, at } = here;
        let key = (sender.other(), id.clone().into_owned());
        let number = match self.talk(name).answered(&key) {
            Waits::Operation(number) => number,
            Waits::Before => return PairResult::Duplicate,
            Waits::Nobody => match self.elsewhere(channel, &key) {
                Elsewhere::Operation(number) => {
                    self.talk(name).settle(key);
                    number
                }
                Elsewhere::Several => return PairResult::None,
                Elsewhere::Nobody => return PairResult::Unsolicited,
            },
        };
        let Some(operation) = self.open.get_mut(&number) else { return PairResult::Unsolicited };
        let late = operation.cancelled.is_some();
        if let Some(round) = operation.rounds.iter_mut().find(|round| round.answered.is_none()) {
            round.answered = Some(OperationResponse { id: id.clone().into_owned(), at, outcome });
        }
        PairResult::Response { number, late }
    }

    fn notes(&mut self, here: Here<'_>, notification: &Notification<'_>) -> PairResult {
        let Here { name, sender, at, .. } = here;
        let params = notification.params.map(Params::json);
        let method = name_of(notification.method);
        let talk = self.talk(name);
        talk.about.noted(sender, &method);
        let named = |name| member(params, name).and_then(Id::from_json).map(Id::into_owned);
        match method.as_str() {
            "notifications/progress" => {
                let Some(token) = named("progressToken") else { return PairResult::None };
                let number = talk.with_token(&(sender.other(), token));
                let Some(operation) = number.and_then(|number| self.open.get_mut(&number)) else {
                    return PairResult::None;
                };
                operation.progress += 1;
                PairResult::Progress(operation.number)
            }
            "notifications/cancelled" | "$/cancelRequest" => {
                let id = named(if method.starts_with('$') { "id" } else { "requestId" });
                let number = id.and_then(|id| talk.waiting(&(sender, id)));
                let Some(operation) = number.and_then(|number| self.open.get_mut(&number)) else {
                    return PairResult::None;
                };
                operation.cancelled = operation.cancelled.or(Some(at));
                PairResult::Cancellation(operation.number)
            }
            _ => PairResult::None,
        }
    }

    /// What is answered is forgotten, unless it is to be asked again.
    pub(super) fn settle(&mut self, number: u64) {
        let Some(operation) = self.open.get(&number) else { return };
        if let Some(OperationResponse { outcome: ResponseOutcome::InputRequired, .. }) = operation.answer() {
            self.suspended.push_back(number);
            if self.suspended.len() > MOST_SUSPENDED
                && let Some(oldest) = self.suspended.pop_front()
            {
                self.forget(oldest);
            }
            return;
        }
        self.forget(number);
    }

    /// Nobody waits for it any more.
    pub(super) fn forget(&mut self, number: u64) -> Option<Operation> {
        let operation = self.open.remove(&number)?;
        if let Some(talk) = self.conversations.get_mut(&operation.conversation) {
            let Operation { asker, token, rounds, .. } = &operation;
            talk.forget(number, *asker, rounds.iter().map(|round| &round.id), token.clone());
        }
        Some(operation)
    }

    fn talk(&mut self, name: &str) -> &mut ConversationState {
        self.conversations.get_mut(name).expect("it was entered")
    }
}

/// More than any client has in flight; what began first is forgotten then.
const MOST_OPEN: usize = 65_536;
/// More than any client is asked at once.
const MOST_SUSPENDED: usize = 1024;
