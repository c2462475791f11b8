//! The connection to a server that all calls share: a command -> its answer, or at once the reason why there is no
//! connection.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barewire::server::http::cluster::StoreError;
use redis::{Cmd, ErrorKind, Pipeline, ServerError, ServerErrorKind, Value, pipe};
use tokio::sync::{Mutex, Notify, watch};

use crate::RedisError;
use crate::connection::{Connection, Connector, short_reason};
use crate::script::{Script, ScriptCall};

/// The connection of a node to its server, or the reason why there is none.
pub(crate) struct ServerLink {
    connector: Connector,
    state: watch::Sender<LinkState>,
    /// Told when the connection is lost.
    lost: Arc<Notify>,
    /// The time at which a connection was last opened. Locked while another one is being opened.
    opened: Mutex<Option<Instant>>,
    /// Whether the server has said that its Redis Cluster is down. It may be cut off from the others, which do not miss
    /// it.
    is_cut_off: AtomicBool,
}

enum LinkState {
    /// The `attempt` tells this connection from earlier ones, which may still report that they are broken.
    Connected {
        connection: Connection,
        attempt: u64,
    },
    Away {
        why: Arc<str>,
        since: Instant,
        attempt: u64,
    },
}

/// What is sent to a server.
#[derive(Clone, Copy)]
pub(crate) enum Request<'a> {
    Command(&'a Cmd),
    /// Several commands at once. Their answer is an array.
    Commands(&'a Pipeline),
    /// A script with its keys and arguments.
    Script(&'a Script, &'a [&'a str], &'a [&'a [u8]]),
    /// A script that is run several times at once, each time with another key. The answer is an array.
    Scripts(&'a Script, &'a [ScriptCall]),
}

/// The reason why a server did not do what it was asked to.
pub(crate) enum LinkError {
    /// Another server of the Redis Cluster has the keys.
    Moved(String),
    Store(StoreError),
}

impl ServerLink {
    /// Opens a connection. `lost` is told when it is lost.
    pub(crate) async fn open(connector: Connector, lost: Arc<Notify>) -> Result<Self, RedisError> {
        let connection = connector.open(connector.response_timeout).await?;
        Ok(Self::new(connector, LinkState::Connected { connection, attempt: 0 }, lost))
    }

    /// Opens a connection as [`Self::open`] does. If that fails, the server is away.
    pub(crate) async fn open_or_away(connector: Connector, lost: Arc<Notify>) -> Self {
        let state = match connector.open(connector.response_timeout).await {
            Ok(connection) => LinkState::Connected { connection, attempt: 0 },
            Err(error) => LinkState::Away { why: error.to_string().into(), since: Instant::now(), attempt: 0 },
        };
        Self::new(connector, state, lost)
    }

    fn new(connector: Connector, state: LinkState, lost: Arc<Notify>) -> Self {
        let opened = matches!(state, LinkState::Connected { .. }).then(Instant::now);
        let (state, opened) = (watch::Sender::new(state), Mutex::new(opened));
        Self { connector, state, lost, opened, is_cut_off: AtomicBool::new(false) }
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Sends a request, and returns its answer.
    pub(crate) async fn send(&self, request: Request<'_>) -> Result<Value, LinkError> {
        let (connection, attempt) = self.connected().map_err(LinkError::Store)?;
        let answer = match request {
            Request::Command(command) => connection.query(command).await,
            Request::Commands(commands) => connection.query_all(commands).await.map(Value::Array),
            Request::Script(script, keys, arguments) => run(&connection, script, keys, arguments).await,
            Request::Scripts(script, calls) => run_all(&connection, script, calls).await,
        };
        answer.map_err(|error| self.failed(attempt, &error))
    }

    pub(crate) fn is_away(&self) -> bool {
        matches!(*self.state.borrow(), LinkState::Away { .. })
    }

    /// Whether the server has said that its Redis Cluster is down since [`Self::forget_cut_off`].
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Acquire)
    }

    pub(crate) fn forget_cut_off(&self) {
        self.is_cut_off.store(false, Ordering::Release);
    }

    /// Waits until there is a connection, but not longer than this.
    pub(crate) async fn wait_connected(&self, patience: Duration) -> Result<(), StoreError> {
        let mut state = self.state.subscribe();
        let is_connected = |state: &LinkState| matches!(state, LinkState::Connected { .. });
        // The sender is ours, so waiting does not fail; `connected` looks again in any case.
        let _ = tokio::time::timeout(patience, state.wait_for(is_connected)).await;
        self.connected().map(drop)
    }

    /// Connects again, if the connection is lost. A line of the log says so. If it fails, calls get the new reason.
    pub(crate) async fn reconnect(&self) -> Result<(), RedisError> {
        let Ok(mut last_opened) = self.opened.try_lock() else {
            let why = "another attempt to connect is under way".into();
            return Err(RedisError::Unreachable { server: self.connector.address.server(), why });
        };
        if !self.is_away() {
            return Ok(());
        }
        // A server can accept connections, and close each of them at once.
        if let Some(at) = *last_opened {
            tokio::time::sleep(MIN_LIFE.saturating_sub(at.elapsed())).await;
        }
        let (lost_since, last_attempt) = match *self.state.borrow() {
            LinkState::Connected { .. } => return Ok(()),
            LinkState::Away { since, attempt, .. } => (since, attempt),
        };
        let opened = self.connector.open(self.connector.response_timeout).await;
        let connection = opened.inspect_err(|error| {
            tracing::debug!("the store of the cluster is still away: {error}");
            self.state.send_modify(|state| {
                if let LinkState::Away { why, .. } = state {
                    *why = error.to_string().into();
                }
            });
        })?;
        *last_opened = Some(Instant::now());
        self.state.send_replace(LinkState::Connected { connection, attempt: last_attempt + 1 });
        let server = self.connector.address.server();
        tracing::info!("the store of the cluster is back: Redis at {server}, after {:.1?}", lost_since.elapsed());
        Ok(())
    }

    /// Replaces a connection that works, because the name of the server may mean another server now.
    pub(crate) async fn replace(&self) -> Result<(), RedisError> {
        let replacement = self.connector.open(self.connector.response_timeout).await?;
        self.state.send_modify(|state| {
            if let LinkState::Connected { connection, attempt } = state {
                *connection = replacement;
                *attempt += 1;
            }
        });
        Ok(())
    }

    /// Says what the error of a command means for its caller. If the server is away, so is the link.
    fn failed(&self, attempt: u64, error: &redis::RedisError) -> LinkError {
        let why = short_reason(error, self.connector.response_timeout);
        match (is_moved(error), is_away(error)) {
            (true, _) => LinkError::Moved(why),
            // This server is there, but its cluster is not, or is moving the keys.
            (false, true) if is_of_cluster(error) => {
                if has_answer(error, is_cluster_down) {
                    self.is_cut_off.store(true, Ordering::Release);
                }
                LinkError::Store(StoreError::Away(why))
            }
            (false, true) => {
                self.lose(attempt, &why);
                LinkError::Store(StoreError::Away(why))
            }
            (false, false) => LinkError::Store(StoreError::Refused(why)),
        }
    }

    fn lose(&self, of_attempt: u64, why: &str) {
        let is_changed = self.state.send_if_modified(|state| match state {
            LinkState::Connected { attempt, .. } if *attempt == of_attempt => {
                *state = LinkState::Away { why: why.into(), since: Instant::now(), attempt: of_attempt };
                true
            }
            LinkState::Connected { .. } | LinkState::Away { .. } => false,
        });
        if is_changed {
            let server = self.connector.address.server();
            tracing::warn!("the store of the cluster is away: Redis at {server}: {why}");
            self.lost.notify_one();
        }
    }

    fn connected(&self) -> Result<(Connection, u64), StoreError> {
        match &*self.state.borrow() {
            LinkState::Connected { connection, attempt } => Ok((connection.clone(), *attempt)),
            LinkState::Away { why, .. } => Err(StoreError::Away(why.to_string())),
        }
    }
}

impl fmt::Debug for ServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink").field("server", &self.connector.address).field("is_away", &self.is_away()).finish()
    }
}

/// Runs a script by its hash, or by its text if the server does not remember it.
async fn run(
    connection: &Connection,
    script: &Script,
    keys: &[&str],
    arguments: &[&[u8]],
) -> Result<Value, redis::RedisError> {
    match connection.query(script.by_hash(keys).arg(arguments)).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            connection.query(script.by_text(keys).arg(arguments)).await
        }
        answer => answer,
    }
}

/// Runs a script as [`run`] does, once for each of these calls.
async fn run_all(connection: &Connection, script: &Script, calls: &[ScriptCall]) -> Result<Value, redis::RedisError> {
    let mut commands = pipe();
    for call in calls {
        commands.add_command(call.by_hash(script));
    }
    let error = match connection.query_all(&commands).await {
        Ok(answers) => return Ok(Value::Array(answers)),
        Err(error) => error,
    };
    let failed = error.clone().into_server_errors().unwrap_or_else(|| [].into());
    if failed.is_empty() || failed.iter().any(|(_, answer)| answer.kind() != Some(ServerErrorKind::NoScript)) {
        return Err(error);
    }
    // Another node may have made the server remember it meanwhile: the other calls have run.
    let mut commands = pipe();
    for call in failed.iter().filter_map(|(index, _)| calls.get(*index)) {
        commands.add_command(call.by_text(script));
    }
    connection.query_all(&commands).await.map(Value::Array)
}

/// Whether the server does not serve, in contrast to a server that refuses this command. If that is so for one of
/// several commands, all of them are tried again.
pub(crate) fn is_away(error: &redis::RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse | ErrorKind::AuthenticationFailed)
        || is_of_cluster(error)
        || has_answer(error, |answer| match answer.kind() {
            Some(kind) => matches!(kind, ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown),
            // A password that was changed, and a server that is busy with a script of another client.
            None => matches!(answer.code(), "NOAUTH" | "BUSY"),
        })
}

/// Whether another server of the Redis Cluster has the keys of a command.
pub(crate) fn is_moved(error: &redis::RedisError) -> bool {
    has_answer(error, |answer| answer.kind() == Some(ServerErrorKind::Moved))
}

/// Whether a server of a Redis Cluster serves, but not these keys for the moment.
pub(crate) fn is_of_cluster(error: &redis::RedisError) -> bool {
    has_answer(error, |answer| {
        let kind = answer.kind();
        is_cluster_down(answer) || matches!(kind, Some(ServerErrorKind::TryAgain | ServerErrorKind::Ask))
    })
}

fn is_cluster_down(answer: &ServerError) -> bool {
    answer.kind() == Some(ServerErrorKind::ClusterDown)
}

/// Whether the answer to a command, or one of the answers to several commands, is such an error.
fn has_answer(error: &redis::RedisError, is_such: impl Fn(&ServerError) -> bool) -> bool {
    let answers = error.clone().into_server_errors();
    answers.is_some_and(|answers| answers.iter().any(|(_, answer)| is_such(answer)))
}

/// The minimum time between two connections that were opened.
const MIN_LIFE: Duration = Duration::from_secs(1);
