//! `barewire serve`: a small MCP server on stdio or over HTTP, to test clients with.

mod http;
mod server;

use std::str::FromStr;

use barewire_proto::mcp::Revision;
use tokio::runtime::Builder;

use crate::{Exit, Failure, log};

/// Run a small MCP server on stdin and stdout, or over HTTP, to test clients with.
///
/// The server speaks every revision from 2024-11-05 to 2026-07-28. It has tools that echo, add, sleep with progress,
/// fail, ask the user and draw; resources, one of which changes every second; and a prompt with completion. On stdio it
/// stops at the end of its stdin, over HTTP on Ctrl-C or SIGTERM. Over HTTP it also answers at /healthz and /readyz, for
/// load balancers.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// Speak only these revisions, separated by commas
    #[arg(long, value_name = "REVISION", value_delimiter = ',', value_parser = Revision::from_str)]
    revision: Vec<Revision>,
    /// Accept requests before the handshake is complete
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    http: http::ServeHttpArgs,
}

const EXAMPLES: &str = "\
Examples:
  barewire call tools -- barewire serve                         list its tools
  barewire call echo text=hello -- barewire serve               call a tool
  barewire call greet -- barewire serve --revision 2025-06-18   speak one revision only
  barewire serve --http 127.0.0.1:8808                          serve over HTTP
  barewire serve --http 127.0.0.1:8808 --bearer-env TOKEN       require the token in $TOKEN
  barewire serve --http 127.0.0.1:8808 --issuer URL --audience URL
                                                                require access tokens of an issuer
  barewire serve --http 127.0.0.1:8808 --metrics /metrics       count requests, sessions and streams
  barewire serve --http 127.0.0.1:8808 --redis redis://127.0.0.1
                                                                share sessions with other servers";

const NOTES: &str = r#"In a host's configuration:
  { "mcpServers": { "barewire": { "command": "barewire", "args": ["serve"] } } }

Exit codes: 0 the client closed the connection, or a signal stopped the server; 2 the connection
broke, or the server could not start."#;

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    log::start_on_stderr();
    let mut server = server::server();
    if !args.revision.is_empty() {
        server = server.revisions(args.revision.iter().copied());
    }
    if args.lenient {
        server = server.lenient();
    }
    if let Some(addr) = &args.http.http {
        return http::run(&server, addr, &args.http);
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))?;
    let served = runtime.block_on(async {
        tokio::spawn(server::tick(server.handle()));
        server.serve_stdio().await
    });
    runtime.shutdown_background();
    served.map(|()| Exit::Clean).map_err(|closed| Failure::new(closed.to_string()))
}
