//! A server, a command line or a URL -> the target of a live run.

use std::ffi::OsString;
use std::net::IpAddr;
use std::sync::Arc;

use barewire::Server;
use barewire::client::http::{Dialer, Endpoint, FetchError};
use barewire::transport::Child;
use tokio::runtime::Builder;

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

    /// A server at a URL, over the connections of a dialer, if one is given. The headers are sent with every request.
    pub(in crate::check) fn url(
        url: &str,
        dialer: Option<Dialer>,
        headers: Vec<(String, String)>,
        hostile: bool,
    ) -> Result<Self, Error> {
        let dialer =
            dialer.map_or_else(|| Dialer::new(&Endpoint::new(url)).map_err(|error| not_checked(&error)), Ok)?;
        let is_loopback = is_loopback(&dialer.host());
        Ok(Self::Url { http: Arc::new(HttpTarget::new(dialer, headers, "barewire-check")), hostile, is_loopback })
    }
}

/// Returns the credentials that the next request carries, as header values.
pub(in crate::check) fn credentials(dialer: &Dialer) -> Result<Vec<String>, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(format!("cannot start the async runtime: {error}")))?;
    let headers = runtime.block_on(dialer.authorization("POST")).map_err(|error| not_checked(&error))?;
    Ok(headers.iter().map(|(_, value)| value.expose().to_owned()).collect())
}

fn not_checked(error: &FetchError) -> Error {
    match error {
        FetchError::Url(what) => Error::new(format!("cannot check the server: the URL {what}")),
        error => Error::new(format!("cannot check the server: {error}")),
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
