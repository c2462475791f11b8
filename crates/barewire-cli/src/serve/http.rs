//! `barewire serve --http`: the test server at a URL.

use std::io;
use std::pin::pin;

use barewire::Server;
use barewire::server::http::{AccessTokens, BearerTokens, HttpBuilder, HttpError, HttpListener, Principal};
use barewire_redis::Redis;
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
    /// Accept only requests with an access token (JWT) of this OAuth issuer
    #[arg(long, value_name = "URL", requires = "http", requires = "audience", conflicts_with = "bearer_env")]
    issuer: Option<String>,
    /// The server that access tokens must be issued for: its URL, as clients use it
    #[arg(long, value_name = "URL", requires = "issuer")]
    audience: Option<String>,
    /// The scopes that access tokens must have, separated by commas
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', requires = "issuer")]
    scope: Vec<String>,
    /// Also accept connections without HTTP: one message per line, or with Content-Length headers
    #[arg(long, requires = "http")]
    every_framing: bool,
    /// Serve metrics (OpenMetrics) at this path, such as /metrics
    #[arg(long, value_name = "PATH", requires = "http")]
    metrics: Option<String>,
    /// Share sessions with the other servers that use this Redis or Valkey, such as redis://127.0.0.1
    #[arg(long, value_name = "URL", requires = "http")]
    redis: Option<String>,
    /// Take the URL of --redis from this environment variable, so that its password is not on the command line
    #[arg(long, value_name = "NAME", requires = "http", conflicts_with = "redis")]
    redis_env: Option<String>,
    /// Share sessions only with servers that have the same prefix [default: barewire]
    #[arg(long, value_name = "TEXT", requires = "http")]
    redis_prefix: Option<String>,
}

pub(super) fn run(server: &Server, addr: &str, args: &ServeHttpArgs) -> Result<Exit, Failure> {
    let mut http = server.http().hosts(&args.host).origins(&args.origin).health();
    if let Some(name) = &args.bearer_env {
        http = http.authenticate(BearerTokens::new().token(bearer_token(name)?, Principal::new("bearer")));
    }
    if let (Some(issuer), Some(audience)) = (&args.issuer, &args.audience) {
        http = http
            .authenticate(AccessTokens::jwt(issuer.as_str(), audience.as_str()).require(args.scope.iter().cloned()));
        // This server has no TLS, so a proxy in front of it does. A DPoP proof has the URL that the client uses.
        if audience.starts_with("https://") {
            http = http.behind_tls();
        }
    }
    if args.every_framing {
        http = http.every_framing();
    }
    if let Some(path) = &args.metrics {
        http = http.metrics(path);
    }
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))?;
    let served = runtime.block_on(async {
        let http = match redis_url(args)? {
            Some(url) => http.cluster(connect(&url, args.redis_prefix.as_deref()).await?),
            None => http,
        };
        serve(server, http, addr, args).await
    });
    runtime.shutdown_background();
    served
}

/// Returns the URL of Redis, if there is one.
fn redis_url(args: &ServeHttpArgs) -> Result<Option<String>, Failure> {
    match (&args.redis, &args.redis_env) {
        (Some(url), _) => Ok(Some(url.clone())),
        (None, Some(name)) => std::env::var(name).map(Some).map_err(|_| {
            Failure::new(format!("the environment variable {name} is not set"))
                .with_hint("--redis-env takes the name of a variable that has a URL such as redis://127.0.0.1")
        }),
        (None, None) => Ok(None),
    }
}

async fn connect(url: &str, prefix: Option<&str>) -> Result<Redis, Failure> {
    let mut builder = Redis::builder();
    if let Some(prefix) = prefix {
        builder = builder.prefix(prefix);
    }
    let connected = builder.connect(url).await;
    connected.map_err(|error| Failure::new(format!("cannot share sessions: {error}")))
}

async fn serve(server: &Server, http: HttpBuilder, addr: &str, args: &ServeHttpArgs) -> Result<Exit, Failure> {
    let listener = http.bind(addr).await.map_err(|error| {
        let failure = Failure::new(format!("cannot serve at {addr}: {error}"));
        match error {
            HttpError::NoHosts(_) => failure.with_hint("--host NAME sets the host name that clients use"),
            HttpError::Authentication(_) => failure.with_hint("--issuer and --audience are URLs"),
            HttpError::MonitoringPath(_) => failure.with_hint("--metrics takes a path such as /metrics"),
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
    // A token of an issuer can be in any variable.
    let variable = args.bearer_env.as_deref().or(args.issuer.as_ref().map(|_| "TOKEN"));
    let (header, entry) = match variable {
        Some(name) => (
            format!(" --bearer-env {name}"),
            format!(r#""url": "{url}", "headers": {{ "Authorization": "Bearer ${{{name}}}" }}"#),
        ),
        None => (String::new(), format!(r#""url": "{url}""#)),
    };
    writeln!(stderr, "barewire: try it:   barewire call tools --url {url}{header}")?;
    writeln!(stderr, r#"barewire: a host:   {{ "mcpServers": {{ "barewire": {{ "type": "http", {entry} }} }} }}"#)?;
    if let (Some(path), Ok(addr)) = (&args.metrics, listener.local_addr()) {
        writeln!(stderr, "barewire: metrics:  http://{addr}{path}")?;
    }
    if args.redis.is_some() || args.redis_env.is_some() {
        writeln!(stderr, "barewire: sessions are shared through Redis: start more servers with the same URL")?;
    }
    Ok(())
}
