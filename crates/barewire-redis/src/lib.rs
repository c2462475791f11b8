//! Redis or Valkey as the store that the nodes of a cluster share.
//!
//! ```no_run
//! # async fn run() -> Result<(), barewire_redis::RedisError> {
//! use barewire_redis::Redis;
//!
//! // With TLS and a user: rediss://USER:PASSWORD@HOST:PORT/DATABASE
//! let store = Redis::connect("redis://127.0.0.1:6379").await?;
//! # Ok(()) }
//! ```
//!
//! A [`Redis`] is one node of a cluster: it has a number, and a lease in the store that it renews every second, and that
//! ends when its server stops. It implements [`ClusterStore`](barewire::server::http::cluster::ClusterStore), which says
//! what is promised.
//!
//! # The server
//!
//! Redis 6.2 or later, or Valkey, without modules. What the cluster keeps must not be evicted: set `maxmemory-policy
//! noeviction` (the default).
//!
//! What survives the death of the server is a matter of its settings. With `appendonly yes` and `appendfsync always`,
//! everything that was acknowledged. With `appendfsync everysec` (the default), the last two seconds can be lost, even
//! if only the process is killed: while the disk is busy, Redis acknowledges before it writes. Without `appendonly`,
//! everything since the last snapshot. A replica that takes over can lack what was acknowledged shortly before, because
//! Redis replicates asynchronously. Nodes that live on come back in all cases, with the numbers that they had.
//!
//! Sentinel is not supported: the URL is that of one server, or of a proxy or a name that follows the primary.
//!
//! # Redis Cluster
//!
//! The URL of a Redis Cluster is `redis-cluster://USER:PASSWORD@HOST:PORT,HOST:PORT` or, with TLS, begins with
//! `rediss-cluster`. It names one or more of its servers, which know the others; all have the same user and password.
//! The nodes must reach every server at the address that it announces. For TLS, the servers need `tls-cluster yes`.
//!
//! The keys of a session have the same hash tag, and so have those of a task and of all leases: each command, script
//! and transaction touches one slot. A node has one connection to each primary, and another one to the primary that has
//! the messages to it. If a replica takes the place of a primary, or slots have moved, the nodes follow, also if the
//! old primary still answers but is cut off from the others. While a slot is being moved, commands about it fail as if
//! the server were away. If a primary dies without a replica, only the sessions in its slots are away, provided that
//! `cluster-require-full-coverage` is `no`.
//!
//! A user of an ACL needs the keys `PREFIX:*` and these commands:
//! `+ping +get +getex +set +unlink +exists +incr +pttl +pexpire +sadd +srem +smembers +sismember +rpush +lpush +lpop
//! +llen +lrange +xadd +xtrim +xread +getrange +eval +evalsha +multi +exec`, and `+cluster|slots` with a Redis Cluster.
//! With `+info`, it is checked at the start whether keys are evicted.
//!
//! # Keys
//!
//! | key | is |
//! |---|---|
//! | `barewire:{session/Zx9}` | a string: the record `session/Zx9`, after 8 bytes that are its version |
//! | `barewire:{session/Zx9}/events` | a list: the length and the entries of the log `session/Zx9/events` |
//! | `barewire:{nodes}:last`, `barewire:{nodes}:all` | the number that was given last, the set of nodes |
//! | `barewire:{nodes}:lease:17` | the lease of node 17; it ends a day before the key expires |
//! | `barewire:{node/17}:inbox` | a stream: the messages to node 17 that it has not read |
//!
//! Clusters with different prefixes ([`RedisBuilder::prefix`]) share a server without meeting. All keys expire, except
//! the number and the set.
//!
//! # When the server is away
//!
//! A call ends with [`StoreError::Away`](barewire::server::http::cluster::StoreError) if the server does not answer
//! within the response timeout, one second. From then on all calls fail at once, until the connection is open again,
//! which is tried at least once a second. A server is connected to no more than once a second, so one that closes each
//! connection is not flooded. A line of the log says that the server is away, and another that it is back.
//! While no node can renew its lease, because the server is away, no lease ends.

#![warn(clippy::exhaustive_structs, clippy::exhaustive_enums)]

mod address;
mod builder;
mod connection;
mod error;
mod inbox;
mod keys;
mod lease;
mod link;
mod links;
mod node;
mod script;
mod slots;
mod store;
mod tls;

pub use builder::RedisBuilder;
pub use error::RedisError;
pub use node::Redis;

/// The examples in the guide to several machines compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/scaling.md")]
struct ScalingGuide;
