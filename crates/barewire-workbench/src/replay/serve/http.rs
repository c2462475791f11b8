//! A script and clients at a URL -> what the server said in the capture: every session has the whole of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::pin;
use std::time::{Duration, Instant};

use barewire_proto::transcript::Framing;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{sleep, sleep_until};

use super::connection::{ConnectionEvent, Reply, Request, serve as serve_connection};
use super::{ServeOptions, Served};
use crate::http::is_modern;
use crate::replay::message::{Kind, Said};
use crate::replay::script::Script;
use crate::replay::stage::{Came, Out, Stage};

/// Answers clients over HTTP at [`HTTP_PATH`](super::HTTP_PATH) as the server of the capture did, until `stop` is ready.
///
/// Every session has the whole capture to itself; all requests that are in no session share one. Only clients that call this server
/// by a loopback name are answered. `log` is called with a line about each request: what in the capture answers it, or why nothing
/// does.
pub async fn serve_http(
    script: &Script,
    listener: TcpListener,
    options: &ServeOptions,
    stop: impl Future<Output = ()>,
    log: impl FnMut(&str),
) -> Served {
    let mut stop = pin!(stop);
    let (sender, mut receiver) = unbounded_channel();
    let mut house = House::new(script, options, log);
    let mut last = 0;
    loop {
        let due = house.due();
        tokio::select! {
            accepted = listener.accept() => {
                // What fails is a client that is gone again; or there are too many files open, which passes.
                let Ok((client, _)) = accepted else {
                    sleep(Duration::from_millis(10)).await;
                    continue;
                };
                last += 1;
                tokio::spawn(serve_connection(client, last, options.max_frame, sender.clone()));
            }
            Some(event) = receiver.recv() => house.take(event),
            () = async { match due {
                Some(due) => sleep_until(due.into()).await,
                None => std::future::pending().await,
            } } => house.run(),
            () = &mut stop => break,
        }
    }
    house.end()
}

/// All conversations with clients.
struct House<'a, L> {
    script: &'a Script,
    options: &'a ServeOptions,
    log: L,
    /// By session; under the empty name, all that are in none.
    talks: HashMap<String, Talk<'a>>,
    /// Those that are not answered.
    exchanges: HashMap<u64, Exchange>,
    sessions: u64,
    /// Of talks that are over.
    matched: usize,
    unmatched: usize,
    left: Option<HashSet<usize>>,
}

/// One conversation.
struct Talk<'a> {
    stage: Stage<'a>,
    /// Where it is told what it has not asked for.
    listener: Option<UnboundedSender<Reply>>,
    /// What it is to be told there.
    untold: VecDeque<Vec<u8>>,
}

/// A request that is not answered.
struct Exchange {
    talk: String,
    reply: UnboundedSender<Reply>,
    /// The session that begins with it, until it is told.
    session: Option<String>,
    is_stream: bool,
}

impl<'a, L: FnMut(&str)> House<'a, L> {
    fn new(script: &'a Script, options: &'a ServeOptions, log: L) -> Self {
        Self {
            script,
            options,
            log,
            talks: HashMap::new(),
            exchanges: HashMap::new(),
            sessions: 0,
            matched: 0,
            unmatched: 0,
            left: None,
        }
    }

    fn due(&self) -> Option<Instant> {
        self.talks.values().filter_map(|talk| talk.stage.due()).min()
    }

    fn take(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Closed { number } => {
                if let Some(exchange) = self.exchanges.remove(&number)
                    && let Some(talk) = self.talks.get_mut(&exchange.talk)
                {
                    talk.stage.gone(number);
                }
            }
            ConnectionEvent::Request { number, request, reply } => {
                if let Err((status, why)) = self.asked(number, &request, &reply) {
                    // Whoever is gone is told nothing.
                    let _ = reply.send(Reply::Status(status, why));
                }
            }
        }
    }

    /// Takes a request, or says with which status it is done.
    fn asked(
        &mut self,
        number: u64,
        request: &Request,
        reply: &UnboundedSender<Reply>,
    ) -> Result<(), (&'static str, String)> {
        let session = request.header("mcp-session-id").unwrap_or_default().to_owned();
        if !session.is_empty() && !self.talks.contains_key(&session) {
            return Err(("404 Not Found", "there is no such session\n".to_owned()));
        }
        match request.method.as_str() {
            "POST" => {}
            "GET" if !session.is_empty() => {
                let talk = self.talks.get_mut(&session).expect("it is there");
                let _ = reply.send(Reply::Events(None));
                for message in talk.untold.drain(..) {
                    let _ = reply.send(Reply::Event(message));
                }
                talk.listener = Some(reply.clone());
                return Ok(());
            }
            "DELETE" if !session.is_empty() => {
                if let Some(talk) = self.talks.remove(&session) {
                    self.over(&talk.stage);
                }
                return Err(("200 OK", String::new()));
            }
            _ => return Err(("405 Method Not Allowed", String::new())),
        }
        let all = Said::all(&request.body);
        let begins = all.iter().any(|said| said.method() == Some("initialize")) && !is_modern(&request.body);
        let talk = if begins {
            self.sessions += 1;
            format!("replay-{}-{}", std::process::id(), self.sessions)
        } else {
            session
        };
        if self.talks.len() >= MOST_TALKS && !self.talks.contains_key(&talk) {
            return Err(("503 Service Unavailable", "too many sessions\n".to_owned()));
        }
        let waits = all.iter().any(|said| matches!(said.kind, Kind::Request { .. } | Kind::Noise));
        if waits {
            let session = begins.then(|| talk.clone());
            let exchange = Exchange { talk: talk.clone(), reply: reply.clone(), session, is_stream: false };
            self.exchanges.insert(number, exchange);
        } else {
            let _ = reply.send(Reply::Status("202 Accepted", String::new()));
        }
        let (script, options, now) = (self.script, self.options, Instant::now());
        let stage = || Stage::new(script, Framing::Body, options, now);
        let one = self.talks.entry(talk.clone()).or_insert_with(|| Talk {
            stage: stage(),
            listener: None,
            untold: VecDeque::new(),
        });
        let out = one.stage.take(&request.body, Came { at: now, to: number });
        self.say(&talk, out);
        // What is no message has no answer that ends it.
        let is_noise = all.iter().all(|said| said.kind == Kind::Noise);
        if is_noise && let Some(exchange) = self.exchanges.remove(&number) {
            let last = Reply::Status("400 Bad Request", String::new());
            let _ = exchange.reply.send(if exchange.is_stream { Reply::End } else { last });
        }
        Ok(())
    }

    /// Says all that can be said now.
    fn run(&mut self) {
        let now = Instant::now();
        let all: Vec<(String, Vec<Out>)> =
            self.talks.iter_mut().map(|(name, talk)| (name.clone(), talk.stage.run(now))).collect();
        for (name, out) in all {
            self.say(&name, out);
        }
    }

    fn say(&mut self, talk: &str, all: Vec<Out>) {
        for out in all {
            match out {
                Out::Log(line) => (self.log)(&line),
                Out::Send { bytes, to, ends } => self.send(talk, bytes, to, ends),
            }
        }
    }

    /// A message goes where its request came from, and if that is over, to who listens. If one is gone it is told nothing.
    fn send(&mut self, talk: &str, bytes: Vec<u8>, to: u64, ends: bool) {
        if let Some(exchange) = self.exchanges.get_mut(&to) {
            if ends && !exchange.is_stream {
                let is_orphan = matches!(Said::all(&bytes).as_slice(), [Said { kind: Kind::Orphan, .. }]);
                let _ = exchange.reply.send(match is_orphan {
                    true => Reply::Refusal(bytes),
                    false => Reply::Answer(bytes, exchange.session.take()),
                });
            } else {
                if !exchange.is_stream {
                    exchange.is_stream = true;
                    let _ = exchange.reply.send(Reply::Events(exchange.session.take()));
                }
                let _ = exchange.reply.send(Reply::Event(bytes));
                if ends {
                    let _ = exchange.reply.send(Reply::End);
                }
            }
            if ends {
                self.exchanges.remove(&to);
            }
            return;
        }
        let Some(talk) = self.talks.get_mut(talk) else { return };
        match talk.listener.take_if(|listener| listener.is_closed()) {
            None if talk.listener.is_some() => {
                let _ = talk.listener.as_ref().map(|listener| listener.send(Reply::Event(bytes)));
            }
            _ if talk.untold.len() < MOST_UNTOLD => talk.untold.push_back(bytes),
            _ => {}
        }
    }

    fn over(&mut self, stage: &Stage<'_>) {
        self.matched += stage.matched;
        self.unmatched += stage.unmatched;
        let left = stage.left();
        self.left = Some(match self.left.take() {
            Some(others) => others.intersection(&left).copied().collect(),
            None => left,
        });
    }

    fn end(mut self) -> Served {
        for (_, talk) in std::mem::take(&mut self.talks) {
            self.over(&talk.stage);
        }
        let unused = || Stage::new(self.script, Framing::Body, self.options, Instant::now()).left();
        let not_asked = self.left.unwrap_or_else(unused).len();
        Served { matched: self.matched, unmatched: self.unmatched, not_asked }
    }
}

/// More than anybody tries a client with.
const MOST_TALKS: usize = 1000;

/// Of what nobody listens to.
const MOST_UNTOLD: usize = 10_000;
