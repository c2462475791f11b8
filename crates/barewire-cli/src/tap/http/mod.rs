//! `barewire tap --http ADDR --to URL`: the same for a server at a URL, as a reverse proxy.

mod connection;
mod exchanges;
mod listen;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use barewire::client::http::{Dialer, Endpoint, FetchError};
use barewire_proto::http::Access;
use barewire_proto::transcript::{Note, Stream};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use barewire_workbench::http::head::{Passage, Proxy};
use connection::Shared;
use exchanges::{Eyes, Numbers};

use super::log::Log;
use super::observer::{Observer, Onlooker};
use super::outlet::{Outlet, Target, first_line};
use super::tape::{ONLY, Tape};
use super::{Args, finish, observe, talk};
use crate::output::shown;
use crate::{Exit, Failure};
use barewire_workbench::capture::{Capture, Clock, Redactor};

/// What there is to say about HTTP.
#[derive(clap::Args)]
pub(super) struct HttpArgs {
    /// Stand in for a server at a URL: listen at this address, and pass on what comes to the server that --to names
    #[arg(long, value_name = "ADDR", requires = "to")]
    pub(super) http: Option<String>,
    /// The URL of the server; clients get the same URL with the tap's address in it
    #[arg(long, value_name = "URL", requires = "http", conflicts_with = "program")]
    to: Option<String>,
    /// Answer to this host name too; several with commas between them. Needed where other machines can connect
    #[arg(long, value_name = "HOST", value_delimiter = ',', requires = "http", conflicts_with = "program")]
    host: Vec<String>,
    /// Ask the server for bodies that are not compressed, whatever the client accepts
    #[arg(long, requires = "http", conflicts_with = "program")]
    uncompressed: bool,
}

impl HttpArgs {
    /// Where the server is, and how to get there. Nothing is connected yet.
    fn dial(&self) -> Result<Dialer, Failure> {
        let url = self.to.as_deref().unwrap_or_default();
        Dialer::new(&Endpoint::new(url)).map_err(|error| match error {
            FetchError::Url(what) => Failure::new(format!("cannot pass anything on: the URL of --to {what}")),
            error => Failure::new(format!("cannot pass anything on: {error}")),
        })
    }

    fn passage(&self, addrs: &[SocketAddr], dial: &Dialer) -> Result<Passage, Failure> {
        let mut access = Access::loopback();
        if let Some(open) = addrs.iter().find(|addr| !addr.ip().to_canonical().is_loopback()) {
            if self.host.is_empty() {
                return Err(Failure::new(format!(
                    "cannot listen at {open}: other machines can connect there"
                ))
                .with_hint(
                    "127.0.0.1 is for this machine only; or --host NAME says by which name clients reach it",
                ));
            }
            access = Access::nobody();
        }
        // Whoever is on another address of this machine alone answers to that too.
        let own = addrs.iter().filter(|addr| addr.ip().to_canonical().is_loopback());
        let own = own.map(|addr| SocketAddr::new(addr.ip(), 0).to_string());
        let own = own.map(|host| host.strip_suffix(":0").unwrap_or(&host).to_owned());
        for host in own.chain(self.host.iter().cloned()) {
            access.allow_host(&host).map_err(|bad| Failure::new(format!("cannot answer to {bad}")))?;
        }
        let proxy = dial.to_proxy().then(|| Proxy {
            origin: dial.origin(),
            authorization: dial.proxy_authorization().map(|value| value.as_bytes().to_vec()),
        });
        Ok(Passage { access, host: dial.host(), uncompressed: self.uncompressed, proxy })
    }
}

/// Whether what was asked for can be done over HTTP.
pub(super) fn check(args: &Args) -> Result<(), Failure> {
    if args.http.http.is_some() && !args.fault.is_empty() {
        return Err(Failure::new(
            "--fault does nothing over HTTP yet: it is for the lines of stdin and stdout",
        )
        .with_hint("leave out --fault, or tap a server on stdio"));
    }
    Ok(())
}

/// Passes everything on until a signal comes.
pub(super) fn run(
    args: &Args,
    clock: Clock,
    capture: Option<Capture>,
    outlet: Option<Outlet>,
    redactor: Redactor,
) -> Result<Exit, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot listen here: {error}")))?;
    runtime.block_on(async {
        let (tcp, dial, passage) = begin(&args.http).await?;
        let signals =
            signal(SignalKind::interrupt()).and_then(|it| Ok((it, signal(SignalKind::terminate())?)));
        let (mut interrupt, mut terminate) =
            signals.map_err(|error| Failure::new(format!("cannot wait for signals here: {error}")))?;
        let mut onlookers: Vec<Box<dyn Onlooker>> = Vec::new();
        let to_stderr = matches!(args.log, Some(Target::Stderr));
        if let Some(outlet) = outlet {
            outlet.line(&first_line(&clock.started(), &dial.origin().to_string()));
            outlet.flush();
            onlookers.push(Box::new(Log::new(outlet, redactor, false)));
        }
        let observed = capture.is_some() || !onlookers.is_empty();
        let tape: Option<Arc<Tape>> = observed.then(Arc::default);
        let observer = tape.as_ref().map(|tape| observe(tape, Observer::new(capture, onlookers)));
        let eyes = Arc::new(Onto { tape, clock, to_stderr, said: Mutex::default() });
        let url = format!("{}{}", dial.origin(), dial.path_and_query());
        eyes.note(ONLY, Note::Open(url.into_bytes()));
        let addr = tcp.local_addr().map_err(|error| Failure::new(format!("cannot listen: {error}")))?;
        say(addr, &dial);
        let (numbers, looking_on) = (Arc::new(Numbers::default()), Arc::clone(&eyes));
        let shared = Arc::new(Shared { dial, passage, eyes: looking_on, numbers });
        let stop = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        listen::listen(tcp, shared, stop).await;
        finish(eyes.tape.as_deref(), observer);
        Ok(Exit::Clean)
    })
}

/// Checks what was asked for, and listens.
async fn begin(args: &HttpArgs) -> Result<(TcpListener, Dialer, Passage), Failure> {
    let addr = args.http.as_deref().unwrap_or_default();
    let cannot = |error: io::Error| Failure::new(format!("cannot listen at {addr}: {error}"));
    let dial = args.dial()?;
    let addrs: Vec<SocketAddr> = tokio::net::lookup_host(addr)
        .await
        .map_err(|error| cannot(error).with_hint("an address and a port are expected, as 127.0.0.1:8900"))?
        .collect();
    let passage = args.passage(&addrs, &dial)?;
    let tcp = TcpListener::bind(&addrs[..]).await.map_err(cannot)?;
    Ok((tcp, dial, passage))
}

/// Puts what is seen onto the tape, and says on stderr what people should hear of.
struct Onto {
    /// `None` if nobody looks on.
    tape: Option<Arc<Tape>>,
    clock: Clock,
    /// The log is there already, and says it.
    to_stderr: bool,
    /// What was said last.
    said: Mutex<Vec<u8>>,
}

impl Eyes for Onto {
    fn bytes(&self, exchange: u64, stream: Stream, bytes: &[u8]) {
        if let Some(tape) = &self.tape {
            tape.bytes(exchange, stream, bytes, self.clock.now());
        }
    }

    fn note(&self, exchange: u64, note: Note) {
        if let Some(tape) = &self.tape {
            tape.note(exchange, note, self.clock.now());
        }
    }

    fn trouble(&self, exchange: u64, note: Note) {
        let what = note.text();
        self.note(exchange, note);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that tries again and again is told about once.
        if !self.to_stderr && *said != what {
            talk(&format!("exchange {exchange}: {}", shown(&what, 300)));
            *said = what;
        }
    }
}

/// What is listened on, and how a host gets there.
fn say(addr: SocketAddr, dial: &Dialer) {
    let path = dial.path_and_query();
    // A query may hold a token, and whoever gave it knows it; but it is to be asked for as well.
    let (path, query) = path.split_once('?').map_or((path, ""), |(path, _)| (path, "?…"));
    let reach = if addr.ip().to_canonical().is_loopback() {
        "this machine"
    } else {
        "every machine that can connect"
    };
    talk(&format!(
        "tapping {}{path}{query} at http://{addr}{path}{query}, for {reach}; Ctrl-C ends it",
        dial.origin()
    ));
}
