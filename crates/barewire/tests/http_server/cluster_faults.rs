//! A node that is alive and reaches the store, but cannot write everything to it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barewire::server::http::cluster::{
    ClusterFuture, ClusterStore, LogEntry, MemoryCluster, MemoryNode, Record, StoreError,
};
use bytes::Bytes;
use serde_json::json;

use crate::TestSite;
use crate::eventually::DEADLINE;
use crate::site::{RunningHandlers, test_server_of};
use crate::wire::{Events, Wire, call};

/// A node whose store does not do everything.
struct FaultyNode {
    node: MemoryNode,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    /// The error of all attempts to append to a log.
    append_error: Mutex<Option<StoreError>>,
}

impl ClusterStore for FaultyNode {
    fn node(&self) -> u32 {
        self.node.node()
    }

    fn nodes(&self) -> ClusterFuture<'_, Vec<u32>> {
        self.node.nodes()
    }

    fn create<'a>(&'a self, name: &'a str, value: Bytes, lifetime: Duration) -> ClusterFuture<'a, Option<u64>> {
        self.node.create(name, value, lifetime)
    }

    fn read<'a>(&'a self, name: &'a str, lifetime: Option<Duration>) -> ClusterFuture<'a, Option<Record>> {
        self.node.read(name, lifetime)
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        version: u64,
        value: Bytes,
        lifetime: Duration,
    ) -> ClusterFuture<'a, Option<u64>> {
        self.node.replace(name, version, value, lifetime)
    }

    fn remove<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, bool> {
        self.node.remove(name)
    }

    fn append(&self, entries: Vec<LogEntry>) -> ClusterFuture<'_, ()> {
        let error = self.faults.append_error.lock().expect("no panic").clone();
        match error {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.node.append(entries),
        }
    }

    fn log<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, Vec<Bytes>> {
        self.node.log(name)
    }

    fn send(&self, to: u32, message: Bytes) -> ClusterFuture<'_, ()> {
        self.node.send(to, message)
    }

    fn receive(&self) -> ClusterFuture<'_, Vec<Bytes>> {
        self.node.receive()
    }
}

/// Two nodes, of which the second one answers a call while it cannot append to logs.
struct Site {
    nodes: [TestSite; 2],
    faults: Arc<Faults>,
    session: String,
    /// The last event before the answer.
    after: String,
}

impl Site {
    async fn whose_answer_is_not_written(error: StoreError) -> Self {
        let (memory, running, faults) =
            (MemoryCluster::default(), RunningHandlers::default(), Arc::new(Faults::default()));
        let observer = memory.join();
        let faulty = FaultyNode { node: memory.join(), faults: Arc::clone(&faults) };
        let nodes = [
            TestSite::listening(test_server_of(&running).http().cluster(memory.join())).await,
            TestSite::listening(test_server_of(&running).http().cluster(faulty)).await,
        ];
        let session = Wire::to(nodes[0].addr).await.initialize("2025-11-25", json!({})).await;
        let mut held = call(7, "hold", json!({"ms": 60_000}));
        held["params"]["_meta"] = json!({"progressToken": 7});
        let mut wire = Wire::to(nodes[1].addr).await;
        wire.post(&[&session], &held).await;
        let mut events = Events::of(wire).await;
        events.next().await.expect("an event");
        let after = events.next().await.expect("an event").id.expect("an id");
        let log = format!("session/{}/events", session.split_once(": ").expect("a header").1);
        let start = Instant::now();
        while observer.log(&log).await.expect("it is there").len() < 2 {
            assert!(start.elapsed() < DEADLINE, "the first events are stored");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        *faults.append_error.lock().expect("no panic") = Some(error);
        running.release();
        let answer = events.rest().await.pop().expect("an answer");
        assert_eq!(answer["result"]["content"][0]["text"], "held", "{answer}");
        Self { nodes, faults, session, after }
    }

    /// Resumes the stream of the call at the other node.
    async fn resume(&self) -> Wire {
        let mut wire = Wire::to(self.nodes[0].addr).await;
        wire.get(&[&self.session, &format!("Last-Event-ID: {}", self.after)]).await;
        wire
    }
}

#[tokio::test]
async fn an_answer_that_is_not_written_yet_is_not_replaced_by_an_error() {
    let site = Site::whose_answer_is_not_written(StoreError::Away("slow".to_owned())).await;
    let refused = site.resume().await.answer().await;
    assert_eq!((refused.refusal(), refused.head.get("retry-after")), ((503, -32603), Some("1")), "{refused:?}");
    *site.faults.append_error.lock().expect("no panic") = None;
    let start = Instant::now();
    let answer = loop {
        let answer = site.resume().await.answer().await;
        if answer.status() == 200 {
            break answer;
        }
        assert!(start.elapsed() < DEADLINE, "the answer is stored: {answer:?}");
    };
    assert!(answer.body.contains(r#""text":"held""#), "{answer:?}");
    assert!(!answer.body.contains("has stopped running"), "{answer:?}");
}

#[tokio::test]
async fn an_answer_that_the_store_has_refused_is_missing_but_the_call_was_not_stopped() {
    let site = Site::whose_answer_is_not_written(StoreError::Refused("full".to_owned())).await;
    assert_eq!(site.resume().await.answer().await.refusal(), (400, -32600));
}
