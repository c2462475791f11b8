//! Serves a modern request, which needs no session.
//!
//! An immediate response is one JSON body. A response that is preceded by other messages becomes a stream of events. A
//! slow response also becomes a stream, so that keep-alive comments can be sent. When the client closes the connection,
//! the handler is dropped.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use barewire_proto::mcp::ParsedMessage;
use barewire_proto::rpc::Code;
use bytes::Bytes;

use super::body::{KeepAlive, event};
use super::endpoint::HttpEndpoint;
use super::sender::ExchangeGuard;
use super::shutdown::ShutdownWait;
use crate::peer::{AnyCaller, Dispatcher, Exchange, MessageKind, Outlet, Permits, Room};

/// The response to a standalone request.
pub(super) enum StandaloneResponse {
    /// The JSON body, and the error code if the body is an error response.
    Answer(Bytes, Option<Code>),
    Events(Box<StandaloneEvents>),
}

/// The outlet of one request: a queue of the messages to send.
pub(super) struct StandaloneOutlet {
    waiting: VecDeque<StandaloneMessage>,
    bytes: usize,
    room: Room,
}

struct StandaloneMessage {
    message: Vec<u8>,
    sent: MessageKind,
    _permits: Option<Permits>,
}

impl Outlet for StandaloneOutlet {
    const WRITES_NULL_ID: bool = false;

    #[inline]
    fn send(&mut self, _: Exchange, write: impl FnOnce(&mut Vec<u8>) -> MessageKind) {
        let mut message = Vec::with_capacity(USUAL_MESSAGE_BYTES);
        let sent = write(&mut message);
        self.bytes += message.len();
        self.waiting.push_back(StandaloneMessage { message, sent, _permits: None });
    }

    fn hold_permits(&mut self, permits: usize) {
        let permits = self.room.hold(permits);
        if let Some(queued) = self.waiting.back_mut() {
            queued._permits = Some(permits);
        }
    }

    fn len(&self) -> usize {
        self.bytes
    }
}

impl StandaloneOutlet {
    fn take(&mut self) -> Option<StandaloneMessage> {
        let queued = self.waiting.pop_front()?;
        self.bytes -= queued.message.len();
        Some(queued)
    }

    /// Whether the response is the first message in the queue.
    fn is_answered(&self) -> bool {
        self.waiting.front().is_some_and(|queued| queued.sent.is_answer())
    }
}

/// The beginning of the response to a standalone request.
pub(super) enum StandaloneStart {
    /// The request is answered already.
    Answered(StandaloneResponse),
    /// The handler is still running.
    Running(Box<StandaloneEvents>),
}

/// Starts to serve a request. The request counts as running until `guard` is dropped.
///
/// This function is not async, so that the future of a request that waits for its handler does not contain the message.
pub(super) fn start(
    endpoint: &HttpEndpoint,
    caller: Option<AnyCaller>,
    message: &ParsedMessage<Bytes>,
    guard: ExchangeGuard,
) -> StandaloneStart {
    let mut dispatcher = endpoint.spare.take().unwrap_or_else(|| {
        let outlet = |room| StandaloneOutlet { waiting: VecDeque::new(), bytes: 0, room };
        Box::new(Dispatcher::without_stream(endpoint.standalone_settings(), outlet))
    });
    dispatcher.deliver(ONLY_EXCHANGE, caller.as_ref(), message);
    if dispatcher.outlet().is_answered() {
        let answer = answer(&mut dispatcher);
        endpoint.spare.put(dispatcher);
        return StandaloneStart::Answered(answer);
    }
    StandaloneStart::Running(Box::new(StandaloneEvents {
        dispatcher: Some(dispatcher),
        answer: None,
        first: None,
        keep_alive: KeepAlive::new(endpoint.limits.keep_alive),
        shutdown: endpoint.shutdown.subscribe(),
        _guard: guard,
    }))
}

fn answer(dispatcher: &mut Dispatcher<StandaloneOutlet>) -> StandaloneResponse {
    let StandaloneMessage { message, sent, .. } = dispatcher.outlet().take().expect("the response is queued");
    let code = if let MessageKind::Answer(code) = sent { code } else { None };
    StandaloneResponse::Answer(message.into(), code)
}

/// Dispatchers that have finished a request, to be reused for the next one. Most requests are answered at once, and
/// creating a dispatcher would be a third of the work for such a request.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a dispatcher is larger than a kilobyte, so moving a box is cheaper")]
pub(super) struct SpareDispatchers(Mutex<Vec<Box<Dispatcher<StandaloneOutlet>>>>);

impl SpareDispatchers {
    fn take(&self) -> Option<Box<Dispatcher<StandaloneOutlet>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Stores a dispatcher for the next request, if it is reusable.
    fn put(&self, dispatcher: Box<Dispatcher<StandaloneOutlet>>) {
        if !dispatcher.is_reusable() {
            return;
        }
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MAX_SPARE_DISPATCHERS {
            spare.push(dispatcher);
        }
    }
}

/// The event stream of one request.
pub(super) struct StandaloneEvents {
    /// The dispatcher that runs the request. `None` after the response was sent.
    dispatcher: Option<Box<Dispatcher<StandaloneOutlet>>>,
    /// The response, after it was sent.
    answer: Option<MessageKind>,
    /// The keep-alive comment that the stream starts with, if there was no message for so long.
    first: Option<Bytes>,
    keep_alive: KeepAlive,
    shutdown: ShutdownWait,
    _guard: ExchangeGuard,
}

impl StandaloneEvents {
    /// Waits for the first message of a running request, or until it is time for a keep-alive comment.
    pub(super) async fn response(mut self: Box<Self>) -> StandaloneResponse {
        poll_fn(|context| self.poll_first(context)).await;
        if let Some(dispatcher) = &mut self.dispatcher
            && dispatcher.outlet().is_answered()
        {
            return answer(dispatcher);
        }
        StandaloneResponse::Events(self)
    }

    /// Returns the response, if the stream has contained it.
    pub(super) fn answer(&self) -> Option<MessageKind> {
        self.answer
    }

    fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(dispatcher) = &mut self.dispatcher else { return Poll::Ready(()) };
        if self.shutdown.poll(context).is_ready() {
            dispatcher.begin_end();
        }
        let more = dispatcher.poll(context);
        if !dispatcher.outlet().waiting.is_empty() {
            return Poll::Ready(());
        }
        if more.is_ready() {
            context.waker().wake_by_ref();
        }
        self.keep_alive.poll(context).map(|comment| self.first = Some(comment))
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let Some(dispatcher) = &mut self.dispatcher else { return Poll::Ready(None) };
        if self.shutdown.poll(context).is_ready() {
            dispatcher.begin_end();
        }
        let more = dispatcher.poll(context);
        let mut out = Vec::new();
        while let Some(queued) = dispatcher.outlet().take() {
            event(&mut out, None, &queued.message);
            self.answer = self.answer.or(Some(queued.sent).filter(|sent| sent.is_answer()));
        }
        if self.answer.is_some() {
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

/// The number of the exchange. A standalone request has only one exchange.
const ONLY_EXCHANGE: Exchange = Exchange(1);

/// The maximum number of stored dispatchers. This is enough: about one dispatcher for each thread is in use at a time.
const MAX_SPARE_DISPATCHERS: usize = 64;

/// The initial size of the buffer for a message, in bytes. Most messages are shorter.
const USUAL_MESSAGE_BYTES: usize = 256;
