//! The mailboxes of a legacy session, and the outlet that adds each outgoing message to the right one.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use barewire_proto::http::EventId;
use bytes::Bytes;

use super::cluster::SessionLink;
use super::mailbox::{Mailbox, MailboxShared, StreamReader, UnsolicitedStart};
use super::sender::ExchangeGuard;
use crate::peer::{Exchange, MessageKind, Outlet, Room};
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, MutexGuard};

/// The open mailboxes of a session: those to which messages can still be added.
pub(super) struct Mailboxes {
    open: Mutex<HashMap<u64, Arc<Mailbox>>>,
    /// The mailbox for messages that belong to no request: the stream that the client opens with GET.
    pub(super) unsolicited: Arc<Mailbox>,
    shared: MailboxShared,
}

/// A stream that another connection continues.
pub(super) struct ResumedStream {
    /// The reader, if messages can still be added to the stream.
    pub(super) reader: Option<StreamReader>,
    /// Stored events to send first. The reader can get the last ones again.
    pub(super) replay: Vec<(EventId, Bytes)>,
}

impl Mailboxes {
    /// Creates the mailboxes of a session. `unsolicited` is the stream for messages that belong to no request.
    pub(super) fn new(shared: MailboxShared, unsolicited: UnsolicitedStart) -> Arc<Self> {
        let unsolicited = Mailbox::unsolicited(unsolicited, shared.clone());
        Arc::new(Self { open: Mutex::default(), unsolicited, shared })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Mailbox>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a mailbox for an exchange.
    pub(super) fn open(&self, exchange: Exchange, requests: Bytes, guard: Option<ExchangeGuard>) -> Arc<Mailbox> {
        let mailbox = Mailbox::new(exchange.0, requests, self.shared.clone(), guard);
        self.lock().insert(exchange.0, Arc::clone(&mailbox));
        mailbox
    }

    /// Drops the stored events of the session.
    pub(super) fn forget(&self) {
        self.shared.events.forget(&self.shared.session);
    }

    /// Resumes a stream after the event `id`: fetches the stored events, and makes the caller the reader of the stream
    /// if it is still open. Returns `None` if some of the events are no longer stored.
    pub(super) async fn resume(&self, id: EventId) -> Option<ResumedStream> {
        let MailboxShared { session, events, .. } = &self.shared;
        // The events are fetched before the stream is taken over, because another connection may still be reading it.
        let before = events.after(session, id).await;
        let is_stored = before.is_some();
        let mailbox = self.find(id.stream).filter(|mailbox| mailbox.is_stream());
        let mut replay = match (before, &mailbox) {
            (Some(before), _) => before,
            // The client already has all events, so it does not matter that the store has none.
            (None, Some(mailbox)) if mailbox.last_taken() == id.sequence => Vec::new(),
            (None, _) => return None,
        };
        let reader = mailbox.clone().map(StreamReader::open);
        // The reader gets what follows this. Only the reader takes messages, so it stays so until it is polled.
        let taken = mailbox.map_or(0, |mailbox| mailbox.last_taken());
        // Adds the events that were sent while the earlier events were fetched. The reader gets later events itself; if
        // there is no reader, there are none.
        let last = replay.last().map_or(id, |(last, _)| *last);
        match events.after(session, last).await {
            Some(later) => replay.extend(later),
            // Events that were sent in the meantime could be missing. The client tries again.
            None if is_stored => return None,
            None => {}
        }
        // A store that has refused an event may not know that it is missing.
        let last = replay.last().map_or(id, |(last, _)| *last);
        (last.sequence >= taken).then_some(ResumedStream { reader, replay })
    }

    /// Returns the mailbox of a stream, if messages can still be added to it.
    fn find(&self, stream: u64) -> Option<Arc<Mailbox>> {
        if stream == self.unsolicited.stream {
            return Some(Arc::clone(&self.unsolicited));
        }
        self.lock().get(&stream).cloned()
    }

    /// Whether messages can still be added to this stream.
    pub(super) fn is_open(&self, stream: u64) -> bool {
        self.find(stream).is_some()
    }

    /// Adds a message that belongs to no request, and that another node of the cluster has sent here.
    pub(super) fn push_unsolicited(&self, message: Bytes) {
        self.unsolicited.push(message, MessageKind::Notification);
    }

    /// Marks all mailboxes of the session as finished.
    pub(super) fn finish(&self) {
        for mailbox in self.lock().drain().map(|(_, mailbox)| mailbox) {
            mailbox.finish();
        }
        self.unsolicited.finish();
    }
}

/// The outlet of a session: adds each outgoing message to the mailbox of its exchange.
pub(super) struct SessionOutlet {
    mailboxes: Arc<Mailboxes>,
    /// The session in the cluster, if there is one: another node may have the stream for unsolicited messages.
    link: Option<Arc<SessionLink>>,
    room: Room,
    last: Option<Arc<Mailbox>>,
}

impl SessionOutlet {
    pub(super) fn new(mailboxes: Arc<Mailboxes>, link: Option<Arc<SessionLink>>, room: Room) -> Self {
        Self { mailboxes, link, room, last: None }
    }
}

impl Outlet for SessionOutlet {
    const WRITES_NULL_ID: bool = false;

    fn send(&mut self, exchange: Exchange, write: impl FnOnce(&mut Vec<u8>) -> MessageKind) {
        let mut message = Vec::with_capacity(USUAL_MESSAGE_BYTES);
        let sent = write(&mut message);
        let is_answer = sent.is_answer();
        let mailbox = self.mailboxes.lock().get(&exchange.0).cloned();
        let mailbox = match mailbox {
            Some(mailbox) if is_answer || mailbox.is_reachable() => mailbox,
            // A response without a mailbox is dropped. A notification about a request is dropped if the client
            // disconnected before the response started.
            _ if is_answer || (exchange != Exchange::NONE && sent == MessageKind::Notification) => {
                self.last = None;
                return;
            }
            _ => {
                if let Some(link) = self.link.as_ref().filter(|link| !link.is_home()) {
                    SessionLink::send_home(link, message.into());
                    self.last = None;
                    return;
                }
                Arc::clone(&self.mailboxes.unsolicited)
            }
        };
        mailbox.push(message.into(), sent);
        if is_answer {
            // Only now, so that a client which finds no mailbox finds the answer in the event store.
            self.mailboxes.lock().remove(&exchange.0);
        }
        self.last = Some(mailbox);
    }

    fn hold_permits(&mut self, permits: usize) {
        let permits = self.room.hold(permits);
        if let Some(mailbox) = self.last.take() {
            mailbox.attach_permits(permits);
        }
    }

    fn len(&self) -> usize {
        self.mailboxes.shared.waiting.load(Ordering::Relaxed)
    }

    fn end_exchange(&mut self, exchange: Exchange) {
        if let Some(mailbox) = self.mailboxes.lock().remove(&exchange.0) {
            mailbox.end_without_answer();
        }
    }

    fn hang_up(&mut self, exchange: Exchange, retry: Duration) {
        if let Some(mailbox) = self.mailboxes.lock().get(&exchange.0) {
            mailbox.hang_up(retry);
        }
    }
}

/// The initial size of the buffer for a message, in bytes. Most messages are shorter.
const USUAL_MESSAGE_BYTES: usize = 256;
