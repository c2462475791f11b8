//! What came -> what is done about it: requests, notifications, responses, and what is none of these.

use barewire_proto::frame::{Frame, FrameError};
use barewire_proto::rpc::{
    ErrorObject, Id, Invalid, Message, Notification, Params, Parsed, Reply, Request, Response, parse, write,
};
use barewire_proto::session::{CallId, Effect, Event, Refusal, Signal, Ticket};

use super::handlers::Job;
use super::{Caller, Dispatcher, Held, Parked, Place, Wants};
use crate::Failure;
use crate::log::quoted;
use crate::peer::outlet::{Outlet, Sent};
use crate::peer::queue::OnProgress;
use crate::peer::{CallError, Raw, StrayOutput};

impl<O: Outlet> Dispatcher<O> {
    /// Handles one frame.
    pub(in crate::peer) fn frame(&mut self, frame: Result<Frame<'_>, FrameError>) {
        match frame {
            Ok(frame) => self.whole(frame),
            Err(error) => {
                let begins = error.begins();
                self.invalid(error.offset(), begins, &Invalid::from_frame(&error), self.here());
                self.note(error.offset(), begins);
            }
        }
    }

    #[inline]
    pub(super) fn whole(&mut self, frame: Frame<'_>) {
        let parsed = parse(frame.bytes, self.limits.depth);
        self.take(frame, parsed);
    }

    /// Handles what a frame was found to be.
    #[inline]
    pub(in crate::peer) fn take(&mut self, frame: Frame<'_>, parsed: Parsed<'_>) {
        match parsed {
            Parsed::Message(message) => {
                self.heard = true;
                self.message(frame, message);
            }
            Parsed::Batch(batch) => {
                self.heard = true;
                self.batch(frame, batch);
            }
            Parsed::Invalid(invalid) => {
                self.invalid(frame.offset, frame.bytes, &invalid, self.here());
                self.note(frame.offset, frame.bytes);
            }
        }
    }

    #[inline]
    pub(super) fn message(&mut self, frame: Frame<'_>, message: Message<'_>) {
        match message {
            Message::Request(request) => self.request(frame, request),
            Message::Notification(notification) => {
                if !self.notification(notification, frame) {
                    self.held = Some(Held::new(frame, false));
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
    fn request(&mut self, frame: Frame<'_>, request: Request<'_>) {
        if !self.service.is_asked() {
            return self.log.frame(frame.offset, frame.bytes, "a request, and nothing may be asked of us");
        }
        let bytes = frame.bytes.len();
        let room = self.parked.is_empty() && self.has_room();
        match self.session.step(Event::Request { id: &request.id, bytes, room, stalled: self.is_stalled() }) {
            Effect::Start(ticket) => {
                self.start(Job { ticket, request, bytes, place: self.here(), deferred: false });
            }
            Effect::Park(ticket) => {
                self.park(ticket, frame.bytes, self.here());
            }
            Effect::Hold => self.held = Some(Held::new(frame, false)),
            Effect::Refuse(refusal) => self.refuse(&request, refusal, self.here()),
            effect => unreachable!("{effect:?} does not follow from a request"),
        }
    }

    /// Keeps a request that cannot be started yet.
    pub(super) fn park(&mut self, ticket: Ticket, frame: &[u8], place: Place) {
        self.parked.push_back(Parked { ticket, frame: frame.into(), place, caller: self.caller.clone() });
    }

    pub(in crate::peer) fn refuse(&mut self, request: &Request<'_>, refusal: Refusal, place: Place) {
        let error = refusal.error(&request.id);
        let reply = match refusal {
            Refusal::Duplicate => request.reply().unnamed(),
            _ => request.reply(),
        };
        self.say_no(place, reply, &error);
    }

    /// Sends an answer that says no.
    pub(super) fn say_no(&mut self, place: Place, reply: Reply<'_>, error: &ErrorObject) {
        self.send(place, |out| {
            if reply.id().is_none() && place.group.is_none() && !O::NULL_ID {
                write::error(out, None, error);
                return Sent::Unnamed;
            }
            reply.error(out, error);
            Sent::Answer(Some(error.code))
        });
    }

    /// Refuses what is no message, or tells the caller whose answer it should have been.
    pub(super) fn invalid(&mut self, offset: u64, bytes: &[u8], invalid: &Invalid<'_>, place: Place) {
        self.log.refused(offset, bytes, invalid);
        self.judge(invalid, place);
    }

    pub(super) fn judge(&mut self, invalid: &Invalid<'_>, place: Place) {
        match self.session.step(Event::Invalid(invalid)) {
            // Where nothing may be asked of us, nobody waits for an answer.
            Effect::Reject if self.service.is_asked() => {
                if let Some(reply) = invalid.reply() {
                    // Under the id of a request that is in flight it would be taken for the answer to that.
                    let is_taken = reply.id().is_some_and(|id| self.session.is_in_flight(id));
                    let reply = if is_taken { reply.unnamed() } else { reply };
                    self.say_no(place, reply, &invalid.error());
                }
            }
            Effect::Fault(call) => self.settle(call, Err(CallError::Fault(invalid.to_string()))),
            _ => {}
        }
    }

    /// Keeps what the other side began with, if that was no message.
    fn note(&mut self, offset: u64, bytes: &[u8]) {
        if self.heard || self.stray.is_some() {
            return;
        }
        self.stray = Some(StrayOutput { offset, excerpt: quoted(bytes) });
        let header = bytes.get(..CONTENT_LENGTH.len());
        if !self.answer_unreadable && header.is_some_and(|it| it.eq_ignore_ascii_case(CONTENT_LENGTH)) {
            self.wants = Wants::ContentLength;
        }
    }

    fn response(&mut self, frame: Frame<'_>, response: Response<'_>) {
        match self.session.step(Event::Response(&response.id)) {
            Effect::Settle(call) => {
                let outcome = match response.outcome {
                    Ok(result) => Ok(Raw::new(result)),
                    Err(error) => Err(CallError::Refused(error.to_owned())),
                };
                self.settle(call, outcome);
            }
            Effect::Late => {}
            _ => {
                let kind = if response.outcome.is_ok() { "result" } else { "error" };
                self.log.frame(
                    frame.offset,
                    frame.bytes,
                    format_args!("{kind} of no request that waits for one"),
                );
            }
        }
    }

    /// Handles a notification; `false` if it has to wait and nothing behind it may be taken.
    pub(super) fn notification(&mut self, notification: Notification<'_>, frame: Frame<'_>) -> bool {
        match self.conventions.signal(&notification) {
            Signal::Cancel(id) => {
                match CallId::from_id(&id).filter(|call| self.service.ends(*call)) {
                    Some(call) => self.ended(call),
                    None => self.cancelled(&id),
                }
                return true;
            }
            Signal::Stray => {
                self.log.frame(frame.offset, frame.bytes, "cancels something, but does not say what");
                return true;
            }
            Signal::Progress(call) if self.callers.contains_key(&call) => {
                self.progress(call, notification.params);
                return true;
            }
            Signal::Progress(_) | Signal::None => {}
        }
        self.service.arrived(&notification);
        let lane = &self.notifications;
        if lane.task.is_none() && lane.waiting.is_empty() {
            self.notified(notification);
            return true;
        }
        let bytes = frame.bytes.len();
        match (lane.is_full(bytes, &self.limits), self.must_read()) {
            (false, _) => {
                self.notifications.bytes += bytes;
                self.notifications.waiting.push_back(frame.bytes.into());
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
        let now = self.now();
        self.session.step(Event::Progress { call, now });
        if let Some(Caller { progress: Some(OnProgress(tell)), .. }) = self.callers.get_mut(&call)
            && let Some(params) = params
        {
            let value = Raw::new(self.conventions.progress.value(params.json()));
            if let Err(panic) = Failure::catch(|| tell(value)) {
                self.log.failed(self.conventions.progress.method, &panic);
            }
        }
    }

    /// They have ended a call of ours, and will not answer it.
    fn ended(&mut self, call: CallId) {
        self.session.step(Event::Forget(call));
        self.settle(call, Err(CallError::Cancelled));
    }

    /// They no longer want an answer: the session forgets the id, then the handler is told, then it is dropped.
    fn cancelled(&mut self, id: &Id<'_>) {
        let Effect::Cancel { ticket, answer } = self.session.step(Event::Cancelled(id)) else { return };
        let (reply, place) = if let Some(running) = self.running.remove(&ticket) {
            running.incoming.cancel();
            running.task.abort();
            (running.reply, running.place)
        } else if let Some(at) = self.parked.iter().position(|parked| parked.ticket == ticket)
            && let Some(parked) = self.parked.remove(at)
            && let Parsed::Message(Message::Request(request)) = parse(&parked.frame, self.limits.depth)
        {
            (request.reply().into_owned(), parked.place)
        } else {
            // Its answer is there, in an array that is not complete.
            return;
        };
        if answer.is_none() && place.group.is_none() {
            self.output.over(place.exchange);
        }
        if let Some(code) = answer {
            self.say_no(place, reply, &ErrorObject::standard(code));
        }
        if let Some(group) = place.group {
            self.close_entry(group);
        }
    }
}

/// What the other framing begins with.
const CONTENT_LENGTH: &[u8] = b"content-length:";
