//! A server at a URL -> findings: what is asked over pipes is asked here too, and then what only HTTP has.

use std::sync::Arc;

use barewire::client::http::{Dialer, Endpoint, FetchError};

use super::harness::Target;
use super::http_probes::{self, HttpFacts};
use super::{LiveResult, RunOptions, ServerSummary, course, eras, finish, hostile};
use crate::check::catalogue::{CheckPlace, all};
use crate::check::ledger::{Reason, SkipReason};
use crate::http::session::HttpTarget;
use crate::{Advice, Error};

/// Where it is, and what may be sent there.
pub(in crate::check) struct At<'a> {
    pub(in crate::check) url: &'a str,
    /// What no well-behaved client sends may be sent as well.
    pub(in crate::check) hostile: bool,
    /// What is sent along with every request.
    pub(in crate::check) headers: Vec<(String, String)>,
}

pub(super) async fn check(at: At<'_>, terms: RunOptions) -> Result<LiveResult, Error> {
    let dial = Dialer::new(&Endpoint::new(at.url)).map_err(|error| match error {
        FetchError::Url(what) => Error::new(format!("cannot check anything: the URL {what}")),
        error => Error::new(format!("cannot check anything: {error}")),
    })?;
    let is_loopback = is_loopback(&dial.host());
    let site = Arc::new(HttpTarget::new(dial, at.headers, "barewire-check"));
    let mut harness = terms.harness(Target::Url { site: Arc::clone(&site), hostile: at.hostile })?;
    let mut about = ServerSummary::default();
    let found = eras::find(&mut harness, &mut about).await?;
    let main = course(&mut harness, found, &mut about).await?;
    match main {
        Some(era) if at.hostile => hostile::over_http(&mut harness, era).await?,
        Some(_) => {
            for check in all().filter(|check| check.hostile && check.runs_on(CheckPlace::Http)) {
                let why = Reason::new("it is hostile", Advice::AllowHostile);
                harness.recording.skip(check, SkipReason::Permission(why));
            }
        }
        None => {}
    }
    let facts = HttpFacts {
        site: Arc::clone(&site),
        legacy: about.legacy.iter().copied().max(),
        is_modern: about.modern,
        is_loopback,
    };
    http_probes::run(&mut harness, &facts).await?;
    about.processes = u32::try_from(site.exchanges()).unwrap_or(u32::MAX);
    finish(harness, about, main, CheckPlace::Http)
}

/// Whether nobody but this machine is asked.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_local = |addr: std::net::IpAddr| addr.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_this_machine() {
        for host in ["localhost", "localhost:80", "127.0.0.1:1", "[::1]:8080", "[::1]", "127.9.9.9"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.com", "127.0.0.1.example.com", "10.0.0.1:80", "[2001:db8::1]:80"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
