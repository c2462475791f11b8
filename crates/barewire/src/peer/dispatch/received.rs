//! Handles a frame from the peer: a request, a notification, a response, or an invalid frame.

use barewire_proto::frame::{Frame, FrameError};
use barewire_proto::mcp::ParsedMessage;
use barewire_proto::rpc::{
    ErrorObject, Id, Invalid, Message, Notification, Params, Parsed, ParsedFrame, Reply, Request, Response, parse,
    write,
};
use barewire_proto::session::{self, CallId, Effect, Refusal, SessionEvent, Signal, Ticket};

#[cfg(feature = "http")]
use super::AnyCaller;
use super::handlers::ReadyRequest;
use super::in_flight::{HeldFrame, InFlight, ParkedRequest, PendingCall, WaitingNotification};
use super::{Destination, Dispatcher, EndRequest, FrameSource};
use crate::Failure;
#[cfg(feature = "http")]
use crate::peer::outlet::Exchange;
use crate::peer::outlet::{MessageKind, Outlet};
use crate::peer::queue::OnProgress;
use crate::peer::{CallError, Raw};

impl<O: Outlet> Dispatcher<O> {
    /// Handles one frame of a byte stream.
    pub(in crate::peer) fn handle_frame(&mut self, frame: Result<Frame<'_>, FrameError>) {
        match frame {
            Ok(frame) => self.handle_parsed(frame, parse(frame.bytes, self.limits.depth), FrameSource::STREAM),
            Err(error) => {
                let begins = error.prefix();
                let invalid = Invalid::from_frame(&error);
                self.handle_invalid(error.offset(), begins, &invalid, FrameSource::STREAM.into());
                self.note_invalid_frame(error.offset(), begins);
            }
        }
    }

    /// Handles a message that did not arrive over a byte stream.
    #[cfg(feature = "http")]
    pub(crate) fn deliver(
        &mut self,
        exchange: Exchange,
        caller: Option<&AnyCaller>,
        message: &ParsedMessage<impl AsRef<[u8]>>,
    ) {
        let params = message.params();
        let source = FrameSource { exchange, caller, params: params.as_ref() };
        self.start_slice();
        self.handle_parsed(Frame::new(0, message.bytes()), message.parsed(), source);
        // Without a byte stream, reading cannot be paused, so a frame that cannot be handled now is refused.
        self.refuse_held(source);
        self.take_commands();
        self.start_waiting();
    }

    /// Handles a frame that has been parsed.
    #[inline]
    pub(super) fn handle_parsed(&mut self, frame: Frame<'_>, parsed: Parsed<'_>, source: FrameSource<'_>) {
        match parsed {
            Parsed::Message(message) => {
                self.first_output.note_message();
                self.handle_message(frame, message, source);
            }
            Parsed::Batch(batch) => {
                self.first_output.note_message();
                self.handle_batch(frame, batch, source);
            }
            Parsed::Invalid(invalid) => {
                self.handle_invalid(frame.offset, frame.bytes, &invalid, source.into());
                self.note_invalid_frame(frame.offset, frame.bytes);
            }
        }
    }

    #[inline]
    pub(super) fn handle_message(&mut self, frame: Frame<'_>, message: Message<'_>, source: FrameSource<'_>) {
        match message {
            Message::Request(request) => self.handle_request(frame, request, source),
            Message::Notification(notification) => {
                if !self.handle_notification(notification, frame, source) {
                    let parsed = Parsed::Message(Message::Notification(notification));
                    self.in_flight.held = Some(HeldFrame::new(frame, &parsed));
                }
            }
            Message::Response(response) => self.handle_response(frame, response),
            Message::OrphanError(error) => self.log.frame(
                frame.offset,
                frame.bytes,
                format_args!("the peer sent an error response without an id, code {}", error.code),
            ),
        }
    }

    #[inline]
    fn handle_request(&mut self, frame: Frame<'_>, request: Request<'_>, source: FrameSource<'_>) {
        if !self.service.accepts_requests() {
            return self.log.frame(frame.offset, frame.bytes, "request ignored: this side accepts no requests");
        }
        let bytes = frame.bytes.len();
        let (destination, room) = (source.into(), self.in_flight.parked.is_empty() && self.has_room());
        match self.session.step(SessionEvent::Request { id: &request.id, bytes, room, stalled: self.is_stalled() }) {
            Effect::Start(ticket) => {
                self.start_request(ReadyRequest { ticket, request, bytes, destination, deferred: false }, source);
            }
            Effect::Park(ticket) => self.park(ticket, frame.bytes, request, destination, source),
            Effect::Hold => {
                let parsed = Parsed::Message(Message::Request(request));
                self.in_flight.held = Some(HeldFrame::new(frame, &parsed));
            }
            Effect::Refuse(refusal) => self.refuse(&request, refusal, destination),
            effect => unreachable!("{effect:?} does not follow from a request"),
        }
    }

    /// Keeps a request until it can be started.
    pub(super) fn park(
        &mut self,
        ticket: Ticket,
        frame: &[u8],
        request: Request<'_>,
        destination: Destination,
        source: FrameSource<'_>,
    ) {
        let parsed = Parsed::Message(Message::Request(request));
        let message = ParsedMessage::copy(frame, &parsed, source.params);
        let caller = source.caller.cloned();
        self.in_flight.parked.push_back(ParkedRequest { ticket, message, destination, caller });
    }

    pub(super) fn refuse(&mut self, request: &Request<'_>, refusal: Refusal, destination: Destination) {
        let error = refusal.error(&request.id);
        let reply = match refusal {
            Refusal::Duplicate => request.reply().unnamed(),
            _ => request.reply(),
        };
        self.send_error(destination, reply, &error);
    }

    /// Sends an error response.
    pub(super) fn send_error(&mut self, destination: Destination, reply: Reply<'_>, error: &ErrorObject) {
        self.send(destination, |out| {
            if reply.id().is_none() && destination.batch.is_none() && !O::WRITES_NULL_ID {
                write::error(out, None, error);
                return MessageKind::AnswerWithoutId;
            }
            reply.error(out, error);
            MessageKind::Answer(Some(error.code))
        });
    }

    /// Logs an invalid frame, and answers it with an error or fails the call that the frame should have answered.
    pub(super) fn handle_invalid(
        &mut self,
        offset: u64,
        bytes: &[u8],
        invalid: &Invalid<'_>,
        destination: Destination,
    ) {
        self.log.refused(offset, bytes, invalid);
        self.refuse_or_settle(invalid, destination);
    }

    /// Answers an invalid frame with an error, or fails the call that the frame should have answered.
    pub(super) fn refuse_or_settle(&mut self, invalid: &Invalid<'_>, destination: Destination) {
        match self.session.step(SessionEvent::Invalid(invalid)) {
            // A peer that may not send requests does not expect an answer.
            Effect::RejectFrame if self.service.accepts_requests() => {
                if let Some(reply) = invalid.reply() {
                    // If the id belongs to another request in flight, the error would be taken for that request's
                    // answer, so the id is left out.
                    let is_taken = reply.id().is_some_and(|id| self.session.is_in_flight(id));
                    let reply = if is_taken { reply.unnamed() } else { reply };
                    self.send_error(destination, reply, &invalid.error());
                }
            }
            Effect::SettleInvalid(call) => self.in_flight.settle(call, Err(CallError::Fault(invalid.to_string()))),
            _ => {}
        }
    }

    /// Refuses the held frame, if there is one.
    #[cfg(feature = "http")]
    fn refuse_held(&mut self, source: FrameSource<'_>) {
        let Some(held) = self.in_flight.held.take() else { return };
        match held.parsed() {
            Parsed::Message(Message::Request(request)) => {
                self.refuse(&request, Refusal::Busy, source.into());
            }
            Parsed::Batch(batch) => {
                let (number, destination) = self.open_batch(source.exchange);
                for element in batch.elements() {
                    if let Ok(Message::Request(request)) = element {
                        self.refuse(&request, Refusal::Busy, destination);
                    }
                }
                self.batch_element_done(number);
            }
            _ => self.report("dropped a notification: too many notifications wait for their handlers"),
        }
    }

    /// Records an invalid frame if it is the first output of the peer. If the frame is a `Content-Length` header, and
    /// frames like this one are not answered, also requests the end of the connection.
    fn note_invalid_frame(&mut self, offset: u64, bytes: &[u8]) {
        let is_other_format = self.first_output.note_invalid_frame(offset, bytes);
        if is_other_format && !self.answer_unreadable {
            self.closing.request(EndRequest::ContentLength);
        }
    }

    fn handle_response(&mut self, frame: Frame<'_>, response: Response<'_>) {
        match self.session.step(SessionEvent::Response(&response.id)) {
            Effect::Settle(call) => {
                let outcome = match response.outcome {
                    Ok(result) => Ok(Raw::new(result)),
                    Err(error) => Err(CallError::Refused(error.to_owned())),
                };
                self.in_flight.settle(call, outcome);
            }
            Effect::Late => {}
            _ => {
                let kind = if response.outcome.is_ok() { "result" } else { "error" };
                self.log.frame(frame.offset, frame.bytes, format_args!("{kind} response matches no pending request"));
            }
        }
    }

    /// Handles a notification. Returns `false` if it cannot be handled or queued now, so that later frames must wait.
    pub(super) fn handle_notification(
        &mut self,
        notification: Notification<'_>,
        frame: Frame<'_>,
        source: FrameSource<'_>,
    ) -> bool {
        match session::signal(&self.conventions, &notification) {
            Signal::Cancel(id) => {
                match CallId::from_id(&id).filter(|call| self.service.peer_may_end(*call)) {
                    Some(call) => self.call_ended(call),
                    None => self.handle_cancel(&id),
                }
                return true;
            }
            Signal::Stray => {
                self.log.frame(frame.offset, frame.bytes, "cancellation without a valid request id");
                return true;
            }
            Signal::Progress(call) if self.in_flight.calls.contains_key(&call) => {
                self.handle_progress(call, notification.params);
                return true;
            }
            Signal::Progress(_) | Signal::None => {}
        }
        self.service.notification_arrived(&notification);
        let queue = &self.in_flight.notifications;
        if queue.is_idle() {
            self.start_notification(notification, source);
            return true;
        }
        match (queue.is_full(frame.bytes.len(), &self.limits), self.must_read()) {
            (false, _) => {
                let parsed = Parsed::Message(Message::Notification(notification));
                let (frame, caller) = (ParsedFrame::copy(frame.bytes, &parsed), source.caller.cloned());
                self.in_flight.notifications.push(WaitingNotification { frame, caller });
                true
            }
            (true, false) => false,
            (true, true) => {
                let what =
                    "dropped: too many notifications wait for their handlers, and a call of ours waits for its answer";
                self.log.frame(frame.offset, frame.bytes, what);
                true
            }
        }
    }

    fn handle_progress(&mut self, call: CallId, params: Option<Params<'_>>) {
        let now = self.timing.session_now();
        self.session.step(SessionEvent::Progress { call, now });
        if let Some(PendingCall { progress: Some(OnProgress(callback)), .. }) = self.in_flight.calls.get_mut(&call)
            && let Some(params) = params
        {
            let value = Raw::new(session::progress_value(&self.conventions.progress, params.json()));
            if let Err(panic) = Failure::catch(|| callback(value)) {
                self.log.failed(self.conventions.progress.method, &panic);
            }
        }
    }

    /// Fails a call of ours that the peer has cancelled.
    fn call_ended(&mut self, call: CallId) {
        self.session.step(SessionEvent::AbandonCall(call));
        self.in_flight.settle(call, Err(CallError::Cancelled));
    }

    /// Cancels a request from the peer: the session forgets the id, then the request is marked as cancelled and its
    /// handler is dropped.
    fn handle_cancel(&mut self, id: &Id<'_>) {
        let Effect::Cancel { ticket, answer, .. } = self.session.step(SessionEvent::Cancelled(id)) else { return };
        let InFlight { running, parked, .. } = &mut self.in_flight;
        let (reply, destination) = if let Some(running) = running.remove(&ticket) {
            running.stop();
            (running.reply, running.destination)
        } else if let Some(at) = parked.iter().position(|parked| parked.ticket == ticket)
            && let Some(parked) = parked.remove(at)
            && let Parsed::Message(Message::Request(request)) = parked.message.parsed()
        {
            (request.reply().into_owned(), parked.destination)
        } else {
            // The request is already answered, but is part of a batch that is not complete yet.
            return;
        };
        if answer.is_none() && destination.batch.is_none() {
            self.output.end_exchange(destination.exchange);
        }
        if let Some(code) = answer {
            self.send_error(destination, reply, &ErrorObject::standard(code));
        }
        if let Some(batch) = destination.batch {
            self.batch_element_done(batch);
        }
    }
}
