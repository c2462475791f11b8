//! Starts the handler of a message and polls it once. If the handler is ready, its answer is written; if not, the
//! handler becomes a task.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use barewire_proto::rpc::{Id, Message, Notification, Params, Parsed, Request};
use barewire_proto::session::{SessionEvent, Ticket};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::in_flight::{ParkedRequest, RunningRequest, WaitingNotification};
use super::{Destination, Dispatcher, FrameSource};
use crate::Failure;
use crate::log::quoted;
use crate::peer::Context;
use crate::peer::context::IncomingMessage;
use crate::peer::outlet::{Exchange, MessageKind, Outlet};
use crate::peer::queue::Command;
use crate::peer::service::IncomingParams;
use crate::peer::started_handler::{self, BoxedHandler};

/// A request that is ready to be started.
pub(super) struct ReadyRequest<'a> {
    pub(super) ticket: Ticket,
    pub(super) request: Request<'a>,
    pub(super) bytes: usize,
    pub(super) destination: Destination,
    /// Whether the session already counts the request as in flight.
    pub(super) deferred: bool,
}

impl<O: Outlet> Dispatcher<O> {
    /// Starts the handler of a message and polls it once.
    fn start_handler(
        &mut self,
        method: &str,
        id: Option<&Id<'_>>,
        params: Option<Params<'_>>,
        source: FrameSource<'_>,
    ) -> FirstPoll {
        let span = match id {
            Some(id) => tracing::info_span!(
                "request",
                method,
                id = id.as_str(),
                traceparent = Empty,
                tracestate = Empty,
                baggage = Empty
            ),
            None => tracing::info_span!("notification", method),
        };
        let traced = match &self.trace {
            Some(trace) => {
                Failure::catch(|| trace.incoming(&span, method, params.map(|params| params.json().as_str())))
            }
            None => Ok(()),
        };
        let progress = self.conventions.progress;
        let mut incoming = self.spare.take().unwrap_or_else(|| Arc::new(IncomingMessage::new(progress)));
        let token = self.tokens.find(params);
        // Messages sent while a notification is handled belong to no exchange, because a notification has no answer.
        let exchange = if id.is_some() { source.exchange } else { Exchange::NONE };
        incoming = IncomingMessage::reuse(incoming, method, id, token, exchange, source.caller);
        let context = Context::new(Arc::clone(&incoming), Arc::clone(&self.queue));
        let incoming_params = IncomingParams { written: params, members: source.params };
        let entered = span.enter();
        let started = traced.and_then(|()| Failure::catch(|| self.service.start(context, incoming_params))?);
        let polled = started.map(|mut work| {
            let polled = started_handler::poll(&mut work, &mut std::task::Context::from_waker(Waker::noop()));
            (polled, work)
        });
        drop(entered);
        self.warn_if_slow(method);
        match polled {
            Ok((Poll::Pending, work)) => FirstPoll::Pending { work, span, incoming },
            Ok((Poll::Ready(done), work)) => {
                self.spare = Some(incoming);
                FirstPoll::Done(started_handler::check_panic(done, work))
            }
            Err(failure) => {
                self.spare = Some(incoming);
                FirstPoll::Done(Err(failure))
            }
        }
    }

    /// Starts the handler of a request. If it is ready at its first poll, the answer is written immediately; if not,
    /// the handler becomes a task.
    pub(super) fn start_request(&mut self, job: ReadyRequest<'_>, source: FrameSource<'_>) {
        let ReadyRequest { ticket, ref request, bytes, destination, deferred } = job;
        let method = request.method.to_name();
        match self.start_handler(&method, Some(&request.id), request.params, source) {
            FirstPoll::Done(done) => {
                // Messages that the handler sent are written before its answer.
                self.take_commands();
                if deferred && destination.batch.is_none() {
                    self.session.step(SessionEvent::Answer { ticket, id: &request.id });
                }
                let mut failed = None;
                self.send(destination, |out| {
                    failed = started_handler::write_answer(done, request.reply(), &method, out);
                    MessageKind::Answer(failed.as_ref().map(Failure::code))
                });
                if let Some(failure) = failed {
                    self.log.failed(&method, &failure);
                }
                // If the handler has kept a clone of its context, notifications that the clone sends later are dropped.
                if let Some(spare) = &mut self.spare
                    && !IncomingMessage::forget_caller(spare)
                {
                    spare.finish();
                }
                if let Some(number) = destination.batch {
                    self.batch_element_answered(number, ticket, &request.id);
                }
            }
            FirstPoll::Pending { work, span, incoming } => {
                if !deferred {
                    self.session.step(SessionEvent::Defer { ticket, id: &request.id, bytes });
                }
                let reply = request.reply().into_owned();
                let (queue, answer_to) = (Arc::clone(&self.queue), reply.borrow().into_owned());
                let method = method.into_owned();
                let task = async move {
                    let done = started_handler::run(work).await;
                    let mut message = Vec::new();
                    let failure = started_handler::write_answer(done, answer_to, &method, &mut message);
                    let code = failure.as_ref().map(Failure::code);
                    // If the queue is closed, the connection has ended and no answer is needed.
                    if let Some(failure) = failure {
                        let _ = queue.push(Command::Failed { method, failure });
                    }
                    let _ = queue.push(Command::Answered { ticket, message, code });
                };
                let task = tokio::spawn(task.instrument(span)).abort_handle();
                let running = RunningRequest { task, incoming, reply, destination };
                self.in_flight.running.insert(ticket, running);
            }
        }
    }

    /// Starts the handler of a notification. If it is not ready at its first poll, later notifications wait for it.
    pub(super) fn start_notification(&mut self, notification: Notification<'_>, source: FrameSource<'_>) {
        let method = notification.method.to_name();
        match self.start_handler(&method, None, notification.params, source) {
            FirstPoll::Done(done) => {
                if let Some(failure) = started_handler::take_failure(done) {
                    self.log.failed(&method, &failure);
                }
                if let Some(spare) = &mut self.spare {
                    IncomingMessage::forget_caller(spare);
                }
            }
            FirstPoll::Pending { work, span, incoming } => {
                let (queue, method) = (Arc::clone(&self.queue), method.into_owned());
                let task = async move {
                    let failure = started_handler::take_failure(started_handler::run(work).await);
                    // The information about the sender exists as long as the handler's arguments do.
                    drop(incoming);
                    if let Some(failure) = failure {
                        let _ = queue.push(Command::Failed { method, failure });
                    }
                    let _ = queue.push(Command::Handled);
                };
                let task = tokio::spawn(task.instrument(span)).abort_handle();
                self.in_flight.notifications.started(task);
            }
        }
    }

    /// Logs a warning if the handler that has just returned ran for longer than [`SLOW_HANDLER_WARNING`].
    fn warn_if_slow(&mut self, method: &str) {
        let took = self.timing.handler_returned();
        if took > SLOW_HANDLER_WARNING {
            let method = quoted(method.as_bytes());
            self.log.report(format_args!(
                "handler of {method} blocked its connection for {} ms; .blocking() runs a handler on its own thread",
                took.as_millis()
            ));
        }
    }

    /// Starts the parked requests, the waiting notifications and the held frame, as far as the limits allow now.
    pub(in crate::peer) fn start_waiting(&mut self) {
        if !self.can_start() {
            return;
        }
        self.start_slice();
        while self.has_room()
            && let Some(parked) = self.in_flight.parked.pop_front()
        {
            let ParkedRequest { ticket, message, destination, caller } = parked;
            if let Parsed::Message(Message::Request(request)) = message.parsed() {
                let (bytes, params) = (message.bytes().len(), message.params());
                self.session.step(SessionEvent::Defer { ticket, id: &request.id, bytes });
                let (exchange, caller) = (destination.exchange, caller.as_ref());
                let source = FrameSource { exchange, caller, params: params.as_ref() };
                self.start_request(ReadyRequest { ticket, request, bytes, destination, deferred: true }, source);
            }
        }
        while let Some(WaitingNotification { frame, caller }) = self.in_flight.notifications.next() {
            if let Parsed::Message(Message::Notification(notification)) = frame.parsed() {
                let source = FrameSource { caller: caller.as_ref(), ..FrameSource::STREAM };
                self.start_notification(notification, source);
            }
        }
        // The held frame is handled last, because it arrived last.
        if let Some(held) = &self.in_flight.held
            && self.has_room_for(held)
            && let Some(held) = self.in_flight.held.take()
        {
            self.handle_parsed(held.frame(), held.parsed(), FrameSource::STREAM);
        }
    }
}

/// A handler after its first poll.
enum FirstPoll {
    Done(Result<BoxedHandler, Failure>),
    Pending { work: BoxedHandler, span: Span, incoming: Arc<IncomingMessage> },
}

/// A handler that runs for longer than this without an `await` is logged, because it noticeably delays everything else
/// on its connection. The limit is not lower because a busy machine may suspend any thread for 100 milliseconds.
const SLOW_HANDLER_WARNING: Duration = Duration::from_millis(500);
