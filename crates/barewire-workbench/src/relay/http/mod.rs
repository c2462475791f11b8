//! A client <-> a server at a URL: a reverse proxy that passes on everything as it is but `Host`, which becomes the server's.

mod connection;
mod exchanges;
mod listen;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use barewire::client::http::Dialer;
use barewire_proto::http::Access;
use barewire_proto::transcript::{Note, Stream};
use tokio::net::TcpListener;

use super::observation::{Copies, Observation};
use super::queue::ONLY;
use crate::capture::CaptureClock;
use crate::http::head::{Passage, Proxy};
use connection::Shared;
use exchanges::{Eyes, Numbers};

/// A reverse proxy in front of a server at a URL.
pub struct HttpRelay {
    tcp: TcpListener,
    dialer: Dialer,
    passage: Passage,
}

/// The names and bodies that a relay takes.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HttpRelaySettings {
    /// Names that it answers to, besides those of this machine. Needed where other machines can connect.
    pub hosts: Vec<String>,
    /// Whether the server is asked for bodies that are not compressed, whatever the client accepts.
    pub uncompressed: bool,
}

/// Why a relay does not listen.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is none, or cannot be found.
    Address(io::Error),
    /// Other machines can connect to this address, and no host is named.
    Open(SocketAddr),
    /// A host that is named is none.
    Host(String),
    /// The address cannot be listened at.
    Bind(io::Error),
}

impl HttpRelay {
    /// Listens at an address, for the server that `dialer` leads to.
    pub async fn listen(address: &str, dialer: Dialer, settings: &HttpRelaySettings) -> Result<Self, ListenError> {
        let addresses: Vec<SocketAddr> =
            tokio::net::lookup_host(address).await.map_err(ListenError::Address)?.collect();
        let passage = passage(&addresses, &dialer, settings)?;
        let tcp = TcpListener::bind(&addresses[..]).await.map_err(ListenError::Bind)?;
        Ok(Self { tcp, dialer, passage })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Passes everything on until `stop` is ready. `say` is called with what people should hear of.
    pub async fn run(
        self,
        observation: Option<&Observation>,
        stop: impl Future<Output = ()>,
        say: impl Fn(u64, &Note) + Send + Sync + 'static,
    ) {
        let eyes = Arc::new(Onto {
            clock: observation.map_or_else(CaptureClock::start, Observation::clock),
            copies: observation.map(Observation::copies),
            say,
            said: Mutex::default(),
        });
        let url = format!("{}{}", self.dialer.origin(), self.dialer.path_and_query());
        eyes.note(ONLY, Note::Open(url.into_bytes()));
        let numbers = Arc::new(Numbers::default());
        let shared = Arc::new(Shared { dial: self.dialer, passage: self.passage, eyes, numbers });
        listen::listen(self.tcp, shared, stop).await;
    }
}

fn passage(addresses: &[SocketAddr], dialer: &Dialer, settings: &HttpRelaySettings) -> Result<Passage, ListenError> {
    let mut access = Access::loopback();
    if let Some(open) = addresses.iter().find(|address| !is_loopback(address)) {
        if settings.hosts.is_empty() {
            return Err(ListenError::Open(*open));
        }
        access = Access::deny_all();
    }
    // Another address of this machine alone is answered to as well.
    let own = addresses.iter().filter(|address| is_loopback(address));
    let own = own.map(|address| SocketAddr::new(address.ip(), 0).to_string());
    let own = own.map(|host| host.strip_suffix(":0").unwrap_or(&host).to_owned());
    for host in own.chain(settings.hosts.iter().cloned()) {
        access.allow_host(&host).map_err(|bad| ListenError::Host(bad.to_string()))?;
    }
    let proxy = dialer.to_proxy().then(|| Proxy {
        origin: dialer.origin(),
        authorization: dialer.proxy_authorization().map(|value| value.as_bytes().to_vec()),
    });
    Ok(Passage { access, host: dialer.host(), uncompressed: settings.uncompressed, proxy })
}

/// Whether only this machine can connect there.
pub fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Copies what is seen, and says what people should hear of.
struct Onto<F> {
    clock: CaptureClock,
    /// `None` if nothing looks on.
    copies: Option<Copies>,
    say: F,
    /// What was said last.
    said: Mutex<Option<Note>>,
}

impl<F: Fn(u64, &Note) + Send + Sync> Eyes for Onto<F> {
    fn bytes(&self, exchange: u64, stream: Stream, bytes: &[u8]) {
        if let Some(copies) = &self.copies {
            copies.bytes(exchange, stream, bytes, self.clock.now());
        }
    }

    fn note(&self, exchange: u64, note: Note) {
        if let Some(copies) = &self.copies {
            copies.note(exchange, note);
        }
    }

    fn trouble(&self, exchange: u64, note: Note) {
        self.note(exchange, note.clone());
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that tries again and again is told about once.
        if said.as_ref() != Some(&note) {
            (self.say)(exchange, &note);
            *said = Some(note);
        }
    }
}
