//! The end of a connection: handlers are stopped, requests are refused, and pending calls fail.

use barewire_proto::rpc::{Message, Parsed, Reply};
use barewire_proto::session::{Refusal, SessionEvent, Ticket};
use tokio::sync::oneshot;

use super::{Destination, Dispatcher, FrameSource};
use crate::peer::outlet::Outlet;
use crate::peer::{CallError, ConnectionEnd, EndReason, Raw};
use crate::transport::Exit;

/// The state of the connection's shutdown.
#[derive(Default)]
pub(super) struct ClosingState {
    /// The reason for the shutdown; `None` until the shutdown begins. No new work is started after that.
    reason: Option<EndReason>,
    /// The calls that were made after the peer closed the connection. They fail when the exit status of the peer's
    /// process is known.
    late_calls: Vec<oneshot::Sender<Result<Raw, CallError>>>,
    /// Whether the transport will report how the peer's process exited.
    awaits_exit: bool,
    request: Option<EndRequest>,
}

/// A request to end the connection, made by a message or a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::peer) enum EndRequest {
    /// Finish the work in flight, then end the connection.
    Shutdown,
    /// End the connection immediately: the peer uses another framing, with `Content-Length` headers.
    ContentLength,
}

impl ClosingState {
    /// Requests the end of the connection. Further requests are ignored, except that `ContentLength` replaces
    /// `Shutdown`.
    pub(super) fn request(&mut self, request: EndRequest) {
        if self.request.is_none() || request == EndRequest::ContentLength {
            self.request = Some(request);
        }
    }

    /// Fails a call that was made after the shutdown began: immediately, or when the exit status of the peer's process
    /// is known.
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
    /// Records that the transport will report how the peer's process exited. The exit status is passed to
    /// [`Self::finish`].
    pub(in crate::peer) fn await_exit(&mut self) {
        self.closing.awaits_exit = true;
    }

    /// Returns the request to end the connection, if a message or a command has made one.
    pub(in crate::peer) fn end_request(&self) -> Option<EndRequest> {
        self.closing.request
    }

    /// Whether the connection is shutting down, so that no new work is started.
    #[cfg(feature = "http")]
    pub(in crate::peer) fn is_closing(&self) -> bool {
        self.closing.reason.is_some()
    }

    /// Begins the shutdown: no new work is started from now on.
    pub(in crate::peer) fn close(&mut self, reason: EndReason) {
        self.session.step(match reason {
            EndReason::Eof => SessionEvent::Eof,
            _ => SessionEvent::Close,
        });
        self.closing.reason.get_or_insert(reason);
        self.queue.begin_end();
    }

    /// Fails all pending calls.
    pub(in crate::peer) fn fail_calls(&mut self, end: &ConnectionEnd) {
        for (call, pending) in std::mem::take(&mut self.in_flight.calls) {
            self.session.step(SessionEvent::AbandonCall(call));
            let _ = pending.answer.send(Err(CallError::Closed(end.clone())));
        }
        for answer in std::mem::take(&mut self.closing.late_calls) {
            let _ = answer.send(Err(CallError::Closed(end.clone())));
        }
    }

    /// Stops the running handlers, and refuses the requests that have no answer yet.
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
            // No new work is started any more, so a request in the held frame is refused here.
            self.handle_parsed(held.frame(), held.parsed(), FrameSource::STREAM);
        }
    }

    /// Returns the [`ConnectionEnd`] for this reason, with the first output of a peer that never sent a valid message.
    pub(in crate::peer) fn end(&self, reason: EndReason, exit: Option<Exit>) -> ConnectionEnd {
        ConnectionEnd::new(reason, self.first_output.stray(), exit)
    }

    /// Ends the connection: stops handlers, fails pending calls, and closes the queue.
    pub(in crate::peer) fn finish(&mut self, reason: EndReason, exit: Option<Exit>) -> ConnectionEnd {
        let end = self.end(reason, exit);
        self.in_flight.stop_handlers();
        // The queue is closed first: a caller that repeats its failed call then gets an error immediately.
        let left = self.queue.close(end.clone());
        self.fail_calls(&end);
        drop(left);
        end
    }

    /// Stops the handlers of requests, and drops the requests, because no answer can be sent any more. A frame that is
    /// held back because of them can then be handled. Notifications need no answer, so their handlers go on.
    pub(in crate::peer) fn drop_requests(&mut self) {
        let running = std::mem::take(&mut self.in_flight.running).into_iter();
        let running = running.map(|(ticket, it)| {
            it.stop();
            (ticket, it.reply, it.destination)
        });
        let parked =
            std::mem::take(&mut self.in_flight.parked).into_iter().filter_map(|it| match it.message.parsed() {
                Parsed::Message(Message::Request(request)) => {
                    Some((it.ticket, request.reply().into_owned(), it.destination))
                }
                _ => None,
            });
        let dropped: Vec<(Ticket, Reply<'static>, Destination)> = running.chain(parked).collect();
        for (ticket, reply, destination) in dropped {
            let Some(id) = reply.id() else { continue };
            match destination.batch {
                None => {
                    self.session.step(SessionEvent::Answer { ticket, id });
                }
                Some(number) => self.batch_element_answered(number, ticket, id),
            }
        }
    }
}

impl<O> Drop for Dispatcher<O> {
    /// Ends a connection whose driver was dropped, so that no caller waits forever.
    fn drop(&mut self) {
        if self.queue.closed().is_some() {
            return;
        }
        self.in_flight.stop_handlers();
        drop(self.queue.close(ConnectionEnd::new(EndReason::Abandoned, None, None)));
    }
}
