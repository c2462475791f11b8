//! The limits of a server over HTTP: sizes, numbers and times.

use std::time::Duration;

use crate::peer;

/// All limits of a server over HTTP. `docs/limits.md` explains the default values.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpLimits {
    /// The maximum number of open connections. At the limit, no connection is accepted until another one closes.
    pub connections: usize,
    /// The maximum number of legacy sessions. At the limit, a new session takes the place of the oldest one that has
    /// sent nothing since `initialize`. On a node of a [cluster](super::HttpBuilder::cluster), the maximum number of
    /// copies of sessions: at the limit, a new copy takes the place of the one that was unused for the longest time.
    pub sessions: usize,
    /// The number of sessions that no other sender can take away from a sender: a principal or, without
    /// authentication, the [address](super::PeerAddress) that requests come from. A sender can open more sessions
    /// while there is room. At the limit for all sessions, a sender that has fewer than its share takes the place of
    /// the session that was unused for the longest time, of the sender that has the most, if that sender has more than
    /// its share. A session with a running request or an open stream keeps its place.
    pub session_share: usize,
    /// The time after which an unused session ends.
    pub session_idle: Duration,
    /// The time after which a session ends that has sent nothing since `initialize`.
    pub session_silent: Duration,
    /// The time after which a node of a [cluster](super::HttpBuilder::cluster) drops its copy of a session that it does
    /// not use. The next request of the session makes a copy again, from the store. Without a cluster this has no
    /// effect.
    pub session_copy_idle: Duration,
    /// The maximum number of requests being served and of open streams together. A legacy request counts until it is
    /// answered, even if its client has disconnected.
    pub exchanges: usize,
    /// The maximum number of requests being served and of open streams of one sender: a principal or, without
    /// authentication, the [address](super::PeerAddress) that requests come from.
    pub exchanges_per_sender: usize,
    /// The maximum number of requests being served and of open streams of one legacy session.
    pub exchanges_per_session: usize,
    /// The maximum length of one request body, in bytes.
    pub body: usize,
    /// The maximum total length of all request bodies longer than 64 KiB, in bytes.
    pub bodies: usize,
    /// The maximum length of a request's head, in bytes.
    pub head: usize,
    /// The maximum time until the head of the next request has arrived. It also limits how long a connection may be
    /// idle.
    pub head_timeout: Duration,
    /// The maximum time until a request body has arrived.
    pub body_timeout: Duration,
    /// The maximum time that a client may read nothing while output is pending.
    pub write_timeout: Duration,
    /// The interval of keep-alive comments on a stream without other traffic. A response that is not ready after this
    /// time becomes a stream.
    pub keep_alive: Duration,
    /// The time that a legacy client is asked to wait before it reconnects after its connection broke.
    pub retry: Duration,
    /// The time that running requests have to finish when the server shuts down.
    pub grace: Duration,
    /// The limits of each legacy session, and of each modern request, which is served like a connection of its own.
    pub engine: peer::ConnectionLimits,
}

impl Default for HttpLimits {
    fn default() -> Self {
        let engine = peer::ConnectionLimits { output: 1024 * 1024, ..peer::ConnectionLimits::default() };
        Self {
            connections: 16 * 1024,
            sessions: 10_000,
            session_share: 1000,
            session_idle: Duration::from_secs(30 * 60),
            session_silent: Duration::from_secs(60),
            session_copy_idle: Duration::from_secs(30),
            exchanges: 16 * 1024,
            exchanges_per_sender: 8 * 1024,
            exchanges_per_session: 1024,
            body: 4 * 1024 * 1024,
            bodies: 128 * 1024 * 1024,
            head: 32 * 1024,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            retry: Duration::from_secs(1),
            grace: Duration::from_secs(5),
            engine,
        }
    }
}
