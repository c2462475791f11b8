//! What the engine sends -> letters, each of which becomes a request of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use barewire_proto::session::CallId;
use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use crate::peer::{Exchange, Outlet, Permits, Room, Sent};

/// A message on its way to the server.
pub(super) struct OutgoingMessage {
    pub(super) message: Bytes,
    pub(super) sent: Sent,
    reservation: Arc<Reservation>,
}

/// What the engine wants done.
pub(super) enum OutboxCommand {
    Send(OutgoingMessage),
    /// Nobody waits for this call any more, and the server is not told.
    Forget(CallId),
}

/// Takes the messages of a connection.
pub(super) struct Outbox {
    room: Room,
    commands: mpsc::UnboundedSender<OutboxCommand>,
    backlog: Arc<Backlog>,
    /// What the last letter holds, if it has not been sent in the meantime.
    last_reservation: Weak<Reservation>,
}

/// What waits to be taken by the server.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    /// Of these, how many nobody of ours waits for: a server that asks more than it takes answers would pile them up.
    unawaited: AtomicUsize,
    shrunk: Notify,
}

/// What a letter takes of the room there is, until the server has it.
pub(super) struct Reservation {
    permits: OnceLock<Permits>,
    backlog: Arc<Backlog>,
    bytes: usize,
    is_awaited: bool,
}

impl OutgoingMessage {
    /// What it holds, to be let go when the server has it.
    pub(super) fn into_parts(self) -> (Bytes, Arc<Reservation>) {
        (self.message, self.reservation)
    }
}

impl Outbox {
    pub(super) fn new(room: Room, commands: mpsc::UnboundedSender<OutboxCommand>, backlog: Arc<Backlog>) -> Self {
        Self { room, commands, backlog, last_reservation: Weak::new() }
    }
}

impl Outlet for Outbox {
    const NULL_ID: bool = false;

    fn send(&mut self, _: Exchange, write: impl FnOnce(&mut Vec<u8>) -> Sent) {
        let mut message = Vec::new();
        let sent = write(&mut message);
        let (bytes, is_awaited) = (message.len(), matches!(sent, Sent::Call(_)));
        self.backlog.bytes.fetch_add(bytes, Ordering::Relaxed);
        if !is_awaited {
            self.backlog.unawaited.fetch_add(1, Ordering::Relaxed);
        }
        let backlog = Arc::clone(&self.backlog);
        let reservation = Arc::new(Reservation { permits: OnceLock::new(), backlog, bytes, is_awaited });
        self.last_reservation = Arc::downgrade(&reservation);
        // If nobody takes it, the connection is over.
        let _ = self.commands.send(OutboxCommand::Send(OutgoingMessage { message: message.into(), sent, reservation }));
    }

    fn holds(&mut self, permits: usize) {
        let permits = self.room.hold(permits);
        if let Some(last) = self.last_reservation.upgrade() {
            let _ = last.permits.set(permits);
        }
    }

    fn len(&self) -> usize {
        self.backlog.bytes.load(Ordering::Relaxed)
    }

    fn forget(&mut self, call: CallId) {
        let _ = self.commands.send(OutboxCommand::Forget(call));
    }
}

impl Backlog {
    /// Waits until the server has taken most of what it was told and answered.
    pub(super) async fn wait_until_low(&self) {
        loop {
            let shrunk = self.shrunk.notified();
            if self.unawaited.load(Ordering::Acquire) < MAX_UNAWAITED {
                return;
            }
            shrunk.await;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if !self.is_awaited {
            self.backlog.unawaited.fetch_sub(1, Ordering::Release);
            self.backlog.shrunk.notify_waiters();
        }
    }
}

/// So many answers and notifications may be under way before nothing more is read: each is a connection of its own.
const MAX_UNAWAITED: usize = 64;
