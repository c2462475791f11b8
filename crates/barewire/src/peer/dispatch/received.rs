//! A frame of the peer -> what is done about it: requests, notifications, responses, and frames that are no message.

use barewire_proto::frame::{Frame, FrameError};
use barewire_proto::mcp::ParsedMessage;
use barewire_proto::rpc::{
    ErrorObject, Id, Invalid, Message, Notification, Params, Parsed, ParsedFrame, Reply, Request, Response, parse,
    write,
};
use barewire_proto::session::{self, CallId, Effect, Refusal, SessionEvent, Signal, Ticket};

#[cfg(feature = "http")]
use super::AnyCaller;
use super::handlers::Job;
use super::in_flight::{HeldFrame, InFlight, ParkedRequest, PendingCall};
use super::{Destination, Dispatcher, EndRequest, Source};
use crate::Failure;
#[cfg(feature = "http")]
use crate::peer::outlet::Exchange;
use crate::peer::outlet::{Outlet, Sent};
use crate::peer::queue::OnProgress;
use crate::peer::{CallError, Raw};

impl<O: Outlet> Dispatcher<O> {
    /// Handles one frame of a stream.
    pub(in crate::peer) fn frame(&mut self, frame: Result<Frame<'_>, FrameError>) {
        match frame {
            Ok(frame) => self.take(frame, parse(frame.bytes, self.limits.depth), Source::STREAM),
            Err(error) => {
                let begins = error.prefix();
                let invalid = Invalid::from_frame(&error);
                self.invalid(error.offset(), begins, &invalid, Source::STREAM.into());
                self.no_message(error.offset(), begins);
            }
        }
    }

    /// Handles a message that came by itself, without a stream.
    #[cfg(feature = "http")]
    pub(crate) fn deliver(
        &mut self,
        exchange: Exchange,
        caller: Option<&AnyCaller>,
        message: &ParsedMessage<impl AsRef<[u8]>>,
    ) {
        let params = message.params();
        let source = Source { exchange, caller, params: params.as_ref() };
        self.start_slice();
        self.take(Frame::new(0, message.bytes()), message.parsed(), source);
        // There is no stream that could be held back: a frame that cannot be started now is refused.
        self.refuse_held(source);
        self.take_commands();
        self.start_waiting();
    }

    /// Handles a frame that has been parsed.
    #[inline]
    pub(super) fn take(&mut self, frame: Frame<'_>, parsed: Parsed<'_>, source: Source<'_>) {
        match parsed {
            Parsed::Message(message) => {
                self.opening.message_came();
                self.message(frame, message, source);
            }
            Parsed::Batch(batch) => {
                self.opening.message_came();
                self.batch(frame, batch, source);
            }
            Parsed::Invalid(invalid) => {
                self.invalid(frame.offset, frame.bytes, &invalid, source.into());
                self.no_message(frame.offset, frame.bytes);
            }
        }
    }

    #[inline]
    pub(super) fn message(&mut self, frame: Frame<'_>, message: Message<'_>, source: Source<'_>) {
        match message {
            Message::Request(request) => self.request(frame, request, source),
            Message::Notification(notification) => {
                if !self.notification(notification, frame, source) {
                    let parsed = Parsed::Message(Message::Notification(notification));
                    self.in_flight.held = Some(HeldFrame::new(frame, &parsed));
                }
            }
            Message::Response(response) => self.response(frame, response),
            Message::OrphanError(error) => self.log.frame(
                frame.offset,
                frame.bytes,
                format_args!("the peer reports an error, code {}", error.code),
            ),
        }
    }

    #[inline]
    fn request(&mut self, frame: Frame<'_>, request: Request<'_>, source: Source<'_>) {
        if !self.service.is_asked() {
            return self.log.frame(frame.offset, frame.bytes, "a request, and nothing may be asked of us");
        }
        let bytes = frame.bytes.len();
        let (destination, room) = (source.into(), self.in_flight.parked.is_empty() && self.has_room());
        match self.session.step(SessionEvent::Request { id: &request.id, bytes, room, stalled: self.is_stalled() }) {
            Effect::Start(ticket) => {
                self.start(Job { ticket, request, bytes, destination, deferred: false }, source);
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

    /// Keeps a request that cannot be started yet.
    pub(super) fn park(
        &mut self,
        ticket: Ticket,
        frame: &[u8],
        request: Request<'_>,
        destination: Destination,
        source: Source<'_>,
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

    /// Sends an error as the answer.
    pub(super) fn send_error(&mut self, destination: Destination, reply: Reply<'_>, error: &ErrorObject) {
        self.send(destination, |out| {
            if reply.id().is_none() && destination.batch.is_none() && !O::NULL_ID {
                write::error(out, None, error);
                return Sent::Unnamed;
            }
            reply.error(out, error);
            Sent::Answer(Some(error.code))
        });
    }

    /// Logs a frame that is no message, and refuses it, or tells the caller whose answer it should have been.
    pub(super) fn invalid(&mut self, offset: u64, bytes: &[u8], invalid: &Invalid<'_>, destination: Destination) {
        self.log.refused(offset, bytes, invalid);
        self.judge(invalid, destination);
    }

    /// Refuses a frame that is no message, or tells the caller whose answer it should have been.
    pub(super) fn judge(&mut self, invalid: &Invalid<'_>, destination: Destination) {
        match self.session.step(SessionEvent::Invalid(invalid)) {
            // Where the peer may ask nothing of us, it waits for no answer.
            Effect::RejectFrame if self.service.is_asked() => {
                if let Some(reply) = invalid.reply() {
                    // Under the id of a request that is in flight it would be taken for the answer to that.
                    let is_taken = reply.id().is_some_and(|id| self.session.is_in_flight(id));
                    let reply = if is_taken { reply.unnamed() } else { reply };
                    self.send_error(destination, reply, &invalid.error());
                }
            }
            Effect::SettleInvalid(call) => self.in_flight.settle(call, Err(CallError::Fault(invalid.to_string()))),
            _ => {}
        }
    }

    /// Refuses the frame that is held, if there is one, as nothing can be kept waiting for it.
    #[cfg(feature = "http")]
    fn refuse_held(&mut self, source: Source<'_>) {
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
            _ => self.report("dropped a notification: too many wait to be handled"),
        }
    }

    /// Keeps the first output of a peer that sends no messages, and ends the connection if that is of another format.
    fn no_message(&mut self, offset: u64, bytes: &[u8]) {
        let is_other_format = self.opening.frame_failed(offset, bytes);
        if is_other_format && !self.answer_unreadable {
            self.closing.request(EndRequest::ContentLength);
        }
    }

    fn response(&mut self, frame: Frame<'_>, response: Response<'_>) {
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
                self.log.frame(frame.offset, frame.bytes, format_args!("{kind} of no request that waits for one"));
            }
        }
    }

    /// Handles a notification; `false` if it has to wait and no frame behind it may be taken.
    pub(super) fn notification(
        &mut self,
        notification: Notification<'_>,
        frame: Frame<'_>,
        source: Source<'_>,
    ) -> bool {
        match session::signal(&self.conventions, &notification) {
            Signal::Cancel(id) => {
                match CallId::from_id(&id).filter(|call| self.service.ends(*call)) {
                    Some(call) => self.call_ended(call),
                    None => self.cancelled(&id),
                }
                return true;
            }
            Signal::Stray => {
                self.log.frame(frame.offset, frame.bytes, "cancels something, but does not say what");
                return true;
            }
            Signal::Progress(call) if self.in_flight.calls.contains_key(&call) => {
                self.progress(call, notification.params);
                return true;
            }
            Signal::Progress(_) | Signal::None => {}
        }
        self.service.arrived(&notification);
        let queue = &self.in_flight.notifications;
        if queue.is_idle() {
            self.start_notification(notification, source);
            return true;
        }
        match (queue.is_full(frame.bytes.len(), &self.limits), self.must_read()) {
            (false, _) => {
                let parsed = Parsed::Message(Message::Notification(notification));
                self.in_flight.notifications.push(ParsedFrame::copy(frame.bytes, &parsed));
                true
            }
            (true, false) => false,
            (true, true) => {
                let what = "dropped: too many notifications wait to be handled, and so does an answer to us";
                self.log.frame(frame.offset, frame.bytes, what);
                true
            }
        }
    }

    fn progress(&mut self, call: CallId, params: Option<Params<'_>>) {
        let now = self.timing.session_now();
        self.session.step(SessionEvent::Progress { call, now });
        if let Some(PendingCall { progress: Some(OnProgress(tell)), .. }) = self.in_flight.calls.get_mut(&call)
            && let Some(params) = params
        {
            let value = Raw::new(session::progress_value(&self.conventions.progress, params.json()));
            if let Err(panic) = Failure::catch(|| tell(value)) {
                self.log.failed(self.conventions.progress.method, &panic);
            }
        }
    }

    /// Fails a call of ours that the peer has ended: it will not be answered.
    fn call_ended(&mut self, call: CallId) {
        self.session.step(SessionEvent::AbandonCall(call));
        self.in_flight.settle(call, Err(CallError::Cancelled));
    }

    /// The peer no longer wants an answer: the session forgets the id, then the handler is told, then it is dropped.
    fn cancelled(&mut self, id: &Id<'_>) {
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
            // Its answer is there, in an array that is not complete.
            return;
        };
        if answer.is_none() && destination.batch.is_none() {
            self.output.over(destination.exchange);
        }
        if let Some(code) = answer {
            self.send_error(destination, reply, &ErrorObject::standard(code));
        }
        if let Some(batch) = destination.batch {
            self.batch_element_done(batch);
        }
    }
}
