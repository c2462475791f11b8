//! The end of a connection: everyone who waits for something is told.

use barewire_proto::rpc::{Message, Parsed, Reply};
use barewire_proto::session::{Refusal, SessionEvent};
use tokio::sync::oneshot;

use super::{Destination, Dispatcher, Source};
use crate::peer::outlet::Outlet;
use crate::peer::{CallError, ConnectionEnd, EndReason, Raw};
use crate::transport::Exit;

/// How far the end of the connection has come.
#[derive(Default)]
pub(super) struct Closing {
    /// Why nothing new is started any more.
    reason: Option<EndReason>,
    /// The calls that were made after the peer's end, to be told how it ended.
    late_calls: Vec<oneshot::Sender<Result<Raw, CallError>>>,
    /// The transport will know more of the peer's end: how its process exited.
    awaits_exit: bool,
    request: Option<EndRequest>,
}

/// A reason in a message or a command for which the connection is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::peer) enum EndRequest {
    /// Finish what is in flight, then end.
    Shutdown,
    /// End at once: the peer sends frames of another format, with `Content-Length` headers.
    ContentLength,
}

impl Closing {
    /// Asks for the connection to end. The first request counts, unless the peer cannot be understood.
    pub(super) fn request(&mut self, request: EndRequest) {
        if self.request.is_none() || request == EndRequest::ContentLength {
            self.request = Some(request);
        }
    }

    /// Answers a call that is made after the connection began to end: now, or once it is known how the peer ended.
    pub(super) fn refuse_call(
        &mut self,
        answer: oneshot::Sender<Result<Raw, CallError>>,
        end: impl FnOnce(EndReason) -> ConnectionEnd,
    ) {
        match self.reason.clone().unwrap_or(EndReason::Shutdown) {
            EndReason::Eof | EndReason::Write(_) if self.awaits_exit => self.late_calls.push(answer),
            reason => {
                let _ = answer.send(Err(CallError::Closed(end(reason))));
            }
        }
    }
}

impl<O: Outlet> Dispatcher<O> {
    /// The transport will know how the peer's process exited, and [`Self::finish`] will be told.
    pub(in crate::peer) fn await_exit(&mut self) {
        self.closing.awaits_exit = true;
    }

    /// What the messages and commands so far ask of the connection as a whole.
    pub(in crate::peer) fn end_request(&self) -> Option<EndRequest> {
        self.closing.request
    }

    /// Whether nothing new is started any more.
    #[cfg(feature = "http")]
    pub(in crate::peer) fn is_closing(&self) -> bool {
        self.closing.reason.is_some()
    }

    /// Starts nothing new from now on, for this reason.
    pub(in crate::peer) fn close(&mut self, reason: EndReason) {
        self.session.step(match reason {
            EndReason::Eof => SessionEvent::Eof,
            _ => SessionEvent::Close,
        });
        self.closing.reason.get_or_insert(reason);
        self.queue.begin_end();
    }

    /// Tells all callers that wait for an answer of the peer that none will come.
    pub(in crate::peer) fn fail_calls(&mut self, end: &ConnectionEnd) {
        for (call, pending) in std::mem::take(&mut self.in_flight.calls) {
            self.session.step(SessionEvent::AbandonCall(call));
            let _ = pending.answer.send(Err(CallError::Closed(end.clone())));
        }
        for answer in std::mem::take(&mut self.closing.late_calls) {
            let _ = answer.send(Err(CallError::Closed(end.clone())));
        }
    }

    /// Stops the handlers that are still running, and refuses the requests that have no answer yet.
    pub(in crate::peer) fn give_up(&mut self) {
        self.in_flight.stop_handlers();
        self.close(EndReason::Shutdown);
        let running = std::mem::take(&mut self.in_flight.running).into_values();
        let running = running.map(|it| (it.reply, it.destination));
        let parked =
            std::mem::take(&mut self.in_flight.parked).into_iter().filter_map(|it| match it.message.parsed() {
                Parsed::Message(Message::Request(request)) => Some((request.reply().into_owned(), it.destination)),
                _ => None,
            });
        let left: Vec<(Reply<'static>, Destination)> = running.chain(parked).collect();
        for (reply, destination) in left {
            let Some(id) = reply.id() else { continue };
            let error = Refusal::Closing.error(id);
            self.send_error(destination, reply.borrow(), &error);
            if let Some(batch) = destination.batch {
                self.batch_element_done(batch);
            }
        }
        if let Some(held) = self.in_flight.held.take() {
            // Nothing is started any more, so it is refused if it asks for an answer.
            self.take(held.frame(), held.parsed(), Source::STREAM);
        }
    }

    /// The end of the connection for this reason, with the output of a peer that never sent a message.
    pub(in crate::peer) fn end(&self, reason: EndReason, exit: Option<Exit>) -> ConnectionEnd {
        ConnectionEnd::new(reason, self.opening.stray(), exit)
    }

    /// Ends the connection: everyone is told.
    pub(in crate::peer) fn finish(&mut self, reason: EndReason, exit: Option<Exit>) -> ConnectionEnd {
        let end = self.end(reason, exit);
        self.in_flight.stop_handlers();
        // First, so that a caller who is told and calls again sees that it is over.
        let left = self.queue.close(end.clone());
        self.fail_calls(&end);
        drop(left);
        end
    }

    /// Stops all handlers.
    pub(in crate::peer) fn stop_handlers(&mut self) {
        self.in_flight.stop_handlers();
    }
}

impl<O> Drop for Dispatcher<O> {
    /// A connection that is not driven any more must not be waited for either.
    fn drop(&mut self) {
        if self.queue.closed().is_some() {
            return;
        }
        self.in_flight.stop_handlers();
        drop(self.queue.close(ConnectionEnd::new(EndReason::Abandoned, None, None)));
    }
}
