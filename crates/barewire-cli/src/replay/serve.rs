//! `--serve` -> a client on stdin and stdout, or clients at an address, answered from the capture.

use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};

use barewire::transport::{Transport, stdio};
use barewire_workbench::replay::{self, HTTP_PATH, Script, ServeOptions, ServeReport};
use tokio::net::TcpListener;

use crate::platform::Signals;
use crate::{Exit, Failure};

/// Serves at `addr`, or else on stdin and stdout, and says on stderr what matches.
pub(super) async fn serve(
    script: &Script,
    options: &ServeOptions,
    addr: Option<&str>,
    quiet: bool,
) -> Result<Exit, Failure> {
    let log = |line: &str| {
        if !quiet {
            print_line(line);
        }
    };
    let report = match addr {
        Some(addr) => at(script, options, addr, log).await?,
        None => {
            let stdio = stdio().map_err(|error| Failure::new(format!("cannot serve here: {error}")))?;
            let parts = stdio.into_parts();
            replay::serve(script, parts.reader, parts.writer, options, log).await
        }
    };
    let ServeReport { matched, unmatched, unused, .. } = report;
    log(&format!("{matched} matched, {unmatched} not; {unused} of the capture not asked"));
    Ok(if unmatched == 0 { Exit::Clean } else { Exit::No })
}

/// Serves over HTTP until Ctrl-C or SIGTERM.
async fn at(
    script: &Script,
    options: &ServeOptions,
    addr: &str,
    log: impl FnMut(&str),
) -> Result<ServeReport, Failure> {
    let listener = bind(addr).await?;
    let mut signals =
        Signals::catch().map_err(|error| Failure::new(format!("cannot wait for signals here: {error}")))?;
    let local = listener.local_addr().map_err(|error| Failure::new(format!("cannot serve at {addr}: {error}")))?;
    print_line(&format!("serving the capture at http://{local}{HTTP_PATH}, for this machine only; Ctrl-C ends it"));
    let stop = async {
        signals.next().await;
    };
    Ok(replay::serve_http(script, listener, options, stop, log).await)
}

/// Only this machine can connect: a capture may hold what others must not see.
async fn bind(addr: &str) -> Result<TcpListener, Failure> {
    let cannot = |why: &dyn std::fmt::Display| Failure::new(format!("cannot serve at {addr}: {why}"));
    let addrs: Vec<SocketAddr> = addr.to_socket_addrs().map_err(|error| cannot(&error))?.collect();
    if addrs.iter().any(|addr| !addr.ip().to_canonical().is_loopback()) {
        return Err(cannot(&"other machines can connect there").with_hint("127.0.0.1:PORT is for this machine only"));
    }
    TcpListener::bind(&addrs[..]).await.map_err(|error| cannot(&error))
}

/// Writes a line to stderr. If that is closed nothing can be said.
fn print_line(line: &str) {
    let _ = writeln!(io::stderr(), "barewire: {line}");
}
