//! A server at a URL <- the reverse proxy of a tap <- the client, and raw frames as requests of their own.

use std::sync::Arc;
use std::time::Duration;

use barewire::client::http::{Dialer, Endpoint};
use barewire_proto::mcp::{Era, Revision};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use super::StopOnDrop;
use super::frames::CallFrames;
use crate::Error;
use crate::http::ExchangeEvent;
use crate::http::session::{HttpTarget, SessionClient};
use crate::relay::http::{HttpRelay, HttpRelaySettings};
use crate::relay::{Observation, RelayCopies};

/// The reverse proxy in front of the server.
pub(super) struct HttpWire {
    /// The connections to the proxy.
    proxy: Arc<HttpTarget>,
    frames: Arc<CallFrames>,
    room: Arc<Semaphore>,
    _stop: StopOnDrop,
}

impl HttpWire {
    /// Starts the proxy, on a port of its own. Returns the endpoint for the client.
    pub(super) async fn start(
        dialer: &Dialer,
        headers: &[(String, String)],
        observation: &Observation,
        frames: Arc<CallFrames>,
    ) -> Result<(Self, Endpoint), Error> {
        let cannot = |why: String| Error::new(format!("cannot start the proxy in front of the server: {why}"));
        // What is compressed cannot be shown.
        let settings = HttpRelaySettings { uncompressed: true, ..HttpRelaySettings::default() };
        let relay = HttpRelay::listen("127.0.0.1:0", dialer.clone(), &settings).await;
        let relay = relay.map_err(|error| cannot(format!("{error:?}")))?;
        let address = relay.local_addr().map_err(|error| cannot(error.to_string()))?;
        let (stop, stopped) = oneshot::channel();
        let copies = RelayCopies::from(Some(observation));
        tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            relay.run(copies, stopped, |_, _| {}).await;
        });
        let url = format!("http://{address}{}", dialer.path_and_query());
        let endpoint = Endpoint::new(url).no_proxy();
        let to_proxy = Dialer::new(&endpoint).map_err(|error| cannot(error.to_string()))?;
        let proxy = Arc::new(HttpTarget::new(to_proxy, headers.to_vec(), "barewire-view"));
        let endpoint =
            headers.iter().fold(endpoint, |endpoint, (name, value)| endpoint.header(name.clone(), value.clone()));
        let room = Arc::new(Semaphore::new(MAX_RAW_EXCHANGES));
        Ok((Self { proxy, frames, room, _stop: StopOnDrop(Some(stop)) }, endpoint))
    }

    /// Sends a body as it is, with the headers of the session. The proxy records the response, which is read here and
    /// not looked at.
    pub(super) fn send(&self, runtime: &Handle, frame: Vec<u8>, era: Era, revision: Revision) {
        let (proxy, room, session) = (Arc::clone(&self.proxy), Arc::clone(&self.room), self.frames.session());
        runtime.spawn(async move {
            let Ok(_permit) = room.acquire_owned().await else { return };
            let mut client = SessionClient::new(proxy);
            client.session = session;
            client.revision = Some(revision);
            let request = client.request(&frame, era, revision);
            let number = client.send(&request, Duration::ZERO);
            let response = async {
                while client.is_open(number) {
                    let (_, event) = client.next().await;
                    if matches!(event, ExchangeEvent::End | ExchangeEvent::Broken(_)) {
                        client.close(number);
                    }
                }
            };
            let _ = tokio::time::timeout(MAX_RAW_TIME, response).await;
        });
    }
}

/// The maximum number of raw frames whose responses are awaited at once.
const MAX_RAW_EXCHANGES: usize = 16;

/// The maximum time to wait for the response to a raw frame: longer than any person does.
const MAX_RAW_TIME: Duration = Duration::from_secs(300);
