//! A server to load: a program to start, or the URL of a running server.

use barewire::client::http::Endpoint;
use barewire::transport::Child;

/// A server to load, and its name in the results.
#[derive(Clone)]
pub struct LoadTarget {
    name: String,
    pub(super) address: TargetAddress,
}

#[derive(Clone)]
pub(super) enum TargetAddress {
    /// A program to start and communicate with over its stdin and stdout.
    Program(Box<Child>),
    /// A running server.
    Url {
        endpoint: Box<Endpoint>,
        /// The process whose CPU time and memory are measured.
        pid: Option<u32>,
    },
}

impl LoadTarget {
    /// Makes a target for a program, which is started before the load and ended after it.
    pub fn program(name: impl Into<String>, child: Child) -> Self {
        Self { name: name.into(), address: TargetAddress::Program(Box::new(child)) }
    }

    /// Makes a target for a URL. If the `pid` of the server's process is given, its CPU time and memory are measured.
    pub fn url(name: impl Into<String>, endpoint: Endpoint, pid: Option<u32>) -> Self {
        Self { name: name.into(), address: TargetAddress::Url { endpoint: Box::new(endpoint), pid } }
    }

    /// Returns the name of the server in the results.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the server is reached over HTTP.
    pub fn is_url(&self) -> bool {
        matches!(self.address, TargetAddress::Url { .. })
    }
}
