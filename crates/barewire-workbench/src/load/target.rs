//! A server to load: a program to start, or a URL.

use barewire::client::http::Endpoint;
use barewire::transport::Child;

/// A server to load, and the name that it has in the results.
#[derive(Clone)]
pub struct LoadTarget {
    name: String,
    pub(super) place: TargetAddress,
}

#[derive(Clone)]
pub(super) enum TargetAddress {
    /// A program that is started and spoken to over its stdin and stdout.
    Program(Box<Child>),
    /// A server that runs already.
    Url {
        endpoint: Box<Endpoint>,
        /// The process whose CPU time and memory are measured.
        pid: Option<u32>,
    },
}

impl LoadTarget {
    /// Makes a target of a program, which is started for the load and ended after it.
    pub fn program(name: impl Into<String>, child: Child) -> Self {
        Self { name: name.into(), place: TargetAddress::Program(Box::new(child)) }
    }

    /// Makes a target of a URL. With the `pid` of the server's process its CPU time and memory are measured as well.
    pub fn url(name: impl Into<String>, endpoint: Endpoint, pid: Option<u32>) -> Self {
        Self { name: name.into(), place: TargetAddress::Url { endpoint: Box::new(endpoint), pid } }
    }

    /// The name of the server in the results.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the server is reached over HTTP.
    pub fn is_url(&self) -> bool {
        matches!(self.place, TargetAddress::Url { .. })
    }
}
