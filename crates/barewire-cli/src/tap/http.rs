//! `barewire tap --http ADDR --url URL`: a tap that works as a reverse proxy, for a server at a URL.

use std::net::SocketAddr;

use barewire::client::http::{Dialer, Endpoint};
use barewire_proto::transcript::Note;
use barewire_workbench::capture::{CaptureClock, CaptureWriter, Redactor};
use barewire_workbench::relay::RelayCopies;
use barewire_workbench::relay::http::{HttpRelay, HttpRelaySettings, ListenError, is_loopback};
use barewire_workbench::relay::live::RelayKind;
use tokio::runtime::Builder;

use super::outlet::{LogTarget, Outlet, first_line};
use super::{Args, observe, say};
use crate::failure::runtime_failure;
use crate::output::shown;
use crate::platform::Signals;
use crate::renewals::{EndAfterRenewals, shut_down};
use crate::url_headers::{dialer, dialer_with_sign_in};
use crate::{Exit, Failure};

/// The options for HTTP.
#[derive(clap::Args)]
pub(super) struct HttpArgs {
    /// Be a reverse proxy: listen at this address, and pass requests on to the server at --url
    #[arg(long, value_name = "ADDR", requires = "url")]
    pub(super) http: Option<String>,
    /// The URL of the server; clients use the same URL, but with the tap's address
    #[arg(long, visible_alias = "to", value_name = "URL", requires = "http", conflicts_with = "program")]
    url: Option<String>,
    /// Also accept requests for this host name; separate several with commas. Required if other machines can connect
    #[arg(long, value_name = "HOST", value_delimiter = ',', requires = "http", conflicts_with = "program")]
    host: Vec<String>,
    /// Request uncompressed bodies from the server, even if the client accepts compression
    #[arg(long, requires = "http", conflicts_with = "program")]
    uncompressed: bool,
    /// Do not send the stored sign-in (barewire login) with requests that have no Authorization header
    #[arg(long, requires = "http", conflicts_with = "program")]
    no_sign_in: bool,
}

impl HttpArgs {
    /// Creates the dialer for the server, and returns whether it has the stored sign-in. It does not connect yet.
    fn dial(&self) -> Result<(Dialer, bool), Failure> {
        let url = self.url.as_deref().unwrap_or_default();
        // Other machines must not act as this user.
        if self.no_sign_in || !self.host.is_empty() {
            return Ok((dialer(&Endpoint::new(url), PURPOSE)?, false));
        }
        dialer_with_sign_in(url, PURPOSE)
    }

    /// Listens for clients, whose requests go to the server of `dialer`.
    async fn listen(&self, dialer: Dialer) -> Result<HttpRelay, Failure> {
        let address = self.http.as_deref().unwrap_or_default();
        let mut settings = HttpRelaySettings::default();
        settings.hosts.clone_from(&self.host);
        settings.uncompressed = self.uncompressed;
        let cannot = |at: &dyn std::fmt::Display, why: &dyn std::fmt::Display| {
            Failure::new(format!("cannot listen at {at}: {why}"))
        };
        HttpRelay::listen(address, dialer, &settings).await.map_err(|error| match error {
            ListenError::Address(error) => {
                cannot(&address, &error).with_hint("give an address and a port, such as 127.0.0.1:8900")
            }
            ListenError::Open(open) => cannot(&open, &"other machines could connect")
                .with_hint("use 127.0.0.1 for this machine only, or --host NAME with the name that clients use"),
            ListenError::Host(bad) => Failure::new(format!("cannot accept requests for the host {bad}")),
            ListenError::Bind(error) => cannot(&address, &error),
            other => cannot(&address, &format_args!("{other:?}")),
        })
    }
}

/// Refuses options that do not work over HTTP.
pub(super) fn check(args: &Args) -> Result<(), Failure> {
    if args.http.http.is_some() && !args.fault.is_empty() {
        return Err(Failure::new("--fault does not work over HTTP yet, only on stdin and stdout")
            .with_hint("leave out --fault, or tap a server on stdio"));
    }
    Ok(())
}

/// Relays requests until a signal arrives.
pub(super) fn run(
    args: &Args,
    clock: CaptureClock,
    capture: Option<CaptureWriter>,
    outlet: Option<Outlet>,
    redactor: Redactor,
) -> Result<Exit, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot listen: {error}")))?;
    let ends = EndAfterRenewals::start().map_err(|error| runtime_failure(&error))?;
    let (dialer, has_sign_in) = args.http.dial()?;
    let done = runtime.block_on(async {
        let relay = args.http.listen(dialer.clone()).await?;
        let mut signals =
            Signals::catch().map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
        drop(ends);
        // If the log goes to stderr, the warnings are already there.
        let to_stderr = matches!(args.log, Some(LogTarget::Stderr)) && outlet.is_some();
        if let Some(outlet) = &outlet {
            outlet.line(&first_line(&clock.started(), &dialer.origin()));
            outlet.flush();
        }
        let mut redactor = redactor;
        let path = dialer.path_and_query();
        let server = format!("{}{}", dialer.origin(), path.split('?').next().unwrap_or_default());
        let server = (RelayKind::Http, redactor.text(&server));
        let announcement = super::announce(args, clock, capture.as_ref(), server, Vec::new());
        let observation = observe(clock, capture, outlet, redactor, false);
        let viewer = super::start_viewer(args, announcement.as_ref());
        let addr = relay.local_addr().map_err(|error| Failure::new(format!("cannot listen: {error}")))?;
        announce(addr, &dialer);
        if has_sign_in {
            say("requests without an Authorization header get your sign-in; --no-sign-in passes them on as they are");
        }
        let warn = move |exchange: u64, note: &Note| {
            if !to_stderr {
                say(&format!("exchange {exchange}: {}", shown(&note.text(), 300)));
            }
        };
        let stop = async {
            signals.next().await;
        };
        let copies = RelayCopies::from(observation.as_ref()).announced(announcement.as_ref());
        relay.run(copies, stop, warn).await;
        if let Some(observation) = observation {
            observation.finish();
        }
        if let Some(announcement) = announcement {
            announcement.finish();
        }
        drop(viewer);
        Ok(Exit::Clean)
    });
    shut_down(runtime);
    done
}

/// Prints the address that clients should use.
fn announce(addr: SocketAddr, dial: &Dialer) {
    let path = dial.path_and_query();
    // A query may contain a token, so it is not printed. Clients still have to send it.
    let (path, query) = path.split_once('?').map_or((path, ""), |(path, _)| (path, "?…"));
    let reach = if is_loopback(&addr) { "this machine" } else { "other machines too" };
    say(&format!("tapping {}{path}{query} at http://{addr}{path}{query}, for {reach}; Ctrl-C stops it", dial.origin()));
}

const PURPOSE: &str = "tap the server";
