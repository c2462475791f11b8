//! A message -> its handler, up to its first wait; then an answer, or a task.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use barewire_proto::rpc::{Id, Message, Notification, Params, Parsed, Request};
use barewire_proto::session::{SessionEvent, Ticket};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::in_flight::{ParkedRequest, RunningRequest};
use super::{Destination, Dispatcher, Source};
use crate::Failure;
use crate::log::quoted;
use crate::peer::Context;
use crate::peer::context::Incoming;
use crate::peer::outlet::{Exchange, Outlet, Sent};
use crate::peer::queue::Command;
use crate::peer::service::IncomingParams;
use crate::peer::work::{self, BoxedWork};

/// A request that is to be started.
pub(super) struct Job<'a> {
    pub(super) ticket: Ticket,
    pub(super) request: Request<'a>,
    pub(super) bytes: usize,
    pub(super) destination: Destination,
    /// The session has it in flight already.
    pub(super) deferred: bool,
}

impl<O: Outlet> Dispatcher<O> {
    /// Starts the handler of a message and runs it up to its first wait.
    fn begin(&mut self, method: &str, id: Option<&Id<'_>>, params: Option<Params<'_>>, source: Source<'_>) -> Begun {
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
        let mut incoming = self.spare.take().unwrap_or_else(|| Arc::new(Incoming::new(progress)));
        let token = self.tokens.find(params);
        // Messages about a notification belong to no exchange, as everything that answers nothing.
        let exchange = if id.is_some() { source.exchange } else { Exchange::NONE };
        incoming = Incoming::of(incoming, method, id, token, exchange, source.caller);
        let context = Context::new(Arc::clone(&incoming), Arc::clone(&self.queue));
        let incoming_params = IncomingParams { written: params, members: source.params };
        let entered = span.enter();
        let started = traced.and_then(|()| Failure::catch(|| self.service.start(context, incoming_params))?);
        let polled = started.map(|mut work| {
            let polled = work::poll(&mut work, &mut std::task::Context::from_waker(Waker::noop()));
            (polled, work)
        });
        drop(entered);
        self.warn_if_slow(method);
        match polled {
            Ok((Poll::Pending, work)) => Begun::Waits { work, span, incoming },
            Ok((Poll::Ready(done), work)) => {
                self.spare = Some(incoming);
                Begun::Done(work::keep(done, work))
            }
            Err(failure) => {
                self.spare = Some(incoming);
                Begun::Done(Err(failure))
            }
        }
    }

    /// Handles a request. If its handler is done at once the answer is written; if not it becomes a task.
    pub(super) fn start(&mut self, job: Job<'_>, source: Source<'_>) {
        let Job { ticket, ref request, bytes, destination, deferred } = job;
        let method = request.method.to_name();
        match self.begin(&method, Some(&request.id), request.params, source) {
            Begun::Done(done) => {
                // The messages that it sent while it ran go out first.
                self.take_commands();
                if deferred && destination.batch.is_none() {
                    self.session.step(SessionEvent::Answer { ticket, id: &request.id });
                }
                let mut failed = None;
                self.send(destination, |out| {
                    failed = work::answer(done, request.reply(), &method, out);
                    Sent::Answer(failed.as_ref().map(Failure::code))
                });
                if let Some(failure) = failed {
                    self.log.failed(&method, &failure);
                }
                // A clone of the context may live on: nothing more is sent about this request.
                if let Some(spare) = &self.spare
                    && Arc::strong_count(spare) > 1
                {
                    spare.finish();
                }
                if let Some(number) = destination.batch {
                    self.batch_element_answered(number, ticket, &request.id);
                }
            }
            Begun::Waits { work, span, incoming } => {
                if !deferred {
                    self.session.step(SessionEvent::Defer { ticket, id: &request.id, bytes });
                }
                let reply = request.reply().into_owned();
                let (queue, answer_to) = (Arc::clone(&self.queue), reply.borrow().into_owned());
                let method = method.into_owned();
                let task = async move {
                    let done = work::run(work).await;
                    let mut message = Vec::new();
                    let failure = work::answer(done, answer_to, &method, &mut message);
                    let code = failure.as_ref().map(Failure::code);
                    // If the queue takes nothing, the connection is over and no answer is needed.
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

    /// Handles a notification. If its handler is not done at once, those behind it wait.
    pub(super) fn start_notification(&mut self, notification: Notification<'_>, source: Source<'_>) {
        let method = notification.method.to_name();
        match self.begin(&method, None, notification.params, source) {
            Begun::Done(done) => {
                if let Some(failure) = work::finish(done) {
                    self.log.failed(&method, &failure);
                }
            }
            Begun::Waits { work, span, .. } => {
                let (queue, method) = (Arc::clone(&self.queue), method.into_owned());
                let task = async move {
                    if let Some(failure) = work::finish(work::run(work).await) {
                        let _ = queue.push(Command::Failed { method, failure });
                    }
                    let _ = queue.push(Command::Handled);
                };
                let task = tokio::spawn(task.instrument(span)).abort_handle();
                self.in_flight.notifications.started(task);
            }
        }
    }

    /// Logs a warning if the handler that has just returned kept everything else waiting.
    fn warn_if_slow(&mut self, method: &str) {
        let took = self.timing.handler_returned();
        if took > SLOW_HANDLER_WARNING {
            let method = quoted(method.as_bytes());
            self.log.report(format_args!(
                "handler of {method} ran for {} ms without waiting, and everything else waited for it: \
                 .blocking() gives it a thread",
                took.as_millis()
            ));
        }
    }

    /// Starts the requests, notifications and the frame that could not be started before.
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
                let source = Source { exchange, caller, params: params.as_ref() };
                self.start(Job { ticket, request, bytes, destination, deferred: true }, source);
            }
        }
        while let Some(kept) = self.in_flight.notifications.next() {
            if let Parsed::Message(Message::Notification(notification)) = kept.parsed() {
                self.start_notification(notification, Source::STREAM);
            }
        }
        // After those, because it came after them.
        if let Some(held) = &self.in_flight.held
            && self.has_room_for(held)
            && let Some(held) = self.in_flight.held.take()
        {
            self.take(held.frame(), held.parsed(), Source::STREAM);
        }
    }
}

/// A handler after its first poll.
enum Begun {
    Done(Result<BoxedWork, Failure>),
    Waits { work: BoxedWork, span: Span, incoming: Arc<Incoming> },
}

/// A handler that runs longer without waiting keeps everything else on its connection waiting for a time that people
/// notice. On a busy machine even one that does nothing may be put aside for tens of milliseconds.
const SLOW_HANDLER_WARNING: Duration = Duration::from_millis(100);
