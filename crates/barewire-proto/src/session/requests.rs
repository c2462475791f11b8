//! The peer's requests in flight, stored by id.

use std::borrow::Borrow;
use std::collections::HashMap;

use super::{Effect, Refusal};
use crate::rpc::Id;

/// The number of one request of the peer. Unlike ids, tickets are never reused within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The limits on the peer's requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLimits {
    /// The maximum number of requests in flight.
    pub requests: usize,
    /// The maximum total length of the frames of requests in flight, in bytes. A single request is always accepted,
    /// however long it is.
    pub bytes: usize,
    /// The maximum total length, in bytes, of the frames of parked requests, which wait for room in the output buffer.
    pub parked: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        // A host with a hundred agents has about a hundred requests in flight; 1024 is ten times that number. 128 MiB
        // is two frames of the maximum length.
        Self { requests: 1024, bytes: 128 * 1024 * 1024, parked: 4 * 1024 * 1024 }
    }
}

setters! { SessionLimits { requests: usize, bytes: usize, parked: usize } }

#[derive(Debug)]
pub(super) struct InFlightRequests {
    limits: SessionLimits,
    in_flight: HashMap<RequestId, InFlightRequest>,
    bytes: usize,
    /// The part of `bytes` that is in parked requests.
    parked: usize,
    next: u64,
}

/// An owned id that can be looked up by an id borrowed from a frame.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RequestId(Id<'static>);

impl<'a> Borrow<Id<'a>> for RequestId {
    fn borrow(&self) -> &Id<'a> {
        &self.0
    }
}

#[derive(Debug)]
struct InFlightRequest {
    ticket: Ticket,
    bytes: usize,
    parked: bool,
}

impl InFlightRequests {
    pub(super) fn new(limits: SessionLimits) -> Self {
        Self { limits, in_flight: HashMap::new(), bytes: 0, parked: 0, next: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn is_in_flight(&self, id: &Id<'_>) -> bool {
        !self.in_flight.is_empty() && self.in_flight.contains_key(id)
    }

    /// Decides whether to start a new request. The request is started if there is room for its response and not too
    /// much is in flight. Otherwise the driver stops reading, unless `waiting` is set: then the driver must continue to
    /// read, because a response to one of our calls can follow or the peer is stalled, and the request is parked or
    /// refused.
    pub(super) fn request(&mut self, id: &Id<'_>, bytes: usize, room: bool, waiting: bool) -> Effect {
        if self.is_in_flight(id) {
            return Effect::Refuse(Refusal::Duplicate);
        }
        match (room, self.is_full(bytes), waiting) {
            (true, false, _) => Effect::Start(self.ticket()),
            (true, true, false) | (false, _, false) => Effect::Hold,
            (true, true, true) | (false, true, true) => Effect::Refuse(Refusal::Busy),
            (false, false, true) if self.parked > 0 && self.parked + bytes > self.limits.parked => {
                Effect::Refuse(Refusal::Busy)
            }
            (false, false, true) => {
                let ticket = self.ticket();
                self.insert(id, InFlightRequest { ticket, bytes, parked: true });
                Effect::Park(ticket)
            }
        }
    }

    pub(super) fn is_full(&self, bytes: usize) -> bool {
        let count = self.in_flight.len();
        count >= self.limits.requests.max(1) || (count > 0 && self.bytes + bytes > self.limits.bytes)
    }

    fn ticket(&mut self) -> Ticket {
        self.next += 1;
        Ticket(self.next)
    }

    fn insert(&mut self, id: &Id<'_>, entry: InFlightRequest) {
        self.bytes += entry.bytes;
        self.parked += if entry.parked { entry.bytes } else { 0 };
        self.in_flight.insert(RequestId(id.clone().into_owned()), entry);
    }

    /// Marks a request as started and in flight. A parked request counts as parked until it is started or answered.
    pub(super) fn defer(&mut self, ticket: Ticket, id: &Id<'_>, bytes: usize) -> Effect {
        match self.in_flight.get_mut(id) {
            Some(entry) if entry.ticket == ticket => {
                if std::mem::take(&mut entry.parked) {
                    self.parked -= entry.bytes;
                }
                Effect::Nothing
            }
            Some(_) => Effect::Refuse(Refusal::Duplicate),
            None => {
                self.insert(id, InFlightRequest { ticket, bytes, parked: false });
                Effect::Nothing
            }
        }
    }

    /// Removes a request that is being answered. The id is freed before the response is written, because the peer can
    /// reuse the id as soon as it reads the response.
    pub(super) fn answer(&mut self, ticket: Ticket, id: &Id<'_>) -> Effect {
        match self.in_flight.get(id) {
            Some(entry) if entry.ticket == ticket => {
                self.remove(id);
                Effect::Answer
            }
            // The request was cancelled in the meantime. Another request can already have its id.
            _ => Effect::Nothing,
        }
    }

    pub(super) fn cancel(&mut self, id: &Id<'_>) -> Option<Ticket> {
        self.remove(id)
    }

    fn remove(&mut self, id: &Id<'_>) -> Option<Ticket> {
        let entry = self.in_flight.remove(id)?;
        self.bytes -= entry.bytes;
        self.parked -= if entry.parked { entry.bytes } else { 0 };
        Some(entry.ticket)
    }
}
