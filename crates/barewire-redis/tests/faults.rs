//! A server that is killed, stopped, full or replaced: every call ends, nothing that was acknowledged is lost, and the
//! nodes come back by themselves.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Once;
use std::time::{Duration, Instant};

use barewire::server::http::cluster::{ClusterStore, LogEntry, StoreError};
use barewire_redis::Redis;
use bytes::Bytes;

use crate::copies::eventually;
use crate::redis_server::{RedisServer, new_folder};

/// Writes the log to a text of the thread. Each test has a thread, and a runtime that uses no other.
struct ThreadLog;

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl ThreadLog {
    /// Begins to record. For the whole process: a subscriber of one thread misses events that other threads saw first.
    fn record() {
        static START: Once = Once::new();
        START.call_once(|| {
            let subscriber = tracing_subscriber::fmt().with_writer(|| Self).with_ansi(false).without_time().finish();
            tracing::subscriber::set_global_default(subscriber).expect("there is no other one");
        });
        LOG.with_borrow_mut(Vec::clear);
    }

    /// Returns the lines of this crate.
    fn lines() -> Vec<String> {
        let text = LOG.with_borrow(|log| String::from_utf8(log.clone()).expect("text"));
        text.lines().filter(|line| line.contains("barewire_redis")).map(str::to_owned).collect()
    }
}

impl io::Write for ThreadLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until the node is connected again.
async fn wait_back(node: &Redis) {
    let start = Instant::now();
    while node.is_away() || node.nodes().await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "the node comes back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn entry(name: &str, entry: String) -> LogEntry {
    LogEntry { name: name.into(), entry: entry.into(), keep: 100_000, lifetime: RECORD_LIFETIME }
}

/// Writes until it is killed, with an append-only file: what was acknowledged is there afterwards, and once. With
/// `appendfsync everysec`, Redis acknowledges before it writes if a sync is going on, so this fails on a busy disk.
#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let mut server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (one, other) = (server.join().await, server.join().await);
    ThreadLog::record();

    let [records, entries, sent] = [const { Cell::new(0u32) }; 3];
    let add = |count: &Cell<u32>| count.set(count.get() + 1);
    let kill = async {
        while [&records, &entries, &sent].iter().any(|count| count.get() < 50) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.kill();
    };
    let write_records = async {
        let create = async |number: u32| {
            one.create(&format!("session/{number}"), number.to_string().into(), RECORD_LIFETIME).await
        };
        while create(records.get()).await.is_ok() {
            add(&records);
        }
    };
    let write_entries = async {
        while one.append(vec![entry("session/log/events", entries.get().to_string())]).await.is_ok() {
            add(&entries);
        }
    };
    let write_messages = async {
        while one.send(other.node(), sent.get().to_string().into()).await.is_ok() {
            add(&sent);
        }
    };
    let mut received: Vec<Bytes> = Vec::new();
    let read_messages = async {
        while let Ok(messages) = other.receive().await {
            received.extend(messages);
        }
    };
    tokio::join!(write_records, write_entries, write_messages, read_messages, kill);
    let [records, entries, sent] = [records, entries, sent].map(Cell::into_inner);
    assert!(one.is_away() && other.is_away());

    server.restart();
    wait_back(&one).await;
    wait_back(&other).await;
    for number in 0..records {
        let read = one.read(&format!("session/{number}"), None).await.unwrap();
        assert_eq!(read.map(|record| record.value), Some(number.to_string().into()), "record {number}");
    }
    // The write that was not acknowledged may be there too.
    let is_complete = |found: &[Bytes], acknowledged: u32| {
        let expected: Vec<Bytes> = (0..=acknowledged).map(|number| number.to_string().into()).collect();
        let acknowledged = usize::try_from(acknowledged).expect("a small number");
        found == &expected[..acknowledged] || found == expected
    };
    let found = one.log("session/log/events").await.unwrap();
    assert!(is_complete(&found, entries), "{} of {entries} entries", found.len());
    one.send(other.node(), "end".into()).await.unwrap();
    while received.last().is_none_or(|last| last != "end") {
        let messages = tokio::time::timeout(Duration::from_secs(60), other.receive()).await;
        received.extend(messages.expect("the message that was sent last arrives").unwrap_or_default());
    }
    received.pop();
    assert!(is_complete(&received, sent), "{} of {sent} messages", received.len());

    let lines = ThreadLog::lines();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    let (away, back) = (count("the store of the cluster is away"), count("the store of the cluster is back"));
    assert_eq!(
        (away, back, lines.len()),
        (2, 2, 4),
        "two nodes, one line each when it goes and when it is back: {lines:#?}"
    );
}

#[tokio::test]
async fn a_server_that_stops_for_a_while() {
    let server = RedisServer::start(&[]);
    let timeout = Duration::from_secs(3);
    let builder = || Redis::builder().response_timeout(timeout);
    let join = async || builder().connect(&server.url()).await.expect("the server runs");
    let (one, other) = (join().await, join().await);
    one.create("session/a", "value".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    ThreadLog::record();
    server.signal("STOP");
    // Many calls at once, all of which wait on the same connection.
    let calls = (0..100).map(|_| async {
        let start = Instant::now();
        let read = one.read("session/a", Some(RECORD_LIFETIME)).await;
        (read, start.elapsed())
    });
    for (read, time) in all(calls).await {
        assert!(matches!(read, Err(StoreError::Away(_))), "{read:?}");
        assert!(time < timeout * 10, "together, within one response timeout: {time:?}");
    }
    let start = Instant::now();
    for _ in 0..100 {
        let created = one.create("session/b", "value".into(), RECORD_LIFETIME).await;
        assert!(matches!(created, Err(StoreError::Away(_))), "{created:?}");
    }
    assert!(start.elapsed() < timeout * 10, "without the response timeout: {:?}", start.elapsed());
    assert!(one.is_away());
    let start = Instant::now();
    let received = one.receive().await;
    assert!(matches!(received, Err(StoreError::Away(_))), "{received:?}");
    let waited = start.elapsed();
    assert!((Duration::from_millis(500)..timeout * 10).contains(&waited), "after a while: {waited:?}");
    server.signal("CONT");
    wait_back(&one).await;
    assert_eq!(one.read("session/a", None).await.unwrap().unwrap().value, "value");
    wait_back(&other).await;
    other.send(one.node(), "hello".into()).await.unwrap();
    assert_eq!(one.receive().await, Ok(vec![Bytes::from_static(b"hello")]));
    let lines = ThreadLog::lines();
    assert_eq!(lines.len(), 4, "two nodes went and are back: {lines:#?}");
    assert!(lines.iter().any(|line| line.contains("no answer within 3s")), "{lines:#?}");
}

/// A full server refuses what needs memory, and is not away. Its nodes stay alive.
#[tokio::test]
async fn a_server_that_is_full() {
    let server = RedisServer::start(&["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"]);
    let (one, other) = (server.join().await, server.join().await);
    one.create("session/a", "value".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    let large = Bytes::from(vec![b'x'; 200_000]);
    let mut number = 0;
    let refused = loop {
        assert!(number < 1000, "the server becomes full");
        match one.create(&format!("large/{number}"), large.clone(), RECORD_LIFETIME).await {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    let is_full = |error: &StoreError| matches!(error, StoreError::Refused(why) if why.contains("maxmemory"));
    assert!(is_full(&refused), "{refused:?}");
    // The buffers of that command are free again; without room for small ones, the server is full.
    server.command(&["CONFIG", "SET", "maxmemory", "4mb"]);
    let record = one.read("session/a", Some(RECORD_LIFETIME)).await.unwrap().expect("what is there can be read");
    let replaced = one.replace("session/a", record.version, large.clone(), RECORD_LIFETIME).await;
    assert!(is_full(&replaced.clone().unwrap_err()), "{replaced:?}");
    let appended = one.append(vec![entry("session/a/events", "x".into())]).await;
    assert!(matches!(&appended, Err(StoreError::Refused(_))), "{appended:?}");
    let sent = one.send(other.node(), "x".into()).await;
    assert!(is_full(&sent.clone().unwrap_err()), "{sent:?}");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!one.is_away() && !other.is_away());
    eventually("leases are renewed without memory", async || one.nodes().await.unwrap().len() == 2).await;
    server.command(&["CONFIG", "SET", "maxmemory", "8mb"]);
    for number in 0..number {
        assert_eq!(one.remove(&format!("large/{number}")).await, Ok(true));
    }
    one.send(other.node(), "room".into()).await.unwrap();
    assert_eq!(other.receive().await, Ok(vec![Bytes::from_static(b"room")]));
}

/// The server becomes a replica, as after a failover: writes are refused until it is a primary again.
#[tokio::test]
async fn a_server_that_becomes_a_replica() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    one.create("session/a", "value".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let created = one.create("session/b", "value".into(), RECORD_LIFETIME).await;
    assert!(matches!(&created, Err(StoreError::Refused(_))), "{created:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!one.is_away());
    server.command(&["REPLICAOF", "NO", "ONE"]);
    let create = async || one.create("session/b", "value".into(), RECORD_LIFETIME).await;
    eventually("it accepts changes again", async || matches!(create().await, Ok(Some(_)))).await;
    eventually("the node is alive", async || one.nodes().await == Ok(vec![one.node()])).await;
}

/// The server cannot write its file, so it refuses all changes. No node can renew its lease, so no lease ends.
#[tokio::test]
async fn a_server_whose_disk_fails() {
    let folder = new_folder();
    let server = RedisServer::start_in(folder.clone(), &[]);
    // A file cannot take the place of a folder.
    std::fs::create_dir(folder.join("dump.rdb")).unwrap();
    let (one, other) = (server.join().await, server.join().await);
    one.create("session/a", "value".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    server.command(&["CONFIG", "SET", "save", "3600 1"]);
    server.command(&["BGSAVE"]);
    let start = Instant::now();
    let refused = loop {
        assert!(start.elapsed() < Duration::from_secs(60), "the server fails to write its file");
        tokio::time::sleep(Duration::from_millis(50)).await;
        if let Err(error) = one.send(other.node(), "x".into()).await {
            break error;
        }
    };
    assert!(matches!(&refused, StoreError::Refused(why) if why.contains("MISCONF")), "{refused:?}");
    assert!(one.read("session/a", None).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!one.is_away());
    assert_eq!(one.nodes().await.unwrap().len(), 2);
    server.command(&["CONFIG", "SET", "save", ""]);
    one.send(other.node(), "x".into()).await.unwrap();
    eventually("both renew their leases", async || {
        let renewed = server.command(&["PTTL", &format!("barewire:{{nodes}}:lease:{}", one.node())]);
        let left: u64 = renewed.trim().trim_start_matches(':').parse().expect("a number");
        left > 24 * 3600 * 1000 && other.nodes().await.unwrap().len() == 2
    })
    .await;
}

/// The password is changed while no node is connected: the reason for being away is the new one.
#[tokio::test]
async fn a_server_with_another_password() {
    let mut server = RedisServer::start(&[]);
    let one = server.join().await;
    server.kill();
    server.restart_with(&["--requirepass", "secret"]);
    let start = Instant::now();
    let error = loop {
        assert!(start.elapsed() < Duration::from_secs(60), "the reason is told");
        match one.nodes().await {
            Err(StoreError::Away(why)) if why.contains("asks for a password") => break why,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(error.contains("denies access") && one.is_away(), "{error}");
    server.kill();
    server.restart_with(&[]);
    wait_back(&one).await;
}

/// Connections that an operator or a proxy closes, while the server is well.
#[tokio::test]
async fn connections_that_are_closed() {
    let server = RedisServer::start(&[]);
    let (one, other) = (server.join().await, server.join().await);
    let (mut sent, mut received) = (0u32, Vec::new());
    let start = Instant::now();
    let send = async {
        for round in 0..5 {
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
            for _ in 0..100 {
                // What is not acknowledged may have arrived, so it is not sent again.
                wait_back(&one).await;
                if one.send(other.node(), format!("{round} {sent}").into()).await.is_ok() {
                    sent += 1;
                }
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        eventually("the end is sent", async || one.send(other.node(), "end".into()).await.is_ok()).await;
    };
    let receive = async {
        while received.last().is_none_or(|last: &Bytes| last != "end") && start.elapsed() < Duration::from_secs(120) {
            received.extend(other.receive().await.unwrap_or_default());
        }
    };
    tokio::join!(send, receive);
    received.pop();
    let numbers: Vec<u32> = received
        .iter()
        .map(|message| std::str::from_utf8(message).unwrap().split(' ').nth(1).unwrap().parse().unwrap())
        .collect();
    let mut acknowledged = numbers.clone();
    // A message that arrived without being acknowledged has the number of the next one.
    acknowledged.dedup();
    assert_eq!(acknowledged, (0..sent).collect::<Vec<_>>());
    assert!(numbers.len() - acknowledged.len() <= 5, "{numbers:?}");
}

/// The server forgets its scripts, as after a restart.
#[tokio::test]
async fn scripts_that_are_forgotten() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    let version = one.create("session/a", "1".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    let version = one.replace("session/a", version, "2".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    server.command(&["SCRIPT", "FLUSH"]);
    let version = one.replace("session/a", version, "3".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    assert_eq!(one.read("session/a", None).await.unwrap().unwrap().version, version);
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(one.nodes().await, Ok(vec![one.node()]));
}

/// Waits for all of these futures, which run at the same time.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_ready = true;
        for (future, output) in &mut running {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *output = Some(value),
                    std::task::Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    running.into_iter().map(|(_, output)| output.expect("it is ready")).collect()
}

const RECORD_LIFETIME: Duration = Duration::from_secs(600);
