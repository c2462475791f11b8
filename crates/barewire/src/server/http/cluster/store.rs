//! What the nodes of a cluster share: records, logs, and messages from node to node.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

/// A store that the nodes of a cluster share. Each node has one value of this type, connected to the same engine.
///
/// The store knows nothing of sessions or tasks: the library keeps them in three kinds of things.
///
/// | thing | is | for |
/// |---|---|---|
/// | record | a value with a version, which expires | sessions, tasks, the sealing keys |
/// | log | a list of entries, of which the oldest are dropped, which expires | the events of a session, the state of its node |
/// | message | bytes for one node, in the order of sending | answers, cancellations, unasked messages |
///
/// A name is text in which `/` separates parts, such as `session/Zx9/events`. Names of which the first two parts are
/// equal belong together: an engine that is spread over several machines keeps them on the same one. A name is that of
/// a record or of a log, not of both.
///
/// Every future ends within a few seconds, also if the engine does not answer, except that of [`Self::receive`].
/// [`check_store`](super::check_store) tests an implementation.
pub trait ClusterStore: Send + Sync + 'static {
    /// Returns the number of this node, from 1 to [`MAX_NODE`]. No other node that is alive has it. A node that is
    /// started again has another number.
    fn node(&self) -> u32;

    /// Returns the numbers of all nodes that are alive, this one included. A node that is killed is not among them
    /// after [`NODE_LEASE`]; time in which no node could reach the engine does not count.
    fn nodes(&self) -> ClusterFuture<'_, Vec<u32>>;

    /// Creates a record that expires after `lifetime`. Returns its version, or `None` if there is one of this name.
    fn create<'a>(&'a self, name: &'a str, value: Bytes, lifetime: Duration) -> ClusterFuture<'a, Option<u64>>;

    /// Returns a record. With a `lifetime`, the record expires that much later than now.
    fn read<'a>(&'a self, name: &'a str, lifetime: Option<Duration>) -> ClusterFuture<'a, Option<Record>>;

    /// Replaces a record that still has this version, so that of two changes at the same time, one is refused. Returns
    /// the new version, or `None` if the record has another version or does not exist.
    fn replace<'a>(
        &'a self,
        name: &'a str,
        version: u64,
        value: Bytes,
        lifetime: Duration,
    ) -> ClusterFuture<'a, Option<u64>>;

    /// Removes a record or a log. Returns whether there was one.
    fn remove<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, bool>;

    /// Appends entries to logs, in this order. A log expires when nothing has been appended to it for its lifetime. Its
    /// oldest entries are dropped when it has more of them than it keeps, or when they are longer than
    /// [`MAX_LOG_BYTES`] together; the newest entry stays.
    fn append(&self, entries: Vec<LogEntry>) -> ClusterFuture<'_, ()>;

    /// Returns the entries of a log, oldest first.
    fn log<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, Vec<Bytes>>;

    /// Sends a message to a node. When the future is ready, the message is not lost, unless the node dies or has
    /// [`MAX_UNREAD_MESSAGES`] newer ones to read.
    fn send(&self, to: u32, message: Bytes) -> ClusterFuture<'_, ()>;

    /// Sends messages to a node, in this order, as [`Self::send`] does. If that fails, any of them may have been sent.
    /// A store that is far away needs one round trip for all.
    fn send_all(&self, to: u32, messages: Vec<Bytes>) -> ClusterFuture<'_, ()> {
        Box::pin(async move {
            for message in messages {
                self.send(to, message).await?;
            }
            Ok(())
        })
    }

    /// Waits for messages to this node, and returns them in the order in which they were sent. Each message is returned
    /// once. If the engine is away, this returns an error after a few seconds. Called by one task only.
    fn receive(&self) -> ClusterFuture<'_, Vec<Bytes>>;

    /// Ends the life of this node: from then on, it is not among the nodes that are alive. What it has sent and written
    /// stays. Called once, when the server stops; other calls may follow, such as [`Self::receive`]. Without an
    /// implementation, the node is alive for the others until its lease has ended.
    fn leave(&self) -> ClusterFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns whether the engine is known to be away, without asking it: for health checks.
    fn is_away(&self) -> bool {
        false
    }
}

/// The future of a [`ClusterStore`].
pub type ClusterFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A record of a [`ClusterStore`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Record {
    /// The version, which is another one after each change.
    pub version: u64,
    /// The value.
    pub value: Bytes,
}

/// An entry to append to a log of a [`ClusterStore`].
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "stores take it apart")]
pub struct LogEntry {
    /// The name of the log.
    pub name: String,
    /// The entry.
    pub entry: Bytes,
    /// The number of entries that the log keeps, at least, if they are not too long.
    pub keep: usize,
    /// The time after which the log expires if nothing more is appended.
    pub lifetime: Duration,
}

/// The reason why a [`ClusterStore`] did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The engine cannot be reached, or does not answer. It may or may not have done what it was asked to.
    Away(String),
    /// The engine refuses to write, because it is full or not the one to write to.
    Refused(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(why) => write!(f, "the store of the cluster is away: {why}"),
            Self::Refused(why) => write!(f, "the store of the cluster refuses to write: {why}"),
        }
    }
}

impl Error for StoreError {}

/// The highest number of a node. The ids of the questions that a node asks contain its number, and must be exact in
/// every JSON reader.
pub const MAX_NODE: u32 = (1 << 20) - 1;

/// The time after which a node that does not renew its lease counts as dead.
pub const NODE_LEASE: Duration = Duration::from_secs(5);

/// The total length of the entries of a log, in bytes, above which the oldest are dropped: as much as a server that is
/// in no cluster keeps for a session.
pub const MAX_LOG_BYTES: usize = 1 << 20;

/// The number of messages that a store keeps for a node that does not read them, at least.
pub const MAX_UNREAD_MESSAGES: usize = 10_000;
