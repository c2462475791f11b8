//! A request of the modern era: served by itself, without anything before or after it.
//!
//! What comes of it at once is one JSON body. What has something to say before its answer becomes a stream of events; so does
//! what takes long, so that the connection is seen to be alive. When the client closes it, the handler is dropped.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use barewire_proto::mcp::ParsedMessage;
use barewire_proto::rpc::Code;
use bytes::Bytes;

use super::body::{KeepAlive, event};
use super::closing::Closing;
use super::counter::Counted;
use super::endpoint::Endpoint;
use crate::peer::{AnyCaller, Dispatcher, Exchange, Outlet, Permits, Room, Sent};

/// What a request gave.
pub(super) enum Outcome {
    /// Its answer, and the error's code if it is one.
    Answer(Bytes, Option<Code>),
    Events(Box<AloneEvents>),
}

/// The messages that belong to one request.
pub(super) struct Alone {
    waiting: VecDeque<Letter>,
    bytes: usize,
    room: Room,
}

struct Letter {
    message: Vec<u8>,
    sent: Sent,
    _permits: Option<Permits>,
}

impl Outlet for Alone {
    const NULL_ID: bool = false;

    #[inline]
    fn send(&mut self, _: Exchange, write: impl FnOnce(&mut Vec<u8>) -> Sent) {
        let mut message = Vec::with_capacity(USUAL_ANSWER);
        let sent = write(&mut message);
        self.bytes += message.len();
        self.waiting.push_back(Letter { message, sent, _permits: None });
    }

    fn holds(&mut self, permits: usize) {
        let permits = self.room.hold(permits);
        if let Some(letter) = self.waiting.back_mut() {
            letter._permits = Some(permits);
        }
    }

    fn len(&self) -> usize {
        self.bytes
    }
}

impl Alone {
    fn take(&mut self) -> Option<Letter> {
        let letter = self.waiting.pop_front()?;
        self.bytes -= letter.message.len();
        Some(letter)
    }

    /// Whether the answer is the first that there is to say.
    fn is_answered(&self) -> bool {
        self.waiting.front().is_some_and(|letter| letter.sent.is_answer())
    }
}

/// Serves a request, which counts as long as it is under way.
pub(super) async fn serve(
    endpoint: &Arc<Endpoint>,
    caller: Option<AnyCaller>,
    message: &ParsedMessage<Bytes>,
    counted: Counted,
) -> Outcome {
    let mut dispatcher = endpoint.spare.take().unwrap_or_else(|| {
        let alone = |room| Alone { waiting: VecDeque::new(), bytes: 0, room };
        Box::new(Dispatcher::without_stream(endpoint.alone(), alone))
    });
    dispatcher.deliver(ONLY_EXCHANGE, caller.as_ref(), message);
    if dispatcher.outlet().is_answered() {
        let answer = answer(&mut dispatcher);
        endpoint.spare.put(dispatcher);
        return answer;
    }
    let mut keep_alive = KeepAlive::new(endpoint.limits.keep_alive);
    let mut closing = endpoint.closing.wait();
    let comment = poll_fn(|context| {
        if closing.poll(context).is_ready() {
            dispatcher.begin_end();
        }
        let more = dispatcher.poll(context);
        if !dispatcher.outlet().waiting.is_empty() {
            return Poll::Ready(None);
        }
        if more.is_ready() {
            context.waker().wake_by_ref();
        }
        keep_alive.poll(context).map(Some)
    })
    .await;
    if dispatcher.outlet().is_answered() {
        return answer(&mut dispatcher);
    }
    let events = AloneEvents { dispatcher: Some(dispatcher), first: comment, keep_alive, closing, _counted: counted };
    Outcome::Events(Box::new(events))
}

fn answer(dispatcher: &mut Dispatcher<Alone>) -> Outcome {
    let Letter { message, sent, .. } = dispatcher.outlet().take().expect("it is answered");
    let code = if let Sent::Answer(code) = sent { code } else { None };
    Outcome::Answer(message.into(), code)
}

/// Dispatchers that are done with a request, for the next one: most requests are answered at once, and then making a dispatcher
/// anew would be a third of the work for them.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "each is more than a kilobyte, and is only passed on")]
pub(super) struct Spare(Mutex<Vec<Box<Dispatcher<Alone>>>>);

impl Spare {
    fn take(&self) -> Option<Box<Dispatcher<Alone>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a dispatcher, if it can be used again.
    fn put(&self, dispatcher: Box<Dispatcher<Alone>>) {
        if !dispatcher.is_reusable() {
            return;
        }
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_DISPATCHERS {
            spare.push(dispatcher);
        }
    }
}

/// The events of one request.
pub(super) struct AloneEvents {
    /// `None` once it is answered.
    dispatcher: Option<Box<Dispatcher<Alone>>>,
    first: Option<Bytes>,
    keep_alive: KeepAlive,
    closing: Closing,
    _counted: Counted,
}

impl AloneEvents {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let Some(dispatcher) = &mut self.dispatcher else { return Poll::Ready(None) };
        if self.closing.poll(context).is_ready() {
            dispatcher.begin_end();
        }
        let more = dispatcher.poll(context);
        let mut out = Vec::new();
        let mut is_answered = false;
        while let Some(letter) = dispatcher.outlet().take() {
            event(&mut out, None, &letter.message);
            is_answered |= letter.sent.is_answer();
        }
        if is_answered {
            self.dispatcher = None;
        }
        if !out.is_empty() {
            self.keep_alive.reset();
            return Poll::Ready(Some(out.into()));
        }
        if more.is_ready() {
            context.waker().wake_by_ref();
        }
        self.keep_alive.poll(context).map(Some)
    }
}

/// The only exchange there is.
const ONLY_EXCHANGE: Exchange = Exchange(1);

/// The dispatchers that are kept: as many as may be in use at the same moment, one for each thread and some.
const SPARE_DISPATCHERS: usize = 64;

/// The bytes that are reserved for an answer. Most are shorter.
const USUAL_ANSWER: usize = 256;
