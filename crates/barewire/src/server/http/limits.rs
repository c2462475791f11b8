//! What a server over HTTP may hold, and how long it waits.

use std::time::Duration;

use crate::peer;

/// Every bound of a server over HTTP. `docs/limits.md` has the reasons for the numbers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Connections at once; more are not accepted until some have ended.
    pub connections: usize,
    /// Sessions of the legacy era.
    pub sessions: usize,
    /// How long a session may be unused.
    pub session_idle: Duration,
    /// Requests under way at once, and open streams. A request of the legacy era counts until it is answered, also if its
    /// client has left.
    pub exchanges: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of long bodies at once, together.
    pub bodies: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// How long a head may take to come, and a connection may be without one.
    pub head_timeout: Duration,
    /// How long a body may take to come.
    pub body_timeout: Duration,
    /// How long a client may take no byte of what is written to it.
    pub write_timeout: Duration,
    /// After so much silence a stream is seen to be alive, and an answer that is not there yet becomes a stream.
    pub keep_alive: Duration,
    /// After what time a legacy client is to come back when its connection breaks.
    pub retry: Duration,
    /// How long what is under way may go on when the server shuts down.
    pub grace: Duration,
    /// The bounds of each session, and of each request that stands by itself.
    pub engine: peer::ConnectionLimits,
}

impl Default for HttpLimits {
    fn default() -> Self {
        let engine = peer::ConnectionLimits { output: 1024 * 1024, ..peer::ConnectionLimits::default() };
        Self {
            connections: 16 * 1024,
            sessions: 10_000,
            session_idle: Duration::from_secs(30 * 60),
            exchanges: 16 * 1024,
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
