//! Frames and ties -> what is wrong with the messages themselves: no message, the wrong id, an answer too many or too few.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use barewire_proto::mcp::{Revision, Side};
use barewire_proto::rpc::{Message, Parsed};
use serde_json::json;

use super::blame::{Blame, NAMELESS, blame, is_line};
use super::pieces::Pieces;
use super::{Case, Setting};
use crate::check::catalogue::envelope::{
    ANSWERED_ONCE, BATCH_POLICY, ID_FIDELITY, JSONRPC_MESSAGES, NOTIFICATION_SILENCE, STRUCTURED_ERRORS,
    UNANSWERED_REQUEST,
};
use crate::check::catalogue::framing::{ONE_MESSAGE_A_LINE, STDOUT_PURITY};
use crate::check::finding::{Finding, Location, Party};
use crate::check::ledger::Ledger;
use crate::operations::{Operation, OperationTracker, Relation, Round};

#[derive(Default)]
pub(super) struct Envelope {
    count: Count,
    talks: HashMap<String, Talk>,
    pieces: Pieces,
}

/// Messages of the server.
#[derive(Default)]
struct Count {
    messages: u64,
    conform: u64,
    methods: BTreeMap<String, u64>,
}

/// What is under way in a conversation, by asker.
#[derive(Default)]
struct Talk {
    waiting: [u64; 2],
    notified: [bool; 2],
    /// Frames of each side that may be refused as a whole: no messages, arrays, too long or too deep to be read.
    refusable: [VecDeque<u64>; 2],
    /// Those that were.
    refused: Vec<u64>,
    /// Answers without an id, while requests wait for theirs.
    undecided: Vec<Finding>,
    /// The number of the last frame that each side has sent.
    last: [u64; 2],
    /// Each side has sent an array.
    batches: [bool; 2],
}

impl Talk {
    /// Whether nothing is to be said of it any more.
    fn is_idle(&self) -> bool {
        self.waiting == [0, 0] && self.undecided.is_empty()
    }
}

impl Envelope {
    pub(super) fn message(&mut self, case: &Case<'_>, ledger: &mut Ledger) {
        let watched = case.watched;
        let name = &watched.conversation.name;
        if self.talks.len() >= MOST_TALKS && !self.talks.contains_key(name) {
            self.talks.retain(|_, talk| !talk.is_idle());
            // Most of them wait for nothing any more; which, nobody knows.
            if self.talks.len() >= MOST_TALKS {
                self.talks.clear();
            }
        }
        let sender = watched.sender;
        // What is refused over HTTP is refused by its status; what is said with it may be an error without an id, or anything. So
        // may be what a message is accepted with over HTTP+SSE.
        let is_nothing = sender == Side::Server
            && watched.exchange.is_some_and(|it| it.may_be_sse_post() || it.code() >= Some(400))
            && matches!(watched.message, Ok(Message::OrphanError(_)) | Err(_));
        let talk = self.talks.entry(name.clone()).or_default();
        if !is_nothing {
            talk.last[sender as usize] = watched.frame.number;
        }
        match watched.relation {
            Relation::Request { .. } => talk.waiting[sender as usize] += 1,
            Relation::Response { operation, .. } => {
                let waiting = &mut talk.waiting[sender.other() as usize];
                *waiting = waiting.saturating_sub(1);
                // It was taken, and is not refused any more.
                let asked = operation.rounds.last().map(|round| round.asked.frame);
                talk.refusable[sender.other() as usize].retain(|frame| Some(*frame) != asked);
            }
            _ => {}
        }
        if is_refusable(case) {
            let refusable = &mut talk.refusable[sender as usize];
            refusable.push_back(watched.frame.number);
            if refusable.len() > MOST_UNDECIDED {
                refusable.pop_front();
            }
        }
        let is_orphan = matches!(watched.message, Ok(Message::OrphanError(_)));
        let refused = match watched.relation {
            Relation::Unsolicited if is_orphan => talk.refusable[sender.other() as usize].pop_front(),
            _ => None,
        };
        if let (Some(refused), true) = (refused, talk.refused.len() < MOST_TALKS) {
            talk.refused.push(refused);
        }
        let was_notified = talk.notified[sender.other() as usize];
        if let Ok(Message::Notification(_)) = watched.message {
            talk.notified[sender as usize] = true;
        }
        // Where things are sent that are no messages, whoever sends them knows what such an error is for.
        let is_theirs = is_orphan && case.setting.rough.contains(name);
        let is_fine = refused.is_some() || is_nothing || is_theirs;
        let blame = if is_fine { None } else { blame(case, was_notified) };
        if sender == Side::Server {
            self.count(case, blame.is_none());
        }
        if case.by_server() || !case.setting.client_is_ours {
            ledger.look(&JSONRPC_MESSAGES);
        }
        if is_line(case) {
            ledger.look(&STDOUT_PURITY);
            ledger.look(&ONE_MESSAGE_A_LINE);
        }
        if matches!(watched.message, Ok(Message::Response(_) | Message::OrphanError(_))) && case.by_server() {
            ledger.look(&ID_FIDELITY);
            ledger.look(&ANSWERED_ONCE);
        }
        if let Ok(Message::Notification(_)) = watched.message {
            ledger.look(&NOTIFICATION_SILENCE);
        }
        self.blamed(case, blame, ledger);
        self.decide(name, sender.other(), ledger);
        errors(case, ledger);
        self.batch(case, ledger);
    }

    /// The exchange of a conversation that has no other is over.
    pub(super) fn over(&mut self, conversation: &str) {
        // Whatever was not answered in it will not be.
        let is_done = |talk: &Talk| talk.undecided.is_empty() && talk.refused.is_empty();
        if self.talks.get(conversation).is_some_and(is_done) {
            self.talks.remove(conversation);
        }
    }

    /// An array where the revision has none.
    fn batch(&mut self, case: &Case<'_>, ledger: &mut Ledger) {
        let watched = case.watched;
        if !matches!(watched.frame.parsed, Parsed::Batch(_)) || watched.element != Some(0) {
            return;
        }
        let talk = self.talks.entry(watched.conversation.name.clone()).or_default();
        talk.batches[watched.sender as usize] = true;
        // What our own arrays are answered with is told by whoever sends them.
        let is_told = case.setting.client_is_ours && talk.batches[watched.sender.other() as usize];
        match case.revision.or(watched.conversation.revision()) {
            Some(revision) if revision >= Revision::V2025_06_18 && !is_told => {
                case.fail(ledger, &BATCH_POLICY, format!("an array of messages in {revision}"));
            }
            Some(_) => ledger.look(&BATCH_POLICY),
            None => {}
        }
    }

    fn count(&mut self, case: &Case<'_>, conforms: bool) {
        self.count.messages += 1;
        self.count.conform += u64::from(conforms);
        let method = match (&case.watched.message, case.watched.relation) {
            (_, Relation::Response { operation, .. }) => operation.method.clone(),
            (Ok(Message::Request(request)), _) => request.method.to_name().into_owned(),
            (Ok(Message::Notification(notification)), _) => notification.method.to_name().into_owned(),
            _ => String::new(),
        };
        if self.count.methods.len() < MOST_METHODS || self.count.methods.contains_key(&method) {
            *self.count.methods.entry(method).or_default() += 1;
        }
    }

    /// Tells what is wrong, once it is clear whether a line is a piece of a message.
    fn blamed(&mut self, case: &Case<'_>, blame: Option<Blame>, ledger: &mut Ledger) {
        let watched = case.watched;
        let channel = watched.frame.place.map_or("", |place| place.channel);
        let finding = blame.map(|Blame { check, at, detail, by_carrier }| {
            let finding = case.finding(check, at, detail);
            if by_carrier { Finding { party: Party::Carrier, ..finding } } else { finding }
        });
        for finding in self.pieces.line(channel, watched.text.unwrap_or_default(), finding) {
            self.tell(case, finding, ledger);
        }
    }

    fn tell(&mut self, case: &Case<'_>, finding: Finding, ledger: &mut Ledger) {
        if finding.party == Party::Client && case.setting.client_is_ours {
            return;
        }
        let talk = self.talks.entry(case.watched.conversation.name.clone()).or_default();
        let asker = case.watched.sender.other();
        if finding.check == &NOTIFICATION_SILENCE
            && talk.waiting[asker as usize] > 0
            && talk.undecided.len() < MOST_UNDECIDED
        {
            talk.undecided.push(finding);
            return;
        }
        tell(finding, ledger);
    }

    /// All that was asked has its own answer: what came without an id was for a notification.
    fn decide(&mut self, name: &str, asker: Side, ledger: &mut Ledger) {
        let Some(talk) = self.talks.get_mut(name) else { return };
        if talk.waiting[asker as usize] == 0 {
            talk.undecided.drain(..).for_each(|finding| tell(finding, ledger));
        }
    }

    /// What nobody has answered, and nobody else tells of.
    fn unanswered<'w>(&self, watch: &'w OperationTracker, setting: &Setting) -> Vec<(&'w Operation, &'w Round)> {
        let is_told = |operation: &Operation, round: &Round| {
            let key = (operation.conversation.clone(), round.id.as_str().to_owned());
            let talk = self.talks.get(&operation.conversation);
            // A client that closes stdin behind its requests has not waited for an answer.
            let closed = setting.closed.get(&operation.channel).zip(round.asked.time);
            let has_waited = closed.is_none_or(|(closed, asked)| closed.saturating_sub(asked) >= LONG_WAIT);
            operation.asker == Side::Server && setting.client_is_ours
                || operation.asker == Side::Client && !setting.client_is_ours && !has_waited
                || setting.claimed.contains(&key)
                || setting.rough.contains(&operation.conversation)
                || talk.is_some_and(|talk| talk.refused.contains(&round.asked.frame))
        };
        let open = watch.open().filter(|operation| operation.is_unanswered());
        let open = open.filter_map(|operation| Some((operation, operation.rounds.last()?)));
        open.filter(|(operation, round)| !is_told(operation, round)).collect()
    }

    /// An answer without an id may be that of a request which has none, if one was asked before it. If not, it was for the
    /// notification.
    fn attribute(&mut self, unanswered: &[(&Operation, &Round)], ledger: &mut Ledger) {
        for (name, talk) in &mut self.talks {
            let waiting = unanswered.iter().filter(|(operation, _)| operation.conversation == *name);
            let mut waiting: Vec<u64> = waiting.map(|(_, round)| round.asked.frame).collect();
            for finding in talk.undecided.drain(..) {
                let asked = waiting.iter().position(|asked| finding.location.frame.is_some_and(|at| at > *asked));
                match asked {
                    Some(asked) => {
                        waiting.remove(asked);
                        tell(Finding { check: &ID_FIDELITY, detail: NAMELESS.to_owned(), ..finding }, ledger);
                    }
                    None => tell(finding, ledger),
                }
            }
        }
    }

    pub(super) fn finish(&mut self, watch: &OperationTracker, setting: &Setting, ledger: &mut Ledger) {
        let unanswered = self.unanswered(watch, setting);
        self.attribute(&unanswered, ledger);
        self.pieces.finish().for_each(|finding| tell(finding, ledger));
        let Count { messages, conform, methods } = &self.count;
        if *messages > 0 {
            let measure = json!({"messages": messages, "conform": conform, "methods": methods});
            ledger.measure(&JSONRPC_MESSAGES, measure);
        }
        for (operation, round) in unanswered {
            let answerer = operation.asker.other();
            // A capture may end right behind the request.
            let talk = self.talks.get(&operation.conversation);
            let went_on = talk.is_some_and(|talk| talk.last[answerer as usize] > round.asked.frame);
            let waited = setting.last.zip(round.asked.time).map(|(last, asked)| last.saturating_sub(asked));
            let is_long = waited.is_some_and(|waited| waited >= LONG_WAIT);
            if !went_on && !is_long && !setting.client_is_ours {
                continue;
            }
            let stream = if operation.asker == Side::Client { '>' } else { '<' };
            let location = Location {
                channel: operation.channel.clone(),
                stream: Some(stream),
                frame: Some(round.asked.frame),
                offset: None,
            };
            let detail = format!("{} under the id {}", operation.title(), round.id);
            let detail = crate::text::shown(detail.as_bytes(), 120);
            ledger.fail(Finding::new(&UNANSWERED_REQUEST, Party::from(answerer), location, detail));
        }
        if self.talks.values().any(|talk| talk.last.iter().any(|last| *last > 0)) {
            ledger.look(&UNANSWERED_REQUEST);
        }
    }
}

const TWO_TO_THE_53: f64 = 9_007_199_254_740_992.0;

/// Who has waited so long has waited in vain, also if nothing else was said.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// Whoever cannot take it may not be able to read its id either.
fn is_refusable(case: &Case<'_>) -> bool {
    let watched = case.watched;
    let is_batch = watched.element == Some(0);
    let is_hard = watched.frame.too_deep.is_some() || watched.frame.length > LONG;
    // What has no id is counted where ties are made.
    let is_bad = watched.message.is_err() && matches!(watched.relation, Relation::Request { .. });
    // Nor is a number kept by everybody that is beyond those which a double holds exactly.
    let is_big = |round: &Round| round.id.as_str().parse().is_ok_and(|id: f64| id.abs() >= TWO_TO_THE_53);
    let has_big_id =
        matches!(watched.relation, Relation::Request { operation, .. } if operation.rounds.last().is_some_and(is_big));
    is_batch || is_hard || is_bad || has_big_id
}

/// A finding with a check of its own counts against the envelope as well.
fn tell(finding: Finding, ledger: &mut Ledger) {
    let check = finding.check;
    ledger.fail(finding);
    if check != &JSONRPC_MESSAGES {
        ledger.tell_under(&JSONRPC_MESSAGES, check);
    }
}

/// What errors say.
fn errors(case: &Case<'_>, ledger: &mut Ledger) {
    match case.watched.message {
        Ok(Message::Response(response)) => match response.outcome {
            Err(error) => {
                ledger.look(&STRUCTURED_ERRORS);
                error_says(case, &error.message.to_name(), ledger);
            }
            Ok(result) => {
                let mut members = result.members();
                let only = members.next().filter(|member| member.name == "error");
                if only.is_some() && members.next().is_none() {
                    case.fail(ledger, &STRUCTURED_ERRORS, "a result that consists of an error");
                }
            }
        },
        Ok(Message::OrphanError(error)) => {
            ledger.look(&STRUCTURED_ERRORS);
            error_says(case, &error.message.to_name(), ledger);
        }
        _ => {}
    }
}

fn error_says(case: &Case<'_>, message: &str, ledger: &mut Ledger) {
    let trace = ["Traceback (most recent call last)", "\n    at ", "\n\tat ", "stack backtrace:", "panicked at "];
    if message.trim().is_empty() {
        case.fail_in(ledger, &STRUCTURED_ERRORS, "/error/message", "its message is empty");
    } else if trace.iter().any(|sign| message.contains(sign)) {
        case.fail_in(ledger, &STRUCTURED_ERRORS, "/error/message", "its message is a stack trace");
    } else if message.trim().contains('\n') {
        case.fail_in(ledger, &STRUCTURED_ERRORS, "/error/message", "its message is more than a sentence");
    }
}

/// Enough to be told.
const MOST_UNDECIDED: usize = 16;
/// The shortest limit of a reader that is common.
const LONG: u64 = 60_000;
/// More conversations than a host has.
const MOST_TALKS: usize = 4096;
/// More methods than there are.
const MOST_METHODS: usize = 200;
