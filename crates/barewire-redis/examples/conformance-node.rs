//! The server that the official conformance suite tests, as a node of a cluster. `interop/conformance/run` starts three of
//! them behind a balancer. The tools, resources and prompts are those of the example `conformance-server` of the library.
//!
//! ```text
//! conformance-node --http 127.0.0.1:0 --redis redis://127.0.0.1:6379 --redis-prefix test
//! ```

#![allow(clippy::print_stderr, reason = "the URL is printed for the conformance suite")]

#[path = "../../barewire/examples/conformance-server/changes.rs"]
mod changes;
#[path = "../../barewire/examples/conformance-server/prompts.rs"]
mod prompts;
#[path = "../../barewire/examples/conformance-server/questions.rs"]
mod questions;
#[path = "../../barewire/examples/conformance-server/resources.rs"]
mod resources;
#[path = "../../barewire/examples/conformance-server/rounds.rs"]
mod rounds;
#[path = "../../barewire/examples/conformance-server/server.rs"]
mod server;
#[path = "../../barewire/examples/conformance-server/tasks.rs"]
mod tasks;
#[path = "../../barewire/examples/conformance-server/tools.rs"]
mod tools;

use barewire_redis::Redis;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let (mut http, mut redis, mut prefix) = (None, None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = match name.as_str() {
            "--http" => &mut http,
            "--redis" => &mut redis,
            "--redis-prefix" => &mut prefix,
            _ => return Err(format!("unknown argument {name}").into()),
        };
        *value = Some(arguments.next().ok_or_else(|| format!("{name} needs a value"))?);
    }
    let http = http.ok_or("--http needs an address, as 127.0.0.1:8808")?;
    let mut builder = Redis::builder();
    if let Some(prefix) = prefix {
        builder = builder.prefix(prefix);
    }
    let store = builder.connect(&redis.ok_or("--redis needs a URL, as redis://127.0.0.1:6379")?).await?;
    let listener = server::server().http().health().cluster(store).bind(http).await?;
    eprintln!("serving {}", listener.url());
    listener.run().await;
    Ok(())
}
