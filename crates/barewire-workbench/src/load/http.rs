//! Requests -> a server at a URL, and its answers: as many tasks as are in flight over one client, which keeps a connection
//! for each.

use std::time::{Duration, Instant};

use barewire::client::http::{FetchError, HttpFailure};
use barewire::client::{Client, ClientError};
use barewire::peer::Raw;
use barewire_proto::json::Json;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::judge::{Judge, UnfitAnswer};
use super::outstanding::FIRST_ID;
use super::run::{Run, stop_requested};
use super::settings::Amount;
use super::slice::End;
use super::slice::Slice;
use super::tally::{Tally, WrongAnswer};
use super::template::Template;
use crate::text::shown;

/// A server at a URL.
pub(super) struct Http {
    client: Client,
    method: String,
    params: Option<Box<RawValue>>,
    /// For params that are other ones each time.
    template: Option<Template>,
    next: u64,
    /// Why the server cannot be reached any more.
    gone: Option<String>,
}

/// A request that is done with.
struct Done {
    number: u64,
    due: Instant,
    sent: Instant,
    received: Instant,
    answer: Result<Raw, ClientError>,
}

impl Http {
    pub(super) fn new(client: Client, method: String, params: Option<Box<RawValue>>) -> Self {
        let template = params.as_deref().map(Template::params).filter(|template| template.tail().is_some());
        Self { client, method, params, template, next: FIRST_ID, gone: None }
    }

    /// Asks once, and learns what answers look like.
    pub(super) async fn first(
        &mut self,
        timeout: Duration,
    ) -> Result<Result<Judge, UnfitAnswer>, ClientError> {
        let tail = self.template.as_ref().and_then(Template::tail).map(<[u8]>::to_vec);
        let params = self.params.clone();
        let done = self.ask(Instant::now(), timeout).await;
        match done.answer {
            Ok(raw) => {
                let result = result(&raw);
                Ok(Judge::learn(&Ok(result), done.number, tail.as_deref(), params.as_deref()))
            }
            Err(ClientError::Refused { error, .. }) => {
                Ok(Err(UnfitAnswer::Error(format!("{} ({})", error.message, error.code))))
            }
            Err(error) => Err(error),
        }
    }

    /// A request, which is not sent before it is awaited.
    fn ask(&mut self, due: Instant, timeout: Duration) -> impl Future<Output = Done> + use<> {
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
            Done { number, due, sent, received: Instant::now(), answer }
        }
    }

    pub(super) async fn slice(
        &mut self,
        run: &mut Run<'_>,
        judge: &mut Judge,
        amount: Amount,
        tally: &mut Tally,
    ) -> End {
        let mut slice = Slice::new(run.settings, amount);
        let mut open: JoinSet<Done> = JoinSet::new();
        let mut answered = Instant::now();
        let end = loop {
            let now = Instant::now();
            while let Some(due) = slice.next(now, open.len(), tally) {
                open.spawn(self.ask(due, run.settings.timeout));
            }
            let before = open.len();
            if slice.is_over(now, before) {
                break End::Done;
            }
            if slice.is_time_to_look(now) {
                run.report(tally);
                continue;
            }
            if run.is_stop_requested() {
                // What is open is not lost: nobody has waited for it.
                tally.sent -= before as u64;
                break End::Stopped;
            }
            let done = tokio::select! {
                biased;
                Some(done) = open.join_next() => done,
                slept = run.timer.wait_until(slice.wake()) => match slept {
                    Ok(()) => continue,
                    Err(_) => break End::Broken,
                },
                () = stop_requested(&mut run.stop) => continue,
            };
            let done = done.expect("a task that awaits a call does not panic, and nobody aborts it");
            slice.received(done.received);
            slice.settled(done.received, before, open.len());
            if done.answer.is_ok() {
                answered = done.received;
            }
            let sent = done.sent;
            // If somebody else was answered meanwhile, the server is there and has too much to do.
            if let Connection::Over(why) = take(done, judge, tally)
                && sent >= answered
            {
                while let Some(Ok(done)) = open.try_join_next() {
                    take(done, judge, tally);
                }
                tally.lost += open.len() as u64;
                self.gone = Some(why);
                break End::Broken;
            }
        };
        slice.close(end, tally);
        end
    }

    /// Says goodbye. Gives the reason why it could not be reached, if that was so.
    pub(super) async fn finish(self) -> Option<String> {
        self.client.shutdown().await;
        self.gone
    }
}

/// Whether anything more can be asked.
enum Connection {
    There,
    /// Nothing, for this reason.
    Over(String),
}

/// Counts what came of a request.
fn take(done: Done, judge: &mut Judge, tally: &mut Tally) -> Connection {
    match done.answer {
        Ok(raw) => match judge.judge(&Ok(result(&raw)), done.number) {
            Ok(()) => tally.good(done.due, done.received),
            Err(wrong) => tally.wrong(wrong, raw.as_str().unwrap_or_default().as_bytes()),
        },
        Err(error) => match fate(&error) {
            Fate::Lost => tally.lost += 1,
            Fate::Over => {
                tally.lost += 1;
                return Connection::Over(shown(error.to_string().as_bytes(), LONGEST));
            }
            Fate::WrongAnswer(wrong) => tally.wrong(wrong, error.to_string().as_bytes()),
        },
    }
    Connection::There
}

/// What a failure means for a request.
enum Fate {
    /// There is no answer to it, and may be one to the next.
    Lost,
    /// Nor will there be one to any other.
    Over,
    /// That is its answer.
    WrongAnswer(WrongAnswer),
}

fn fate(error: &ClientError) -> Fate {
    match error {
        ClientError::TimedOut { .. } => Fate::Lost,
        ClientError::Closed(_) => Fate::Over,
        ClientError::Refused { .. } => Fate::WrongAnswer(WrongAnswer::Error),
        ClientError::Http { failure, .. } => match failure {
            // Servers close connections between requests, and one that is on its way then is lost; that is not the end. Where no
            // connection comes about any more there is nobody.
            HttpFailure::Fetch(FetchError::Connect { .. } | FetchError::Resolve { .. }) => Fate::Over,
            HttpFailure::Fetch(FetchError::Reset { .. } | FetchError::TimedOut { .. })
            | HttpFailure::NotAnswered { .. } => Fate::Lost,
            _ => Fate::WrongAnswer(WrongAnswer::Http),
        },
        _ => Fate::WrongAnswer(WrongAnswer::NotAMessage),
    }
}

/// What the client has scanned as JSON already.
fn result(raw: &Raw) -> Json<'_> {
    let text = raw.as_str().unwrap_or("null");
    Json::parse(text.as_bytes()).expect("a result is JSON")
}

/// As much of a reason as fits two lines.
const LONGEST: usize = 160;
