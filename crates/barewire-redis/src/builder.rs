//! Settings and a URL -> a node that is connected.

use std::time::Duration;

use barewire::server::http::cluster::StoreError;
use redis::{Value, cmd};

use crate::RedisError;
use crate::address::Target;
use crate::keys::Keys;
use crate::links::{Links, WRITE_CLUSTER_URL};
use crate::node::Redis;
use crate::tls::Tls;

/// The settings of a [`Redis`], which [`Redis::builder`] returns.
///
/// ```no_run
/// # async fn run() -> Result<(), barewire_redis::RedisError> {
/// use std::time::Duration;
/// use barewire_redis::Redis;
///
/// let store = Redis::builder()
///     .prefix("staging")
///     .response_timeout(Duration::from_millis(300))
///     .connect("rediss://barewire:secret@redis.example")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct RedisBuilder {
    prefix: String,
    response_timeout: Duration,
    certificate_authorities: Vec<Vec<u8>>,
}

impl RedisBuilder {
    pub(crate) fn new() -> Self {
        Self {
            prefix: "barewire".into(),
            response_timeout: Duration::from_secs(1),
            certificate_authorities: Vec::new(),
        }
    }

    /// Sets the prefix of all keys, `barewire` by default. Nodes with the same prefix are one cluster.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the time after which a server that does not answer is away, one second by default.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Trusts a certificate authority, in PEM format, in addition to those that the platform trusts. The environment
    /// variable `SSL_CERT_FILE` does the same.
    pub fn certificate_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificate_authorities.push(pem.into());
        self
    }

    /// Connects to the server at a URL and joins the cluster. The URL is `redis://USER:PASSWORD@HOST:PORT/DATABASE`, or
    /// begins with `rediss` for TLS. User, password, port and database may be left out. For a Redis Cluster, it is
    /// `redis-cluster://USER:PASSWORD@HOST:PORT,HOST:PORT`, or begins with `rediss-cluster`, and names one or more of
    /// its servers.
    ///
    /// # Errors
    /// If the server cannot be used. The error says what to do.
    pub async fn connect(self, url: &str) -> Result<Redis, RedisError> {
        let keys = Keys::new(&self.prefix)?;
        let target = Target::parse(url)?;
        let tls = if target.is_tls() { Some(Tls::trusting(self.certificate_authorities).await?) } else { None };
        let is_cluster = matches!(target, Target::Cluster(_));
        let links = Links::open(target, tls, self.response_timeout).await?;
        check_server(&links, &keys, is_cluster).await?;
        let server = links.connector().address.server();
        Redis::join(links, keys).await.map_err(|error| match error {
            StoreError::Refused(why) => RedisError::Refused { server, why },
            error => RedisError::Unreachable { server, why: error.to_string() },
        })
    }
}

/// Checks that the server knows the commands that are needed, and warns if it may drop keys.
async fn check_server(links: &Links, keys: &Keys, is_cluster: bool) -> Result<(), RedisError> {
    let link = links.at(&keys.last_number()).map_err(|error| RedisError::Unreachable {
        server: links.connector().address.server(),
        why: error.to_string(),
    })?;
    let connection = link.connector().open(link.connector().response_timeout).await?;
    // Not everybody may ask for it.
    let info = match connection.query(&cmd("INFO")).await {
        Ok(Value::BulkString(info)) => String::from_utf8_lossy(&info).into_owned(),
        _ => String::new(),
    };
    let fact = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    // A Redis Cluster of one server can be used as a server.
    if fact("redis_mode") == Some("cluster")
        && !is_cluster
        && let Ok(Value::BulkString(info)) = connection.query(cmd("CLUSTER").arg("INFO")).await
        && !String::from_utf8_lossy(&info).contains("cluster_size:1\r")
    {
        let server = link.connector().address.server();
        return Err(RedisError::Refused { server, why: WRITE_CLUSTER_URL.into() });
    }
    // GETEX is one of the commands that came with Redis 6.2.
    if let Err(error) = connection.query(cmd("GETEX").arg(keys.last_number()).arg("PERSIST")).await {
        let server = link.connector().address.server();
        if error.to_string().contains("unknown command") {
            return Err(RedisError::TooOld { server, version: fact("redis_version").map(str::to_owned) });
        }
        return Err(link.connector().explain(&error));
    }
    if let Some(policy) = fact("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        let server = link.connector().address.server();
        tracing::warn!(
            "Redis at {server} has the maxmemory-policy {policy}: if its memory is full, it drops sessions; \
             set it to noeviction"
        );
    }
    Ok(())
}
