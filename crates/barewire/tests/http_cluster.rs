//! A cluster of three servers over HTTP, byte by byte over real sockets: what one server passes, a cluster passes too,
//! though each request goes to another node.

#[path = "http_server/auth.rs"]
mod auth;
#[path = "http_server/cluster.rs"]
mod cluster;
#[path = "http_server/cluster_copies.rs"]
mod cluster_copies;
#[path = "http_server/cluster_faults.rs"]
mod cluster_faults;
#[path = "http_server/cluster_tasks.rs"]
mod cluster_tasks;
mod eventually;
#[path = "http_server/legacy.rs"]
mod legacy;
#[path = "http_server/modern.rs"]
mod modern;
#[path = "http_server/resume.rs"]
mod resume;
#[path = "http_server/site.rs"]
mod site;
#[path = "http_server/tasks.rs"]
mod tasks;
#[path = "http_server/wire.rs"]
mod wire;

pub(crate) use site::{Name, TestSite, test_server};

/// The number of nodes that a site has.
const NODES: usize = 3;
