//! A reverse proxy between clients and a server at a URL. It names the server in the `Host` header, and changes few
//! other bytes, all of them in the heads of requests.

mod connection;
mod exchanges;
mod listen;
mod sent_credentials;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use barewire::client::http::Dialer;
use barewire_proto::http::Access;
use barewire_proto::transcript::{Note, Stream};
use tokio::net::TcpListener;

use super::copies::RelayCopies;
use super::queue::SINGLE_CONNECTION;
use crate::capture::CaptureClock;
use crate::http::head::{ForwardProxy, HeadRewriter};
use connection::RelayContext;

/// A reverse proxy in front of a server at a URL.
pub struct HttpRelay {
    tcp: TcpListener,
    dialer: Dialer,
    rewriter: HeadRewriter,
    first_head: Duration,
}

/// The settings of a relay.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpRelaySettings {
    /// Host names by which clients may address the relay. If other machines can connect, at least one name is required;
    /// otherwise, the loopback names of this machine are also allowed.
    pub hosts: Vec<String>,
    /// Whether to request uncompressed bodies from the server, regardless of the encodings that the client accepts.
    pub uncompressed: bool,
    /// The maximum time from a client's connection to the end of its first head. Then the connection is closed, so that
    /// idle clients do not keep others out. The default is 30 seconds.
    pub first_head: Duration,
}

impl Default for HttpRelaySettings {
    fn default() -> Self {
        Self { hosts: Vec::new(), uncompressed: false, first_head: Duration::from_secs(30) }
    }
}

/// The reason why a relay cannot listen.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is invalid or cannot be resolved.
    Address(io::Error),
    /// Other machines can connect to this address, but no host name is set.
    Open(SocketAddr),
    /// A host name is invalid.
    Host(String),
    /// The address cannot be bound.
    Bind(io::Error),
}

impl HttpRelay {
    /// Listens at an address, and relays to the server that `dialer` connects to.
    pub async fn listen(address: &str, dialer: Dialer, settings: &HttpRelaySettings) -> Result<Self, ListenError> {
        let addresses: Vec<SocketAddr> =
            tokio::net::lookup_host(address).await.map_err(ListenError::Address)?.collect();
        let rewriter = rewriter(&addresses, &dialer, settings)?;
        let tcp = TcpListener::bind(&addresses[..]).await.map_err(ListenError::Bind)?;
        Ok(Self { tcp, dialer, rewriter, first_head: settings.first_head })
    }

    /// Returns the address that the relay listens at.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Relays until `stop` is ready. Calls `say` with the events that the user should see.
    pub async fn run(
        self,
        copies: impl Into<RelayCopies>,
        stop: impl Future<Output = ()>,
        say: impl Fn(u64, &Note) + Send + Sync + 'static,
    ) {
        let copies = copies.into();
        let observer = Arc::new(RelayObserver {
            clock: copies.clock(),
            copies,
            exchanges: AtomicU64::new(0),
            say: Box::new(say),
            said: Mutex::default(),
        });
        let url = format!("{}{}", self.dialer.origin(), self.dialer.path_and_query());
        observer.note(SINGLE_CONNECTION, Note::Open(url.into_bytes()));
        let Self { tcp, dialer, rewriter, first_head } = self;
        let context = RelayContext { dialer, rewriter, first_head, observer };
        listen::listen(tcp, Arc::new(context), stop).await;
    }
}

fn rewriter(
    addresses: &[SocketAddr],
    dialer: &Dialer,
    settings: &HttpRelaySettings,
) -> Result<HeadRewriter, ListenError> {
    let mut access = Access::loopback();
    if let Some(open) = addresses.iter().find(|address| !is_loopback(address)) {
        if settings.hosts.is_empty() {
            return Err(ListenError::Open(*open));
        }
        access = Access::deny_all();
    }
    // The relay may listen at any loopback address, such as 127.0.0.2, and clients may use that address.
    let own = addresses.iter().filter(|address| is_loopback(address));
    let own = own.map(|address| SocketAddr::new(address.ip(), 0).to_string());
    let own = own.map(|host| host.strip_suffix(":0").unwrap_or(&host).to_owned());
    for host in own.chain(settings.hosts.iter().cloned()) {
        access.allow_host(&host).map_err(|bad| ListenError::Host(bad.to_string()))?;
    }
    let proxy = dialer.to_proxy().then(|| ForwardProxy {
        origin: dialer.origin(),
        authorization: dialer.proxy_authorization().map(|value| value.as_bytes().to_vec()),
    });
    Ok(HeadRewriter { access, host: dialer.host(), uncompressed: settings.uncompressed, proxy })
}

/// Whether only this machine can connect to the address.
pub fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// A callback that gets the number of an exchange and a warning about it.
type WarningSink = dyn Fn(u64, &Note) + Send + Sync;

/// Numbers the exchanges of all connections, copies their bytes and events to the observation, and reports warnings.
struct RelayObserver {
    clock: CaptureClock,
    copies: RelayCopies,
    exchanges: AtomicU64,
    say: Box<WarningSink>,
    /// The last warning that was reported.
    said: Mutex<Option<Note>>,
}

impl RelayObserver {
    fn next_exchange(&self) -> u64 {
        self.exchanges.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn bytes(&self, exchange: u64, stream: Stream, bytes: &[u8]) {
        self.copies.bytes(exchange, stream, bytes, self.clock.now());
    }

    fn note(&self, exchange: u64, note: Note) {
        self.copies.note(exchange, note);
    }

    /// Records an event and reports it to the user.
    fn warn(&self, exchange: u64, note: Note) {
        self.note(exchange, note.clone());
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        // The same warning is not reported twice in a row.
        if said.as_ref() != Some(&note) {
            (self.say)(exchange, &note);
            *said = Some(note);
        }
    }
}
