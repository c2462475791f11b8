//! The promises of the library's trait.

use std::time::Duration;

use barewire::server::http::cluster::{ClusterStore, LogEntry, MAX_LOG_BYTES, StoreError, check_store};
use bytes::Bytes;

use crate::copies::eventually;
use crate::redis_server::{RedisServer, patient};

#[tokio::test]
async fn redis_is_a_store() {
    let server = RedisServer::start(&[]);
    check_store(|| server.join()).await;
}

/// A server in cluster mode refuses a command, a transaction or a script whose keys are not all in one slot.
#[tokio::test]
async fn what_one_command_touches_is_in_one_slot() {
    let server = RedisServer::start(&["--cluster-enabled", "yes"]);
    let slots: Vec<String> = (0..16384).map(|slot| slot.to_string()).collect();
    let all: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
    assert_eq!(server.command(&all), "+OK\r\n");
    let is_ok = || server.command(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
    eventually("a cluster of one server", async || is_ok()).await;
    check_store(|| server.join()).await;
    let slot = |key: &str| server.command(&["CLUSTER", "KEYSLOT", key]);
    assert_eq!(slot("barewire:{session/a}"), slot("barewire:{session/a}/events"));
    assert_ne!(slot("barewire:{session/a}"), slot("barewire:{session/b}"));
    let one = server.join().await;
    let entry =
        |name: &str| LogEntry { name: name.into(), entry: name.to_owned().into(), keep: 10, lifetime: RECORD_LIFETIME };
    let names = ["session/a/x", "session/b/x", "session/a/y", "session/a/x", "session/b/x"];
    one.append(names.map(entry).into()).await.unwrap();
    assert_eq!(one.log("session/a/x").await.unwrap().len(), 2);
    assert_eq!(one.log("session/a/y").await.unwrap().len(), 1);
    assert_eq!(one.log("session/b/x").await.unwrap().len(), 2);
}

#[tokio::test]
async fn two_clusters_on_one_server_do_not_meet() {
    let server = RedisServer::start(&[]);
    let join = async |prefix: &str| patient().prefix(prefix).connect(&server.url()).await.expect("it runs");
    let (one, other) = (join("one").await, join("one:two").await);
    one.create("session/a", "value".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    assert_eq!(other.read("session/a", None).await, Ok(None));
    assert_eq!(other.remove("session/a").await, Ok(false));
    assert_eq!(one.nodes().await, Ok(vec![one.node()]));
    assert_eq!(other.nodes().await, Ok(vec![other.node()]));
    // Even if the numbers are equal.
    one.send(other.node(), "lost".into()).await.unwrap();
    other.send(other.node(), "own".into()).await.unwrap();
    assert_eq!(other.receive().await, Ok(vec![Bytes::from_static(b"own")]));
    let keys = server.keys();
    assert!(keys.iter().all(|key| key.starts_with("one:{") || key.starts_with("one:two:{")), "{keys:?}");
}

#[tokio::test]
async fn a_future_of_receive_that_is_dropped_loses_nothing() {
    let server = RedisServer::start(&[]);
    let (one, other) = (server.join().await, server.join().await);
    let mut received = Vec::new();
    for number in 0..200u32 {
        other.send(one.node(), number.to_string().into()).await.unwrap();
        // Some futures are dropped while they wait, some after the answer was on the way.
        let patience = Duration::from_micros(u64::from(number % 20) * 100);
        if let Ok(messages) = tokio::time::timeout(patience, one.receive()).await {
            received.extend(messages.unwrap());
        }
    }
    while received.len() < 200 {
        received.extend(one.receive().await.unwrap());
    }
    let expected: Vec<Bytes> = (0..200u32).map(|number| number.to_string().into()).collect();
    assert_eq!(received, expected);
}

#[tokio::test]
async fn what_was_read_does_not_stay_in_the_inbox() {
    let server = RedisServer::start(&[]);
    let (one, other) = (server.join().await, server.join().await);
    let inbox = format!("barewire:{{node/{}}}:inbox", one.node());
    for number in 0..1000u32 {
        other.send(one.node(), number.to_string().into()).await.unwrap();
    }
    assert_eq!(server.command(&["XLEN", &inbox]), ":1000\r\n");
    let mut count = 0;
    while count < 1000 {
        count += one.receive().await.unwrap().len();
    }
    // What was returned last is removed when the next call begins.
    eventually("the inbox is empty", async || {
        let _ = tokio::time::timeout(Duration::from_millis(200), one.receive()).await;
        server.command(&["XLEN", &inbox]) == ":0\r\n"
    })
    .await;
}

#[tokio::test]
async fn every_key_of_a_session_expires() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    one.create("session/a", "value".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    one.replace("session/a", 1, "value".into(), RECORD_LIFETIME).await.unwrap();
    let entry = |name: &str| LogEntry { name: name.into(), entry: "e".into(), keep: 10, lifetime: RECORD_LIFETIME };
    one.append(vec![entry("session/a/events"), entry("session/b/events")]).await.unwrap();
    let keys = server.keys();
    for key in keys.iter().filter(|key| !key.ends_with("{nodes}:all") && !key.ends_with("{nodes}:last")) {
        let left = server.command(&["PTTL", key]);
        assert!(left.starts_with(':') && !left.starts_with(":-"), "{key} expires: {left}");
    }
    assert!(keys.contains(&"barewire:{session/a}/events".to_owned()), "{keys:?}");
}

#[tokio::test]
async fn extreme_lifetimes_are_accepted() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    one.create("record/long", "value".into(), Duration::MAX).await.unwrap().unwrap();
    one.read("record/long", Some(Duration::MAX)).await.unwrap().unwrap();
    one.create("record/short", "value".into(), Duration::ZERO).await.unwrap().unwrap();
    eventually("it expires at once", async || one.read("record/short", None).await == Ok(None)).await;
}

#[tokio::test]
async fn a_key_of_another_program_is_not_a_record() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    server.command(&["SET", "barewire:{session/a}", "short"]);
    server.command(&["HSET", "barewire:{session/b}", "field", "value"]);
    for name in ["session/a", "session/b"] {
        let read = one.read(name, Some(RECORD_LIFETIME)).await;
        assert!(matches!(read, Err(StoreError::Refused(_))), "{read:?}");
        let entry = LogEntry { name: name.into(), entry: "e".into(), keep: 10, lifetime: RECORD_LIFETIME };
        let appended = one.append(vec![entry]).await;
        assert!(matches!(appended, Err(StoreError::Refused(_))), "{appended:?}");
    }
    assert!(!one.is_away());
}

/// Reading a log is one answer, on the connection that all calls of a node share.
#[tokio::test]
async fn a_log_of_long_entries_stays_short() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    let append = async |number: usize| {
        let entry = Bytes::from(vec![b'x'; MAX_LOG_BYTES / 2 - number]);
        one.append(vec![LogEntry { name: "session/a/events".into(), entry, keep: 1000, lifetime: RECORD_LIFETIME }])
            .await
    };
    for number in 0..20 {
        append(number).await.unwrap();
    }
    // A server that was restarted has forgotten the script.
    assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "+OK\r\n");
    append(20).await.unwrap();
    let lengths: Vec<usize> = one.log("session/a/events").await.unwrap().iter().map(Bytes::len).collect();
    assert_eq!(lengths, [MAX_LOG_BYTES / 2 - 19, MAX_LOG_BYTES / 2 - 20]);
}

#[tokio::test]
async fn entries_are_appended_once_if_the_server_has_forgotten_the_script() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    let entries = |texts: [&'static str; 3]| {
        let logs = ["session/a/events", "session/b/events", "session/a/events"];
        let entry = |(log, text): (&str, &'static str)| LogEntry {
            name: log.into(),
            entry: text.into(),
            keep: 10,
            lifetime: RECORD_LIFETIME,
        };
        logs.into_iter().zip(texts).map(entry).collect::<Vec<_>>()
    };
    one.append(entries(["1", "2", "3"])).await.unwrap();
    server.command(&["SCRIPT", "FLUSH"]);
    one.append(entries(["4", "5", "6"])).await.unwrap();
    assert_eq!(one.log("session/a/events").await.unwrap(), ["1", "3", "4", "6"]);
    assert_eq!(one.log("session/b/events").await.unwrap(), ["2", "5"]);
}

/// What an idle session costs the server: its record, and the log of a few events.
#[tokio::test]
async fn an_idle_session_takes_less_than_two_kibibytes() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    let memory = || -> usize {
        let info = server.command(&["INFO", "memory"]);
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a line");
        line.parse().expect("a number")
    };
    let before = memory();
    for number in 0..1000 {
        let name = format!("session/{number:022}");
        one.create(&name, vec![b'x'; 400].into(), RECORD_LIFETIME).await.unwrap().unwrap();
        let entry = |_| LogEntry {
            name: format!("{name}/events"),
            entry: vec![b'x'; 100].into(),
            keep: 1000,
            lifetime: RECORD_LIFETIME,
        };
        one.append((0..3).map(entry).collect()).await.unwrap();
    }
    let each = (memory() - before) / 1000;
    assert!((700..2048).contains(&each), "{each} bytes");
}

/// One command of the server is one read: the cost of a call in a session.
#[tokio::test]
async fn a_read_is_one_command() {
    let server = RedisServer::start(&[]);
    let one = server.join().await;
    one.create("session/a", "value".into(), RECORD_LIFETIME).await.unwrap().unwrap();
    server.command(&["CONFIG", "RESETSTAT"]);
    for _ in 0..100 {
        one.read("session/a", Some(RECORD_LIFETIME)).await.unwrap().unwrap();
    }
    let stats = server.command(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_getex:calls=100,"), "{stats}");
    assert!(!stats.contains("cmdstat_get:"), "{stats}");
}

const RECORD_LIFETIME: Duration = Duration::from_secs(60);
