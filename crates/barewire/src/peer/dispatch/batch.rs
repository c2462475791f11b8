//! An array of theirs -> its elements, and their answers -> one array.

use barewire_proto::frame::Frame;
use barewire_proto::rpc::{Batch, Id, Message, Request};
use barewire_proto::session::{Effect, Event, Refusal, Ticket};

use super::handlers::Job;
use super::{Dispatcher, Held, Place};
use crate::peer::CallError;
use crate::peer::outlet::{Exchange, Outlet, Sent};

/// The answers to a batch, until all are there.
pub(super) struct Group {
    /// The array as far as it goes.
    pub(super) array: Vec<u8>,
    /// How many are missing, the batch itself counted while it is being read.
    open: usize,
    exchange: Exchange,
    /// Whose answers are there; their ids are in flight until the array is written.
    answered: Vec<(Ticket, Id<'static>)>,
}

impl<O: Outlet> Dispatcher<O> {
    pub(super) fn batch(&mut self, frame: Frame<'_>, batch: Batch<'_>) {
        let Some(most) = self.service.batch(self.limits.batch) else {
            for (index, invalid) in batch.refusals().enumerate() {
                match index {
                    0 => self.invalid(frame.offset, frame.bytes, &invalid, self.here()),
                    _ => self.judge(&invalid, self.here()),
                }
            }
            return;
        };
        if let Some(invalid) = batch.over(most) {
            return self.invalid(frame.offset, frame.bytes, &invalid, self.here());
        }
        let room = self.has_room_for_batch(frame.bytes.len());
        if !room && !self.must_read() {
            self.held = Some(Held::new(frame, true));
            return;
        }
        let (group, place) = self.open_group();
        self.session.step(Event::StartOfBatch);
        let mut logged = false;
        for (element, bytes) in batch.elements().zip(batch.texts()) {
            let frame = Frame { bytes, ..frame };
            match element {
                Ok(Message::Request(request)) if !room => self.refuse(&request, Refusal::Busy, place),
                Ok(Message::Request(request)) => self.element(request, bytes, group),
                // What cannot wait because it is part of a batch is dropped: nobody waits for it.
                Ok(Message::Notification(notification)) => {
                    if !self.notification(notification, frame) {
                        let what =
                            "dropped: too many notifications wait to be handled, and it is part of a batch";
                        self.log.frame(frame.offset, bytes, what);
                    }
                }
                Ok(message) => self.message(frame, message),
                // A bad frame is logged once, however much of it is bad.
                Err(invalid) if std::mem::replace(&mut logged, true) => self.judge(&invalid, place),
                Err(invalid) => self.invalid(frame.offset, bytes, &invalid, place),
            }
        }
        while let Effect::Missing(call) = self.session.step(Event::EndOfBatch) {
            self.settle(call, Err(CallError::Missing));
        }
        self.close_entry(group);
    }

    /// Begins an array of answers. It is complete when [`Self::close_entry`] has been told so once for the array itself.
    pub(in crate::peer) fn open_group(&mut self) -> (u64, Place) {
        self.last_group += 1;
        let (group, exchange) = (self.last_group, self.exchange);
        self.groups.insert(group, Group { array: Vec::new(), open: 1, exchange, answered: Vec::new() });
        (group, Place { exchange, group: Some(group) })
    }

    fn element(&mut self, request: Request<'_>, text: &[u8], group: u64) {
        let bytes = text.len();
        let place = Place { group: Some(group), ..self.here() };
        let room = self.parked.is_empty() && self.has_room();
        let open = |dispatcher: &mut Self| {
            if let Some(group) = dispatcher.groups.get_mut(&group) {
                group.open += 1;
            }
        };
        match self.session.step(Event::Request { id: &request.id, bytes, room, stalled: self.is_stalled() }) {
            Effect::Start(ticket) => {
                open(self);
                // Its answer is not written before those of the others: until then its id is in flight.
                self.session.step(Event::Defer { ticket, id: &request.id, bytes });
                self.start(Job { ticket, request, bytes, place, deferred: true });
            }
            Effect::Park(ticket) => {
                open(self);
                self.park(ticket, text, place);
            }
            Effect::Refuse(refusal) => self.refuse(&request, refusal, place),
            // The rest of the batch is here already, so there is nothing to be held back.
            _ => self.refuse(&request, Refusal::Busy, place),
        }
    }

    /// An answer to a request of a batch is in its array.
    pub(super) fn answered(&mut self, number: u64, ticket: Ticket, id: &Id<'_>) {
        if let Some(group) = self.groups.get_mut(&number) {
            group.answered.push((ticket, id.clone().into_owned()));
        }
        self.close_entry(number);
    }

    /// One of the answers to a batch is there, or will not come. With the last of them the array goes out, unless it is
    /// empty: nobody in it waited for an answer.
    pub(in crate::peer) fn close_entry(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        group.open -= 1;
        if group.open > 0 {
            return;
        }
        let Some(Group { mut array, answered, exchange, .. }) = self.groups.remove(&number) else { return };
        self.arrays -= array.len();
        for (ticket, id) in &answered {
            self.session.step(Event::Answer { ticket: *ticket, id });
        }
        if array.is_empty() {
            self.output.over(exchange);
        } else {
            array.push(b']');
            self.send(exchange.into(), |out| {
                out.extend_from_slice(&array);
                Sent::Answer(None)
            });
        }
    }
}

impl Group {
    /// Adds an element to the array.
    pub(super) fn entry(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Sent) {
        self.array.push(if self.array.is_empty() { b'[' } else { b',' });
        write(&mut self.array);
    }
}
