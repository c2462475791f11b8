//! What a node writes to the store without waiting for it: events, and messages to other nodes. One task writes them.
//!
//! A store can be spread over several servers. What cannot be written, because one of them is away, is set aside, so
//! that it does not hold up what goes to the others. Items of one lane stay in their order.

use std::collections::{BTreeSet, HashSet, VecDeque};
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
    /// The items of the lanes that are blocked. They are older than all other items of these lanes.
    set_aside: VecDeque<OutboxItem>,
    /// The lanes of which an item could not be written, until the next attempt.
    blocked: HashSet<Lane>,
    /// The time at which the first of these lanes was blocked.
    blocked_since: Option<Instant>,
    /// The time at which an item could not be written for the last time.
    failed: Option<Instant>,
    /// The size of all items, in bytes.
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
    /// A message to all other nodes that are alive, and the time at which it was added.
    SendToOthers(Instant, Bytes),
    /// Tells that all events of this session before it are written or, without a session, everything before it.
    Flush(Option<Arc<str>>, oneshot::Sender<()>),
}

/// The items that one server of the store has, as far as a node knows: they are written in the order in which they were
/// added.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Lane {
    /// The logs of one session.
    Session(String),
    /// The messages to a node.
    Node(u32),
    /// The messages to the node that has the stream for unsolicited messages of a session.
    Home(Arc<str>),
    /// The messages to all other nodes, before it is known which these are.
    Others,
}

impl OutboxItem {
    /// Returns the lane of the item; `None` if it comes after the items of all lanes.
    fn lane(&self) -> Option<Lane> {
        match self {
            Self::Append(entry) => Some(Lane::Session(first_two_parts(&entry.name).to_owned())),
            Self::Send(to, _) => Some(Lane::Node(*to)),
            Self::SendHome(link, _) => Some(Lane::Home(Arc::clone(&link.session))),
            Self::SendToOthers(..) => Some(Lane::Others),
            Self::Flush(Some(session), _) => Some(Lane::Session(format!("session/{session}"))),
            Self::Flush(None, _) => None,
        }
    }

    fn bytes(&self) -> usize {
        ITEM_BYTES
            + match self {
                Self::Append(entry) => entry.name.len() + entry.entry.len(),
                Self::Send(_, message) | Self::SendHome(_, message) | Self::SendToOthers(_, message) => message.len(),
                Self::Flush(..) => 0,
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

    /// Sends a message to all other nodes that are alive now, or will be when the store is back.
    pub(super) fn send_to_others(&self, message: Bytes) {
        self.add(OutboxItem::SendToOthers(Instant::now(), message));
    }

    /// Adds a message to these nodes in front of all others.
    fn send_first(&self, to: impl Iterator<Item = u32>, message: &Bytes) {
        let mut queue = self.lock();
        for to in to {
            let item = OutboxItem::Send(to, message.clone());
            queue.bytes += item.bytes();
            queue.items.push_front(item);
        }
    }

    /// Waits until everything that was added before is written, or lost. Returns false if that takes too long.
    pub(super) async fn flush(&self) -> bool {
        self.flush_lane(None).await
    }

    /// Waits until all events of a session that were added before are written, or lost. Returns false if that takes too
    /// long.
    pub(super) async fn flush_session(&self, session: &str) -> bool {
        self.flush_lane(Some(session.into())).await
    }

    async fn flush_lane(&self, session: Option<Arc<str>>) -> bool {
        if self.lock().is_done() {
            return true;
        }
        let (written, wait) = oneshot::channel();
        self.add(OutboxItem::Flush(session, written));
        tokio::time::timeout(FLUSH_TIME, wait).await.is_ok()
    }

    fn add(&self, item: OutboxItem) {
        let mut queue = self.lock();
        queue.bytes += item.bytes();
        queue.items.push_back(item);
        let mut lost = 0;
        while queue.bytes > MAX_BYTES && queue.items.len() + queue.set_aside.len() > 1 {
            if let Some(OutboxItem::Send(to, _)) = queue.lose_oldest() {
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
                let pause = if outbox.lock().set_aside.is_empty() { IDLE_TIME } else { RETRY_TIME };
                let _ = tokio::time::timeout(pause, outbox.added.notified()).await;
                continue;
            };
            if let Err(group) = write(&node, group).await {
                outbox.put_back(group);
                // A store that is known to be away says so at once.
                tokio::task::yield_now().await;
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

    /// Takes the first items that can be written at once. Items of lanes that are blocked are set aside.
    fn take_group(&self) -> Option<OutboxGroup> {
        let mut queue = self.lock();
        queue.unblock_if_due();
        let mut entries: Vec<LogEntry> = Vec::new();
        // If some can be written and others cannot, those that can would be written again with each attempt.
        let is_of_one_lane = queue.failed.is_some_and(|at| at.elapsed() < CAREFUL_TIME);
        while let Some(item) = queue.items.front() {
            let belongs = match (entries.first(), item) {
                (None, _) => true,
                (Some(first), OutboxItem::Append(entry)) => {
                    !is_of_one_lane || first_two_parts(&first.name) == first_two_parts(&entry.name)
                }
                (Some(_), _) => false,
            };
            if !belongs || entries.len() == MAX_GROUP {
                break;
            }
            let is_blocked = queue.is_blocked(item);
            let Some(item) = queue.items.pop_front() else { break };
            if is_blocked {
                queue.set_aside.push_back(item);
                continue;
            }
            queue.bytes -= item.bytes();
            queue.is_writing = true;
            match item {
                OutboxItem::Append(entry) => entries.push(entry),
                OutboxItem::Send(to, message) => return Some(OutboxGroup::Send(to, message)),
                OutboxItem::SendHome(link, message) => return Some(OutboxGroup::SendHome(link, message)),
                OutboxItem::SendToOthers(added, message) => return Some(OutboxGroup::SendToOthers(added, message)),
                OutboxItem::Flush(_, written) => return Some(OutboxGroup::Flush(written)),
            }
        }
        queue.is_writing = !entries.is_empty();
        queue.is_writing.then_some(OutboxGroup::Append(entries))
    }

    /// Puts items back that could not be written. If they are of one lane, the lane is blocked.
    fn put_back(&self, group: OutboxGroup) {
        let items: Vec<OutboxItem> = match group {
            OutboxGroup::Append(entries) => entries.into_iter().map(OutboxItem::Append).collect(),
            OutboxGroup::Send(to, message) => vec![OutboxItem::Send(to, message)],
            OutboxGroup::SendHome(link, message) => vec![OutboxItem::SendHome(link, message)],
            OutboxGroup::SendToOthers(added, message) => vec![OutboxItem::SendToOthers(added, message)],
            OutboxGroup::Flush(written) => vec![OutboxItem::Flush(None, written)],
        };
        let mut queue = self.lock();
        queue.failed = Some(Instant::now());
        let lanes: HashSet<Lane> = items.iter().filter_map(OutboxItem::lane).collect();
        if lanes.len() == 1 {
            queue.blocked_since.get_or_insert_with(Instant::now);
            queue.blocked.extend(lanes);
        }
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
    SendToOthers(Instant, Bytes),
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
        OutboxGroup::SendToOthers(added, message) => node.alive_since(*added).await.map(|nodes| {
            let others = nodes.iter().copied().filter(|other| *other != node.number);
            node.outbox.send_first(others, message);
        }),
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
        self.items.is_empty() && self.set_aside.is_empty() && !self.is_writing
    }

    fn is_blocked(&self, item: &OutboxItem) -> bool {
        !self.blocked.is_empty() && item.lane().is_none_or(|lane| self.blocked.contains(&lane))
    }

    /// Lets the items that were set aside be tried again, if it is time.
    fn unblock_if_due(&mut self) {
        let pause = RETRY_TIME + LANE_PAUSE.saturating_mul(u32::try_from(self.blocked.len()).unwrap_or(u32::MAX));
        if self.blocked_since.is_none_or(|since| since.elapsed() < pause.min(MAX_RETRY_TIME)) {
            return;
        }
        self.blocked_since = None;
        self.blocked.clear();
        self.set_aside.append(&mut self.items);
        std::mem::swap(&mut self.items, &mut self.set_aside);
    }

    fn lose_oldest(&mut self) -> Option<OutboxItem> {
        let item = self.set_aside.pop_front().or_else(|| self.items.pop_front())?;
        self.bytes -= item.bytes();
        Some(item)
    }
}

/// Returns the first two parts of a name: names of which these are equal belong together.
fn first_two_parts(name: &str) -> &str {
    name.match_indices('/').nth(1).map_or(name, |(end, _)| &name[..end])
}

/// The maximum size of the queue, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The approximate memory of an item besides its texts, in bytes.
const ITEM_BYTES: usize = 128;

/// The maximum number of entries that are written at once.
const MAX_GROUP: usize = 256;

/// The time after a failure for which only items of one lane are written at once.
const CAREFUL_TIME: Duration = Duration::from_secs(1);

/// The time between two attempts, to which something is added for each lane, and its maximum.
const RETRY_TIME: Duration = Duration::from_millis(200);
const LANE_PAUSE: Duration = Duration::from_millis(1);
const MAX_RETRY_TIME: Duration = Duration::from_secs(2);

const IDLE_TIME: Duration = Duration::from_secs(1);
const FLUSH_TIME: Duration = Duration::from_secs(5);

#[cfg(all(test, not(barewire_loom)))]
mod tests {
    use super::*;

    fn add(outbox: &Outbox, session: &str, text: &'static str) {
        let name = format!("session/{session}/events");
        outbox.append(LogEntry { name, entry: text.into(), keep: 10, lifetime: IDLE_TIME });
    }

    fn texts(group: &Option<OutboxGroup>) -> Vec<&[u8]> {
        match group {
            Some(OutboxGroup::Append(entries)) => entries.iter().map(|entry| &entry.entry[..]).collect(),
            _ => Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_cannot_be_written_keeps_its_order_and_does_not_hold_up_others() {
        let outbox = Outbox::default();
        ["1", "2"].into_iter().for_each(|text| add(&outbox, "away", text));
        add(&outbox, "there", "3");
        add(&outbox, "away", "4");
        let fail = |expected: &[&[u8]]| {
            let group = outbox.take_group();
            assert_eq!(texts(&group), expected);
            outbox.put_back(group.expect("a group"));
        };
        fail(&[b"1", b"2", b"3", b"4"]);
        fail(&[b"1", b"2"]);
        assert_eq!(texts(&outbox.take_group()), [b"3"]);
        add(&outbox, "away", "5");
        outbox.send(7, Bytes::new());
        assert!(matches!(outbox.take_group(), Some(OutboxGroup::Send(7, _))));
        assert!(outbox.take_group().is_none() && !outbox.lock().is_done());
        tokio::time::advance(RETRY_TIME * 2).await;
        fail(&[b"1", b"2", b"4", b"5"]);
        assert!(outbox.take_group().is_none());
        tokio::time::advance(RETRY_TIME * 2).await;
        assert_eq!(texts(&outbox.take_group()), [b"1", b"2", b"4", b"5"]);
        assert!(outbox.take_group().is_none() && outbox.lock().is_done());
        assert_eq!(outbox.lock().bytes, 0);
    }
}
