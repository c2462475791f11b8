//! A probe at a URL: a relay that records everything, and the probe behind it.

use std::net::SocketAddr;

use barewire::client::http::{Dialer, Endpoint};
use tokio::net::TcpListener;

use super::http::{HTTP_PATH, serve_http};
use crate::Error;
use crate::capture::{CaptureClock, CaptureWriter};
use crate::check::Scenario;
use crate::relay::Observation;
use crate::relay::http::{HttpRelay, HttpRelaySettings, ListenError};

/// A probe that listens at an address, and records all exchanges.
pub struct ProbeAtUrl {
    scenario: Scenario,
    relay: HttpRelay,
    server: TcpListener,
    address: SocketAddr,
}

impl ProbeAtUrl {
    /// Listens at an address of this machine.
    pub async fn listen(address: &str, scenario: Scenario) -> Result<Self, ListenError> {
        let server = TcpListener::bind("127.0.0.1:0").await.map_err(ListenError::Bind)?;
        let inner = server.local_addr().map_err(ListenError::Bind)?;
        let dialer = Dialer::new(&Endpoint::new(format!("http://{inner}{HTTP_PATH}")));
        let dialer = dialer.map_err(|error| ListenError::Bind(std::io::Error::other(error)))?;
        let relay = HttpRelay::listen(address, dialer, &HttpRelaySettings::default()).await?;
        let address = relay.local_addr().map_err(ListenError::Bind)?;
        Ok(Self { scenario, relay, server, address })
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}{HTTP_PATH}", self.address)
    }

    /// Serves clients until `stop` is ready. `warn` is called if something cannot be recorded.
    pub async fn run(
        self,
        (clock, capture): (CaptureClock, CaptureWriter),
        stop: impl Future<Output = ()>,
        warn: fn(&Error),
    ) {
        let observation = Observation::start(clock, Some(capture), Vec::new(), warn);
        let Self { scenario, relay, server, .. } = self;
        let serving = serve_http(scenario, server, std::future::pending());
        tokio::select! {
            () = relay.run(Some(&observation), stop, |_, _| {}) => {}
            () = serving => {}
        }
        observation.finish();
    }
}
