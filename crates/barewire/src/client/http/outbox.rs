//! What the engine sends -> letters, each of which becomes a request of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use barewire_proto::session::CallId;
use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use crate::peer::{Exchange, MessageKind, Outlet, Permits, Room};

/// A message on its way to the server.
pub(super) struct Letter {
    pub(super) message: Bytes,
    pub(super) sent: MessageKind,
    hold: Arc<Hold>,
}

/// What the engine wants done.
pub(super) enum Job {
    Send(Letter),
    /// Nobody waits for this call any more, and the server is not told.
    Forget(CallId),
}

/// Takes the messages of a connection.
pub(super) struct Outbox {
    room: Room,
    jobs: mpsc::UnboundedSender<Job>,
    backlog: Arc<Backlog>,
    /// What the last letter holds, if it has not been sent in the meantime.
    last: Weak<Hold>,
}

/// What waits to be taken by the server.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    /// Of these, how many nobody of ours waits for: a server that asks more than it takes answers would pile them up.
    unawaited: AtomicUsize,
    fewer: Notify,
}

/// What a letter takes of the room there is, until the server has it.
pub(super) struct Hold {
    permits: OnceLock<Permits>,
    backlog: Arc<Backlog>,
    bytes: usize,
    is_awaited: bool,
}

impl Letter {
    /// What it holds, to be let go when the server has it.
    pub(super) fn into_parts(self) -> (Bytes, Arc<Hold>) {
        (self.message, self.hold)
    }
}

impl Outbox {
    pub(super) fn new(room: Room, jobs: mpsc::UnboundedSender<Job>, backlog: Arc<Backlog>) -> Self {
        Self { room, jobs, backlog, last: Weak::new() }
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
        let hold = Arc::new(Hold { permits: OnceLock::new(), backlog, bytes, is_awaited });
        self.last = Arc::downgrade(&hold);
        // If nobody takes it, the connection is over.
        let _ = self.jobs.send(Job::Send(Letter { message: message.into(), sent, hold }));
    }

    fn hold_permits(&mut self, permits: usize) {
        let permits = self.room.hold(permits);
        if let Some(last) = self.last.upgrade() {
            let _ = last.permits.set(permits);
        }
    }

    fn len(&self) -> usize {
        self.backlog.bytes.load(Ordering::Relaxed)
    }

    fn forget_call(&mut self, call: CallId) {
        let _ = self.jobs.send(Job::Forget(call));
    }
}

impl Backlog {
    /// Waits until the server has taken most of what it was told and answered.
    pub(super) async fn settle(&self) {
        loop {
            let fewer = self.fewer.notified();
            if self.unawaited.load(Ordering::Acquire) < MOST_UNAWAITED {
                return;
            }
            fewer.await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if !self.is_awaited {
            self.backlog.unawaited.fetch_sub(1, Ordering::Release);
            self.backlog.fewer.notify_waiters();
        }
    }
}

/// So many answers and notifications may be under way before nothing more is read: each is a connection of its own.
const MOST_UNAWAITED: usize = 64;
