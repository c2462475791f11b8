//! The parts of requests and responses on one connection -> what is seen of each exchange, under its number.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_proto::transcript::{CutReason, Framing, Note, Stream, StreamClose, UnreadReason};

use crate::http::head::{Answers, Asks, Body, Kind, Refusal};

/// Whoever looks on. It never waits.
pub(super) trait Eyes: Send + Sync {
    /// Bytes of a body.
    fn bytes(&self, exchange: u64, stream: Stream, bytes: &[u8]);

    /// Anything else that happens.
    fn note(&self, exchange: u64, note: Note);

    /// Takes an event that people should hear of; it is noted like any other as well.
    fn trouble(&self, exchange: u64, note: Note);
}

/// Numbers exchanges, from 1, over all connections.
#[derive(Default)]
pub(super) struct Numbers(AtomicU64);

impl Numbers {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The exchanges of one connection that are not over.
pub(super) struct Exchanges {
    eyes: Arc<dyn Eyes>,
    numbers: Arc<Numbers>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// In the order of their requests, which is that of the responses.
    waiting: VecDeque<Exchange>,
    /// The request whose body is coming.
    asking: Option<Passing>,
    /// The response whose body is coming.
    answering: Option<Passing>,
    /// Something else than HTTP is spoken from here on.
    is_switched: bool,
    /// Nothing more of what the client sends is passed on.
    refusal: Option<Refusal>,
    /// The reason why exchanges that are open at the end are over.
    end: Option<CutReason>,
}

struct Exchange {
    number: u64,
    kind: Kind,
    framing: Option<Framing>,
}

/// A body on its way.
struct Passing {
    number: u64,
    body: Body,
    /// How many bytes were not shown.
    unread: u64,
}

impl Exchanges {
    pub(super) fn new(eyes: Arc<dyn Eyes>, numbers: Arc<Numbers>) -> Self {
        Self { eyes, numbers, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins.
    pub(super) fn asks(&self, asks: &Asks) {
        let number = self.numbers.next();
        for line in &asks.lines {
            self.eyes.note(number, Note::Head(Stream::ToServer, line.clone()));
        }
        for line in &asks.changed {
            self.eyes.note(number, Note::Changed(line.clone()));
        }
        let mut framing = None;
        if asks.follows.is_body() {
            framing = self.announce(number, Stream::ToServer, &asks.body, None);
        }
        let mut open = self.open();
        open.waiting.push_back(Exchange { number, kind: asks.kind, framing });
        open.asking = Some(Passing { number, body: asks.body.clone(), unread: 0 });
    }

    pub(super) fn asked_more(&self, bytes: &[u8]) {
        if let Some(passing) = &mut self.open().asking {
            passing.pass(Stream::ToServer, bytes, &*self.eyes);
        }
    }

    pub(super) fn asked_all(&self) {
        if let Some(passing) = self.open().asking.take() {
            passing.end(Stream::ToServer, &*self.eyes);
        }
    }

    /// A request that goes nowhere.
    pub(super) fn refused(&self, why: &str) {
        let number = self.numbers.next();
        self.eyes.trouble(number, Note::Refused(why.into()));
        self.eyes.note(number, Note::Eof(Stream::ToServer));
        self.eyes.note(number, Note::Eof(Stream::ToClient));
    }

    /// What the response that comes next answers.
    pub(super) fn asked(&self) -> Kind {
        self.open().waiting.front().map_or(Kind::Other, |exchange| exchange.kind)
    }

    /// A response begins.
    pub(super) fn answers(&self, answers: &Answers, head: &[u8]) {
        let mut open = self.open();
        let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        let mut lines = lines.filter(|line| !line.is_empty());
        if (100..=199).contains(&answers.status) && answers.status != 101 {
            // It has no body, and the response is still to come.
            let number = open.waiting.front().map_or_else(|| self.numbers.next(), |exchange| exchange.number);
            let status = lines.next().unwrap_or_default();
            self.eyes.note(number, Note::Informational(status.to_vec()));
            return;
        }
        open.is_switched = answers.status == 101;
        let exchange = open.waiting.pop_front().unwrap_or_else(|| {
            let number = self.numbers.next();
            self.eyes.trouble(number, Note::Unasked);
            Exchange { number, kind: Kind::Other, framing: None }
        });
        let number = exchange.number;
        for line in lines {
            self.eyes.note(number, Note::Head(Stream::ToClient, line.to_vec()));
        }
        if answers.follows.is_body() {
            self.announce(number, Stream::ToClient, &answers.body, exchange.framing);
        }
        open.answering = Some(Passing { number, body: answers.body.clone(), unread: 0 });
    }

    pub(super) fn answered_more(&self, bytes: &[u8]) {
        if let Some(passing) = &mut self.open().answering {
            passing.pass(Stream::ToClient, bytes, &*self.eyes);
        }
    }

    pub(super) fn answered_all(&self) {
        if let Some(passing) = self.open().answering.take() {
            passing.end(Stream::ToClient, &*self.eyes);
        }
    }

    /// The server sends something that cannot be understood.
    pub(super) fn unread(&self, why: &str) {
        let open = self.open();
        let number = open.answering.as_ref().map(|passing| passing.number);
        let number = number.or_else(|| open.waiting.front().map(|exchange| exchange.number));
        let why = UnreadReason::NotHttp(why.into());
        let note = Note::Unread { stream: Stream::ToClient, why };
        self.eyes.trouble(number.unwrap_or_else(|| self.numbers.next()), note);
    }

    /// How many requests have no complete response.
    pub(super) fn unanswered(&self) -> usize {
        let open = self.open();
        open.waiting.len() + usize::from(open.answering.is_some())
    }

    /// The client sent what goes nowhere; it is told when everything before that is answered.
    pub(super) fn refuse(&self, refusal: Refusal) {
        self.open().refusal.get_or_insert(refusal);
    }

    /// What the client is to be told now.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let mut open = self.open();
        let Open { waiting, asking, answering, refusal, .. } = &mut *open;
        // A request that broke off in the middle is not answered by anybody else.
        let broken = asking.as_ref().map(|passing| passing.number);
        let is_owed = answering.is_some() || waiting.iter().any(|exchange| Some(exchange.number) != broken);
        if is_owed { None } else { refusal.take() }
    }

    /// The client will say nothing more, and perhaps it no longer listens.
    pub(super) fn client_closed(&self) {
        let mut open = self.open();
        let answering = open.answering.iter().map(|passing| passing.number);
        for number in answering.chain(open.waiting.iter().map(|exchange| exchange.number)) {
            self.eyes.note(number, Note::Closed(StreamClose::Connection));
        }
        open.end.get_or_insert(CutReason::ClientClosed { error: None });
    }

    pub(super) fn is_switched(&self) -> bool {
        self.open().is_switched
    }

    /// The connection ends; the first reason counts.
    pub(super) fn end(&self, why: CutReason) {
        self.open().end.get_or_insert(why);
    }

    fn announce(&self, number: u64, stream: Stream, body: &Body, known: Option<Framing>) -> Option<Framing> {
        match body {
            Body::Read(framing) => {
                if known != Some(*framing) {
                    self.eyes.note(number, Note::Framing(*framing));
                }
                Some(*framing)
            }
            Body::Encoded(coding) => {
                let why = UnreadReason::Encoded(coding.clone().into_bytes());
                self.eyes.note(number, Note::Unread { stream, why });
                known
            }
        }
    }
}

impl Passing {
    fn pass(&mut self, stream: Stream, bytes: &[u8], eyes: &dyn Eyes) {
        match self.body {
            Body::Read(_) => eyes.bytes(self.number, stream, bytes),
            Body::Encoded(_) => self.unread += bytes.len() as u64,
        }
    }

    fn end(self, stream: Stream, eyes: &dyn Eyes) {
        if self.unread > 0 {
            eyes.note(self.number, Note::Gap(stream, self.unread));
        }
        eyes.note(self.number, Note::Eof(stream));
    }
}

/// What is not complete when its connection is over never will be.
impl Drop for Exchanges {
    fn drop(&mut self) {
        let eyes = Arc::clone(&self.eyes);
        let Open { waiting, asking, answering, end, .. } = &mut *self.open();
        let why = end.take().unwrap_or(CutReason::TapStopped);
        if let Some(passing) = asking.take() {
            eyes.note(passing.number, Note::Cut { stream: Stream::ToServer, why: why.clone() });
            passing.end(Stream::ToServer, &*eyes);
        }
        let cut = |number| {
            let note = Note::Cut { stream: Stream::ToClient, why: why.clone() };
            match why {
                // Both happen every day.
                CutReason::ClientClosed { .. } | CutReason::TapStopped => eyes.note(number, note),
                _ => eyes.trouble(number, note),
            }
        };
        if let Some(passing) = answering.take() {
            cut(passing.number);
            passing.end(Stream::ToClient, &*eyes);
        }
        for exchange in waiting.drain(..) {
            cut(exchange.number);
            eyes.note(exchange.number, Note::Eof(Stream::ToClient));
        }
    }
}
