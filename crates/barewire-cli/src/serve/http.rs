//! `barewire serve --http`: the test server at a URL.

use std::io;
use std::pin::pin;

use barewire::Server;
use barewire::server::http::{BearerTokens, HttpBuilder, HttpError, HttpListener, Principal};
use tokio::runtime::Builder;

use super::server::tick;
use crate::failure::runtime_failure;
use crate::output::stderr;
use crate::platform::Signals;
use crate::url_headers::bearer_token;
use crate::{Exit, Failure};

/// The options of `serve` for HTTP.
#[derive(clap::Args)]
pub(super) struct ServeHttpArgs {
    /// Serve over HTTP at this address, on the path /mcp, instead of stdin and stdout
    #[arg(long, value_name = "ADDR")]
    pub(super) http: Option<String>,
    /// Accept requests for these host names, separated by commas; required if other machines can connect
    #[arg(long, value_name = "HOST", value_delimiter = ',', requires = "http")]
    host: Vec<String>,
    /// Accept requests from web pages of these origins, such as https://example.com, separated by commas
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', requires = "http")]
    origin: Vec<String>,
    /// Accept only requests with the token in this environment variable
    #[arg(long, value_name = "NAME", requires = "http")]
    bearer_env: Option<String>,
    /// Also accept connections without HTTP: one message per line, or with Content-Length headers
    #[arg(long, requires = "http")]
    every_framing: bool,
}

pub(super) fn run(server: &Server, addr: &str, args: &ServeHttpArgs) -> Result<Exit, Failure> {
    let mut http = server.http().hosts(&args.host).origins(&args.origin);
    if let Some(name) = &args.bearer_env {
        http = http.authenticate(BearerTokens::new().token(bearer_token(name)?, Principal::new("bearer")));
    }
    if args.every_framing {
        http = http.every_framing();
    }
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))?;
    let served = runtime.block_on(serve(server, http, addr, args));
    runtime.shutdown_background();
    served
}

async fn serve(server: &Server, http: HttpBuilder, addr: &str, args: &ServeHttpArgs) -> Result<Exit, Failure> {
    let listener = http.bind(addr).await.map_err(|error| {
        let failure = Failure::new(format!("cannot serve at {addr}: {error}"));
        match error {
            HttpError::NoHosts(_) => failure.with_hint("--host NAME sets the host name that clients use"),
            _ => failure,
        }
    })?;
    let mut signals = Signals::catch().map_err(|error| runtime_failure(&error))?;
    tokio::spawn(tick(server.handle()));
    let _ = announce(&listener, args);
    let (stop, mut run) = (listener.stop_handle(), pin!(listener.run()));
    tokio::select! {
        () = &mut run => {}
        _ = signals.next() => {
            stop.stop();
            // After a second signal, the server ends without waiting for outstanding requests.
            tokio::select! {
                () = run => {}
                _ = signals.next() => {}
            }
        }
    }
    Ok(Exit::Clean)
}

/// Prints the URL to stderr, with an example of how to connect.
fn announce(listener: &HttpListener, args: &ServeHttpArgs) -> io::Result<()> {
    let mut stderr = stderr();
    let url = listener.url();
    let reach = match listener.local_addr() {
        Ok(addr) if addr.ip().to_canonical().is_loopback() => "this machine only",
        _ => "other machines too",
    };
    writeln!(stderr, "barewire: serving {url}, reachable from {reach}; stop with Ctrl-C")?;
    let (header, entry) = match &args.bearer_env {
        Some(name) => (
            format!(" --bearer-env {name}"),
            format!(r#""url": "{url}", "headers": {{ "Authorization": "Bearer ${{{name}}}" }}"#),
        ),
        None => (String::new(), format!(r#""url": "{url}""#)),
    };
    writeln!(stderr, "barewire: try it:   barewire call tools --url {url}{header}")?;
    writeln!(stderr, r#"barewire: a host:   {{ "mcpServers": {{ "barewire": {{ "type": "http", {entry} }} }} }}"#)
}
