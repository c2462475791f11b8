//! Incoming batches: handles the elements of an array, and gathers their answers in another array.

use std::collections::HashMap;

use barewire_proto::frame::Frame;
use barewire_proto::rpc::{Batch, Id, Message, Parsed, Request};
use barewire_proto::session::{Effect, Refusal, SessionEvent, Ticket};

use super::handlers::ReadyRequest;
use super::in_flight::HeldFrame;
use super::{Destination, Dispatcher, FrameSource};
use crate::peer::CallError;
use crate::peer::outlet::{Exchange, MessageKind, Outlet};

/// The number of a batch. The batches of both sides are numbered together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::peer) struct BatchNumber(pub(super) u64);

/// The batches of the peer whose answers are not complete.
#[derive(Default)]
pub(super) struct Batches {
    open: HashMap<BatchNumber, BatchAnswers>,
    /// The total size of all answers gathered so far, in bytes.
    bytes: usize,
    last: u64,
}

/// The answers to one batch, gathered until all of them are there.
struct BatchAnswers {
    /// The JSON array of the answers so far, without its closing bracket.
    array: Vec<u8>,
    /// The number of missing answers, plus one while the elements of the batch are still being read.
    missing: usize,
    exchange: Exchange,
    /// The answered requests. Their ids stay in flight until the array is written.
    answered: Vec<(Ticket, Id<'static>)>,
}

impl Batches {
    /// Returns a new batch number.
    pub(super) fn next_number(&mut self) -> BatchNumber {
        self.last += 1;
        BatchNumber(self.last)
    }

    /// Whether another batch of `bytes` bytes may be started. Gathered answers count toward the limit like requests,
    /// because one slow request keeps the answers to all other requests of its batch in memory.
    pub(super) fn has_room(&self, bytes: usize, limit: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= limit
    }

    /// Adds an answer to the array of a batch.
    pub(super) fn push(&mut self, number: BatchNumber, write: impl FnOnce(&mut Vec<u8>) -> MessageKind) {
        let Some(BatchAnswers { array, .. }) = self.open.get_mut(&number) else { return };
        let before = array.len();
        array.push(if array.is_empty() { b'[' } else { b',' });
        write(array);
        self.bytes += array.len() - before;
    }

    /// Increments the number of missing answers.
    fn expect_answer(&mut self, number: BatchNumber) {
        if let Some(batch) = self.open.get_mut(&number) {
            batch.missing += 1;
        }
    }

    /// Decrements the number of missing answers. Returns the batch if it is now complete.
    fn element_done(&mut self, number: BatchNumber) -> Option<BatchAnswers> {
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
    pub(super) fn handle_batch(&mut self, frame: Frame<'_>, batch: Batch<'_>, source: FrameSource<'_>) {
        let here = source.into();
        let Some(most) = self.service.batch_limit(self.limits.batch) else {
            for (index, invalid) in batch.refusals().enumerate() {
                match index {
                    0 => self.handle_invalid(frame.offset, frame.bytes, &invalid, here),
                    _ => self.refuse_or_settle(&invalid, here),
                }
            }
            return;
        };
        if let Some(invalid) = batch.over(most) {
            return self.handle_invalid(frame.offset, frame.bytes, &invalid, here);
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
                Ok(Message::Request(request)) => self.handle_batch_element(request, bytes, number, source),
                // A batch cannot be held back after it has started, so a notification that cannot be queued is dropped.
                Ok(Message::Notification(notification)) => {
                    if !self.handle_notification(notification, frame, source) {
                        let what = "dropped: too many notifications wait for their handlers, and a batch cannot wait";
                        self.log.frame(frame.offset, bytes, what);
                    }
                }
                Ok(message) => self.handle_message(frame, message, source),
                // A frame is logged only once, even if several of its elements are invalid.
                Err(invalid) if std::mem::replace(&mut logged, true) => self.refuse_or_settle(&invalid, destination),
                Err(invalid) => self.handle_invalid(frame.offset, bytes, &invalid, destination),
            }
        }
        while let Effect::Missing(call) = self.session.step(SessionEvent::EndOfBatch) {
            self.in_flight.settle(call, Err(CallError::Missing));
        }
        self.batch_element_done(number);
    }

    /// Starts an array of answers. The array is complete only after [`Self::batch_element_done`] was called for each
    /// element, and once more for the batch itself.
    pub(super) fn open_batch(&mut self, exchange: Exchange) -> (BatchNumber, Destination) {
        let number = self.batches.next_number();
        let answers = BatchAnswers { array: Vec::new(), missing: 1, exchange, answered: Vec::new() };
        self.batches.open.insert(number, answers);
        (number, Destination { exchange, batch: Some(number) })
    }

    fn handle_batch_element(
        &mut self,
        request: Request<'_>,
        text: &[u8],
        number: BatchNumber,
        source: FrameSource<'_>,
    ) {
        let bytes = text.len();
        let destination = Destination { exchange: source.exchange, batch: Some(number) };
        let room = self.in_flight.parked.is_empty() && self.has_room();
        match self.session.step(SessionEvent::Request { id: &request.id, bytes, room, stalled: self.is_stalled() }) {
            Effect::Start(ticket) => {
                self.batches.expect_answer(number);
                // The id stays in flight until the array with all answers is written.
                self.session.step(SessionEvent::Defer { ticket, id: &request.id, bytes });
                self.start_request(ReadyRequest { ticket, request, bytes, destination, deferred: true }, source);
            }
            Effect::Park(ticket) => {
                self.batches.expect_answer(number);
                self.park(ticket, text, request, destination, source);
            }
            Effect::Refuse(refusal) => self.refuse(&request, refusal, destination),
            // An element of a batch cannot be held back, so it is refused.
            _ => self.refuse(&request, Refusal::Busy, destination),
        }
    }

    /// Records that the answer to a request of a batch has been added to the array of the batch.
    pub(super) fn batch_element_answered(&mut self, number: BatchNumber, ticket: Ticket, id: &Id<'_>) {
        if let Some(batch) = self.batches.open.get_mut(&number) {
            batch.answered.push((ticket, id.clone().into_owned()));
        }
        self.batch_element_done(number);
    }

    /// Records that one element of a batch is finished, with or without an answer. After the last element, sends the
    /// array of answers, unless it is empty.
    pub(super) fn batch_element_done(&mut self, number: BatchNumber) {
        let Some(BatchAnswers { mut array, answered, exchange, .. }) = self.batches.element_done(number) else {
            return;
        };
        for (ticket, id) in &answered {
            self.session.step(SessionEvent::Answer { ticket: *ticket, id });
        }
        if array.is_empty() {
            self.output.end_exchange(exchange);
        } else {
            array.push(b']');
            self.send(exchange.into(), |out| {
                out.extend_from_slice(&array);
                MessageKind::Answer(None)
            });
        }
    }
}
