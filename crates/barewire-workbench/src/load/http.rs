//! Loads a server at a URL. Each open request is a task with its own connection; all requests share one client.

use std::time::{Duration, Instant};

use barewire::client::http::{FetchError, HttpFailure};
use barewire::client::{Client, ClientError};
use barewire::peer::Raw;
use barewire_proto::json::Json;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::error::ConnectFailure;
use super::judge::{AnswerJudge, BadFirstAnswer};
use super::outstanding::FIRST_ID;
use super::run::{LoadRun, stop_requested};
use super::settings::Amount;
use super::tally::{Tally, WrongAnswer};
use super::template::Template;
use super::turn::{Turn, TurnEnd};
use crate::text::shown;

pub(super) struct HttpLoad {
    client: Client,
    method: String,
    params: Option<Box<RawValue>>,
    /// The template for params that are different in every request.
    template: Option<Template>,
    next: u64,
    /// The reason why the server can no longer be reached.
    unreachable: Option<String>,
}

struct FinishedRequest {
    number: u64,
    due: Instant,
    sent: Instant,
    received: Instant,
    answer: Result<Raw, ClientError>,
}

impl HttpLoad {
    pub(super) fn new(client: Client, method: String, params: Option<Box<RawValue>>) -> Self {
        let template = params.as_deref().map(Template::params).filter(|template| template.tail().is_some());
        Self { client, method, params, template, next: FIRST_ID, unreachable: None }
    }

    pub(super) async fn first(&mut self, timeout: Duration) -> Result<AnswerJudge, ConnectFailure> {
        let done = self.next_request(Instant::now(), timeout).await;
        let learnt = match done.answer {
            Ok(raw) => {
                let tail = self.template.as_ref().and_then(Template::tail);
                AnswerJudge::learn(&Ok(result(&raw)), done.number, tail, self.params.as_deref())
            }
            Err(ClientError::Refused { error, .. }) => {
                Err(BadFirstAnswer::Error(format!("{} ({})", error.message, error.code)))
            }
            Err(error) => return Err(ConnectFailure::Client(error)),
        };
        learnt.map_err(|answer| ConnectFailure::BadFirstAnswer { method: self.method.clone(), answer })
    }

    /// Returns a request that is sent when it is awaited.
    fn next_request(&mut self, due: Instant, timeout: Duration) -> impl Future<Output = FinishedRequest> + use<> {
        let number = self.next;
        self.next += 1;
        let params = match &self.template {
            None => self.params.clone(),
            Some(template) => {
                let mut bytes = Vec::with_capacity(template.len());
                template.append(number, &mut bytes);
                let text = String::from_utf8(bytes).expect("the digits are ASCII");
                Some(RawValue::from_string(text).expect("JSON with another number in a string"))
            }
        };
        let call = self.client.request(self.method.clone(), params).timeout(timeout).raw_result();
        async move {
            let sent = Instant::now();
            let answer = call.await;
            FinishedRequest { number, due, sent, received: Instant::now(), answer }
        }
    }

    pub(super) async fn run_turn(
        &mut self,
        run: &mut LoadRun<'_>,
        judge: &mut AnswerJudge,
        amount: Amount,
        tally: &mut Tally,
    ) -> TurnEnd {
        let mut turn = Turn::new(run.settings, amount, Instant::now());
        let mut open: JoinSet<FinishedRequest> = JoinSet::new();
        let mut last_answer = Instant::now();
        let end = loop {
            let now = Instant::now();
            while let Some(due) = turn.next(now, open.len(), tally) {
                open.spawn(self.next_request(due, run.settings.timeout));
            }
            let before = open.len();
            if turn.is_over(now, before) {
                break TurnEnd::Done;
            }
            if turn.is_check_due(now) {
                run.report(tally);
                continue;
            }
            if run.is_stop_requested() {
                // Open requests do not count as lost: the server had no time to answer them.
                tally.sent -= before as u64;
                break TurnEnd::Stopped;
            }
            let done = tokio::select! {
                biased;
                Some(done) = open.join_next() => done,
                slept = run.timer.wait_until(turn.wake) => match slept {
                    Ok(()) => continue,
                    Err(_) => break TurnEnd::Disconnected,
                },
                () = stop_requested(&mut run.stop) => continue,
            };
            let done = done.expect("a task that awaits a call does not panic, and is not aborted");
            turn.received(done.received);
            turn.settled(done.received, before, open.len());
            if done.answer.is_ok() {
                last_answer = done.received;
            }
            let sent = done.sent;
            // If another request was answered since this one was sent, the server is only overloaded, not gone.
            if let Some(why) = count(done, judge, tally)
                && sent >= last_answer
            {
                while let Some(Ok(done)) = open.try_join_next() {
                    count(done, judge, tally);
                }
                tally.lost += open.len() as u64;
                self.unreachable = Some(why);
                break TurnEnd::Disconnected;
            }
        };
        turn.close(end, tally);
        end
    }

    /// Ends the session. Returns the reason if the server could no longer be reached.
    pub(super) async fn finish(self) -> Option<String> {
        // All measurements are done, so a failure here does not matter.
        let _ = self.client.shutdown().await;
        self.unreachable
    }
}

/// Counts the answer to a request, or its failure. Returns the reason if no connection can be opened any more.
fn count(done: FinishedRequest, judge: &mut AnswerJudge, tally: &mut Tally) -> Option<String> {
    let error = match done.answer {
        Ok(raw) => {
            match judge.judge(&Ok(result(&raw)), done.number) {
                Ok(()) => tally.good(done.due, done.received),
                Err(wrong) => tally.wrong(wrong, raw.as_str().unwrap_or_default().as_bytes()),
            }
            return None;
        }
        Err(error) => error,
    };
    let wrong = match &error {
        ClientError::Closed(_)
        | ClientError::Http {
            failure: HttpFailure::Fetch(FetchError::Connect { .. } | FetchError::Resolve { .. }),
            ..
        } => {
            tally.lost += 1;
            return Some(shown(error.to_string().as_bytes(), MAX_REASON_LENGTH));
        }
        // A server may close a connection at any time: the request on it is lost, but the next can be answered.
        ClientError::TimedOut { .. }
        | ClientError::Http {
            failure:
                HttpFailure::Fetch(FetchError::Reset { .. } | FetchError::TimedOut { .. }) | HttpFailure::NotAnswered { .. },
            ..
        } => {
            tally.lost += 1;
            return None;
        }
        ClientError::Refused { .. } => WrongAnswer::Error,
        ClientError::Http { .. } => WrongAnswer::Http,
        _ => WrongAnswer::NotAMessage,
    };
    tally.wrong(wrong, error.to_string().as_bytes());
    None
}

/// Returns the result, which the client has already checked to be valid JSON.
fn result(raw: &Raw) -> Json<'_> {
    let text = raw.as_str().unwrap_or("null");
    Json::parse(text.as_bytes()).expect("a result is JSON")
}

/// The maximum number of characters of a reason: about two lines.
const MAX_REASON_LENGTH: usize = 160;
