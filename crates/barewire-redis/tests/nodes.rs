//! Which nodes are alive.

use std::time::{Duration, Instant};

use barewire::Server;
use barewire::server::http::cluster::{ClusterStore, MAX_NODE, NODE_LEASE, check_death};
use barewire_redis::Redis;
use bytes::Bytes;

use crate::copies::eventually;
use crate::redis_server::{RedisServer, patient};

/// Runs a node on a runtime of its own, which can end as a process does: without a word to anybody.
struct Process {
    runtime: Option<tokio::runtime::Runtime>,
    node: Option<Redis>,
}

impl Process {
    async fn start(server: &RedisServer) -> Self {
        let url = server.url();
        let started = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.expect("a runtime");
            let node = runtime.block_on(patient().connect(&url)).expect("the server runs");
            (runtime, node)
        });
        let (runtime, node) = started.await.expect("no panic");
        Self { runtime: Some(runtime), node: Some(node) }
    }

    fn number(&self) -> u32 {
        self.node.as_ref().expect("it runs").node()
    }

    fn kill(&mut self) {
        self.runtime.take().expect("it runs").shutdown_background();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[tokio::test]
async fn a_node_that_dies_is_gone_after_its_lease() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    let mut other = Process::start(&server).await;
    let number = other.number();
    // Longer than a lease: both are renewed.
    tokio::time::sleep(NODE_LEASE + Duration::from_secs(1)).await;
    eventually("a node that is alive renews its lease", async || one.nodes().await.unwrap().contains(&number)).await;
    let killed = Instant::now();
    check_death(&one, number, || other.kill()).await;
    assert_eq!(one.nodes().await, Ok(vec![one.node()]));
    assert!(killed.elapsed() >= NODE_LEASE / 4, "not gone before: {:?}", killed.elapsed());
    // The key outlives the lease by a day.
    let left = server.command(&["PTTL", &format!("barewire:{{nodes}}:lease:{number}")]);
    let left: i64 = left.trim().trim_start_matches(':').parse().expect("a number");
    assert!((0..=24 * 3600 * 1000).contains(&left), "gone after the lease: {left}");
}

#[tokio::test]
async fn a_node_that_leaves_is_gone_at_once() {
    let server = RedisServer::start(&[]);
    let (one, other) = (server.join().await, server.join().await);
    assert_eq!(one.nodes().await.unwrap().len(), 2);
    other.leave().await;
    assert_eq!(one.nodes().await, Ok(vec![one.node()]));
    let dropped = server.join().await;
    let number = dropped.node();
    drop(dropped);
    let own = [format!("lease:{number}"), format!("node/{number}")];
    let is_own = |key: &String| own.iter().any(|own| key.contains(own.as_str()));
    eventually("nothing is left of it", async || !server.keys().iter().any(is_own)).await;
    assert_eq!(one.nodes().await, Ok(vec![one.node()]));
}

/// A server that stops, as on SIGTERM: the others need not wait until its lease has ended.
#[tokio::test]
async fn a_server_that_stops_leaves_at_once() {
    let redis = RedisServer::start(&[]);
    let one = redis.join().await;
    let store = redis.join().await;
    let number = store.node();
    let server = Server::new("test", "1").tool("echo", "Answers", || async { "echo" });
    let listener = server.http().cluster(store).bind("127.0.0.1:0").await.expect("a free port");
    let stop = listener.stop_handle();
    let running = tokio::spawn(listener.run());
    assert!(one.nodes().await.unwrap().contains(&number));
    stop.stop();
    running.await.expect("no panic");
    assert_eq!(one.nodes().await, Ok(vec![one.node()]));
    let inbox = format!("barewire:{{node/{number}}}:inbox");
    assert!(!redis.keys().contains(&inbox), "nothing is left of it");
}

#[tokio::test]
async fn numbers_are_given_once_and_begin_again_at_the_end() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    let (first, last) = (one.node(), "barewire:{nodes}:last");
    // The next number would be the last one, then 1, and then that of the node which is alive.
    server.command(&["SET", last, &(MAX_NODE - 2).to_string()]);
    let (second, third) = (server.join().await, server.join().await);
    assert_eq!(second.node(), MAX_NODE - 1 + u32::from(first == MAX_NODE - 1));
    assert_eq!(third.node(), MAX_NODE);
    let fourth = server.join().await;
    assert_eq!(fourth.node(), 1 + u32::from(first == 1));
    server.command(&["SET", last, &(u64::from(MAX_NODE) * 7 + u64::from(first) - 2).to_string()]);
    let fifth = server.join().await;
    assert_ne!(fifth.node(), first);
    let restarted = server.join().await;
    let mut numbers = vec![first, second.node(), third.node(), fourth.node(), fifth.node(), restarted.node()];
    numbers.sort_unstable();
    assert_eq!(one.nodes().await.unwrap(), numbers);
}

/// A server that has lost all its data does not know its nodes. They come back by themselves, with their inboxes.
#[tokio::test]
async fn nodes_come_back_after_a_loss_of_all_data() {
    let server = RedisServer::start(&[]);
    let (one, other) = (server.join().await, server.join().await);
    server.command(&["FLUSHALL"]);
    let newcomer = server.join().await;
    assert!(newcomer.node() != one.node() && newcomer.node() != other.node());
    let mut numbers = [one.node(), other.node(), newcomer.node()];
    numbers.sort_unstable();
    eventually("all are back", async || one.nodes().await.unwrap() == numbers).await;
    // The inbox comes back after the lease.
    eventually("a message arrives", async || {
        newcomer.send(one.node(), "hello".into()).await.unwrap();
        let received = tokio::time::timeout(Duration::from_secs(1), one.receive()).await;
        received.is_ok_and(|messages| messages.unwrap().contains(&Bytes::from_static(b"hello")))
    })
    .await;
}

/// An outage that is longer than a lease: the node that comes back first does not take the others for dead.
#[tokio::test]
async fn nodes_do_not_die_while_the_server_is_away() {
    let mut server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (one, other) = (server.join().await, server.join().await);
    server.kill();
    tokio::time::sleep(NODE_LEASE + Duration::from_secs(2)).await;
    server.restart();
    let mut numbers = vec![one.node(), other.node()];
    numbers.sort_unstable();
    let back = Instant::now();
    let mut seen = 0;
    while back.elapsed() < Duration::from_secs(4) || seen < 10 {
        assert!(back.elapsed() < Duration::from_secs(60), "the server is back: {seen}");
        for node in [&one, &other] {
            if let Ok(nodes) = node.nodes().await {
                assert_eq!(nodes, numbers, "after {:?}", back.elapsed());
                seen += 1;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
