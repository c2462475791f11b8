//! A store whose round trips are counted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::store::{ClusterFuture, ClusterStore, LogEntry, Record};
use crate::server::http::StoreMetrics;

/// A store, and the metrics that count what is asked of it.
pub(in super::super) struct MeasuredStore {
    pub(in super::super) store: Arc<dyn ClusterStore>,
    pub(in super::super) metrics: StoreMetrics,
}

impl MeasuredStore {
    fn measure<'a, T: Send + 'a>(&'a self, round_trip: ClusterFuture<'a, T>) -> ClusterFuture<'a, T> {
        Box::pin(self.metrics.measure(round_trip))
    }
}

impl ClusterStore for MeasuredStore {
    fn node(&self) -> u32 {
        self.store.node()
    }

    fn nodes(&self) -> ClusterFuture<'_, Vec<u32>> {
        self.measure(self.store.nodes())
    }

    fn create<'a>(&'a self, name: &'a str, value: Bytes, lifetime: Duration) -> ClusterFuture<'a, Option<u64>> {
        self.measure(self.store.create(name, value, lifetime))
    }

    fn read<'a>(&'a self, name: &'a str, lifetime: Option<Duration>) -> ClusterFuture<'a, Option<Record>> {
        self.measure(self.store.read(name, lifetime))
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        version: u64,
        value: Bytes,
        lifetime: Duration,
    ) -> ClusterFuture<'a, Option<u64>> {
        self.measure(self.store.replace(name, version, value, lifetime))
    }

    fn remove<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, bool> {
        self.measure(self.store.remove(name))
    }

    fn append(&self, entries: Vec<LogEntry>) -> ClusterFuture<'_, ()> {
        self.measure(self.store.append(entries))
    }

    fn log<'a>(&'a self, name: &'a str) -> ClusterFuture<'a, Vec<Bytes>> {
        self.measure(self.store.log(name))
    }

    fn send(&self, to: u32, message: Bytes) -> ClusterFuture<'_, ()> {
        self.measure(self.store.send(to, message))
    }

    fn send_all(&self, to: u32, messages: Vec<Bytes>) -> ClusterFuture<'_, ()> {
        self.measure(self.store.send_all(to, messages))
    }

    /// Not measured: it waits for others.
    fn receive(&self) -> ClusterFuture<'_, Vec<Bytes>> {
        self.store.receive()
    }

    fn leave(&self) -> ClusterFuture<'_, ()> {
        self.measure(self.store.leave())
    }

    fn is_away(&self) -> bool {
        self.store.is_away()
    }
}
