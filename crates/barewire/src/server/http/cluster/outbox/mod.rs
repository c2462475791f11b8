//! What a node writes to the store without waiting for it: events, and messages to other nodes.
//!
//! ```text
//! append ── a lane for each session ── what many lanes have, together ─┐
//! send ──── a lane for each node ───── what one lane has, together ────┴─ the store: several writes at the same time
//! ```
//!
//! A store can be far away. Items of one lane stay in their order, so at most one write of a lane is in flight; what is
//! added meanwhile is written together afterwards, with one round trip. Lanes do not wait for each other, except that
//! a message about a stream is not sent before the events of its session that were added earlier are written.
//!
//! A store can be spread over several servers. A lane that cannot be written, because one of them is away, is blocked
//! until the next attempt, so that it does not hold up what goes to the others.

mod lanes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::lanes::{ITEM_BYTES, ItemContent, Lane, OutboxGroup, OutboxItem, OutboxQueue, RETRY_TIME};
use super::link::SessionLink;
use super::message::NodeMessage;
use super::node::ClusterNode;
use super::store::{LogEntry, StoreError};
use crate::log::TARGET;

/// The queues of what is still to be written. They are bounded: if the store is away for long, the oldest items of the
/// longest queue are lost.
#[derive(Default)]
pub(super) struct Outbox {
    queue: Mutex<OutboxQueue>,
    /// The bytes that the streams which each node follows may add.
    stream_room: Mutex<HashMap<u32, Arc<Semaphore>>>,
    /// Told when something can perhaps be written.
    changed: Notify,
}

/// The messages about a stream to the node that follows it.
pub(super) struct OutgoingStream {
    session: Lane,
    follower: u32,
    /// The bytes that this stream may add, and those that all streams which the follower has may add together.
    room: [Arc<Semaphore>; 2],
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, OutboxQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an entry to a log.
    pub(super) fn append(&self, entry: LogEntry) {
        let lane = Lane::of_log(&entry.name);
        self.add(lane, ItemContent::Append(entry));
    }

    /// Sends a message to a node.
    pub(super) fn send(&self, to: u32, message: Bytes) {
        self.add(Lane::Node(to), ItemContent::Send(message));
    }

    /// Sends a message to the node that has the stream for unsolicited messages of a session.
    pub(super) fn send_home(&self, link: &Arc<SessionLink>, message: Bytes) {
        self.add(Lane::Home(Arc::clone(&link.session)), ItemContent::SendHome(Arc::clone(link), message));
    }

    /// Sends a message to all other nodes that are alive now, or will be when the store is back.
    pub(super) fn send_to_others(&self, message: Bytes) {
        self.add(Lane::Others, ItemContent::SendToOthers(Instant::now(), message));
    }

    /// Returns what sends the messages about a stream of a session to the node that follows it.
    pub(super) fn stream(&self, session: &str, follower: u32) -> OutgoingStream {
        let mut rooms = self.stream_room.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.retain(|node, room| *node == follower || Arc::strong_count(room) > 1);
        let of_all = rooms.entry(follower).or_insert_with(|| Arc::new(Semaphore::new(ROOM_OF_STREAMS)));
        let room = [Arc::new(Semaphore::new(ROOM_OF_STREAM)), Arc::clone(of_all)];
        OutgoingStream { session: Lane::of_session(session), follower, room }
    }

    /// Sends a message about a stream, after the events of its session that were added before. Waits until there is
    /// room for it: a stream that is produced faster than the store takes it is held up as by a slow client.
    pub(super) async fn send_of_stream(&self, stream: &OutgoingStream, message: Bytes) {
        let [of_stream, of_all] = &stream.room;
        let room = async |room: &Arc<Semaphore>, all: usize| {
            let bytes = u32::try_from((message.len() + ITEM_BYTES).min(all)).expect("the room is less than 4 GiB");
            Arc::clone(room).acquire_many_owned(bytes).await.expect("it is never closed")
        };
        let room = [room(of_stream, ROOM_OF_STREAM).await, room(of_all, ROOM_OF_STREAMS).await];
        let content = ItemContent::SendOfStream { message, session: stream.session.clone(), _room: room };
        self.add(Lane::Node(stream.follower), content);
    }

    /// Waits until everything that was added before is written, or lost. Returns false if that takes too long.
    pub(super) async fn flush(&self) -> bool {
        let start = Instant::now();
        // A message to all other nodes becomes one to each of them, which is flushed then.
        let is_busy = self.lock().is_busy(&Lane::Others);
        let is_known = !is_busy || self.flush_lanes(vec![Lane::Others], FLUSH_TIME).await;
        let lanes = self.lock().busy_lanes();
        let left = FLUSH_TIME.saturating_sub(start.elapsed()).max(MIN_FLUSH_TIME);
        self.flush_lanes(lanes, left).await && is_known
    }

    /// Waits until all events of a session that were added before are written, or lost. Returns false if that takes too
    /// long.
    pub(super) async fn flush_session(&self, session: &str) -> bool {
        let lane = Lane::of_session(session);
        let is_done = !self.lock().is_busy(&lane);
        is_done || self.flush_lanes(vec![lane], FLUSH_TIME).await
    }

    async fn flush_lanes(&self, lanes: Vec<Lane>, time: Duration) -> bool {
        let (written, mut wait) = mpsc::channel(1);
        for lane in lanes {
            self.add(lane, ItemContent::Flush { _written: written.clone() });
        }
        drop(written);
        tokio::time::timeout(time, wait.recv()).await.is_ok()
    }

    fn add(&self, lane: Lane, content: ItemContent) {
        let mut queue = self.lock();
        let is_first_loss = queue.add(lane, content);
        drop(queue);
        if is_first_loss {
            tracing::warn!(target: TARGET, "the store of the cluster is away for so long that events are lost");
        }
        self.changed.notify_one();
    }

    /// Writes what is added, until the node is dropped.
    pub(super) async fn run(node: Weak<ClusterNode>) {
        let mut writes = JoinSet::new();
        while let Some(node) = node.upgrade() {
            let outbox = &node.outbox;
            while let Some(group) = outbox.take_group() {
                let node = Arc::clone(&node);
                writes.spawn(async move {
                    let result = write(&node, &group).await;
                    node.outbox.finish(group, node.watch(result));
                });
            }
            while writes.try_join_next().is_some() {}
            // A node that is dropped in the meantime is noticed at the next wake-up.
            let pause = if outbox.lock().is_blocked() { RETRY_TIME } else { IDLE_TIME };
            let _ = tokio::time::timeout(pause, outbox.changed.notified()).await;
        }
    }

    /// Takes items that can be written at once.
    fn take_group(&self) -> Option<OutboxGroup> {
        self.lock().take_group()
    }

    /// Notes what has become of a group. If the store is away, its items are tried again.
    fn finish(&self, group: OutboxGroup, result: Result<(), StoreError>) {
        let mut queue = self.lock();
        let written = match result {
            Ok(()) => queue.close(group, false),
            // A store that is full stays full: to try again would only delay what follows.
            Err(StoreError::Refused(_)) => queue.close(group, true),
            Err(StoreError::Away(_)) => {
                queue.put_back(group);
                Vec::new()
            }
        };
        drop(queue);
        // Whoever waits for them is not to find the queue locked.
        drop(written);
        self.changed.notify_one();
    }
}

async fn write(node: &ClusterNode, group: &OutboxGroup) -> Result<(), StoreError> {
    if group.is_of_logs() {
        let entry = |item: &OutboxItem| match &item.content {
            ItemContent::Append(entry) => Some(entry.clone()),
            _ => None,
        };
        return node.store.append(group.items().filter_map(entry).collect()).await;
    }
    if let Some((Lane::Others, items)) = group.lanes.first() {
        let added = items.iter().filter_map(|item| match item.content {
            ItemContent::SendToOthers(added, _) => Some(added),
            _ => None,
        });
        let nodes = node.alive_since(added.max().unwrap_or_else(Instant::now)).await?;
        for message in group.items().filter_map(OutboxItem::message) {
            let others = nodes.iter().filter(|other| **other != node.number);
            others.for_each(|other| node.outbox.send(*other, message.clone()));
        }
        return Ok(());
    }
    let lost = group.tells_loss.then(|| NodeMessage::Lost { node: node.number }.write(b""));
    let messages: Vec<Bytes> = lost.into_iter().chain(group.items().filter_map(OutboxItem::message)).collect();
    let link = group.items().filter_map(|item| match &item.content {
        ItemContent::SendHome(link, _) => Some(link),
        _ => None,
    });
    let to = match (group.lanes.first(), link.last()) {
        (_, Some(link)) => {
            // If that node is dead, this one takes its place when it handles the messages.
            let home = link.home();
            if node.is_alive(home).await { home } else { node.number }
        }
        (Some((Lane::Node(to), _)), None) => *to,
        _ => return Ok(()),
    };
    node.store.send_all(to, messages).await
}

/// The number of bytes that one stream can have in the outbox. This is some hundred events.
const ROOM_OF_STREAM: usize = 64 << 10;

/// The number of bytes that all streams together which one node follows can have in the outbox: a part of all, so that
/// streams are held up before anything is lost.
const ROOM_OF_STREAMS: usize = 4 << 20;

const IDLE_TIME: Duration = Duration::from_secs(1);
/// The maximum time of a flush. If messages to all other nodes take it, the others still get the second one.
const FLUSH_TIME: Duration = Duration::from_secs(5);
const MIN_FLUSH_TIME: Duration = Duration::from_secs(1);

#[cfg(all(test, not(barewire_loom)))]
mod tests {
    use std::future::Future;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::super::store::{ClusterFuture, ClusterStore, Record};
    use super::super::{MemoryCluster, MemoryNode};
    use super::lanes::{MAX_BYTES, MAX_LANE_BYTES};
    use super::*;

    fn entry(session: &str, text: impl Into<Bytes>) -> LogEntry {
        let name = format!("session/{session}/events");
        LogEntry { name, entry: text.into(), keep: 10_000, lifetime: Duration::from_secs(3600) }
    }

    fn add(outbox: &Outbox, session: &str, text: &'static str) {
        outbox.append(entry(session, text));
    }

    fn texts(group: &Option<OutboxGroup>) -> Vec<&[u8]> {
        let text = |item| match item {
            &OutboxItem { content: ItemContent::Append(ref entry), .. } => Some(&entry.entry[..]),
            _ => None,
        };
        group.iter().flat_map(OutboxGroup::items).filter_map(text).collect()
    }

    fn away() -> Result<(), StoreError> {
        Err(StoreError::Away("test".to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_cannot_be_written_keeps_its_order_and_does_not_hold_up_others() {
        let outbox = Outbox::default();
        ["1", "2"].into_iter().for_each(|text| add(&outbox, "away", text));
        add(&outbox, "there", "3");
        add(&outbox, "away", "4");
        let end = |expected: &[&[u8]], result| {
            let group = outbox.take_group();
            assert_eq!(texts(&group), expected);
            outbox.finish(group.expect("a group"), result);
        };
        end(&[b"1", b"2", b"4", b"3"], away());
        end(&[b"1", b"2", b"4"], away());
        end(&[b"3"], Ok(()));
        add(&outbox, "away", "5");
        outbox.send(7, Bytes::new());
        let group = outbox.take_group().expect("a group");
        assert!(matches!(group.lanes[..], [(Lane::Node(7), _)]));
        outbox.finish(group, Ok(()));
        assert!(outbox.take_group().is_none() && !outbox.lock().lanes.is_empty());
        tokio::time::advance(RETRY_TIME * 2).await;
        end(&[b"1", b"2", b"4", b"5"], away());
        assert!(outbox.take_group().is_none());
        tokio::time::advance(RETRY_TIME * 2).await;
        end(&[b"1", b"2", b"4", b"5"], Ok(()));
        assert!(outbox.take_group().is_none() && outbox.lock().lanes.is_empty());
        assert_eq!(outbox.lock().bytes, 0);
    }

    #[tokio::test]
    async fn one_write_of_a_lane_is_in_flight_and_what_waits_is_written_together_afterwards() {
        let outbox = Outbox::default();
        add(&outbox, "a", "1");
        let first = outbox.take_group();
        ["2", "3"].into_iter().for_each(|text| add(&outbox, "a", text));
        add(&outbox, "b", "4");
        let other = outbox.take_group();
        assert_eq!((texts(&first), texts(&other)), (vec![&b"1"[..]], vec![&b"4"[..]]));
        assert!(outbox.take_group().is_none());
        outbox.finish(first.expect("a group"), Ok(()));
        assert_eq!(texts(&outbox.take_group()), [b"2", b"3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_about_a_stream_waits_for_the_events_of_its_session_unless_they_are_blocked() {
        let outbox = Outbox::default();
        let stream = outbox.stream("a", 7);
        let messages = |group: &Option<OutboxGroup>| -> Vec<Bytes> {
            group.iter().flat_map(OutboxGroup::items).filter_map(OutboxItem::message).collect()
        };
        add(&outbox, "a", "1");
        outbox.send_of_stream(&stream, Bytes::from_static(b"m1")).await;
        outbox.send_of_stream(&outbox.stream("b", 8), Bytes::from_static(b"other")).await;
        let other = outbox.take_group();
        assert_eq!(messages(&other), ["other"]);
        let event = outbox.take_group();
        assert_eq!(texts(&event), [b"1"]);
        assert!(outbox.take_group().is_none(), "the event is not written yet");
        add(&outbox, "a", "2");
        outbox.finish(event.expect("a group"), Ok(()));
        let message = outbox.take_group();
        assert_eq!(messages(&message), ["m1"], "the second event is not one before the message");
        outbox.finish(message.expect("a group"), Ok(()));
        outbox.send_of_stream(&stream, Bytes::from_static(b"m2")).await;
        outbox.finish(outbox.take_group().expect("the second event"), away());
        assert_eq!(messages(&outbox.take_group()), ["m2"]);
    }

    #[tokio::test]
    async fn a_session_that_is_written_too_slowly_loses_its_own_items() {
        let outbox = Outbox::default();
        add(&outbox, "quiet", "first");
        for number in 0..64 {
            let text = Bytes::from(vec![number; MAX_LANE_BYTES / 4]);
            outbox.append(entry(&format!("loud{}", number % 16), text));
        }
        outbox.send(7, Bytes::from_static(b"message"));
        let queue = outbox.lock();
        assert!(queue.bytes <= MAX_BYTES, "{}", queue.bytes);
        for (lane, left) in &queue.lanes {
            let is_loud = matches!(lane, Lane::Session(name) if name.contains("loud"));
            assert!(left.bytes <= MAX_LANE_BYTES && !left.items.is_empty(), "{lane:?}: {}", left.bytes);
            assert!(is_loud || left.items.len() == 1 && !left.has_lost, "{lane:?} has lost nothing");
        }
        assert_eq!(queue.lanes.len(), 18);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_told_of_lost_messages_until_it_knows() {
        let outbox = Outbox::default();
        outbox.send(7, Bytes::from_static(b"message"));
        let full = || Err(StoreError::Refused("full".to_owned()));
        let take = || outbox.take_group().map(|group| (group.tells_loss, group));
        let (tells_loss, group) = take().expect("the message");
        assert!(!tells_loss);
        outbox.finish(group, full());
        assert!(take().is_none(), "it is tried again later");
        for result in [full(), away(), Ok(())] {
            tokio::time::advance(RETRY_TIME * 2).await;
            let (tells_loss, group) = take().expect("the loss");
            assert!(tells_loss && group.items().next().is_none());
            outbox.finish(group, result);
        }
        assert!(take().is_none() && outbox.lock().lanes.is_empty());
    }

    /// A store that takes a while for each write, and counts the writes.
    struct FarStore {
        memory: MemoryNode,
        writes: AtomicUsize,
        /// Whether a message about an event was sent before the event was written.
        is_out_of_order: AtomicBool,
    }

    impl FarStore {
        async fn write_slowly(&self) {
            self.writes.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    impl ClusterStore for FarStore {
        fn node(&self) -> u32 {
            self.memory.node()
        }

        fn nodes(&self) -> ClusterFuture<'_, Vec<u32>> {
            self.memory.nodes()
        }

        fn create<'a>(&'a self, name: &'a str, value: Bytes, lifetime: Duration) -> ClusterFuture<'a, Option<u64>> {
            self.memory.create(name, value, lifetime)
        }

        fn read<'a>(&'a self, name: &'a str, lifetime: Option<Duration>) -> ClusterFuture<'a, Option<Record>> {
            self.memory.read(name, lifetime)
        }

        fn replace<'a>(
            &'a self,
            name: &'a str,
            version: u64,
            value: Bytes,
            lifetime: Duration,
        ) -> ClusterFuture<'a, Option<u64>> {
            self.memory.replace(name, version, value, lifetime)
        }

        fn remove<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, bool> {
            self.memory.remove(name)
        }

        fn append(&self, entries: Vec<LogEntry>) -> ClusterFuture<'_, ()> {
            Box::pin(async move {
                self.write_slowly().await;
                self.memory.append(entries).await
            })
        }

        fn log<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, Vec<Bytes>> {
            self.memory.log(name)
        }

        fn send(&self, to: u32, message: Bytes) -> ClusterFuture<'_, ()> {
            self.send_all(to, vec![message])
        }

        fn send_all(&self, to: u32, messages: Vec<Bytes>) -> ClusterFuture<'_, ()> {
            Box::pin(async move {
                for message in &messages {
                    let (session, event) = session_and_event(message);
                    let log = self.memory.log(&format!("session/{session}/events")).await?;
                    self.is_out_of_order.fetch_or(!log.contains(&Bytes::from(event)), Ordering::SeqCst);
                }
                self.write_slowly().await;
                self.memory.send_all(to, messages).await
            })
        }

        fn receive(&self) -> ClusterFuture<'_, Vec<Bytes>> {
            self.memory.receive()
        }
    }

    fn session_and_event(message: &Bytes) -> (String, String) {
        let text = std::str::from_utf8(message).expect("text");
        let (session, event) = text.split_once(' ').expect("a session and an event");
        (session.to_owned(), event.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_far_away_gets_the_events_of_many_streams_with_few_round_trips() {
        let cluster = MemoryCluster::default();
        let follower = cluster.join();
        let (writes, is_out_of_order) = (AtomicUsize::new(0), AtomicBool::new(false));
        let far = Arc::new(FarStore { memory: cluster.join(), writes, is_out_of_order });
        let node = ClusterNode::new(Arc::<FarStore>::clone(&far));
        tokio::spawn(Outbox::run(Arc::downgrade(&node)));
        let sessions: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
        let streams: Vec<_> = sessions.iter().map(|session| node.outbox.stream(session, follower.node())).collect();
        let expected: Vec<String> = (0..10).map(|event| event.to_string()).collect();
        for event in &expected {
            for (session, stream) in sessions.iter().zip(&streams) {
                node.outbox.append(entry(session, event.clone()));
                node.outbox.send_of_stream(stream, format!("{session} {event}").into()).await;
            }
        }
        assert!(node.outbox.flush().await);
        let writes = far.writes.load(Ordering::SeqCst);
        assert!(writes <= 20, "{writes} writes of 200 events and 200 messages");
        assert!(!far.is_out_of_order.load(Ordering::SeqCst), "an event is written before it is sent");
        let received = follower.receive().await.expect("messages");
        for session in &sessions {
            let of_session = received.iter().map(session_and_event).filter(|(name, _)| name == session);
            assert_eq!(of_session.map(|(_, event)| event).collect::<Vec<_>>(), expected, "{session}");
            let log = far.memory.log(&format!("session/{session}/events")).await.expect("the log");
            assert_eq!(log, expected, "{session}");
        }
    }

    #[tokio::test]
    async fn a_stream_waits_for_room_and_a_flush_for_what_was_added_before() {
        let outbox = Outbox::default();
        let stream = outbox.stream("a", 7);
        let long = Bytes::from(vec![b'x'; ROOM_OF_STREAM]);
        outbox.send_of_stream(&stream, long.clone()).await;
        let mut second = std::pin::pin!(outbox.send_of_stream(&stream, long));
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(second.as_mut().poll(context).is_pending())).await
        );
        outbox.send_of_stream(&outbox.stream("b", 7), Bytes::from_static(b"of another stream")).await;
        add(&outbox, "a", "1");
        let mut flush = std::pin::pin!(outbox.flush_session("a"));
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(flush.as_mut().poll(context).is_pending())).await
        );
        let messages = outbox.take_group().expect("the messages");
        assert_eq!(messages.items().count(), 2);
        outbox.finish(messages, Ok(()));
        second.await;
        outbox.finish(outbox.take_group().expect("the event"), Ok(()));
        while let Some(group) = outbox.take_group() {
            outbox.finish(group, Ok(()));
        }
        assert!(flush.await);
    }
}
