//! Queues the engine's messages as commands for the task that makes the HTTP requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use barewire_proto::session::CallId;
use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use crate::peer::{Exchange, MessageKind, Outlet, Permits, Room};

/// A message that is to be sent to the server.
pub(super) struct OutgoingMessage {
    pub(super) message: Bytes,
    pub(super) sent: MessageKind,
    reservation: Arc<Reservation>,
}

/// A command from the engine to the task that makes the HTTP requests.
pub(super) enum OutboxCommand {
    Send(OutgoingMessage),
    /// Abort the request of this call without a cancellation message.
    Forget(CallId),
}

/// The outlet of a connection. It queues the engine's messages instead of writing them.
pub(super) struct Outbox {
    room: Room,
    commands: mpsc::UnboundedSender<OutboxCommand>,
    backlog: Arc<Backlog>,
    /// The reservation of the last message, until the server accepts that message.
    last_reservation: Weak<Reservation>,
}

/// The size and number of the messages that the server has not accepted yet.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    /// The number of messages that expect no response. It is limited, because the client's responses would pile up if a
    /// server sent requests faster than it accepts the responses.
    unawaited: AtomicUsize,
    shrunk: Notify,
}

/// The share of a message in the backlog. It is dropped when the server has accepted the message.
pub(super) struct Reservation {
    permits: OnceLock<Permits>,
    backlog: Arc<Backlog>,
    bytes: usize,
    is_awaited: bool,
}

impl OutgoingMessage {
    /// Returns the message and its reservation. The caller drops the reservation when the server has accepted the
    /// message.
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
    const WRITES_NULL_ID: bool = false;

    fn send(&mut self, _: Exchange, write: impl FnOnce(&mut Vec<u8>) -> MessageKind) {
        let mut message = Vec::new();
        let sent = write(&mut message);
        let (bytes, is_awaited) = (message.len(), matches!(sent, MessageKind::Call(_)));
        self.backlog.bytes.fetch_add(bytes, Ordering::Relaxed);
        if !is_awaited {
            self.backlog.unawaited.fetch_add(1, Ordering::Relaxed);
        }
        let backlog = Arc::clone(&self.backlog);
        let reservation = Arc::new(Reservation { permits: OnceLock::new(), backlog, bytes, is_awaited });
        self.last_reservation = Arc::downgrade(&reservation);
        // If there is no receiver, the connection has ended, and the message is dropped.
        let _ = self.commands.send(OutboxCommand::Send(OutgoingMessage { message: message.into(), sent, reservation }));
    }

    fn hold_permits(&mut self, permits: usize) {
        let permits = self.room.hold(permits);
        if let Some(last) = self.last_reservation.upgrade() {
            let _ = last.permits.set(permits);
        }
    }

    fn len(&self) -> usize {
        self.backlog.bytes.load(Ordering::Relaxed)
    }

    fn forget_call(&mut self, call: CallId) {
        let _ = self.commands.send(OutboxCommand::Forget(call));
    }
}

impl Backlog {
    /// Waits until fewer than [`MAX_UNAWAITED`] notifications and responses wait for the server to accept them.
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

/// The maximum number of responses and notifications in flight, each of which needs a separate HTTP connection. At this
/// number the client stops reading messages.
const MAX_UNAWAITED: usize = 64;
