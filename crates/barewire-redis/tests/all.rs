//! The store on a real server. Each test starts a `redis-server` of its own; the Debian package `redis-server` has it.
//! `BAREWIRE_REDIS_SERVER=/path/to/valkey-server` runs the tests with another program.

mod access;
mod copies;
mod faults;
mod load;
mod nodes;
mod reconnect;
mod redis_cluster;
mod redis_server;
mod speed;
mod store;
mod tasks;
#[allow(dead_code, reason = "the tests of the library use all of it")]
#[path = "../../barewire/tests/http_server/wire.rs"]
mod wire;
