//! A batch of the peer -> its elements, and their answers -> one array.

use std::collections::HashMap;

use barewire_proto::frame::Frame;
use barewire_proto::rpc::{Batch, Id, Message, Parsed, Request};
use barewire_proto::session::{Effect, Refusal, SessionEvent, Ticket};

use super::handlers::Job;
use super::in_flight::HeldFrame;
use super::{Destination, Dispatcher, Source};
use crate::peer::CallError;
use crate::peer::outlet::{Exchange, Outlet, Sent};

/// The number of a batch, ours or the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::peer) struct BatchNumber(pub(super) u64);

/// The batches of the peer whose answers are not complete.
#[derive(Default)]
pub(super) struct Batches {
    open: HashMap<BatchNumber, BatchAnswers>,
    /// The bytes of all their arrays so far.
    bytes: usize,
    last: u64,
}

/// The answers to one batch, until all are there.
struct BatchAnswers {
    /// The array as far as it goes.
    array: Vec<u8>,
    /// The number of answers that are missing; the batch itself counts as one while it is being read.
    missing: usize,
    exchange: Exchange,
    /// The requests whose answers are there. Their ids are in flight until the array is written.
    answered: Vec<(Ticket, Id<'static>)>,
}

impl Batches {
    /// A number that no batch has had.
    pub(super) fn next_number(&mut self) -> BatchNumber {
        self.last += 1;
        BatchNumber(self.last)
    }

    /// Whether another batch of so many bytes may be started. The answers that are gathered for those before count as requests
    /// do: a short request that waits can keep long answers to all others of its batch.
    pub(super) fn has_room(&self, bytes: usize, limit: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= limit
    }

    /// Adds an answer to the array of a batch.
    pub(super) fn push(&mut self, number: BatchNumber, write: impl FnOnce(&mut Vec<u8>) -> Sent) {
        let Some(BatchAnswers { array, .. }) = self.open.get_mut(&number) else { return };
        let before = array.len();
        array.push(if array.is_empty() { b'[' } else { b',' });
        write(array);
        self.bytes += array.len() - before;
    }

    /// One more answer is to come.
    fn expect_one(&mut self, number: BatchNumber) {
        if let Some(batch) = self.open.get_mut(&number) {
            batch.missing += 1;
        }
    }

    /// One answer is there, or will not come. Returns the batch if it was the last.
    fn one_done(&mut self, number: BatchNumber) -> Option<BatchAnswers> {
        let batch = self.open.get_mut(&number)?;
        batch.missing -= 1;
        if batch.missing > 0 {
            return None;
        }
        let batch = self.open.remove(&number)?;
        self.bytes -= batch.array.len();
        Some(batch)
    }
}

impl<O: Outlet> Dispatcher<O> {
    pub(super) fn batch(&mut self, frame: Frame<'_>, batch: Batch<'_>, source: Source<'_>) {
        let here = source.into();
        let Some(most) = self.service.batch(self.limits.batch) else {
            for (index, invalid) in batch.refusals().enumerate() {
                match index {
                    0 => self.invalid(frame.offset, frame.bytes, &invalid, here),
                    _ => self.judge(&invalid, here),
                }
            }
            return;
        };
        if let Some(invalid) = batch.over(most) {
            return self.invalid(frame.offset, frame.bytes, &invalid, here);
        }
        let room = self.has_room_for_batch(frame.bytes.len());
        if !room && !self.must_read() {
            self.in_flight.held = Some(HeldFrame::new(frame, &Parsed::Batch(batch)));
            return;
        }
        let (number, destination) = self.open_batch(source.exchange);
        self.session.step(SessionEvent::StartOfBatch);
        let mut logged = false;
        for (element, bytes) in batch.elements().zip(batch.texts()) {
            let mut frame = frame;
            frame.bytes = bytes;
            match element {
                Ok(Message::Request(request)) if !room => self.refuse(&request, Refusal::Busy, destination),
                Ok(Message::Request(request)) => self.element(request, bytes, number, source),
                // A notification of a batch cannot wait, so it is dropped: it asks for no answer.
                Ok(Message::Notification(notification)) => {
                    if !self.notification(notification, frame, source) {
                        let what = "dropped: too many notifications wait to be handled, and it is part of a batch";
                        self.log.frame(frame.offset, bytes, what);
                    }
                }
                Ok(message) => self.message(frame, message, source),
                // A bad frame is logged once, however much of it is bad.
                Err(invalid) if std::mem::replace(&mut logged, true) => self.judge(&invalid, destination),
                Err(invalid) => self.invalid(frame.offset, bytes, &invalid, destination),
            }
        }
        while let Effect::Missing(call) = self.session.step(SessionEvent::EndOfBatch) {
            self.in_flight.settle(call, Err(CallError::Missing));
        }
        self.batch_element_done(number);
    }

    /// Starts an array of answers. It is complete when [`Self::batch_element_done`] has been called once for the array itself.
    pub(super) fn open_batch(&mut self, exchange: Exchange) -> (BatchNumber, Destination) {
        let number = self.batches.next_number();
        let answers = BatchAnswers { array: Vec::new(), missing: 1, exchange, answered: Vec::new() };
        self.batches.open.insert(number, answers);
        (number, Destination { exchange, batch: Some(number) })
    }

    fn element(&mut self, request: Request<'_>, text: &[u8], number: BatchNumber, source: Source<'_>) {
        let bytes = text.len();
        let destination = Destination { exchange: source.exchange, batch: Some(number) };
        let room = self.in_flight.parked.is_empty() && self.has_room();
        match self.session.step(SessionEvent::Request { id: &request.id, bytes, room, stalled: self.is_stalled() }) {
            Effect::Start(ticket) => {
                self.batches.expect_one(number);
                // Its answer is not written before those of the others: until then its id is in flight.
                self.session.step(SessionEvent::Defer { ticket, id: &request.id, bytes });
                self.start(Job { ticket, request, bytes, destination, deferred: true }, source);
            }
            Effect::Park(ticket) => {
                self.batches.expect_one(number);
                self.park(ticket, text, request, destination, source);
            }
            Effect::Refuse(refusal) => self.refuse(&request, refusal, destination),
            // The rest of the batch is here already, so there is nothing to be held back.
            _ => self.refuse(&request, Refusal::Busy, destination),
        }
    }

    /// The answer to a request of a batch is in its array.
    pub(super) fn batch_element_answered(&mut self, number: BatchNumber, ticket: Ticket, id: &Id<'_>) {
        if let Some(batch) = self.batches.open.get_mut(&number) {
            batch.answered.push((ticket, id.clone().into_owned()));
        }
        self.batch_element_done(number);
    }

    /// One answer to a batch is there, or will not come. With the last of them the array is sent, unless it is empty: then no
    /// element asked for an answer.
    pub(super) fn batch_element_done(&mut self, number: BatchNumber) {
        let Some(BatchAnswers { mut array, answered, exchange, .. }) = self.batches.one_done(number) else {
            return;
        };
        for (ticket, id) in &answered {
            self.session.step(SessionEvent::Answer { ticket: *ticket, id });
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
