//! The open sessions of a server, and which of them ends when there is no room for a new one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::mailbox::StreamPosition;
use super::sender::Sender;
use super::session::{Session, SessionUse};
use super::{HttpLimits, Principal};
use crate::log::Log;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// All open sessions of a server.
#[derive(Default)]
pub(super) struct Sessions {
    table: Mutex<SessionTable>,
}

#[derive(Default)]
struct SessionTable {
    by_id: HashMap<Arc<str>, Arc<Session>>,
    /// The sessions that have sent nothing since `initialize`, oldest first.
    silent: BTreeMap<u64, Arc<Session>>,
    last_number: u64,
}

/// The reason why a session is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// The client has sent `initialize`, and nothing since.
    Initialize,
    /// The session was opened before, and the store of the cluster has it.
    Copy,
}

/// The state of one session that belongs to the table.
#[derive(Default)]
pub(super) struct SessionEntry {
    /// The number of the session among those that have sent nothing since `initialize`, or 0 if it is not one of them.
    /// Changes only while the table is locked.
    silent_number: AtomicU64,
    /// Whether the session counts towards the limit for sessions.
    has_place: AtomicBool,
}

impl SessionEntry {
    /// Whether the session has sent nothing since `initialize`.
    pub(super) fn is_silent(&self) -> bool {
        self.silent_number.load(Ordering::Acquire) != 0
    }

    /// Gives the place of the session back to its sender, if the session still has it.
    pub(super) fn leave(&self, sender: &Sender) {
        if self.has_place.swap(false, Ordering::AcqRel) {
            sender.end_session();
        }
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session with this id, marked as in use, if it is open and belongs to this principal; otherwise
    /// `None`, as for an unknown id.
    pub(super) fn find(&self, id: &str, principal: Option<&Principal>) -> Option<SessionUse> {
        let mut table = self.lock();
        let session = table.by_id.get(id).filter(|session| session.is_open_to(principal))?;
        // The session is marked while the table is locked, so that it is not ended for a new session now.
        let session_use = session.begin_use();
        table.speaks(session_use.session());
        Some(session_use)
    }

    /// Returns the session with this id, marked as in use, if it is open, without a check of the principal: for other
    /// nodes of the cluster.
    pub(super) fn find_for_node(&self, id: &str) -> Option<SessionUse> {
        // It is marked while the table is locked, so that it is not dropped now.
        self.lock().by_id.get(id).filter(|session| !session.is_over()).map(Session::begin_use)
    }

    /// Adds a session that was opened here. If there is no room, a session that is not in use makes room for it.
    /// Returns the session marked as in use, or `None` if there is no room.
    pub(super) fn admit(&self, session: &Arc<Session>, log: &Log) -> Option<SessionUse> {
        self.add(session, log, Beginning::Initialize)
    }

    /// Adds a copy of a session of the cluster, unless there is one, which another request has made at the same time.
    /// Returns the copy that is here, marked as in use, or `None` if there is no room.
    pub(super) fn admit_copy(&self, session: &Arc<Session>, log: &Log) -> Option<SessionUse> {
        self.add(session, log, Beginning::Copy)
    }

    fn add(&self, session: &Arc<Session>, log: &Log, beginning: Beginning) -> Option<SessionUse> {
        let mut table = self.lock();
        if let Some(known) = table.by_id.get(&session.id).filter(|known| !known.is_over()) {
            return Some(known.begin_use());
        }
        let evicted = if session.sender.begin_session() {
            None
        } else if session.link.is_some() {
            // In a cluster, copies are dropped, not sessions: see `drop_copy`.
            return None;
        } else {
            let evicted = table.find_evictable(&session.sender)?;
            if !evicted.entry.is_silent() {
                log.report(format_args!("a session that was not in use was ended, to make room for another client"));
            }
            table.remove(&evicted);
            evicted.entry.leave(&evicted.sender);
            // Places are taken only while the table is locked, so no other session has taken this one.
            if !session.sender.begin_session() {
                return None;
            }
            Some(evicted)
        };
        session.entry.has_place.store(true, Ordering::Release);
        table.add(session, beginning);
        let session_use = session.begin_use();
        drop(table);
        if let Some(evicted) = evicted {
            evicted.end();
        }
        Some(session_use)
    }

    /// Returns copies of sessions of the cluster that could be dropped, and that nobody has used for this time: up to
    /// `max` of them, those first that were unused for the longest time.
    pub(super) fn idle_copies(&self, unused: Duration, max: usize) -> Vec<Arc<Session>> {
        let now = Instant::now();
        let is_due = |used: Instant| now.duration_since(used) >= unused;
        let table = self.lock();
        let copies = table.by_id.values().filter(|session| session.link.is_some() && session.is_idle());
        let mut due: Vec<_> = copies.map(|copy| (copy.last_used(), copy)).filter(|(used, _)| is_due(*used)).collect();
        due.sort_unstable_by_key(|(used, _)| *used);
        due.into_iter().map(|(_, copy)| copy).filter(|copy| copy.is_quiet()).take(max).cloned().collect()
    }

    /// Drops the copy of a session of the cluster. `left_at` is where its stream for messages that belong to no request
    /// will go on, if that was saved. Returns `false`, and does nothing, if the copy has been used since.
    pub(super) fn drop_copy(&self, session: &Session, left_at: Option<StreamPosition>) -> bool {
        let mut table = self.lock();
        // A use begins while the table is locked, so none begins now.
        let is_dropped = session.is_quiet() && left_at.is_none_or(|position| session.unsolicited().close_at(position));
        if is_dropped {
            table.remove(session);
            drop(table);
            session.entry.leave(&session.sender);
            session.end();
        }
        is_dropped
    }

    /// Removes a session that has been unused for longer than the limit. Returns `false` if it has not been.
    pub(super) fn remove_if_expired(&self, session: &Arc<Session>, limits: &HttpLimits) -> bool {
        let mut table = self.lock();
        let is_expired = session.is_expired(limits);
        if is_expired {
            table.remove(session);
        }
        is_expired
    }

    pub(super) fn remove(&self, session: &Session) {
        self.lock().remove(session);
    }

    /// Ends a session and removes it, so that later requests with its id are refused.
    pub(super) fn end(&self, session: &Session) {
        self.remove(session);
        session.end();
    }

    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.lock().by_id.values().cloned().collect()
    }
}

impl SessionTable {
    fn add(&mut self, session: &Arc<Session>, beginning: Beginning) {
        if beginning == Beginning::Initialize {
            self.last_number += 1;
            session.entry.silent_number.store(self.last_number, Ordering::Release);
            self.silent.insert(self.last_number, Arc::clone(session));
        }
        self.by_id.insert(Arc::clone(&session.id), Arc::clone(session));
    }

    fn remove(&mut self, session: &Session) {
        // In a cluster, a session that has ended here may be here again.
        if self.by_id.get(&session.id).is_some_and(|known| std::ptr::eq(&**known, session)) {
            self.by_id.remove(&session.id);
        }
        self.speaks(session);
    }

    /// Removes a session from those that have sent nothing since `initialize`.
    fn speaks(&mut self, session: &Session) {
        let number = session.entry.silent_number.swap(0, Ordering::AcqRel);
        if number != 0 {
            self.silent.remove(&number);
        }
    }

    /// Returns the session that ends if this sender opens another one and there is no room.
    ///
    /// | the sender has | the session that ends |
    /// |---|---|
    /// | fewer sessions than its share | the oldest that has sent nothing since `initialize`; if there is none, the one that was unused for the longest time, of the sender that has the most sessions, if these are more than its share |
    /// | its share, or more | the oldest that has sent nothing since `initialize`, if its sender also has its share or more |
    ///
    /// A session with a running request or an open stream never ends.
    fn find_evictable(&self, sender: &Sender) -> Option<Arc<Session>> {
        let is_below = sender.is_below_share();
        if let Some((_, oldest)) = self.silent.first_key_value()
            && (is_below || !oldest.sender.is_below_share())
        {
            return Some(Arc::clone(oldest));
        }
        if !is_below {
            return None;
        }
        // All sessions are looked at. A sender cannot make the server do this often: only one with fewer sessions than
        // its share can, and each time it has one more.
        let idle = self.by_id.values().filter(|session| session.sender.is_above_share() && session.is_idle());
        idle.min_by_key(|session| (Reverse(session.sender.sessions()), session.last_used())).cloned()
    }
}
