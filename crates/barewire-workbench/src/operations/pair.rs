//! Finds the operation that a message begins, answers, reports on or cancels.

use barewire_proto::mcp::{RequestParams, Side};
use barewire_proto::rpc::{Id, Invalid, Message, Notification, Params, Rule, Shape};

use super::request::{RequestFacts, name_of};
use super::sessions::OtherExchange;
use super::state::{ConversationState, ResponseTarget};
use super::{MessagePosition, Operation, OperationResponse, OperationTracker, ResponseOutcome, Round, member};
use crate::frames::MessageResult;

/// The context of a message.
#[derive(Clone, Copy)]
pub(super) struct PairingContext<'a> {
    /// The name of the message's conversation, which already exists in the tracker.
    pub(super) name: &'a str,
    pub(super) channel: &'a str,
    pub(super) sender: Side,
    pub(super) at: MessagePosition,
}

/// A [`Relation`](super::Relation) with operation numbers instead of references.
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
    pub(super) fn pair(&mut self, context: PairingContext<'_>, message: &MessageResult<'_>) -> PairResult {
        let PairingContext { name, sender, .. } = context;
        match message {
            Ok(Message::Request(request)) => {
                let params = RequestParams::read(request.params);
                self.conversation(name).facts.requested(sender, request, &params.meta);
                self.request(context, RequestFacts::of(request, &params))
            }
            Ok(Message::Notification(notification)) => self.notification(context, notification),
            Ok(Message::Response(response)) => {
                let result = self.response(context, &response.id, ResponseOutcome::of(response));
                if let PairResult::Response { number, .. } = result
                    && let Some(operation) = self.open.get_mut(&number)
                {
                    if let Ok(result) = response.outcome {
                        let state = member(Some(result), "requestState");
                        operation.state = state.map(|state| state.as_str().into());
                    }
                    let method = operation.method.clone();
                    self.conversation(name).facts.answered(&method, response);
                }
                result
            }
            Ok(Message::OrphanError(_)) => match self.conversation(name).take_unreadable(sender.other()) {
                true => PairResult::RefusesUnidentified,
                false => PairResult::Unsolicited,
            },
            Err(invalid) => self.invalid(context, invalid),
        }
    }

    /// Pairs an invalid message. It may still be a request that gets an error response, or the response to a request.
    fn invalid(&mut self, context: PairingContext<'_>, invalid: &Invalid<'_>) -> PairResult {
        match (invalid.shape, &invalid.id) {
            (Shape::Request, Some(id)) => {
                let (id, method) = (id.clone().into_owned(), invalid.method.map_or(String::new(), name_of));
                let facts = RequestFacts { id, method, about: None, token: None, is_retry: false, state: None };
                self.request(context, facts)
            }
            (Shape::Response, Some(id)) if invalid.rule == Rule::Truncated => {
                self.response(context, id, ResponseOutcome::Cut)
            }
            (Shape::Response, Some(id)) => self.response(context, id, ResponseOutcome::Unreadable),
            (Shape::Notification | Shape::Response, _) => PairResult::None,
            (Shape::Request | Shape::Unknown, _) => {
                self.conversation(context.name).count_unreadable(context.sender);
                PairResult::None
            }
        }
    }

    fn request(&mut self, context: PairingContext<'_>, request: RequestFacts) -> PairResult {
        let PairingContext { name, channel, sender: asker, at } = context;
        let round = Round { id: request.id.clone(), asked: at, answered: None };
        let number = match self.take_suspended(asker, &request) {
            Some(number) => {
                let operation = self.open.get_mut(&number).expect("a suspended operation is open");
                operation.rounds.push(round);
                name.clone_into(&mut operation.conversation);
                channel.clone_into(&mut operation.channel);
                operation.token.clone_from(&request.token);
                number
            }
            None => {
                self.last += 1;
                let operation = Operation {
                    number: self.last,
                    conversation: name.to_owned(),
                    channel: channel.to_owned(),
                    asker,
                    method: request.method,
                    name: request.about,
                    rounds: vec![round],
                    progress: 0,
                    cancelled: None,
                    token: request.token.clone(),
                    state: None,
                };
                self.open.insert(self.last, operation);
                self.last
            }
        };
        self.exchanges.begin(channel, number);
        self.remember_posted(channel, (asker, request.id.clone()), number);
        let id_in_use = self.conversation(name).begin((asker, request.id), request.token, number);
        if self.open.len() > MAX_OPEN {
            let oldest = *self.open.keys().next().expect("more than MAX_OPEN operations are open");
            self.forget(oldest);
        }
        PairResult::Request { number, id_in_use }
    }

    /// Takes the suspended operation that this request continues by sending the input that the server asked for.
    fn take_suspended(&mut self, asker: Side, request: &RequestFacts) -> Option<u64> {
        let is_same = |operation: &Operation| {
            operation.asker == asker
                && operation.method == request.method
                && operation.name == request.about
                && operation.state == request.state
                && operation.rounds.len() < MAX_ROUNDS
        };
        if !request.is_retry {
            return None;
        }
        let at = self.suspended.iter().rposition(|number| self.open.get(number).is_some_and(is_same))?;
        self.suspended.remove(at)
    }

    fn response(&mut self, context: PairingContext<'_>, id: &Id<'_>, outcome: ResponseOutcome) -> PairResult {
        let PairingContext { name, channel, sender, at } = context;
        let key = (sender.other(), id.clone().into_owned());
        let number = match self.conversation(name).answer(&key) {
            ResponseTarget::Operation(number) => number,
            ResponseTarget::AlreadyAnswered => return PairResult::Duplicate,
            ResponseTarget::None => match self.other_exchange(channel, &key) {
                OtherExchange::Operation(number) => {
                    self.conversation(name).settle(key);
                    number
                }
                OtherExchange::Ambiguous => return PairResult::None,
                OtherExchange::None => return PairResult::Unsolicited,
            },
        };
        let Some(operation) = self.open.get_mut(&number) else { return PairResult::Unsolicited };
        let late = operation.cancelled.is_some();
        // Every earlier round was answered before the next one began.
        if let Some(round) = operation.rounds.last_mut().filter(|round| round.answered.is_none()) {
            round.answered = Some(OperationResponse { id: id.clone().into_owned(), at, outcome });
        }
        PairResult::Response { number, late }
    }

    fn notification(&mut self, context: PairingContext<'_>, notification: &Notification<'_>) -> PairResult {
        let PairingContext { name, sender, at, .. } = context;
        let params = notification.params.map(Params::json);
        let method = name_of(notification.method);
        let conversation = self.conversation(name);
        conversation.facts.notified(sender, &method);
        let id = |name| member(params, name).and_then(Id::from_json).map(Id::into_owned);
        let number = match method.as_str() {
            "notifications/progress" => {
                id("progressToken").and_then(|token| conversation.with_token(&(sender.other(), token)))
            }
            "notifications/cancelled" => id("requestId").and_then(|id| conversation.oldest(&(sender, id))),
            "$/cancelRequest" => id("id").and_then(|id| conversation.oldest(&(sender, id))),
            _ => None,
        };
        let Some(operation) = number.and_then(|number| self.open.get_mut(&number)) else { return PairResult::None };
        if method == "notifications/progress" {
            operation.progress += 1;
            return PairResult::Progress(operation.number);
        }
        operation.cancelled = operation.cancelled.or(Some(at));
        PairResult::Cancellation(operation.number)
    }

    /// Forgets an answered operation, or suspends it if another round must follow.
    pub(super) fn settle(&mut self, number: u64) {
        let Some(operation) = self.open.get(&number) else { return };
        if let Some(OperationResponse { outcome: ResponseOutcome::InputRequired, .. }) = operation.answer() {
            self.suspended.push_back(number);
            if self.suspended.len() > MAX_SUSPENDED
                && let Some(oldest) = self.suspended.pop_front()
            {
                self.forget(oldest);
            }
            return;
        }
        self.forget(number);
    }

    pub(super) fn forget(&mut self, number: u64) -> Option<Operation> {
        let operation = self.open.remove(&number)?;
        if let Some(conversation) = self.conversations.get_mut(&operation.conversation) {
            let Operation { asker, token, rounds, .. } = &operation;
            conversation.forget(number, *asker, rounds.iter().map(|round| &round.id), token.clone());
        }
        Some(operation)
    }

    fn conversation(&mut self, name: &str) -> &mut ConversationState {
        self.conversations.get_mut(name).expect("the tracker has already added the conversation")
    }
}

/// The maximum number of open operations: more than any client has. A further request removes the oldest operation.
const MAX_OPEN: usize = 65_536;
/// The maximum number of rounds of an operation: more than any user answers. The next request begins a new operation.
const MAX_ROUNDS: usize = 1000;
/// The maximum number of operations that wait for input at once.
const MAX_SUSPENDED: usize = 1024;
