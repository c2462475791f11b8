//! The operations of the library's trait -> commands of Redis.
//!
//! A log is a list, not a stream: a stream takes more than 4 KiB from its first entry on, and its ids are not needed.
//! The first element of the list is the total length of the entries, which follow it.

use std::collections::HashMap;
use std::time::Duration;

use barewire::server::http::cluster::{ClusterFuture, ClusterStore, LogEntry, MAX_LOG_BYTES, Record, StoreError};
use bytes::Bytes;
use redis::{Value, cmd, pipe};

use crate::inbox::send_command;
use crate::keys::Keys;
use crate::lease::millis;
use crate::node::{Redis, Shared};
use crate::script::ScriptCall;

impl ClusterStore for Redis {
    fn node(&self) -> u32 {
        self.shared.number
    }

    fn nodes(&self) -> ClusterFuture<'_, Vec<u32>> {
        Box::pin(async move { self.shared.leases.nodes(&self.shared.links, &self.shared.keys).await })
    }

    fn create<'a>(&'a self, name: &'a str, value: Bytes, lifetime: Duration) -> ClusterFuture<'a, Option<u64>> {
        Box::pin(async move {
            let (version, stored) = new_version(&value)?;
            let key = self.shared.keys.name(name);
            let mut command = cmd("SET");
            command.arg(&key).arg(stored).arg("NX").arg("PX").arg(millis(lifetime));
            let answer = self.shared.links.query(&key, &command).await?;
            Ok((answer != Value::Nil).then_some(version))
        })
    }

    fn read<'a>(&'a self, name: &'a str, lifetime: Option<Duration>) -> ClusterFuture<'a, Option<Record>> {
        Box::pin(async move {
            let key = self.shared.keys.name(name);
            let command = match lifetime {
                Some(lifetime) => {
                    let mut command = cmd("GETEX");
                    command.arg(&key).arg("PX").arg(millis(lifetime));
                    command
                }
                None => {
                    let mut command = cmd("GET");
                    command.arg(&key);
                    command
                }
            };
            match self.shared.links.query(&key, &command).await? {
                Value::Nil => Ok(None),
                Value::BulkString(stored) => parse_record(stored).map(Some).ok_or_else(|| not_ours(name)),
                _ => Err(not_ours(name)),
            }
        })
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        version: u64,
        value: Bytes,
        lifetime: Duration,
    ) -> ClusterFuture<'a, Option<u64>> {
        Box::pin(async move {
            let (new_version, stored) = new_version(&value)?;
            let (key, lifetime) = (self.shared.keys.name(name), millis(lifetime).to_string());
            let arguments = [&version.to_be_bytes()[..], &stored, lifetime.as_bytes()];
            let answer = self.shared.links.run(&self.shared.replace, &[&key], &arguments).await?;
            Ok((answer == Value::Int(1)).then_some(new_version))
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, bool> {
        Box::pin(async move {
            // The memory of a long log is freed by another thread of the server.
            let key = self.shared.keys.name(name);
            let answer = self.shared.links.query(&key, cmd("UNLINK").arg(&key)).await?;
            Ok(answer == Value::Int(1))
        })
    }

    fn append(&self, entries: Vec<LogEntry>) -> ClusterFuture<'_, ()> {
        Box::pin(async move {
            let Shared { links, keys, append, .. } = &*self.shared;
            for (key, entries) in links.group_by_server(entries, |entry| keys.name(&entry.name)) {
                links.run_all(&key, append, &append_calls(entries, keys)).await?;
            }
            Ok(())
        })
    }

    fn log<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, Vec<Bytes>> {
        Box::pin(async move {
            let key = self.shared.keys.name(name);
            let mut command = cmd("LRANGE");
            // All of it, which is bounded by what is appended. In parts, it could change meanwhile.
            command.arg(&key).arg(1).arg(-1);
            let Value::Array(entries) = self.shared.links.query(&key, &command).await? else {
                return Err(not_ours(name));
            };
            let entry = |entry| match entry {
                Value::BulkString(entry) => Ok(Bytes::from(entry)),
                _ => Err(not_ours(name)),
            };
            entries.into_iter().map(entry).collect()
        })
    }

    fn send(&self, to: u32, message: Bytes) -> ClusterFuture<'_, ()> {
        Box::pin(async move {
            let inbox = self.shared.keys.inbox(to);
            let command = send_command(&inbox, &message);
            self.shared.links.query(&inbox, &command).await.map(drop)
        })
    }

    fn send_all(&self, to: u32, messages: Vec<Bytes>) -> ClusterFuture<'_, ()> {
        Box::pin(async move {
            if messages.is_empty() {
                return Ok(());
            }
            let inbox = self.shared.keys.inbox(to);
            let mut commands = pipe();
            for message in &messages {
                commands.add_command(send_command(&inbox, message));
            }
            self.shared.links.query_all(&inbox, &commands).await
        })
    }

    fn receive(&self) -> ClusterFuture<'_, Vec<Bytes>> {
        Box::pin(self.shared.inbox.receive(&self.shared.links))
    }

    fn leave(&self) -> ClusterFuture<'_, ()> {
        Box::pin(self.end_lease())
    }

    fn is_away(&self) -> bool {
        self.shared.links.is_away()
    }
}

/// Returns what the script that appends is run with: one call for each log. Its last entry says how many are kept, and
/// for how long.
fn append_calls(entries: Vec<LogEntry>, keys: &Keys) -> Vec<ScriptCall> {
    let mut calls: Vec<ScriptCall> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for LogEntry { name, entry, keep, lifetime } in entries {
        let place = *places.entry(name).or_insert_with_key(|name| {
            calls.push(ScriptCall { key: keys.name(name), arguments: vec![Bytes::new(); 3] });
            calls.len() - 1
        });
        let arguments = &mut calls[place].arguments;
        let bounds = [keep.clamp(1, MAX_KEPT).to_string(), MAX_LOG_BYTES.to_string(), millis(lifetime).to_string()];
        for (argument, bound) in arguments.iter_mut().zip(bounds) {
            *argument = bound.into();
        }
        arguments.push(entry);
    }
    calls
}

/// Returns a version that no record of this name has had, and a value with it in front. It is random, because the name
/// may be used again by a node that does not know the versions before. Its highest bit is 0, so that it also fits into
/// the signed integers of other programs.
fn new_version(value: &[u8]) -> Result<(u64, Vec<u8>), StoreError> {
    let random = getrandom::u64().map_err(|error| StoreError::Refused(format!("no random bytes: {error}")))?;
    let version = random >> 1;
    let mut stored = Vec::with_capacity(VERSION_LENGTH + value.len());
    stored.extend_from_slice(&version.to_be_bytes());
    stored.extend_from_slice(value);
    Ok((version, stored))
}

fn parse_record(stored: Vec<u8>) -> Option<Record> {
    let version = u64::from_be_bytes(*stored.first_chunk()?);
    Some(Record { version, value: Bytes::from(stored).slice(VERSION_LENGTH..) })
}

fn not_ours(name: &str) -> StoreError {
    StoreError::Refused(format!("{name:?} is neither a record nor a log; is another program using this prefix?"))
}

/// The highest number that the server takes for the length of a list.
const MAX_KEPT: usize = i32::MAX as usize;

const VERSION_LENGTH: usize = size_of::<u64>();

/// Replaces a record if the version in front of it is this one.
pub(crate) const REPLACE: &str = "
if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
";

/// Appends entries to a log, and drops the oldest ones if there are too many or they are too long together. It appends
/// before it changes anything else, because a server that is full refuses only the first change.
pub(crate) const APPEND: &str = "
local log, keep, longest = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local count, total = redis.call('LLEN', log), 0
for i = 4, #ARGV do
  redis.call('RPUSH', log, ARGV[i])
  total = total + #ARGV[i]
end
if count > 0 then
  total = total + (tonumber(redis.call('LPOP', log)) or 0)
  count = count - 1
end
count = count + #ARGV - 3
while count > 1 and (count > keep or total > longest) do
  total = total - #redis.call('LPOP', log)
  count = count - 1
end
redis.call('LPUSH', log, total)
redis.call('PEXPIRE', log, ARGV[3])
";
