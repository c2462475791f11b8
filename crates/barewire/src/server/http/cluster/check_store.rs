//! The test that every store of a cluster must pass.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::store::{ClusterStore, LogEntry, MAX_LOG_BYTES, MAX_NODE, NODE_LEASE, Record};

/// Tests an implementation of [`ClusterStore`] against everything that the trait promises. `join` adds a node to the
/// same cluster; the cluster need not be empty. Takes a few seconds, because it waits for records to expire.
///
/// # Panics
/// If the store breaks a promise, with the promise in the message.
pub async fn check_store<S: ClusterStore, F: Future<Output = S>>(join: impl Fn() -> F) {
    let (one, other) = (join().await, join().await);
    // Other tests may use the same engine.
    let random = crate::server::seal::random_name().expect("the system has random bytes");
    let test = Test { one: &one, other: &other, random };
    test.nodes().await;
    test.records().await;
    test.concurrent_changes().await;
    test.expiry().await;
    test.logs().await;
    test.messages().await;
    test.leaving(join().await).await;
    assert!(!one.is_away() && !other.is_away(), "an engine that answers is not away");
}

/// Tests that a store notices the death of a node, which [`check_store`] cannot cause. `kill` ends the process of the
/// node that has the number `victim`, or its connection to the engine, without a word to the engine.
///
/// # Panics
/// If the store breaks a promise, with the promise in the message.
pub async fn check_death<S: ClusterStore>(survivor: &S, victim: u32, kill: impl FnOnce()) {
    let alive = survivor.nodes().await.expect("nodes");
    assert!(alive.contains(&victim), "a node that is alive is among the nodes: {victim} in {alive:?}");
    kill();
    let killed = Instant::now();
    loop {
        let alive = survivor.nodes().await.expect("nodes");
        assert!(alive.contains(&survivor.node()), "a node does not die with another one: {alive:?}");
        if !alive.contains(&victim) {
            break;
        }
        assert!(killed.elapsed() < NODE_LEASE + DEATH_SLACK, "a node that is killed is not alive for long: {alive:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let sent = survivor.send(victim, Bytes::from_static(b"to a dead node")).await;
    sent.expect("a message to a node that is dead is no error");
}

struct Test<'a, S> {
    one: &'a S,
    other: &'a S,
    random: String,
}

impl<S: ClusterStore> Test<'_, S> {
    fn name(&self, part: &str) -> String {
        format!("test/{}/{part}", self.random)
    }

    async fn nodes(&self) {
        let (one, other) = (self.one.node(), self.other.node());
        assert_ne!(one, other, "each node has a number of its own");
        for number in [one, other] {
            assert!((1..=MAX_NODE).contains(&number), "the number of a node is from 1 to {MAX_NODE}: {number}");
            for store in [self.one, self.other] {
                let nodes = store.nodes().await.expect("nodes");
                assert!(nodes.contains(&number), "a node that is alive is among the nodes: {number} in {nodes:?}");
            }
        }
    }

    async fn records(&self) {
        let (one, other, name) = (self.one, self.other, self.name("record"));
        assert_eq!(one.read(&name, None).await, Ok(None), "a record that was not created");
        // Any bytes.
        let value = Bytes::from_static(b"\x00first\xff\r\n");
        let first =
            one.create(&name, value.clone(), RECORD_LIFETIME).await.expect("create").expect("there was no record");
        let read = other.read(&name, None).await.expect("read");
        assert_eq!(read, Some(Record { version: first, value }), "another node reads what was created");
        let again = other.create(&name, Bytes::from_static(b"again"), RECORD_LIFETIME).await;
        assert_eq!(again, Ok(None), "a record is created once");
        let wrong = other.replace(&name, first + 1_000_000, Bytes::from_static(b"wrong"), RECORD_LIFETIME).await;
        assert_eq!(wrong, Ok(None), "a record with another version is not replaced");
        let second = other.replace(&name, first, Bytes::new(), RECORD_LIFETIME).await.expect("replace");
        let second = second.expect("the version was right");
        assert_ne!(first, second, "each change makes another version");
        let read = one.read(&name, Some(RECORD_LIFETIME)).await.expect("read");
        assert_eq!(read, Some(Record { version: second, value: Bytes::new() }), "a value may be empty");
        let late = one.replace(&name, first, Bytes::from_static(b"late"), RECORD_LIFETIME).await;
        assert_eq!(late, Ok(None), "a version is replaced once");
        assert_eq!(one.remove(&name).await, Ok(true), "there was a record");
        assert_eq!(other.remove(&name).await, Ok(false), "there was none");
        assert_eq!(other.read(&name, Some(RECORD_LIFETIME)).await, Ok(None), "a removed record");
        let gone = one.replace(&name, second, Bytes::from_static(b"gone"), RECORD_LIFETIME).await;
        assert_eq!(gone, Ok(None), "a removed record is not replaced");
        let third = one.create(&name, Bytes::from_static(b"third"), RECORD_LIFETIME).await.expect("create");
        let third = third.expect("there was no record");
        assert!(third != first && third != second, "a new record of the same name has a version of its own");
        let large = Bytes::from(vec![b'x'; 1 << 20]);
        one.replace(&name, third, large.clone(), RECORD_LIFETIME)
            .await
            .expect("replace")
            .expect("the version was right");
        assert_eq!(other.read(&name, None).await.expect("read").expect("a record").value, large, "a megabyte");
        one.remove(&name).await.expect("remove");
    }

    async fn concurrent_changes(&self) {
        let name = self.name("counter");
        self.one
            .create(&name, Bytes::from_static(b"0"), RECORD_LIFETIME)
            .await
            .expect("create")
            .expect("there was no record");
        let count = async |store: &S| {
            let mut left = 50;
            while left > 0 {
                let Record { version, value } = store.read(&name, None).await.expect("read").expect("a record");
                let number: u32 = std::str::from_utf8(&value).expect("text").parse().expect("a number");
                tokio::task::yield_now().await;
                let next = Bytes::from((number + 1).to_string());
                left -=
                    u32::from(store.replace(&name, version, next, RECORD_LIFETIME).await.expect("replace").is_some());
            }
        };
        both(count(self.one), count(self.other)).await;
        let record = self.one.read(&name, None).await.expect("read").expect("a record");
        assert_eq!(record.value, "100", "of two changes at the same time, one is refused");
        self.one.remove(&name).await.expect("remove");
    }

    async fn expiry(&self) {
        let (kept, left, log) = (self.name("kept"), self.name("left"), self.name("expiring-log"));
        for name in [&kept, &left] {
            self.one
                .create(name, Bytes::from_static(b"x"), SHORT_LIFETIME)
                .await
                .expect("create")
                .expect("there was no record");
        }
        self.one.append(vec![self.entry(&log, "x", 10, SHORT_LIFETIME)]).await.expect("append");
        self.other.read(&kept, Some(RECORD_LIFETIME)).await.expect("read").expect("it has not expired");
        self.other.read(&left, None).await.expect("read").expect("it has not expired");
        tokio::time::sleep(SHORT_LIFETIME + Duration::from_millis(500)).await;
        assert!(self.one.read(&kept, None).await.expect("read").is_some(), "a read with a lifetime keeps a record");
        assert_eq!(self.one.read(&left, Some(RECORD_LIFETIME)).await, Ok(None), "a record expires after its lifetime");
        assert_eq!(self.one.log(&log).await, Ok(vec![]), "a log expires after its lifetime");
        let again = self.other.create(&left, Bytes::from_static(b"y"), SHORT_LIFETIME).await;
        assert!(again.expect("create").is_some(), "the name of an expired record is free");
        self.one.remove(&kept).await.expect("remove");
    }

    async fn logs(&self) {
        let (log, second) = (self.name("log"), self.name("log2"));
        assert_eq!(self.one.log(&log).await, Ok(vec![]), "a log to which nothing was appended");
        let entries = (0..20)
            .map(|number| self.entry(if number % 2 == 0 { &log } else { &second }, number, 1000, RECORD_LIFETIME));
        self.one.append(entries.collect()).await.expect("append");
        self.other.append(vec![self.entry(&log, 20, 1000, RECORD_LIFETIME)]).await.expect("append");
        let numbers = |entries: Vec<Bytes>| -> Vec<u32> {
            let number = |entry: &Bytes| std::str::from_utf8(entry).expect("text").parse().expect("a number");
            entries.iter().map(number).collect()
        };
        let all = numbers(self.other.log(&log).await.expect("log"));
        assert_eq!(all, (0..=20).step_by(2).collect::<Vec<_>>(), "the entries are in the order of appending");
        for number in 100..1500 {
            self.one.append(vec![self.entry(&second, number, 50, RECORD_LIFETIME)]).await.expect("append");
        }
        let kept = numbers(self.other.log(&second).await.expect("log"));
        assert!(kept.len() >= 50, "at least as many entries as asked for are kept: {}", kept.len());
        assert!(kept.len() <= 500, "not many more entries than asked for are kept: {}", kept.len());
        let first = kept[0];
        assert_eq!(kept, (first..1500).collect::<Vec<_>>(), "the oldest entries are dropped");
        self.lengths_of_logs(&second).await;
        assert_eq!(self.one.remove(&log).await, Ok(true), "there was a log");
        assert_eq!(self.other.log(&log).await, Ok(vec![]), "a removed log");
        self.one.remove(&second).await.expect("remove");
    }

    /// Appends long entries to a log, of which no two have the same length.
    async fn lengths_of_logs(&self, log: &str) {
        let part = MAX_LOG_BYTES / 4;
        let append = async |length: usize| {
            let entry = LogEntry { entry: vec![b'x'; length].into(), ..self.entry(log, "", 1000, RECORD_LIFETIME) };
            self.one.append(vec![entry]).await.expect("append");
        };
        for number in 0..20 {
            append(part - number).await;
        }
        let lengths =
            async || -> Vec<usize> { self.other.log(log).await.expect("log").iter().map(Bytes::len).collect() };
        let kept = lengths().await;
        assert!((4..=8).contains(&kept.len()), "a log is not much longer than {MAX_LOG_BYTES} bytes: {kept:?}");
        let newest: Vec<usize> = (20 - kept.len()..20).map(|number| part - number).collect();
        assert_eq!(kept, newest, "the oldest entries are dropped");
        append(MAX_LOG_BYTES + 1).await;
        let kept = lengths().await;
        assert_eq!(kept.last(), Some(&(MAX_LOG_BYTES + 1)), "the newest entry is kept, however long it is");
        append(1).await;
        append(2).await;
        assert!(lengths().await.ends_with(&[1, 2]), "a long entry does not keep others from being appended");
    }

    async fn messages(&self) {
        let (one, other) = (self.one, self.other);
        let message = |number: u32| Bytes::from(format!("{number}\n\u{0}"));
        for number in 0..300 {
            one.send(other.node(), message(number)).await.expect("send");
        }
        one.send_all(other.node(), (300..400).map(message).collect()).await.expect("send");
        one.send_all(other.node(), Vec::new()).await.expect("nothing to send");
        one.send(MAX_NODE, Bytes::from_static(b"no node")).await.expect("a message to a node that does not exist");
        let mut received = Vec::new();
        while received.len() < 400 {
            received.extend(receive(other).await);
        }
        let expected: Vec<Bytes> = (0..400).map(message).collect();
        assert_eq!(received, expected, "messages arrive once, and in the order of sending");
        // A message that is sent while the receiver waits.
        let (received, sent) = both(receive(one), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            other.send(one.node(), Bytes::from_static(b"later")).await
        })
        .await;
        assert_eq!((received, sent), (vec![Bytes::from_static(b"later")], Ok(())), "a receiver is woken");
        one.send(one.node(), Bytes::from_static(b"self")).await.expect("send");
        assert_eq!(receive(one).await, [Bytes::from_static(b"self")], "a node can send to itself");
    }

    async fn leaving(&self, leaving: S) {
        let (number, name, log) = (leaving.node(), self.name("outlives"), self.name("outlives-log"));
        leaving.create(&name, Bytes::from_static(b"x"), RECORD_LIFETIME).await.expect("create").expect("it is new");
        leaving.append(vec![self.entry(&log, "x", 10, RECORD_LIFETIME)]).await.expect("append");
        leaving.send(self.one.node(), Bytes::from_static(b"the last one")).await.expect("send");
        leaving.leave().await.expect("leave");
        let nodes = self.one.nodes().await.expect("nodes");
        assert!(!nodes.contains(&number), "a node that has left is gone at once: {number} in {nodes:?}");
        assert!(nodes.contains(&self.other.node()), "a node does not leave with another one: {nodes:?}");
        assert_eq!(receive(self.one).await, [Bytes::from_static(b"the last one")], "what it has sent arrives");
        assert!(self.other.read(&name, None).await.expect("read").is_some(), "a record outlives its node");
        assert_eq!(self.other.log(&log).await.expect("log").len(), 1, "a log outlives its node");
        self.one.send(number, Bytes::from_static(b"too late")).await.expect("a message to a node that has left");
        self.one.remove(&name).await.expect("remove");
        self.one.remove(&log).await.expect("remove");
    }

    fn entry(&self, name: &str, entry: impl ToString, keep: usize, lifetime: Duration) -> LogEntry {
        LogEntry { name: name.to_owned(), entry: entry.to_string().into(), keep, lifetime }
    }
}

/// Runs two futures at the same time, until both are ready.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(value) = one.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = other.as_mut().poll(context)
        {
            second = Some(value);
        }
        match (first.is_some(), second.is_some()) {
            (true, true) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    (first.expect("it is ready"), second.expect("it is ready"))
}

async fn receive(store: &impl ClusterStore) -> Vec<Bytes> {
    let received = tokio::time::timeout(Duration::from_secs(10), store.receive()).await;
    received.expect("a message that was sent arrives").expect("receive")
}

/// How much longer than its lease a killed node may seem alive: this is about a store that never notices.
const DEATH_SLACK: Duration = Duration::from_secs(60);

const RECORD_LIFETIME: Duration = Duration::from_secs(60);
const SHORT_LIFETIME: Duration = Duration::from_millis(1500);

#[cfg(test)]
mod tests {
    use super::super::MemoryCluster;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_is_a_store() {
        let cluster = MemoryCluster::default();
        check_store(|| std::future::ready(cluster.join())).await;
        let (survivor, victim) = (cluster.join(), cluster.join());
        check_death(&survivor, victim.node(), || cluster.cut_off(victim.node(), true)).await;
    }
}
