//! `barewire serve --http`: the same server at a URL.

use std::io::{self, Write};
use std::pin::pin;

use barewire::Server;
use barewire::server::http::{BearerTokens, HttpBuilder, HttpError, HttpListener, Principal};
use tokio::runtime::Builder;

use super::server;
use crate::bearer::bearer;
use crate::platform::Signals;
use crate::{Exit, Failure};

/// What there is to say about HTTP.
#[derive(clap::Args)]
pub(super) struct HttpArgs {
    /// Serve over HTTP at this address, on the path /mcp, instead of stdin and stdout
    #[arg(long, value_name = "ADDR")]
    pub(super) http: Option<String>,
    /// Answer to this host name too; several with commas between them. Needed where other machines can connect
    #[arg(long, value_name = "HOST", value_delimiter = ',', requires = "http")]
    host: Vec<String>,
    /// Answer pages of this origin too, as https://example.com; several with commas between them
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', requires = "http")]
    origin: Vec<String>,
    /// Serve only those who send the token that this environment variable holds
    #[arg(long, value_name = "NAME", requires = "http")]
    bearer_env: Option<String>,
    /// Serve also those who connect without HTTP: one message a line, or with Content-Length headers
    #[arg(long, requires = "http")]
    every_framing: bool,
}

pub(super) fn run(offered: &Server, addr: &str, args: &HttpArgs) -> Result<Exit, Failure> {
    let mut http = offered.http().hosts(&args.host).origins(&args.origin);
    if let Some(name) = &args.bearer_env {
        http = http.authenticate(BearerTokens::new().token(bearer(name)?, Principal::new("bearer")));
    }
    if args.every_framing {
        http = http.every_framing();
    }
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot serve here: {error}")))?;
    let served = runtime.block_on(serve(offered, http, addr, args));
    runtime.shutdown_background();
    served
}

async fn serve(offered: &Server, http: HttpBuilder, addr: &str, args: &HttpArgs) -> Result<Exit, Failure> {
    let listener = http.bind(addr).await.map_err(|error| unbound(addr, &error))?;
    let mut signals =
        Signals::catch().map_err(|error| Failure::new(format!("cannot wait for signals here: {error}")))?;
    tokio::spawn(server::tick(offered.handle()));
    // If stderr is closed there is nobody to tell.
    let _ = say(&listener, args);
    let (stop, mut run) = (listener.stop_handle(), pin!(listener.run()));
    tokio::select! {
        () = &mut run => {}
        _ = signals.next() => {
            stop.stop();
            // A second one does not wait for what is under way.
            tokio::select! {
                () = run => {}
                _ = signals.next() => {}
            }
        }
    }
    Ok(Exit::Clean)
}

/// What is listened on, and how a host gets there.
fn say(listener: &HttpListener, args: &HttpArgs) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    let url = listener.url();
    let reach = match listener.local_addr() {
        Ok(addr) if addr.ip().to_canonical().is_loopback() => "this machine only",
        _ => "every machine that can connect",
    };
    writeln!(stderr, "barewire: serving {url}, for {reach}; Ctrl-C ends it")?;
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

fn unbound(addr: &str, error: &HttpError) -> Failure {
    let failure = Failure::new(format!("cannot serve at {addr}: {error}"));
    match error {
        HttpError::NoHosts(_) => failure.with_hint("--host NAME says by which name clients reach it"),
        _ => failure,
    }
}
