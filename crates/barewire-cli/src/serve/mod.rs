//! `barewire serve`: a small MCP server on stdio or over HTTP, to try clients against.

mod http;
mod server;

use barewire_proto::mcp::Revision;
use tokio::runtime::Builder;

use crate::{Exit, Failure, log};

/// Serve a small MCP server on stdin and stdout, or over HTTP, to try clients against.
///
/// It speaks every revision from 2024-11-05 to 2026-07-28 and has a little of everything: tools that echo, add, sleep with
/// progress, fail, ask the user and draw; resources, one of which changes every second; a prompt, and completion for it.
/// On stdio it ends when its stdin does; over HTTP with Ctrl-C or SIGTERM.
#[derive(clap::Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Args {
    /// Speak these revisions only; several with commas between them
    #[arg(long, value_name = "REVISION", value_delimiter = ',', value_parser = revision)]
    revision: Vec<Revision>,
    /// Serve requests that come before the handshake is complete
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    http: http::HttpArgs,
}

const EXAMPLES: &str = "\
Examples:
  barewire call tools -- barewire serve                         what it has
  barewire call echo text=hello -- barewire serve               something to try
  barewire call greet -- barewire serve --revision 2025-06-18   as one that knows only this
  barewire serve --http 127.0.0.1:8808                          over HTTP, for whoever asks
  barewire serve --http 127.0.0.1:8808 --bearer-env TOKEN       only for who has the token in $TOKEN";

const NOTES: &str = r#"In a host's configuration:
  { "mcpServers": { "barewire": { "command": "barewire", "args": ["serve"] } } }

Exit codes: 0 the client has finished, 2 the connection broke or nothing could be served."#;

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
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot serve here: {error}")))?;
    let served = runtime.block_on(async {
        tokio::spawn(server::tick(server.handle()));
        server.serve_stdio().await
    });
    runtime.shutdown_background();
    served.map(|()| Exit::Clean).map_err(|closed| Failure::new(closed.to_string()))
}

fn revision(text: &str) -> Result<Revision, String> {
    text.parse().map_err(|error: barewire_proto::mcp::UnknownRevision| error.to_string())
}
