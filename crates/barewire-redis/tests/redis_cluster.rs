//! A Redis Cluster of three servers as the store.

use std::time::Duration;

use barewire::server::http::HttpLimits;
use barewire::server::http::cluster::{ClusterStore, LogEntry, StoreError, check_store};
use barewire_redis::Redis;
use bytes::Bytes;
use serde_json::json;

use crate::access::add_user;
use crate::copies::{AT_ONCE, Handlers, Node, eventually, limits, next_with};
use crate::redis_server::{RedisServer, patient};
use crate::wire::call;

/// Three primaries, of which each has a third of the slots.
struct RedisCluster {
    servers: Vec<RedisServer>,
}

impl RedisCluster {
    async fn start() -> Self {
        let this = Self { servers: (0..3).map(|_| start_server()).collect() };
        for (number, (server, slots)) in this.servers.iter().zip(SLOTS).enumerate() {
            // As redis-cli does it.
            assert_eq!(server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]), "+OK\r\n");
            let all: Vec<String> = (slots.0..=slots.1).map(|slot| slot.to_string()).collect();
            let all: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(all.iter().map(String::as_str)).collect();
            assert_eq!(server.command(&all), "+OK\r\n");
        }
        meet(&this.servers[0], &this.servers[1]);
        meet(&this.servers[0], &this.servers[2]);
        meet(&this.servers[1], &this.servers[2]);
        this.until_whole().await;
        this
    }

    /// Waits until each server knows a server for each slot.
    async fn until_whole(&self) {
        eventually("the servers are a cluster", async || {
            self.servers.iter().all(|server| {
                let info = server.command(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_size:3")
            })
        })
        .await;
    }

    fn url(&self) -> String {
        let hosts: Vec<String> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        format!("redis-cluster://{}", hosts.join(","))
    }

    async fn join(&self) -> Redis {
        patient().connect(&self.url()).await.expect("the servers run")
    }

    /// Returns the number of the server that has a key.
    fn server_of(&self, key: &str) -> usize {
        let slot = self.servers[0].command(&["CLUSTER", "KEYSLOT", key]);
        let slot: u16 = slot.trim().trim_start_matches(':').parse().expect("a number");
        SLOTS.iter().position(|(first, last)| (*first..=*last).contains(&slot)).expect("all slots are there")
    }

    /// Returns a name of a record that this server has.
    fn name_on(&self, server: usize) -> String {
        let mut names = (0..).map(|number| format!("session/{number}"));
        names.find(|name| self.server_of(&format!("barewire:{{{name}}}")) == server).expect("there is one")
    }
}

fn start_server() -> RedisServer {
    // Servers that are busy are not dead.
    RedisServer::start(&[
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        "BUS",
        "--cluster-node-timeout",
        "30000",
        "--repl-diskless-sync-delay",
        "0",
        "--cluster-require-full-coverage",
        "no",
        "--enable-debug-command",
        "yes",
    ])
}

/// Starts a replica of one of the servers, which has its data and is known to all.
async fn start_replica(cluster: &RedisCluster, primary: usize) -> RedisServer {
    let replica = start_server();
    cluster.servers.iter().for_each(|server| meet(server, &replica));
    let id = cluster.servers[primary].command(&["CLUSTER", "MYID"]);
    let id = id.lines().nth(1).expect("the id").to_owned();
    eventually("it is a replica", async || replica.command(&["CLUSTER", "REPLICATE", &id]) == "+OK\r\n").await;
    eventually("it has the data", async || replica.command(&["INFO", "replication"]).contains("master_link_status:up"))
        .await;
    let id = replica.command(&["CLUSTER", "MYID"]);
    let id = id.lines().nth(1).expect("the id").to_owned();
    let knows = |server: &RedisServer| {
        let nodes = server.command(&["CLUSTER", "NODES"]);
        nodes.lines().any(|line| line.starts_with(&id) && line.contains("slave") && line.contains(" connected"))
    };
    eventually("all servers know it", async || cluster.servers.iter().all(knows)).await;
    replica
}

/// Introduces a server to another one.
fn meet(server: &RedisServer, newcomer: &RedisServer) {
    let answer = newcomer.command(&["CONFIG", "GET", "cluster-port"]);
    let bus_port = answer.lines().last().expect("the port");
    let port = newcomer.port().to_string();
    assert_eq!(server.command(&["CLUSTER", "MEET", "127.0.0.1", &port, bus_port]), "+OK\r\n");
}

const SLOTS: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

#[tokio::test]
async fn a_redis_cluster_is_a_store() {
    let cluster = RedisCluster::start().await;
    check_store(|| cluster.join()).await;
}

/// What is appended at once goes to the servers that have it, and each log stays in its order.
#[tokio::test]
async fn entries_go_to_the_servers_of_their_logs() {
    let cluster = RedisCluster::start().await;
    let one = cluster.join().await;
    let names: Vec<String> = (0..30).map(|number| format!("session/{number}/events")).collect();
    let entry = |name: &String, text: String| LogEntry {
        name: name.clone(),
        entry: text.into(),
        keep: 10,
        lifetime: Duration::from_secs(60),
    };
    let entries = (0..3).flat_map(|turn| names.iter().map(move |name| entry(name, turn.to_string())));
    one.append(entries.collect()).await.expect("all servers are there");
    for name in &names {
        assert_eq!(one.log(name).await, Ok(["0", "1", "2"].map(Bytes::from).to_vec()), "{name}");
    }
    for server in &cluster.servers {
        assert!(server.keys().iter().any(|key| key.ends_with("/events")), "{:?}", server.keys());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_on_a_redis_cluster_go_on_at_all_nodes() {
    let cluster = RedisCluster::start().await;
    let nodes = Node::two(&cluster.url(), &Handlers::default(), &limits(8, AT_ONCE)).await;
    let mut sessions = Vec::new();
    for number in 0..24 {
        sessions.push(nodes[number % 2].connect().await.initialize("2025-11-25", json!({})).await);
    }
    for server in &cluster.servers {
        assert!(server.keys().iter().any(|key| key.contains("{session/")), "each server has sessions");
    }
    for session in &sessions {
        for node in &nodes {
            assert_eq!(node.echo(&[session]).await, 200);
        }
    }
    // The messages of the nodes to each other.
    let mut events = nodes[1].get(&sessions[0], None).await;
    nodes[1].handle.remove_tool("gone");
    let id = next_with(&mut events, "tools/list_changed").await;
    drop(events);
    nodes[0].until_copies(0).await;
    nodes[1].handle.remove_resource("a://1");
    let mut events = nodes[1].get(&sessions[0], Some(&id)).await;
    next_with(&mut events, "resources/list_changed").await;
    assert_eq!(nodes[1].connect().await.delete(&sessions[1]).await.status(), 200);
    for node in &nodes {
        assert_eq!(node.echo(&[&sessions[1]]).await, 404);
    }
    let warned = nodes[0].connect().await.ask(&[&sessions[2]], &call(3, "warn", json!({}))).await;
    assert!(warned.body.contains("notifications/message"), "{}", warned.body);
}

/// The server that has the leases dies, and comes back without its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_takes_only_its_sessions_along() {
    let mut cluster = RedisCluster::start().await;
    let (one, other) = (cluster.join().await, cluster.join().await);
    let names = [0, 1, 2].map(|server| cluster.name_on(server));
    for name in &names {
        let created = one.create(name, "value".into(), LIFETIME).await;
        assert!(matches!(created, Ok(Some(_))), "{created:?}");
    }
    let victim = cluster.server_of("barewire:{nodes}:all");
    cluster.servers[victim].kill();
    eventually("the server is missed", async || matches!(other.nodes().await, Err(StoreError::Away(_)))).await;
    for (server, name) in names.iter().enumerate() {
        let read = other.read(name, None).await;
        match server == victim {
            true => assert!(matches!(read, Err(StoreError::Away(_))), "{read:?}"),
            false => assert!(matches!(read, Ok(Some(_))), "{read:?}"),
        }
    }
    assert!(other.is_away());
    tokio::task::block_in_place(|| cluster.servers[victim].restart());
    let both = |nodes: Vec<u32>| nodes.contains(&one.node()) && nodes.contains(&other.node());
    eventually("both nodes are alive", async || one.nodes().await.is_ok_and(both)).await;
    eventually("all servers are there", async || !one.is_away() && !other.is_away()).await;
    let created = async || matches!(other.create(&names[victim], "again".into(), LIFETIME).await, Ok(Some(_)));
    eventually("it takes new sessions", created).await;
}

/// A replica takes the place of the server that has the leases, the messages to a node and a record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_follow_when_a_replica_takes_the_place_of_its_primary() {
    let mut cluster = RedisCluster::start().await;
    let (one, other) = (cluster.join().await, cluster.join().await);
    let names = [0, 1, 2].map(|server| cluster.name_on(server));
    for name in &names {
        let created = one.create(name, "value".into(), LIFETIME).await;
        assert!(matches!(created, Ok(Some(_))), "{created:?}");
    }
    for primary in 0..3 {
        let replica = start_replica(&cluster, primary).await;
        take_over(&replica, &cluster.servers[primary]).await;
        cluster.servers.push(replica);
    }
    for name in &names {
        eventually(
            "the record is there",
            async || matches!(other.read(name, Some(LIFETIME)).await, Ok(Some(record)) if record.value == "value"),
        )
        .await;
    }
    let both = |nodes: Vec<u32>| nodes.contains(&one.node()) && nodes.contains(&other.node());
    eventually("both nodes are alive", async || one.nodes().await.is_ok_and(both)).await;
    eventually("a message is sent", async || one.send(other.node(), "hello".into()).await.is_ok()).await;
    let received = async {
        loop {
            if let Ok(messages) = other.receive().await {
                return messages;
            }
        }
    };
    let received = tokio::time::timeout(Duration::from_secs(60), received).await.expect("it arrives");
    assert_eq!(received, ["hello"]);
    assert!(!one.is_away());
}

/// A server loses its connection to the others, but not to the nodes: it says that the cluster is down, and does not
/// know that a replica has taken its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_follow_when_a_server_is_cut_off_from_the_others() {
    let cluster = RedisCluster::start().await;
    let one = cluster.join().await;
    let name = cluster.name_on(0);
    let created = one.create(&name, "value".into(), LIFETIME).await;
    assert!(matches!(created, Ok(Some(_))), "{created:?}");
    let replica = start_replica(&cluster, 0).await;
    let cut_off = &cluster.servers[0];
    for (option, value) in [("cluster-require-full-coverage", "yes"), ("cluster-node-timeout", "500")] {
        assert_eq!(cut_off.command(&["CONFIG", "SET", option, value]), "+OK\r\n");
    }
    if cut_off.command(&["INFO", "server"]).contains("redis_version:7.0") {
        // This version cannot drop all packets. It ignores those of servers that it does not know.
        for other in cluster.servers[1..].iter().chain([&replica]) {
            let id = other.command(&["CLUSTER", "MYID"]);
            assert_eq!(cut_off.command(&["CLUSTER", "FORGET", id.lines().nth(1).expect("the id")]), "+OK\r\n");
        }
    } else {
        assert_eq!(cut_off.command(&["DEBUG", "DROP-CLUSTER-PACKET-FILTER", "-2"]), "+OK\r\n");
    }
    let is_down = || cut_off.command(&["CLUSTER", "INFO"]).contains("cluster_state:fail");
    eventually("it is cut off", async || is_down()).await;
    assert!(cut_off.command(&["CLUSTER", "SLOTS"]).contains(&format!(":{}\r\n", cut_off.port())), "and does not know");
    assert_eq!(replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]), "+OK\r\n");
    let knows = || cluster.servers[1].command(&["CLUSTER", "SLOTS"]).contains(&format!(":{}\r\n", replica.port()));
    eventually("the others know", async || knows()).await;
    let is_read = async || matches!(one.read(&name, None).await, Ok(Some(record)) if record.value == "value");
    eventually("the record is read from the replica", is_read).await;
    assert!(is_down(), "it is still cut off");
}

/// What belongs to sessions on a server that is away does not hold up what belongs to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_other_sessions_are_resumed_while_a_server_is_away() {
    let mut cluster = RedisCluster::start().await;
    let [node, _] = Node::two(&cluster.url(), &Handlers::default(), &HttpLimits::default()).await;
    let mut sessions: [Option<String>; 2] = Default::default();
    while sessions.iter().any(Option::is_none) {
        let session = node.connect().await.initialize("2025-11-25", json!({})).await;
        let key = format!("barewire:{{session/{}}}", session.split_once(": ").expect("a header").1);
        if let Some(place) = sessions.get_mut(cluster.server_of(&key)) {
            *place = Some(session);
        }
    }
    let [lost, kept] = sessions.map(|session| session.expect("there is one"));
    cluster.servers[0].kill();
    for round in 0..20 {
        let mut first = String::new();
        for session in [&lost, &kept] {
            let warned = node.connect().await.ask(&[session], &call(round, "warn", json!({}))).await;
            assert!(warned.body.contains("notifications/message"), "{}", warned.body);
            first = warned.body.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned();
        }
        let mut events = node.get(&kept, Some(&first)).await;
        next_with(&mut events, "warned").await;
    }
    let log = format!("barewire:{{session/{}}}/events", kept.split_once(": ").expect("a header").1);
    let entries = cluster.servers[1].command(&["LRANGE", &log, "0", "-1"]);
    let count = |text: &str| entries.matches(text).count();
    // The first attempt may have written some of them to the servers that were there.
    assert!((20..=30).contains(&count("\"warned\"")), "{} times", count("\"warned\""));
}

/// Makes a replica the primary, and waits until the primary knows.
async fn take_over(replica: &RedisServer, primary: &RedisServer) {
    let has_role = |server: &RedisServer, role: &str| server.command(&["ROLE"]).contains(role);
    // Without a vote of the others, whom a busy machine makes late.
    assert_eq!(replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]), "+OK\r\n");
    eventually("it has taken over", async || has_role(replica, "master") && has_role(primary, "slave")).await;
}

/// The commands that the crate's documentation lists are enough.
#[tokio::test]
async fn a_user_of_an_acl() {
    let cluster = RedisCluster::start().await;
    for server in &cluster.servers {
        add_user(server, &["+cluster|slots"]);
        assert_eq!(server.command(&["CONFIG", "SET", "requirepass", "other"]), "+OK\r\n");
    }
    let url = cluster.url().replace("://", "://node:secret@");
    check_store(async || patient().connect(&url).await.expect("the user is known")).await;
    let error = patient().connect(&cluster.url()).await.expect_err("it has a password").to_string();
    assert!(error.contains("asks for a password") && !error.contains("secret"), "{error}");
}

#[tokio::test]
async fn a_url_of_the_wrong_kind_is_refused_with_what_to_write() {
    let cluster = RedisCluster::start().await;
    for server in &cluster.servers {
        let error = patient().connect(&server.url()).await.expect_err("it is one of three").to_string();
        assert!(error.contains("write redis-cluster://HOST:PORT"), "{error}");
    }
    let single = RedisServer::start(&[]);
    let url = format!("redis-cluster://127.0.0.1:{}", single.port());
    let error = patient().connect(&url).await.expect_err("it is no cluster").to_string();
    assert!(error.contains("write redis://HOST:PORT"), "{error}");
    let empty = start_server();
    let url = format!("redis-cluster://127.0.0.1:{}", empty.port());
    let error = patient().connect(&url).await.expect_err("it has no slots").to_string();
    assert!(error.contains("does not know a server for each slot"), "{error}");
}

const LIFETIME: Duration = Duration::from_secs(60);
