//! `--serve`: answers a client on stdin and stdout, or clients at an address, from the capture.

use std::net::{SocketAddr, ToSocketAddrs};

use barewire::transport::{Transport, stdio};
use barewire_workbench::replay::{self, HTTP_PATH, Script, ServeOptions, ServeReport};
use tokio::net::TcpListener;

use crate::output::stderr;
use crate::platform::Signals;
use crate::{Exit, Failure};

/// Serves at `addr`, or on stdin and stdout if there is none. Logs requests to stderr.
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
        Some(addr) => serve_http(script, options, addr, log).await?,
        None => {
            let stdio = stdio().map_err(|error| Failure::new(format!("cannot serve on stdin and stdout: {error}")))?;
            let parts = stdio.into_parts();
            replay::serve(script, parts.reader, parts.writer, options, log).await
        }
    };
    let ServeReport { matched, unmatched, unused, .. } = report;
    log(&format!("{matched} matched, {unmatched} unmatched; {unused} recorded requests unused"));
    Ok(if unmatched == 0 { Exit::Clean } else { Exit::No })
}

/// Serves over HTTP until Ctrl-C or SIGTERM.
async fn serve_http(
    script: &Script,
    options: &ServeOptions,
    addr: &str,
    log: impl FnMut(&str),
) -> Result<ServeReport, Failure> {
    let listener = bind(addr).await?;
    let mut signals = Signals::catch().map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
    let local = listener.local_addr().map_err(|error| Failure::new(format!("cannot serve at {addr}: {error}")))?;
    print_line(&format!("serving the capture at http://{local}{HTTP_PATH}, for this machine only; stop with Ctrl-C"));
    let stop = async {
        signals.next().await;
    };
    Ok(replay::serve_http(script, listener, options, stop, log).await)
}

/// Binds to `addr`, which must be a loopback address, because a capture may contain private data.
async fn bind(addr: &str) -> Result<TcpListener, Failure> {
    let cannot = |why: &dyn std::fmt::Display| Failure::new(format!("cannot serve at {addr}: {why}"));
    let addrs: Vec<SocketAddr> = addr.to_socket_addrs().map_err(|error| cannot(&error))?.collect();
    if addrs.iter().any(|addr| !addr.ip().to_canonical().is_loopback()) {
        return Err(cannot(&"other machines could connect").with_hint("use 127.0.0.1:PORT"));
    }
    TcpListener::bind(&addrs[..]).await.map_err(|error| cannot(&error))
}

/// Writes a line to stderr. Write errors are ignored, because there is no other place to report them.
fn print_line(line: &str) {
    let _ = writeln!(stderr(), "barewire: {line}");
}
