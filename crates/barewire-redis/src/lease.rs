//! The nodes of a cluster: their numbers, and the leases by which others see that they are alive.
//!
//! A lease is a key that expires a day after the lease has ended, so the time that the lease has left is the time to
//! live of the key less a day. This has two advantages over a key that simply expires: after an outage of the server it
//! can be seen which nodes were alive before, and a full server still renews it, because `PEXPIRE` takes no memory.

use std::time::Duration;

use barewire::server::http::cluster::{MAX_NODE, NODE_LEASE, StoreError};
use redis::{Value, pipe};

use crate::keys::Keys;
use crate::links::Links;
use crate::script::Script;

/// The scripts for leases.
pub(crate) struct Leases {
    claim: Script,
    renew: Script,
    nodes: Script,
}

impl Leases {
    pub(crate) fn new() -> Self {
        Self { claim: Script::new(CLAIM), renew: Script::new(RENEW), nodes: Script::new(NODES) }
    }

    /// Returns a number that no other node has. The node is among the nodes when its lease is renewed.
    pub(crate) async fn claim(&self, links: &Links, keys: &Keys) -> Result<u32, StoreError> {
        let start = random_number()?.to_string();
        let (max, lifetime) = (MAX_NODE.to_string(), millis(NODE_LEASE + LEASE_KEY_TIME).to_string());
        let leases = keys.leases();
        let arguments = [leases.as_bytes(), start.as_bytes(), max.as_bytes(), lifetime.as_bytes()];
        let number = links.run(&self.claim, &[&keys.last_number()], &arguments).await?;
        match number {
            Value::Int(number) => u32::try_from(number).ok().filter(|number| (1..=MAX_NODE).contains(number)),
            _ => None,
        }
        .ok_or_else(|| StoreError::Refused("there is no free number for this node".into()))
    }

    /// Renews the lease of a node.
    pub(crate) async fn renew(&self, links: &Links, keys: &Keys, number: u32) -> Result<(), StoreError> {
        let times = [NODE_LEASE, LEASE_KEY_TIME, MAX_SILENCE, REMOVED_AFTER].map(|time| millis(time).to_string());
        let (leases, number) = (keys.leases(), number.to_string());
        let mut arguments = vec![leases.as_bytes(), number.as_bytes()];
        arguments.extend(times.iter().map(String::as_bytes));
        links.run(&self.renew, &[&keys.nodes()], &arguments).await.map(drop)
    }

    /// Returns the numbers of the nodes that are alive.
    pub(crate) async fn nodes(&self, links: &Links, keys: &Keys) -> Result<Vec<u32>, StoreError> {
        let times = [NODE_LEASE, LEASE_KEY_TIME, MAX_SILENCE].map(|time| millis(time).to_string());
        let leases = keys.leases();
        let mut arguments = vec![leases.as_bytes()];
        arguments.extend(times.iter().map(String::as_bytes));
        let nodes = links.run(&self.nodes, &[&keys.nodes()], &arguments).await?;
        redis::from_redis_value(nodes).map_err(|error| StoreError::Refused(error.to_string()))
    }

    /// Ends the lease of a node.
    pub(crate) async fn leave(&self, links: &Links, keys: &Keys, number: u32) -> Result<(), StoreError> {
        let mut commands = pipe();
        commands.cmd("SREM").arg(keys.nodes()).arg(number);
        commands.cmd("UNLINK").arg(format!("{}{number}", keys.leases()));
        links.query_all(&keys.nodes(), &commands).await
    }
}

fn random_number() -> Result<u32, StoreError> {
    let random = getrandom::u32().map_err(|error| StoreError::Refused(format!("no random bytes: {error}")))?;
    Ok(random % MAX_NODE)
}

/// Returns a time in milliseconds, as Redis takes it: not zero, and not beyond what it can add to its clock.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).clamp(1, MAX_MILLIS)
}

/// A hundred years.
const MAX_MILLIS: u64 = 100 * 365 * 24 * 3600 * 1000;

/// The time for which the key of a lease outlives the lease. After an outage that is longer, all nodes seem dead for a
/// second.
const LEASE_KEY_TIME: Duration = Duration::from_secs(24 * 3600);

/// If no node has renewed its lease for this time, it was not the nodes that failed: each renews it every second.
const MAX_SILENCE: Duration = Duration::from_millis(2500);

/// The time after which a dead node is removed from the set.
const REMOVED_AFTER: Duration = Duration::from_secs(60);

/// Counts up until a number is free. The count begins at a random number: a server that has lost its data does not give
/// the number of a node that is alive again.
const CLAIM: &str = "
local leases, start, max, lifetime = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('SET', KEYS[1], start)
end
for _ = 1, 1000 do
  local number = (redis.call('INCR', KEYS[1]) - 1) % max + 1
  if redis.call('SET', leases .. number, '1', 'NX', 'PX', lifetime) then
    return number
  end
end
return 0
";

/// Extends the leases of all who were alive before an outage, then renews that of one node. Commands that take memory
/// are used only if something is missing.
const RENEW: &str = "
local leases, number = ARGV[1], ARGV[2]
local lease, kept = tonumber(ARGV[3]), tonumber(ARGV[4])
local max_silence, removed_after = tonumber(ARGV[5]), tonumber(ARGV[6])
local left, longest = {}, -kept
for _, node in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  left[node] = redis.call('PTTL', leases .. node) - kept
  longest = math.max(longest, left[node])
end
local silence = lease - longest
for node, time in pairs(left) do
  if silence > max_silence and time + silence > 0 then
    redis.call('PEXPIRE', leases .. node, time + silence + kept)
  elseif time < -removed_after and node ~= number then
    redis.call('SREM', KEYS[1], node)
    redis.call('UNLINK', leases .. node)
  end
end
if redis.call('PEXPIRE', leases .. number, lease + kept) == 0 then
  redis.call('SET', leases .. number, '1', 'PX', lease + kept)
end
if not left[number] then
  redis.call('SADD', KEYS[1], number)
end
return 1
";

/// Lists the nodes whose lease has not ended, or had not when a node renewed its lease for the last time.
const NODES: &str = "
local leases, lease, kept, max_silence = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local left, longest = {}, -kept
for _, node in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  left[node] = redis.call('PTTL', leases .. node) - kept
  longest = math.max(longest, left[node])
end
local silence = lease - longest
if silence <= max_silence then
  silence = 0
end
local alive = {}
for node, time in pairs(left) do
  if time + silence > 0 then
    table.insert(alive, tonumber(node))
  end
end
table.sort(alive)
return alive
";
