//! Requests -> a server at a URL, and its answers: a task for each request in flight, over one client, which keeps a connection for
//! each.

use std::time::{Duration, Instant};

use barewire::client::http::{FetchError, HttpFailure};
use barewire::client::{Client, ClientError};
use barewire::peer::Raw;
use barewire_proto::json::Json;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::judge::{AnswerJudge, BadFirstAnswer};
use super::outstanding::FIRST_ID;
use super::run::{LoadRun, stop_requested};
use super::settings::Amount;
use super::tally::{Tally, WrongAnswer};
use super::template::Template;
use super::turn::{Turn, TurnEnd};
use crate::text::shown;

/// A server at a URL.
pub(super) struct HttpLoad {
    client: Client,
    method: String,
    params: Option<Box<RawValue>>,
    /// The template of params that are other ones each time.
    template: Option<Template>,
    next: u64,
    /// The reason why the server cannot be reached any more.
    unreachable: Option<String>,
}

/// A request that has ended.
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

    /// Sends the first request, and learns from its answer.
    pub(super) async fn first(
        &mut self,
        timeout: Duration,
    ) -> Result<Result<AnswerJudge, BadFirstAnswer>, ClientError> {
        let tail = self.template.as_ref().and_then(Template::tail).map(<[u8]>::to_vec);
        let params = self.params.clone();
        let done = self.next_request(Instant::now(), timeout).await;
        match done.answer {
            Ok(raw) => {
                let result = result(&raw);
                Ok(AnswerJudge::learn(&Ok(result), done.number, tail.as_deref(), params.as_deref()))
            }
            Err(ClientError::Refused { error, .. }) => {
                Ok(Err(BadFirstAnswer::Error(format!("{} ({})", error.message, error.code))))
            }
            Err(error) => Err(error),
        }
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
                let text = String::from_utf8(bytes).expect("digits instead of letters");
                Some(RawValue::from_string(text).expect("JSON with another number in a string"))
            }
        };
        let call = self.client.request(self.method.clone(), params).timeout(timeout).as_it_comes();
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
        let mut turn = Turn::new(run.settings, amount);
        let mut open: JoinSet<FinishedRequest> = JoinSet::new();
        let mut answered = Instant::now();
        let end = loop {
            let now = Instant::now();
            while let Some(due) = turn.next(now, open.len(), tally) {
                open.spawn(self.next_request(due, run.settings.timeout));
            }
            let before = open.len();
            if turn.is_over(now, before) {
                break TurnEnd::Done;
            }
            if turn.is_time_to_look(now) {
                run.report(tally);
                continue;
            }
            if run.is_stop_requested() {
                // Open requests are not lost: they had no time to be answered.
                tally.sent -= before as u64;
                break TurnEnd::Stopped;
            }
            let done = tokio::select! {
                biased;
                Some(done) = open.join_next() => done,
                slept = run.timer.wait_until(turn.wake()) => match slept {
                    Ok(()) => continue,
                    Err(_) => break TurnEnd::Disconnected,
                },
                () = stop_requested(&mut run.stop) => continue,
            };
            let done = done.expect("a task that awaits a call does not panic, and nobody aborts it");
            turn.received(done.received);
            turn.settled(done.received, before, open.len());
            if done.answer.is_ok() {
                answered = done.received;
            }
            let sent = done.sent;
            // If another request was answered meanwhile, the server is there and has too much to do.
            if let ServerState::Unreachable(why) = count(done, judge, tally)
                && sent >= answered
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

    /// Ends the session. Returns the reason why the server could not be reached, if that was so.
    pub(super) async fn finish(self) -> Option<String> {
        // All is measured: how the session ends changes nothing.
        let _ = self.client.shutdown().await;
        self.unreachable
    }
}

/// The state of the server after a request.
enum ServerState {
    Reachable,
    /// No connection comes about any more, for this reason.
    Unreachable(String),
}

/// Counts the answer or the failure of a request.
fn count(done: FinishedRequest, judge: &mut AnswerJudge, tally: &mut Tally) -> ServerState {
    match done.answer {
        Ok(raw) => match judge.judge(&Ok(result(&raw)), done.number) {
            Ok(()) => tally.good(done.due, done.received),
            Err(wrong) => tally.wrong(wrong, raw.as_str().unwrap_or_default().as_bytes()),
        },
        Err(error) => match meaning_of(&error) {
            FailureMeaning::Lost => tally.lost += 1,
            FailureMeaning::Unreachable => {
                tally.lost += 1;
                return ServerState::Unreachable(shown(error.to_string().as_bytes(), MAX_REASON_LENGTH));
            }
            FailureMeaning::WrongAnswer(wrong) => tally.wrong(wrong, error.to_string().as_bytes()),
        },
    }
    ServerState::Reachable
}

/// The meaning of a failure.
enum FailureMeaning {
    /// The request is lost; the next may be answered.
    Lost,
    /// The request is lost, and so will be all others.
    Unreachable,
    /// The failure is a wrong answer.
    WrongAnswer(WrongAnswer),
}

fn meaning_of(error: &ClientError) -> FailureMeaning {
    match error {
        ClientError::TimedOut { .. } => FailureMeaning::Lost,
        ClientError::Closed(_) => FailureMeaning::Unreachable,
        ClientError::Refused { .. } => FailureMeaning::WrongAnswer(WrongAnswer::Error),
        ClientError::Http { failure, .. } => match failure {
            // Servers close connections between requests, and one that is on its way then is lost; that is not the end. Where no
            // connection comes about any more there is nobody.
            HttpFailure::Fetch(FetchError::Connect { .. } | FetchError::Resolve { .. }) => FailureMeaning::Unreachable,
            HttpFailure::Fetch(FetchError::Reset { .. } | FetchError::TimedOut { .. })
            | HttpFailure::NotAnswered { .. } => FailureMeaning::Lost,
            _ => FailureMeaning::WrongAnswer(WrongAnswer::Http),
        },
        _ => FailureMeaning::WrongAnswer(WrongAnswer::NotAMessage),
    }
}

/// Returns the result, which the client has scanned as JSON already.
fn result(raw: &Raw) -> Json<'_> {
    let text = raw.as_str().unwrap_or("null");
    Json::parse(text.as_bytes()).expect("a result is JSON")
}

/// The number of characters of a reason: as many as fit two lines.
const MAX_REASON_LENGTH: usize = 160;
