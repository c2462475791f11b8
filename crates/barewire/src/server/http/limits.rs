//! The limits of a server over HTTP: sizes, numbers and times.

use std::time::Duration;

use crate::peer;

/// All limits of a server over HTTP. `docs/limits.md` has the reasons for the numbers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Open connections. More are accepted only after some have ended.
    pub connections: usize,
    /// Legacy sessions.
    pub sessions: usize,
    /// The time after which an unused session ends.
    pub session_idle: Duration,
    /// Requests being served, and open streams. A legacy request counts until it is answered, even if its client has
    /// disconnected.
    pub exchanges: usize,
    /// Bytes of one body.
    pub body: usize,
    /// Bytes of all long bodies together.
    pub bodies: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// The time for a head to arrive, and for a connection to be without one.
    pub head_timeout: Duration,
    /// The time for a body to arrive.
    pub body_timeout: Duration,
    /// The time in which a client must read some of what is written to it.
    pub write_timeout: Duration,
    /// The interval of keep-alive comments on a quiet stream. A response that is not ready by then becomes a stream.
    pub keep_alive: Duration,
    /// The time after which a legacy client should reconnect when its connection breaks.
    pub retry: Duration,
    /// The time that running requests have to finish when the server shuts down.
    pub grace: Duration,
    /// The limits of each session, and of each standalone request.
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
