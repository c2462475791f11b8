//! What a node writes to the store without waiting for it: events, and messages to other nodes. One task writes them, in
//! order.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::link::SessionLink;
use super::message::NodeMessage;
use super::node::ClusterNode;
use super::store::{LogEntry, StoreError};
use crate::log::TARGET;

/// The queue of what is still to be written. It is bounded: if the store is away for long, the oldest items are lost.
#[derive(Default)]
pub(super) struct Outbox {
    queue: Mutex<OutboxQueue>,
    added: Notify,
}

#[derive(Default)]
struct OutboxQueue {
    items: VecDeque<OutboxItem>,
    bytes: usize,
    /// Whether items were lost since the queue was last within its limit.
    has_lost: bool,
    /// Whether items that were taken from the queue are being written.
    is_writing: bool,
    /// The nodes that do not know yet that messages to them are lost.
    lost_to: BTreeSet<u32>,
}

enum OutboxItem {
    Append(LogEntry),
    Send(u32, Bytes),
    /// A message that belongs to no request, to the node that has the stream for such messages.
    SendHome(Arc<SessionLink>, Bytes),
    /// Tells that everything before it is written.
    Flush(oneshot::Sender<()>),
}

impl OutboxItem {
    fn bytes(&self) -> usize {
        ITEM_BYTES
            + match self {
                Self::Append(entry) => entry.name.len() + entry.entry.len(),
                Self::Send(_, message) | Self::SendHome(_, message) => message.len(),
                Self::Flush(_) => 0,
            }
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, OutboxQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an entry to a log.
    pub(super) fn append(&self, entry: LogEntry) {
        self.add(OutboxItem::Append(entry));
    }

    /// Sends a message to a node.
    pub(super) fn send(&self, to: u32, message: Bytes) {
        self.add(OutboxItem::Send(to, message));
    }

    /// Sends a message to the node that has the stream for unsolicited messages of a session.
    pub(super) fn send_home(&self, link: &Arc<SessionLink>, message: Bytes) {
        self.add(OutboxItem::SendHome(Arc::clone(link), message));
    }

    /// Waits until everything that was added before is written, or lost. Returns false if that takes too long.
    pub(super) async fn flush(&self) -> bool {
        if self.lock().is_done() {
            return true;
        }
        let (written, wait) = oneshot::channel();
        self.add(OutboxItem::Flush(written));
        tokio::time::timeout(FLUSH_TIME, wait).await.is_ok()
    }

    fn add(&self, item: OutboxItem) {
        let mut queue = self.lock();
        queue.bytes += item.bytes();
        queue.items.push_back(item);
        let mut lost = 0;
        while queue.bytes > MAX_BYTES && queue.items.len() > 1 {
            if let Some(OutboxItem::Send(to, _)) = queue.take_first() {
                queue.lost_to.insert(to);
            }
            lost += 1;
        }
        let is_first_loss = lost > 0 && !std::mem::replace(&mut queue.has_lost, lost > 0);
        drop(queue);
        if is_first_loss {
            tracing::warn!(target: TARGET, "the store of the cluster is away for so long that events are lost");
        }
        self.added.notify_one();
    }

    /// Writes what is added, until the node is dropped.
    pub(super) async fn run(node: Weak<ClusterNode>) {
        let mut last_told = None;
        while let Some(node) = node.upgrade() {
            let outbox = &node.outbox;
            outbox.tell_losses(&node, &mut last_told).await;
            let Some(group) = outbox.take_group() else {
                // A node that is dropped in the meantime is noticed at the next wake-up.
                let _ = tokio::time::timeout(IDLE_TIME, outbox.added.notified()).await;
                continue;
            };
            if let Err(group) = write(&node, group).await {
                outbox.put_back(group);
                tokio::time::sleep(RETRY_TIME).await;
            }
        }
    }

    /// Tells the nodes that messages to them are lost, if it is some time since that was last tried.
    async fn tell_losses(&self, node: &ClusterNode, last_told: &mut Option<Instant>) {
        let lost_to = self.lock().lost_to.clone();
        if lost_to.is_empty() || last_told.is_some_and(|at| at.elapsed() < RETRY_TIME) {
            return;
        }
        *last_told = Some(Instant::now());
        let message = NodeMessage::Lost { node: node.number }.write(b"");
        for to in lost_to {
            if node.watch(node.store.send(to, message.clone()).await).is_ok() {
                self.lock().lost_to.remove(&to);
            }
        }
    }

    /// Takes the first items that can be written at once.
    fn take_group(&self) -> Option<OutboxGroup> {
        let mut queue = self.lock();
        queue.is_writing = !queue.items.is_empty();
        let mut entries = Vec::new();
        while entries.len() < MAX_GROUP && matches!(queue.items.front(), Some(OutboxItem::Append(_))) {
            let Some(OutboxItem::Append(entry)) = queue.take_first() else { break };
            entries.push(entry);
        }
        if !entries.is_empty() {
            return Some(OutboxGroup::Append(entries));
        }
        match queue.take_first()? {
            OutboxItem::Append(entry) => Some(OutboxGroup::Append(vec![entry])),
            OutboxItem::Send(to, message) => Some(OutboxGroup::Send(to, message)),
            OutboxItem::SendHome(link, message) => Some(OutboxGroup::SendHome(link, message)),
            OutboxItem::Flush(written) => Some(OutboxGroup::Flush(written)),
        }
    }

    fn put_back(&self, group: OutboxGroup) {
        let items: Vec<OutboxItem> = match group {
            OutboxGroup::Append(entries) => entries.into_iter().map(OutboxItem::Append).collect(),
            OutboxGroup::Send(to, message) => vec![OutboxItem::Send(to, message)],
            OutboxGroup::SendHome(link, message) => vec![OutboxItem::SendHome(link, message)],
            OutboxGroup::Flush(written) => vec![OutboxItem::Flush(written)],
        };
        let mut queue = self.lock();
        for item in items.into_iter().rev() {
            queue.bytes += item.bytes();
            queue.items.push_front(item);
        }
    }
}

/// Items that are written at once.
enum OutboxGroup {
    Append(Vec<LogEntry>),
    Send(u32, Bytes),
    SendHome(Arc<SessionLink>, Bytes),
    Flush(oneshot::Sender<()>),
}

/// Writes some items. Returns them if the store is away, so that they are tried again.
async fn write(node: &ClusterNode, group: OutboxGroup) -> Result<(), OutboxGroup> {
    let result = match &group {
        OutboxGroup::Append(entries) => node.store.append(entries.clone()).await,
        OutboxGroup::Send(to, message) => node.store.send(*to, message.clone()).await,
        OutboxGroup::SendHome(link, message) => {
            // If that node is dead, this one takes its place when it handles the message.
            let home = link.home();
            let to = if node.is_alive(home).await { home } else { node.number };
            node.store.send(to, message.clone()).await
        }
        OutboxGroup::Flush(_) => Ok(()),
    };
    match (node.watch(result), group) {
        (Ok(()), OutboxGroup::Flush(written)) => {
            let _ = written.send(());
            Ok(())
        }
        // A store that is full stays full: to try again would only delay what follows.
        (Err(StoreError::Refused(_)), OutboxGroup::Send(to, _)) => {
            node.outbox.lock().lost_to.insert(to);
            Ok(())
        }
        (Ok(()) | Err(StoreError::Refused(_)), _) => Ok(()),
        (Err(StoreError::Away(_)), group) => Err(group),
    }
}

impl OutboxQueue {
    fn is_done(&self) -> bool {
        self.items.is_empty() && !self.is_writing
    }

    fn take_first(&mut self) -> Option<OutboxItem> {
        let item = self.items.pop_front()?;
        self.bytes -= item.bytes();
        Some(item)
    }
}

/// The maximum size of the queue, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The approximate memory of an item besides its texts, in bytes.
const ITEM_BYTES: usize = 128;

/// The maximum number of entries that are written at once.
const MAX_GROUP: usize = 256;

const RETRY_TIME: Duration = Duration::from_millis(200);
const IDLE_TIME: Duration = Duration::from_secs(1);
const FLUSH_TIME: Duration = Duration::from_secs(5);
