//! The server that the official conformance suite tests. It has every feature that a server can offer, under the names
//! that the suite expects. `interop/conformance/run` starts it.
//!
//! ```text
//! conformance-server                       on stdin and stdout
//! conformance-server --http 127.0.0.1:0    over HTTP, at /mcp; the URL is printed on stderr
//! ```
//!
//! The tools in `tools` answer without asking, those in `questions` and `rounds` ask the client first, those in `tasks`
//! run as tasks, and those in `changes` add and remove tools and prompts. Every handler is written once, and serves
//! both eras of the protocol over stdio and HTTP. The example `conformance-node` of `barewire-redis` is the same server as
//! a node of a cluster.

#![cfg_attr(feature = "http", allow(clippy::print_stderr, reason = "the URL is printed for the conformance suite"))]

mod changes;
mod prompts;
mod questions;
mod resources;
mod rounds;
mod server;
mod tasks;
mod tools;

use server::server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        None => server().serve_stdio().await?,
        #[cfg(feature = "http")]
        Some("--http") => {
            let address = arguments.next().ok_or("--http needs an address, as 127.0.0.1:8808")?;
            let listener = server().http().bind(address).await?;
            eprintln!("{}", listener.url());
            listener.run().await;
        }
        Some(other) => return Err(format!("unknown argument {other}: expected --http ADDRESS").into()),
    }
    Ok(())
}
