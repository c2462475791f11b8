//! A server, a command line or a URL -> the target of a live run.

use std::ffi::OsString;
use std::net::IpAddr;
use std::sync::Arc;

use barewire::Server;
use barewire::client::http::{Dialer, Endpoint, FetchError};
use barewire::transport::Child;

use crate::Error;
use crate::http::session::HttpTarget;

pub(in crate::check) enum LiveTarget {
    /// A server in this process.
    Server(Box<Server>),
    Program {
        child: Child,
        argv: Vec<OsString>,
    },
    Url {
        http: Arc<HttpTarget>,
        hostile: bool,
        is_loopback: bool,
    },
}

impl LiveTarget {
    pub(in crate::check) fn program(argv: &[OsString]) -> Result<Self, Error> {
        let [program, args @ ..] = argv else { return Err(Error::new("no program to check")) };
        Ok(Self::Program { child: Child::new(program).args(args), argv: argv.to_vec() })
    }

    /// A server at a URL. The headers are sent with every request.
    pub(in crate::check) fn url(url: &str, headers: Vec<(String, String)>, hostile: bool) -> Result<Self, Error> {
        let dialer = Dialer::new(&Endpoint::new(url)).map_err(|error| match error {
            FetchError::Url(what) => Error::new(format!("cannot check the server: the URL {what}")),
            error => Error::new(format!("cannot check the server: {error}")),
        })?;
        let is_loopback = is_loopback(&dialer.host());
        Ok(Self::Url { http: Arc::new(HttpTarget::new(dialer, headers, "barewire-check")), hostile, is_loopback })
    }
}

/// Whether a host, with or without a port, is this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_local = |addr: IpAddr| addr.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_hosts_are_this_machine() {
        for host in ["localhost", "localhost:80", "127.0.0.1:1", "[::1]:8080", "[::1]", "127.9.9.9"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.com", "127.0.0.1.example.com", "10.0.0.1:80", "[2001:db8::1]:80"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
