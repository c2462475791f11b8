//! Items to write -> groups of them that can be written at once, in the order of each lane.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::super::link::SessionLink;
use super::super::store::{LogEntry, MAX_LOG_BYTES};

/// What waits to be written, and what is being written.
#[derive(Default)]
pub(super) struct OutboxQueue {
    /// The lanes of which items wait or are being written.
    pub(super) lanes: HashMap<Lane, LaneQueue>,
    /// The lanes of logs that can be written, in this order. A lane that is there twice is written once.
    ready_logs: VecDeque<Lane>,
    /// The other lanes that can be written.
    ready_messages: VecDeque<Lane>,
    /// The lanes of which an item could not be written, until the next attempt.
    blocked: Vec<Lane>,
    /// The time at which the first of these lanes was blocked.
    blocked_since: Option<Instant>,
    /// The time at which an item could not be written for the last time.
    failed: Option<Instant>,
    /// The size of all items that wait, in bytes.
    pub(super) bytes: usize,
    /// Whether items were lost since everything was written.
    has_lost: bool,
    /// The number of the last item.
    last_number: u64,
    /// The number of writes to logs that are in flight.
    log_writes: usize,
    /// The number of other writes that are in flight.
    message_writes: usize,
}

/// The items that one server of the store has, as far as a node knows: they are written in the order in which they were
/// added.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// The logs of one session.
    Session(Arc<str>),
    /// The messages to a node.
    Node(u32),
    /// The messages to the node that has the stream for unsolicited messages of a session.
    Home(Arc<str>),
    /// The messages to all other nodes, before it is known which these are.
    Others,
}

impl Lane {
    /// Returns the lane of the logs of a session.
    pub(super) fn of_session(session: &str) -> Self {
        Self::Session(format!("session/{session}").into())
    }

    /// Returns the lane of a log.
    pub(super) fn of_log(name: &str) -> Self {
        Self::Session(first_two_parts(name).into())
    }

    fn is_of_logs(&self) -> bool {
        matches!(self, Self::Session(_))
    }
}

#[derive(Default)]
pub(super) struct LaneQueue {
    pub(super) items: VecDeque<OutboxItem>,
    /// The size of these items, in bytes.
    pub(super) bytes: usize,
    state: LaneState,
    /// Whether messages to the node of this lane are lost, and it does not know that yet.
    pub(super) has_lost: bool,
}

impl LaneQueue {
    /// Removes the first item, if it is such an item.
    fn pop_if(&mut self, is_such: impl FnOnce(&OutboxItem) -> bool) -> Option<OutboxItem> {
        let item = self.items.front().is_some_and(is_such).then(|| self.items.pop_front())??;
        self.bytes -= item.bytes();
        Some(item)
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LaneState {
    /// It is among the lanes that can be written.
    #[default]
    Ready,
    /// The item of this number and those after it are being written.
    Writing(u64),
    /// It is among the lanes that are blocked.
    Blocked,
}

pub(super) struct OutboxItem {
    /// The number of the item, which is greater than those of all items that were added before.
    number: u64,
    pub(super) content: ItemContent,
}

pub(super) enum ItemContent {
    Append(LogEntry),
    Send(Bytes),
    /// A message about a stream of the session with this lane, and the room that it takes.
    SendOfStream {
        message: Bytes,
        session: Lane,
        _room: [OwnedSemaphorePermit; 2],
    },
    /// A message that belongs to no request, to the node that has the stream for such messages.
    SendHome(Arc<SessionLink>, Bytes),
    /// A message to all other nodes that are alive, and the time at which it was added.
    SendToOthers(Instant, Bytes),
    /// Tells that all items of the lane before it are written, by being dropped.
    Flush {
        _written: mpsc::Sender<()>,
    },
}

impl OutboxItem {
    fn bytes(&self) -> usize {
        ITEM_BYTES
            + match &self.content {
                ItemContent::Append(entry) => entry.name.len() + entry.entry.len(),
                ItemContent::Send(message)
                | ItemContent::SendOfStream { message, .. }
                | ItemContent::SendHome(_, message)
                | ItemContent::SendToOthers(_, message) => message.len(),
                ItemContent::Flush { .. } => 0,
            }
    }

    /// Returns the message to another node, if it is one.
    pub(super) fn message(&self) -> Option<Bytes> {
        match &self.content {
            ItemContent::Send(message)
            | ItemContent::SendOfStream { message, .. }
            | ItemContent::SendHome(_, message)
            | ItemContent::SendToOthers(_, message) => Some(message.clone()),
            ItemContent::Append(_) | ItemContent::Flush { .. } => None,
        }
    }
}

/// Items that are written with one round trip: those of logs, or those of one lane of messages.
#[derive(Default)]
pub(super) struct OutboxGroup {
    pub(super) lanes: Vec<(Lane, Vec<OutboxItem>)>,
    /// Whether the node that the messages go to is first told that others are lost.
    pub(super) tells_loss: bool,
}

impl OutboxGroup {
    pub(super) fn is_of_logs(&self) -> bool {
        self.lanes.iter().all(|(lane, _)| lane.is_of_logs())
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &OutboxItem> {
        self.lanes.iter().flat_map(|(_, items)| items)
    }
}

/// The room that is left in a group.
struct GroupRoom {
    items: usize,
    bytes: usize,
}

impl GroupRoom {
    fn is_full(&self) -> bool {
        self.items == 0 || self.bytes == 0
    }

    /// Takes room for an item. One that is too long is the last one.
    fn add(&mut self, bytes: usize) {
        self.items = self.items.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

const EMPTY_GROUP: GroupRoom = GroupRoom { items: MAX_GROUP, bytes: MAX_GROUP_BYTES };

impl OutboxQueue {
    /// Returns the lanes of which items wait or are being written.
    pub(super) fn busy_lanes(&self) -> Vec<Lane> {
        self.lanes.keys().cloned().collect()
    }

    pub(super) fn is_busy(&self, lane: &Lane) -> bool {
        self.lanes.contains_key(lane)
    }

    /// Whether a lane is blocked.
    pub(super) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Takes items that can be written at once. They must be closed or put back.
    pub(super) fn take_group(&mut self) -> Option<OutboxGroup> {
        self.unblock_if_due();
        self.take_messages().or_else(|| self.take_entries())
    }

    /// Adds an item to a lane. Returns whether it is the first one since everything was written for which others are
    /// lost.
    pub(super) fn add(&mut self, lane: Lane, content: ItemContent) -> bool {
        self.last_number += 1;
        let item = OutboxItem { number: self.last_number, content };
        let (bytes, is_flush) = (item.bytes(), matches!(item.content, ItemContent::Flush { .. }));
        self.bytes += bytes;
        if !self.lanes.contains_key(&lane) {
            self.lanes.insert(lane.clone(), LaneQueue::default());
            self.make_ready(lane.clone());
        }
        let queue = self.lanes.get_mut(&lane).expect("it was inserted");
        queue.bytes += bytes;
        queue.items.push_back(item);
        let mut has_lost = false;
        // All lanes of a session are bounded, so that none of them takes the room of the others. Of its events, no more
        // would be kept.
        let is_bounded = !is_flush && !matches!(lane, Lane::Node(_));
        while is_bounded && self.lanes.get(&lane).is_some_and(|it| it.bytes > MAX_LANE_BYTES && it.items.len() > 1) {
            self.lose_oldest(&lane);
            has_lost |= !lane.is_of_logs();
        }
        while self.bytes > MAX_BYTES && self.lanes.values().map(|it| it.items.len()).sum::<usize>() > 1 {
            let longest = self.lanes.iter().max_by_key(|(_, it)| it.bytes).map(|(lane, _)| lane.clone());
            self.lose_oldest(&longest.expect("there are items"));
            has_lost = true;
        }
        has_lost && !std::mem::replace(&mut self.has_lost, true)
    }

    fn lose_oldest(&mut self, lane: &Lane) {
        let Some(queue) = self.lanes.get_mut(lane) else { return };
        let Some(item) = queue.pop_if(|_| true) else { return };
        self.bytes -= item.bytes();
        queue.has_lost |= matches!(lane, Lane::Node(_)) && item.message().is_some();
    }

    fn make_ready(&mut self, lane: Lane) {
        match lane.is_of_logs() {
            true => self.ready_logs.push_back(lane),
            false => self.ready_messages.push_back(lane),
        }
    }

    fn block(&mut self, lane: Lane) {
        if let Some(queue) = self.lanes.get_mut(&lane) {
            queue.state = LaneState::Blocked;
            self.blocked_since.get_or_insert_with(Instant::now);
            self.blocked.push(lane);
        }
    }

    /// Lets the lanes that are blocked be tried again, if it is time.
    fn unblock_if_due(&mut self) {
        let pause = RETRY_TIME + LANE_PAUSE.saturating_mul(u32::try_from(self.blocked.len()).unwrap_or(u32::MAX));
        if self.blocked_since.is_none_or(|since| since.elapsed() < pause.min(MAX_RETRY_TIME)) {
            return;
        }
        self.blocked_since = None;
        for lane in std::mem::take(&mut self.blocked) {
            if let Some(queue) = self.lanes.get_mut(&lane) {
                queue.state = LaneState::Ready;
                self.make_ready(lane);
            }
        }
    }

    /// Takes what can be written of the first lane of messages that has such items.
    fn take_messages(&mut self) -> Option<OutboxGroup> {
        if self.message_writes == MAX_MESSAGE_WRITES {
            return None;
        }
        let group = (0..self.ready_messages.len()).find_map(|_| {
            let lane = self.ready_messages.pop_front()?;
            let (items, tells_loss) = self.take_items(&lane, &mut { EMPTY_GROUP })?;
            Some(OutboxGroup { lanes: vec![(lane, items)], tells_loss })
        });
        self.message_writes += usize::from(group.is_some());
        group
    }

    /// Takes what can be written of the lanes of logs.
    fn take_entries(&mut self) -> Option<OutboxGroup> {
        if self.log_writes == MAX_LOG_WRITES {
            return None;
        }
        // If some can be written and others cannot, those that can would be written again with each attempt.
        let is_of_one_lane = self.failed.is_some_and(|at| at.elapsed() < CAREFUL_TIME);
        let (mut group, mut room) = (OutboxGroup::default(), EMPTY_GROUP);
        while !room.is_full() && (!is_of_one_lane || group.lanes.is_empty()) {
            let Some(lane) = self.ready_logs.pop_front() else { break };
            if let Some((items, _)) = self.take_items(&lane, &mut room) {
                group.lanes.push((lane, items));
            }
        }
        let is_some = !group.lanes.is_empty();
        self.log_writes += usize::from(is_some);
        is_some.then_some(group)
    }

    /// Takes the first items of a lane, if it can be written, and whether messages to its node are lost.
    fn take_items(&mut self, lane: &Lane, room: &mut GroupRoom) -> Option<(Vec<OutboxItem>, bool)> {
        let mut queue = self.lanes.remove(lane)?;
        if queue.state != LaneState::Ready {
            self.lanes.insert(lane.clone(), queue);
            return None;
        }
        while let Some(flush) = queue.pop_if(|item| matches!(item.content, ItemContent::Flush { .. })) {
            self.bytes -= flush.bytes();
        }
        if queue.items.is_empty() && !queue.has_lost {
            return None;
        }
        let mut items = Vec::new();
        while !room.is_full()
            && let Some(item) = queue.pop_if(|item| self.is_due(item))
        {
            self.bytes -= item.bytes();
            room.add(item.bytes());
            items.push(item);
        }
        let tells_loss = std::mem::take(&mut queue.has_lost);
        let is_some = tells_loss || !items.is_empty();
        if is_some {
            queue.state = LaneState::Writing(items.first().map_or(self.last_number, |item| item.number));
        } else {
            self.make_ready(lane.clone());
        }
        self.lanes.insert(lane.clone(), queue);
        is_some.then_some((items, tells_loss))
    }

    /// Whether nothing must be written before an item. A lane that is blocked holds up no other.
    fn is_due(&self, item: &OutboxItem) -> bool {
        let ItemContent::SendOfStream { session, .. } = &item.content else { return true };
        let Some(events) = self.lanes.get(session) else { return true };
        match events.state {
            LaneState::Blocked => true,
            LaneState::Writing(first) => first > item.number,
            LaneState::Ready => events.items.front().is_none_or(|first| first.number > item.number),
        }
    }

    /// Counts the end of a write.
    fn count_end(&mut self, group: &OutboxGroup) {
        match group.is_of_logs() {
            true => self.log_writes -= 1,
            false => self.message_writes -= 1,
        }
    }

    /// Lets the lanes of a group go on. Returns its items, to be dropped.
    pub(super) fn close(&mut self, group: OutboxGroup, is_refused: bool) -> Vec<OutboxItem> {
        self.count_end(&group);
        let mut closed = Vec::new();
        for (lane, items) in group.lanes {
            let Some(queue) = self.lanes.get_mut(&lane) else { continue };
            let has_messages = group.tells_loss || items.iter().any(|item| item.message().is_some());
            queue.has_lost |= is_refused && has_messages && matches!(lane, Lane::Node(_));
            queue.state = LaneState::Ready;
            match (queue.has_lost && is_refused, queue.has_lost || !queue.items.is_empty()) {
                // The node cannot be told at once either.
                (true, _) => self.block(lane),
                (false, true) => self.make_ready(lane),
                (false, false) => drop(self.lanes.remove(&lane)),
            }
            closed.extend(items);
        }
        self.has_lost &= !self.lanes.is_empty();
        closed
    }

    /// Puts items back that could not be written. If they are of one lane, the lane is blocked.
    pub(super) fn put_back(&mut self, group: OutboxGroup) {
        self.count_end(&group);
        self.failed = Some(Instant::now());
        let is_of_one_lane = group.lanes.len() == 1;
        for (lane, items) in group.lanes.into_iter().rev() {
            let Some(queue) = self.lanes.get_mut(&lane) else { continue };
            queue.has_lost |= group.tells_loss;
            queue.state = LaneState::Ready;
            for item in items.into_iter().rev() {
                queue.bytes += item.bytes();
                self.bytes += item.bytes();
                queue.items.push_front(item);
            }
            match (is_of_one_lane, lane.is_of_logs()) {
                (true, _) => self.block(lane),
                (false, true) => self.ready_logs.push_front(lane),
                (false, false) => self.ready_messages.push_front(lane),
            }
        }
    }
}

/// Returns the first two parts of a name: names of which these are equal belong together.
fn first_two_parts(name: &str) -> &str {
    name.match_indices('/').nth(1).map_or(name, |(end, _)| &name[..end])
}

/// The maximum size of what waits, in bytes.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// The maximum size of what waits in a lane of a session, in bytes, unless it is one item. A log keeps less.
pub(super) const MAX_LANE_BYTES: usize = 2 * MAX_LOG_BYTES;

/// The approximate memory of an item besides its texts, in bytes.
pub(super) const ITEM_BYTES: usize = 128;

/// The maximum number of items that are written at once.
const MAX_GROUP: usize = 256;

/// The maximum size of the items that are written at once, in bytes, unless it is one item.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// The maximum number of writes to logs that are in flight. Few, because one write takes what many lanes have.
const MAX_LOG_WRITES: usize = 4;

/// The maximum number of writes of messages that are in flight, each of another lane.
const MAX_MESSAGE_WRITES: usize = 32;

/// The time after a failure for which only items of one lane are written at once.
const CAREFUL_TIME: Duration = Duration::from_secs(1);

/// The time between two attempts, to which something is added for each lane, and its maximum.
pub(super) const RETRY_TIME: Duration = Duration::from_millis(200);
const LANE_PAUSE: Duration = Duration::from_millis(1);
const MAX_RETRY_TIME: Duration = Duration::from_secs(2);
