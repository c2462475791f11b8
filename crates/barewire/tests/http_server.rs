//! A server over HTTP, byte by byte over real sockets.

#[path = "http_server/access.rs"]
mod access;
#[path = "http_server/auth.rs"]
mod auth;
mod eventually;
#[path = "http_server/legacy.rs"]
mod legacy;
#[path = "http_server/listener.rs"]
mod listener;
#[path = "http_server/modern.rs"]
mod modern;
#[path = "http_server/monitoring.rs"]
mod monitoring;
#[path = "http_server/resume.rs"]
mod resume;
#[path = "http_server/senders.rs"]
mod senders;
#[path = "http_server/site.rs"]
mod site;
#[path = "http_server/tasks.rs"]
mod tasks;
#[path = "http_server/wire.rs"]
mod wire;

pub(crate) use site::{Name, TestSite, test_server};

/// The number of nodes that a site has.
const NODES: usize = 1;
