//! A key -> the connection to the server that has it: the only server, or one of a Redis Cluster.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barewire::server::http::cluster::StoreError;
use redis::{Cmd, Pipeline, Value, cmd};
use tokio::sync::Notify;

use crate::RedisError;
use crate::address::{Address, Target};
use crate::connection::Connector;
use crate::link::{LinkError, Request, ServerLink};
use crate::script::{Script, ScriptCall};
use crate::slots::{SLOTS, SlotRange, read_slots, slot_of};
use crate::tls::Tls;

/// The connections of a node to its server or servers.
pub(crate) struct Links {
    engine: Engine,
    /// Told when a connection is lost.
    pub(crate) lost: Arc<Notify>,
}

enum Engine {
    Server(Arc<ServerLink>),
    Cluster(ClusterLinks),
}

/// The connections to the primaries of a Redis Cluster.
struct ClusterLinks {
    /// How the servers are reached that the URL names. All servers have the same user, password and port of TLS.
    seeds: Vec<Connector>,
    table: Mutex<Arc<SlotTable>>,
    /// Held while the table is read again.
    refreshing: tokio::sync::Mutex<()>,
    lost: Arc<Notify>,
}

/// Which server has which slots.
#[derive(Default)]
struct SlotTable {
    ranges: Vec<(SlotRange, Arc<ServerLink>)>,
}

impl SlotTable {
    fn find(&self, slot: u16) -> Option<&Arc<ServerLink>> {
        self.ranges.iter().find(|(range, _)| (range.first..=range.last).contains(&slot)).map(|(_, link)| link)
    }

    /// Returns the servers, each once.
    fn servers(&self) -> Vec<&Arc<ServerLink>> {
        let mut servers: Vec<&Arc<ServerLink>> = Vec::new();
        for (_, link) in &self.ranges {
            if !servers.iter().any(|known| Arc::ptr_eq(known, link)) {
                servers.push(link);
            }
        }
        servers
    }
}

impl Links {
    /// Connects to the server, or to all primaries of the Redis Cluster.
    pub(crate) async fn open(target: Target, tls: Option<Tls>, response_timeout: Duration) -> Result<Self, RedisError> {
        let lost = Arc::new(Notify::new());
        let connector = |address| Connector { address, tls: tls.clone(), response_timeout };
        let engine = match target {
            Target::Server(address) => {
                Engine::Server(Arc::new(ServerLink::open(connector(address), Arc::clone(&lost)).await?))
            }
            Target::Cluster(addresses) => {
                let seeds = addresses.into_iter().map(connector).collect();
                Engine::Cluster(ClusterLinks::open(seeds, Arc::clone(&lost)).await?)
            }
        };
        Ok(Self { engine, lost })
    }

    /// Sends a command about a key, and returns its answer.
    pub(crate) async fn query(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        self.send(key, Request::Command(command)).await
    }

    /// Sends several commands at once, of which each is about this key or one in its slot.
    pub(crate) async fn query_all(&self, key: &str, commands: &Pipeline) -> Result<(), StoreError> {
        self.send(key, Request::Commands(commands)).await.map(drop)
    }

    /// Runs a script about keys in one slot.
    pub(crate) async fn run(&self, script: &Script, keys: &[&str], arguments: &[&[u8]]) -> Result<Value, StoreError> {
        let key = keys.first().copied().unwrap_or_default();
        self.send(key, Request::Script(script, keys, arguments)).await
    }

    /// Runs a script once for each of these calls, whose keys one server has, as it has this key.
    pub(crate) async fn run_all(&self, key: &str, script: &Script, calls: &[ScriptCall]) -> Result<(), StoreError> {
        self.send(key, Request::Scripts(script, calls)).await.map(drop)
    }

    async fn send(&self, key: &str, request: Request<'_>) -> Result<Value, StoreError> {
        for _ in 0..MAX_MOVES {
            let (link, seen) = self.find(key)?;
            match link.send(request).await {
                Ok(answer) => return Ok(answer),
                Err(LinkError::Store(error)) => return Err(error),
                Err(LinkError::Moved(why)) => self.moved(seen.as_ref(), why).await?,
            }
        }
        Err(moving())
    }

    /// Returns the connection to the server that has a key.
    pub(crate) fn at(&self, key: &str) -> Result<Arc<ServerLink>, StoreError> {
        self.find(key).map(|(link, _)| link)
    }

    /// Returns the connection to the server that has a key, and the table that says so.
    fn find(&self, key: &str) -> Result<(Arc<ServerLink>, Option<Arc<SlotTable>>), StoreError> {
        match &self.engine {
            Engine::Server(link) => Ok((Arc::clone(link), None)),
            Engine::Cluster(cluster) => {
                let table = Arc::clone(&cluster.lock());
                let link = table.find(slot_of(key)).map(Arc::clone).ok_or_else(moving)?;
                Ok((link, Some(table)))
            }
        }
    }

    /// Finds out which server has a key that its server no longer has.
    pub(crate) async fn key_moved(&self, key: &str, why: String) -> Result<(), StoreError> {
        let (_, seen) = self.find(key)?;
        self.moved(seen.as_ref(), why).await
    }

    async fn moved(&self, seen: Option<&Arc<SlotTable>>, why: String) -> Result<(), StoreError> {
        match (&self.engine, seen) {
            (Engine::Cluster(cluster), Some(seen)) => cluster.refresh(seen).await,
            _ => Err(StoreError::Refused(format!("{why}; {WRITE_CLUSTER_URL}"))),
        }
    }

    pub(crate) fn is_away(&self) -> bool {
        match &self.engine {
            Engine::Server(link) => link.is_away(),
            Engine::Cluster(cluster) => cluster.lock().servers().iter().any(|link| link.is_away()),
        }
    }

    /// Connects again to servers whose connection is lost. Fails if the server of this key is not among those that are
    /// back.
    pub(crate) async fn reconnect(&self, key: &str) -> Result<(), RedisError> {
        match &self.engine {
            Engine::Server(link) => link.reconnect().await,
            Engine::Cluster(cluster) => {
                let seen = Arc::clone(&cluster.lock());
                if seen.servers().iter().any(|link| link.is_away() || link.is_cut_off()) {
                    // Another server may have taken the place of one that is dead, or cut off from the others.
                    let _ = cluster.refresh(&seen).await;
                }
                let table = Arc::clone(&cluster.lock());
                let of_key = table.find(slot_of(key));
                for link in table.servers() {
                    let is_of_key = of_key.is_some_and(|of_key| Arc::ptr_eq(of_key, link));
                    if !is_of_key && link.is_away() {
                        // The lease is not to wait for a server that has nothing to do with it.
                        let link = Arc::clone(link);
                        tokio::spawn(async move { link.reconnect().await });
                    }
                }
                match of_key {
                    Some(link) => link.reconnect().await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Replaces the connection to the server of a key, because its name may mean another server now.
    pub(crate) async fn replace(&self, key: &str) -> Result<(), RedisError> {
        match self.at(key) {
            Ok(link) => link.replace().await,
            Err(_) => Ok(()),
        }
    }

    /// Returns how the server is reached that the URL names first.
    pub(crate) fn connector(&self) -> &Connector {
        match &self.engine {
            Engine::Server(link) => link.connector(),
            Engine::Cluster(cluster) => cluster.seeds.first().expect("a URL has a host"),
        }
    }

    /// Groups values by the servers that have their keys, so that each group can be sent at once. The order of the
    /// values of one server stays.
    pub(crate) fn group_by_server<T>(&self, values: Vec<T>, key: impl Fn(&T) -> String) -> Vec<(String, Vec<T>)> {
        let mut groups: Vec<(Option<Arc<ServerLink>>, String, Vec<T>)> = Vec::new();
        for value in values {
            let key = key(&value);
            let link = self.at(&key).ok();
            let is_same = |known: &Option<Arc<ServerLink>>| match (known, &link) {
                (Some(known), Some(link)) => Arc::ptr_eq(known, link),
                (known, link) => known.is_none() && link.is_none(),
            };
            match groups.iter_mut().find(|(known, ..)| is_same(known)) {
                Some((_, _, group)) => group.push(value),
                None => groups.push((link, key, vec![value])),
            }
        }
        groups.into_iter().map(|(_, key, group)| (key, group)).collect()
    }
}

impl ClusterLinks {
    async fn open(seeds: Vec<Connector>, lost: Arc<Notify>) -> Result<Self, RedisError> {
        let this = Self { seeds, table: Mutex::default(), refreshing: tokio::sync::Mutex::default(), lost };
        let ranges = ask(&this.seeds.iter().collect::<Vec<_>>()).await?;
        this.set(ranges).await;
        // At the start, a server that cannot be reached is more likely a mistake than a failure.
        let servers: Vec<_> = this.lock().servers().into_iter().map(Arc::clone).collect();
        for link in servers {
            link.reconnect().await?;
        }
        Ok(this)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<SlotTable>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the table again, unless that has happened since a caller has seen it.
    async fn refresh(&self, seen: &Arc<SlotTable>) -> Result<(), StoreError> {
        let _turn = self.refreshing.lock().await;
        let table = Arc::clone(&self.lock());
        if !Arc::ptr_eq(seen, &table) {
            return Ok(());
        }
        // A server that is cut off from the others does not know what they have agreed on.
        let is_cut_off = |address: &Address| {
            let is_same = |link: &&Arc<ServerLink>| link.connector().address.server() == address.server();
            table.servers().into_iter().find(is_same).is_some_and(|link| link.is_cut_off())
        };
        let mut seeds: Vec<&Connector> = self.seeds.iter().collect();
        seeds.sort_by_key(|seed| is_cut_off(&seed.address));
        let links: Vec<_> = table.servers().into_iter().filter(|link| !link.is_away() && !link.is_cut_off()).collect();
        table.servers().into_iter().for_each(|link| link.forget_cut_off());
        for link in links {
            if let Ok(answer) = link.send(Request::Command(&slots_command())).await
                && let Some(ranges) = whole(&answer, &link.connector().address.host)
            {
                self.set(ranges).await;
                return Ok(());
            }
        }
        let ranges = ask(&seeds).await.map_err(|error| StoreError::Away(error.to_string()))?;
        self.set(ranges).await;
        Ok(())
    }

    /// Sets the table, with the connections that there are. Others are opened.
    async fn set(&self, ranges: Vec<SlotRange>) {
        let before = Arc::clone(&self.lock());
        let mut table = SlotTable::default();
        for range in ranges {
            let known = table.ranges.iter().chain(&before.ranges);
            let is_same = |known: &SlotRange| known.host == range.host && known.port == range.port;
            let link = known.into_iter().find(|(known, _)| is_same(known)).map(|(_, link)| Arc::clone(link));
            let link = match link {
                Some(link) => link,
                None => {
                    let seed = self.seeds.first().expect("a URL has a host");
                    let address = Address { host: range.host.clone(), port: range.port, ..seed.address.clone() };
                    let connector = Connector { address, ..seed.clone() };
                    Arc::new(ServerLink::open_or_away(connector, Arc::clone(&self.lost)).await)
                }
            };
            table.ranges.push((range, link));
        }
        *self.lock() = Arc::new(table);
    }
}

/// Asks servers, one after the other, which server has which slots.
async fn ask(seeds: &[&Connector]) -> Result<Vec<SlotRange>, RedisError> {
    let mut first_error = None;
    for seed in seeds {
        let asked = match seed.open(seed.response_timeout).await {
            Ok(connection) => {
                let answer = connection.query(&slots_command()).await;
                answer.map_err(|error| match error.to_string().contains("cluster support disabled") {
                    true => RedisError::Refused { server: seed.address.server(), why: WRITE_SERVER_URL.into() },
                    false => seed.explain(&error),
                })
            }
            Err(error) => Err(error),
        };
        let found = asked.and_then(|answer| {
            whole(&answer, &seed.address.host).ok_or_else(|| RedisError::Refused {
                server: seed.address.server(),
                why: "it does not know a server for each slot: is the Redis Cluster set up (redis-cli --cluster \
                      check)?"
                    .into(),
            })
        });
        match found {
            Ok(ranges) => return Ok(ranges),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.expect("a URL has a host"))
}

fn slots_command() -> Cmd {
    let mut command = cmd("CLUSTER");
    command.arg("SLOTS");
    command
}

/// Reads the slots, if each of them has a server.
fn whole(answer: &Value, asked_host: &str) -> Option<Vec<SlotRange>> {
    let ranges = read_slots(answer, asked_host)?;
    let count: usize = ranges.iter().map(|range| usize::from(range.last.saturating_sub(range.first)) + 1).sum();
    (count == usize::from(SLOTS)).then_some(ranges)
}

fn moving() -> StoreError {
    StoreError::Away("the slots of the Redis Cluster are moving".to_owned())
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.engine {
            Engine::Server(link) => link.fmt(f),
            Engine::Cluster(cluster) => f.debug_list().entries(cluster.lock().servers()).finish(),
        }
    }
}

/// The help for a URL of one server of several.
pub(crate) const WRITE_CLUSTER_URL: &str =
    "it is one of several servers of a Redis Cluster: write redis-cluster://HOST:PORT, or rediss-cluster:// with TLS";

/// The help for a URL of a Redis Cluster that is none.
const WRITE_SERVER_URL: &str = "it is no server of a Redis Cluster: write redis://HOST:PORT, or rediss:// with TLS";

/// The number of times that a command follows its key to another server.
const MAX_MOVES: usize = 4;
