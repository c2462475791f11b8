//! An address -> a connection on which commands are sent and answered.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::transcript::SafeText;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, ServerErrorKind, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;

use crate::RedisError;
use crate::address::Address;
use crate::links::WRITE_CLUSTER_URL;
use crate::tls::Tls;

/// Opens connections to one server.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) address: Address,
    /// `Some` if the address is one with TLS.
    pub(crate) tls: Option<Tls>,
    /// The time after which a command without an answer has failed.
    pub(crate) response_timeout: Duration,
}

impl Connector {
    /// Opens a connection on which each command is answered within `timeout`, and sends a first command on it.
    pub(crate) async fn open(&self, timeout: Duration) -> Result<Connection, RedisError> {
        // A host that is slow to resolve, and two handshakes.
        let limit = self.response_timeout.max(MIN_OPEN_TIMEOUT);
        tokio::time::timeout(limit, self.open_slowly(timeout)).await.unwrap_or_else(|_| {
            let mut why = format!("no answer within {limit:?}; check the address, and that the server runs");
            if self.tls.is_some() {
                // Redis waits for the end of what it takes for a command.
                why.push_str(", with TLS; without TLS the URL begins with redis://");
            }
            Err(RedisError::Unreachable { server: self.address.server(), why })
        })
    }

    async fn open_slowly(&self, timeout: Duration) -> Result<Connection, RedisError> {
        let server = self.address.server();
        let unreachable = |why| RedisError::Unreachable { server: server.clone(), why };
        let found = lookup_host((self.address.host.as_str(), self.address.port)).await;
        let found: Vec<_> = found.map_err(|error| unreachable(format!("no such host ({error})")))?.collect();
        let stream = TcpStream::connect(&found[..]).await.map_err(|error| {
            unreachable(match error.kind() {
                io::ErrorKind::ConnectionRefused => "no server listens there; check the port, and that it runs".into(),
                _ => error.to_string(),
            })
        })?;
        // Commands are small, and each is waited for.
        stream.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
        let connection = match &self.tls {
            Some(tls) => self.log_in(tls.start(&self.address, stream).await?, timeout).await,
            None => self.log_in(stream, timeout).await,
        };
        let connection = connection.map_err(|error| self.explain(&error))?;
        connection.query(&redis::cmd("PING")).await.map_err(|error| self.explain(&error))?;
        Ok(connection)
    }

    async fn log_in<S>(&self, stream: S, timeout: Duration) -> Result<Connection, redis::RedisError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(timeout))
            .set_pipeline_buffer_size(MAX_QUEUED_COMMANDS);
        let made = MultiplexedConnection::new_with_config(&self.address.login, stream, config).await;
        let (commands, driver) = made?;
        Ok(Connection { commands, _driver: Arc::new(Driver(tokio::spawn(driver))) })
    }

    /// Says what an error at the start of a connection means.
    pub(crate) fn explain(&self, error: &redis::RedisError) -> RedisError {
        let server = self.address.server();
        let why = SafeText::new(error).to_string();
        match (error.kind(), error.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS")) => {
                let why = "the user or the password in the URL is wrong, or the server has none".into();
                RedisError::Denied { server, why }
            }
            (_, Some("NOAUTH")) => {
                let why = "it asks for a password; write redis://USER:PASSWORD@HOST, or redis://:PASSWORD@HOST".into();
                RedisError::Denied { server, why }
            }
            (_, Some("NOPERM")) => {
                RedisError::Denied { server, why: format!("{why}; the crate's documentation lists what is needed") }
            }
            (ErrorKind::Io | ErrorKind::Parse, _) if error.is_connection_dropped() && self.tls.is_none() => {
                let why = format!("{why}; if the server expects TLS, the URL begins with rediss://");
                RedisError::Unreachable { server, why }
            }
            (ErrorKind::Io | ErrorKind::Parse, _) => RedisError::Unreachable { server, why },
            (ErrorKind::Server(ServerErrorKind::Moved), _) => {
                RedisError::Refused { server, why: WRITE_CLUSTER_URL.into() }
            }
            (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => {
                RedisError::Refused { server, why: "it is a replica; write the URL of its primary".into() }
            }
            _ => RedisError::Refused { server, why },
        }
    }
}

/// A connection on which many commands are in flight. It is closed when its last clone is dropped, also if commands are
/// still unanswered.
#[derive(Clone)]
pub(crate) struct Connection {
    commands: MultiplexedConnection,
    _driver: Arc<Driver>,
}

struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    pub(crate) async fn query(&self, command: &Cmd) -> Result<Value, redis::RedisError> {
        self.commands.clone().send_packed_command(command).await?.extract_error()
    }

    /// Sends several commands at once, and returns their answers.
    pub(crate) async fn query_all(&self, commands: &Pipeline) -> Result<Vec<Value>, redis::RedisError> {
        commands.query_async(&mut self.commands.clone()).await
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

/// The least time for a new connection. A lost packet of the handshake is sent again after a second.
const MIN_OPEN_TIMEOUT: Duration = Duration::from_millis(1500);

/// The number of commands that wait to be written, before their callers wait for room.
const MAX_QUEUED_COMMANDS: usize = 1024;

/// Says why a command was not answered, without the help for those who are at the start.
pub(crate) fn short_reason(error: &redis::RedisError, timeout: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {timeout:?}");
    }
    let cause = error.source().map(ToString::to_string);
    SafeText::new(cause.unwrap_or_else(|| error.to_string())).to_string()
}
