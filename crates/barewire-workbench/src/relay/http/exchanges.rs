//! Assigns the requests and responses on one connection to numbered exchanges, and records their events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_proto::transcript::{CutReason, Framing, Note, Stream, StreamClose, UnreadReason};

use super::RelayObserver;
use crate::http::head::{BodyKind, RequestHead, RequestKind, RequestRefusal, ResponseHead};

pub(super) struct ConnectionExchanges {
    observer: Arc<RelayObserver>,
    state: Mutex<ExchangeState>,
}

#[derive(Default)]
struct ExchangeState {
    /// Exchanges without a response, in the order of their requests. The responses come in the same order.
    waiting: VecDeque<WaitingExchange>,
    /// The body of the request that is being received.
    request: Option<BodyInTransit>,
    /// The body of the response that is being received.
    response: Option<BodyInTransit>,
    /// Whether the connection has switched to another protocol.
    is_upgraded: bool,
    /// The response that the client gets because a request was refused; nothing more from the client is passed on.
    refusal: Option<RequestRefusal>,
    /// The reason why exchanges are cut off if they are unfinished when the connection ends.
    end: Option<CutReason>,
}

struct WaitingExchange {
    number: u64,
    kind: RequestKind,
    framing: Option<Framing>,
}

struct BodyInTransit {
    number: u64,
    kind: BodyKind,
    /// The number of bytes in the body that are not recorded.
    unread: u64,
}

impl ConnectionExchanges {
    pub(super) fn new(observer: Arc<RelayObserver>) -> Self {
        Self { observer, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, ExchangeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn request_head(&self, head: &RequestHead) {
        let number = self.observer.next_exchange();
        for line in &head.lines {
            self.observer.note(number, Note::Head(Stream::ToServer, line.clone()));
        }
        for line in &head.changed {
            self.observer.note(number, Note::Changed(line.clone()));
        }
        let mut framing = None;
        if head.follows.is_body() {
            framing = self.announce(number, Stream::ToServer, &head.body, None);
        }
        let mut state = self.state();
        state.waiting.push_back(WaitingExchange { number, kind: head.kind, framing });
        state.request = Some(BodyInTransit { number, kind: head.body.clone(), unread: 0 });
    }

    /// Records a part of the body of a request or a response.
    pub(super) fn body(&self, stream: Stream, bytes: &[u8]) {
        if let Some(body) = self.state().body(stream) {
            body.push(stream, bytes, &self.observer);
        }
    }

    pub(super) fn body_end(&self, stream: Stream) {
        if let Some(body) = self.state().body(stream).take() {
            body.end(stream, &self.observer);
        }
    }

    /// Records a request that was refused and not passed on.
    pub(super) fn refused(&self, why: &str) {
        let number = self.observer.next_exchange();
        self.observer.warn(number, Note::Refused(why.into()));
        self.observer.note(number, Note::Eof(Stream::ToServer));
        self.observer.note(number, Note::Eof(Stream::ToClient));
    }

    /// Returns the kind of the request that the next response answers.
    pub(super) fn next_kind(&self) -> RequestKind {
        self.state().waiting.front().map_or(RequestKind::Other, |exchange| exchange.kind)
    }

    pub(super) fn response_head(&self, response: &ResponseHead, head: &[u8]) {
        let mut state = self.state();
        let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        let mut lines = lines.filter(|line| !line.is_empty());
        if (100..=199).contains(&response.status) && response.status != 101 {
            // An informational response has no body, and the final response follows later.
            let first = state.waiting.front().map(|exchange| exchange.number);
            let status = lines.next().unwrap_or_default();
            let number = first.unwrap_or_else(|| self.observer.next_exchange());
            return self.observer.note(number, Note::Informational(status.to_vec()));
        }
        state.is_upgraded = response.status == 101;
        let exchange = state.waiting.pop_front().unwrap_or_else(|| {
            let number = self.observer.next_exchange();
            self.observer.warn(number, Note::Unasked);
            WaitingExchange { number, kind: RequestKind::Other, framing: None }
        });
        let number = exchange.number;
        for line in lines {
            self.observer.note(number, Note::Head(Stream::ToClient, line.to_vec()));
        }
        if response.follows.is_body() {
            self.announce(number, Stream::ToClient, &response.body, exchange.framing);
        }
        state.response = Some(BodyInTransit { number, kind: response.body.clone(), unread: 0 });
    }

    /// Records that the server sends something that is not HTTP.
    pub(super) fn not_http(&self, why: &str) {
        let state = self.state();
        let number = state.response.as_ref().map(|body| body.number);
        let number = number.or_else(|| state.waiting.front().map(|exchange| exchange.number));
        let note = Note::Unread { stream: Stream::ToClient, why: UnreadReason::NotHttp(why.into()) };
        self.observer.warn(number.unwrap_or_else(|| self.observer.next_exchange()), note);
    }

    /// Returns the number of requests without a complete response.
    pub(super) fn unanswered(&self) -> usize {
        let state = self.state();
        state.waiting.len() + usize::from(state.response.is_some())
    }

    /// Refuses everything that the client sends from now on. The client gets the refusal after the responses to all
    /// earlier requests.
    pub(super) fn refuse(&self, refusal: RequestRefusal) {
        self.state().refusal.get_or_insert(refusal);
    }

    /// Takes the refusal if it can be sent to the client now, because all earlier requests are answered.
    pub(super) fn refusal(&self) -> Option<RequestRefusal> {
        let mut state = self.state();
        let ExchangeState { waiting, request, response, refusal, .. } = &mut *state;
        // A request that is refused in the middle of its body gets no response other than the refusal.
        let broken = request.as_ref().map(|body| body.number);
        let is_owed = response.is_some() || waiting.iter().any(|exchange| Some(exchange.number) != broken);
        if is_owed { None } else { refusal.take() }
    }

    /// Records that the client has closed its sending side. It may still read.
    pub(super) fn client_closed(&self) {
        let mut state = self.state();
        let response = state.response.iter().map(|body| body.number);
        for number in response.chain(state.waiting.iter().map(|exchange| exchange.number)) {
            self.observer.note(number, Note::Closed(StreamClose::Connection));
        }
        state.end.get_or_insert(CutReason::ClientClosed { error: None });
    }

    pub(super) fn is_upgraded(&self) -> bool {
        self.state().is_upgraded
    }

    /// Sets the reason for the end of the connection. Only the first reason is kept.
    pub(super) fn end(&self, why: CutReason) {
        self.state().end.get_or_insert(why);
    }

    fn announce(&self, number: u64, stream: Stream, body: &BodyKind, known: Option<Framing>) -> Option<Framing> {
        match body {
            BodyKind::Readable(framing) => {
                if known != Some(*framing) {
                    self.observer.note(number, Note::Framing(*framing));
                }
                Some(*framing)
            }
            BodyKind::Encoded(coding) => {
                let why = UnreadReason::Encoded(coding.clone().into_bytes());
                self.observer.note(number, Note::Unread { stream, why });
                known
            }
        }
    }
}

impl ExchangeState {
    fn body(&mut self, stream: Stream) -> &mut Option<BodyInTransit> {
        if stream == Stream::ToServer { &mut self.request } else { &mut self.response }
    }
}

impl BodyInTransit {
    fn push(&mut self, stream: Stream, bytes: &[u8], observer: &RelayObserver) {
        match self.kind {
            BodyKind::Readable(_) => observer.bytes(self.number, stream, bytes),
            BodyKind::Encoded(_) => self.unread += bytes.len() as u64,
        }
    }

    fn end(self, stream: Stream, observer: &RelayObserver) {
        if self.unread > 0 {
            observer.note(self.number, Note::Gap(stream, self.unread));
        }
        observer.note(self.number, Note::Eof(stream));
    }
}

/// Records the end of all exchanges that are unfinished when their connection ends.
impl Drop for ConnectionExchanges {
    fn drop(&mut self) {
        let observer = Arc::clone(&self.observer);
        let ExchangeState { waiting, request, response, end, .. } = &mut *self.state();
        let why = end.take().unwrap_or(CutReason::TapStopped);
        if let Some(body) = request.take() {
            observer.note(body.number, Note::Cut { stream: Stream::ToServer, why: why.clone() });
            body.end(Stream::ToServer, &observer);
        }
        let cut = |number| {
            let note = Note::Cut { stream: Stream::ToClient, why: why.clone() };
            match why {
                // These two reasons are normal, so the user is not warned.
                CutReason::ClientClosed { .. } | CutReason::TapStopped => observer.note(number, note),
                _ => observer.warn(number, note),
            }
        };
        if let Some(body) = response.take() {
            cut(body.number);
            body.end(Stream::ToClient, &observer);
        }
        for exchange in waiting.drain(..) {
            cut(exchange.number);
            observer.note(exchange.number, Note::Eof(Stream::ToClient));
        }
    }
}
