//! The messages to a node: a stream that only the node reads.

use std::sync::Arc;
use std::time::Duration;

use barewire::server::http::cluster::{MAX_UNREAD_MESSAGES, StoreError};
use bytes::Bytes;
use redis::{Cmd, Pipeline, Value, cmd, pipe};
use tokio::sync::Mutex;

use crate::connection::{Connection, short_reason};
use crate::lease::millis;
use crate::link::{ServerLink, is_away, is_moved, is_of_cluster};
use crate::links::Links;

/// The messages to this node.
pub(crate) struct Inbox {
    key: String,
    reader: Mutex<Reader>,
}

struct Reader {
    /// A connection of its own, and the server that it leads to: a command that waits for messages would hold up all
    /// commands behind it. All messages to a node are in one slot, so one connection is enough in a Redis Cluster too.
    connection: Option<(Connection, Arc<ServerLink>)>,
    /// The entry that was returned last.
    last: EntryId,
    /// Whether this entry and those before it are still in the stream.
    is_untrimmed: bool,
}

/// The id of an entry of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct EntryId {
    millis: u64,
    sequence: u64,
}

impl Inbox {
    pub(crate) fn new(key: String) -> Self {
        let reader = Reader { connection: None, last: EntryId::default(), is_untrimmed: false };
        Self { key, reader: Mutex::new(reader) }
    }

    /// Creates the empty stream. Without it, messages to the node are dropped.
    pub(crate) async fn create(&self, links: &Links) -> Result<(), StoreError> {
        let mut commands = pipe();
        commands.atomic();
        commands.cmd("XADD").arg(&self.key).arg("*").arg(FIELD).arg("");
        commands.cmd("XTRIM").arg(&self.key).arg("MAXLEN").arg(0);
        commands.add_command(self.keep_command());
        links.query_all(&self.key, &commands).await
    }

    /// Makes the stream outlive the node by a few minutes from now, and creates it if it is gone.
    pub(crate) async fn keep(&self, links: &Links) -> Result<(), StoreError> {
        match links.query(&self.key, &self.keep_command()).await? {
            Value::Int(0) => self.create(links).await,
            _ => Ok(()),
        }
    }

    fn keep_command(&self) -> Cmd {
        let mut command = cmd("PEXPIRE");
        command.arg(&self.key).arg(millis(INBOX_LIFETIME));
        command
    }

    pub(crate) async fn remove(&self, links: &Links) -> Result<(), StoreError> {
        links.query(&self.key, cmd("UNLINK").arg(&self.key)).await.map(drop)
    }

    /// Waits for messages. They stay in the stream until the next call, so nothing is lost if the future is dropped.
    pub(crate) async fn receive(&self, links: &Links) -> Result<Vec<Bytes>, StoreError> {
        let mut reader = self.reader.lock().await;
        // The connection may have been closed while no call waited.
        let mut is_second_attempt = false;
        loop {
            let link = links.at(&self.key)?;
            link.wait_connected(AWAY_PATIENCE).await?;
            let connection = match &reader.connection {
                Some((connection, server)) if Arc::ptr_eq(server, &link) => connection.clone(),
                _ => {
                    let opened = open(&link).await?;
                    reader.connection.insert((opened, Arc::clone(&link))).0.clone()
                }
            };
            match connection.query_all(&self.read_commands(&reader)).await {
                Ok(answers) => {
                    reader.is_untrimmed = false;
                    is_second_attempt = false;
                    let (last, messages) = answers.into_iter().next_back().map(entries).unwrap_or_default();
                    if let Some(last) = last {
                        reader.last = last;
                        reader.is_untrimmed = true;
                        return Ok(messages);
                    }
                }
                Err(error) => {
                    let why = short_reason(&error, READ_WAIT + link.connector().response_timeout);
                    if is_of_cluster(&error) {
                        // The server is there, and says so at once.
                        tokio::time::sleep(REFUSED_PAUSE).await;
                        return Err(StoreError::Away(why));
                    }
                    reader.connection = None;
                    if is_moved(&error) {
                        if is_second_attempt {
                            tokio::time::sleep(REFUSED_PAUSE).await;
                            return Err(StoreError::Away(why));
                        }
                        is_second_attempt = true;
                        links.key_moved(&self.key, why).await?;
                        continue;
                    }
                    if !is_away(&error) {
                        tokio::time::sleep(REFUSED_PAUSE).await;
                        return Err(StoreError::Refused(why));
                    }
                    if is_second_attempt {
                        return Err(StoreError::Away(why));
                    }
                    is_second_attempt = true;
                }
            }
        }
    }

    /// Returns the commands that remove what was returned, and wait for what comes after it.
    fn read_commands(&self, reader: &Reader) -> Pipeline {
        let EntryId { millis: last_millis, sequence } = reader.last;
        let mut commands = pipe();
        if reader.is_untrimmed {
            let next = format!("{last_millis}-{}", sequence.saturating_add(1));
            commands.cmd("XTRIM").arg(&self.key).arg("MINID").arg(next);
        }
        let after = format!("{last_millis}-{sequence}");
        commands.cmd("XREAD").arg("COUNT").arg(MAX_MESSAGES_READ).arg("BLOCK").arg(millis(READ_WAIT));
        commands.arg("STREAMS").arg(&self.key).arg(after);
        commands
    }
}

async fn open(link: &ServerLink) -> Result<Connection, StoreError> {
    let timeout = READ_WAIT + link.connector().response_timeout;
    match link.connector().open(timeout).await {
        Ok(connection) => Ok(connection),
        Err(error) => {
            // A server that refuses connections does it at once, and the caller comes back at once.
            tokio::time::sleep(REFUSED_PAUSE).await;
            Err(StoreError::Away(error.to_string()))
        }
    }
}

/// Returns the command that sends a message. A node without an inbox is dead: nothing is kept for it.
pub(crate) fn send_command(inbox: &str, message: &[u8]) -> Cmd {
    let mut command = cmd("XADD");
    command.arg(inbox).arg("NOMKSTREAM").arg("MAXLEN").arg("~").arg(MAX_UNREAD_MESSAGES);
    command.arg("*").arg(FIELD).arg(message);
    command
}

/// Returns the messages in the answer to an XREAD of one stream, and the id of the last one.
fn entries(answer: Value) -> (Option<EntryId>, Vec<Bytes>) {
    let Value::Array(streams) = answer else {
        return (None, Vec::new());
    };
    let Some(Value::Array(stream)) = streams.into_iter().next() else {
        return (None, Vec::new());
    };
    let entries = stream.into_iter().nth(1).map(stream_entries).unwrap_or_default();
    let last = entries.last().and_then(|(id, _)| EntryId::parse(id));
    (last, entries.into_iter().map(|(_, message)| message).collect())
}

/// Returns the entries of a stream, each with its id and the value of its only field.
fn stream_entries(answer: Value) -> Vec<(Vec<u8>, Bytes)> {
    let Value::Array(entries) = answer else {
        return Vec::new();
    };
    let parts = entries.into_iter().filter_map(|entry| match entry {
        Value::Array(parts) => Some(parts),
        _ => None,
    });
    let entry = |parts: Vec<Value>| {
        let mut parts = parts.into_iter();
        let Value::BulkString(id) = parts.next()? else { return None };
        let Value::Array(fields) = parts.next()? else { return None };
        let Value::BulkString(value) = fields.into_iter().nth(1)? else { return None };
        Some((id, Bytes::from(value)))
    };
    parts.filter_map(entry).collect()
}

impl EntryId {
    fn parse(id: &[u8]) -> Option<Self> {
        let (millis, sequence) = std::str::from_utf8(id).ok()?.split_once('-')?;
        Some(Self { millis: millis.parse().ok()?, sequence: sequence.parse().ok()? })
    }
}

/// The name of the only field of an entry: Redis keeps it once for many entries.
const FIELD: &str = "x";

/// The time for which one command waits for messages. It bounds the time after which a dead server is noticed.
const READ_WAIT: Duration = Duration::from_secs(1);

/// The time for which `receive` waits for a server that is away, before it says so.
const AWAY_PATIENCE: Duration = Duration::from_secs(2);

/// The pause before an error that a caller would get again at once.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The maximum number of messages that one call returns; it bounds the memory that they need.
const MAX_MESSAGES_READ: usize = 128;

/// The time for which the messages to a dead node are kept. A node that loses its connection for less finds them.
const INBOX_LIFETIME: Duration = Duration::from_secs(300);
