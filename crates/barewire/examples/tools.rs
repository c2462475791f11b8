//! Starts an MCP server, lists its tools and resources, and ends it.
//!
//! ```text
//! $ cargo run -q -p barewire --example tools -- barewire serve
//! ```

#![allow(clippy::print_stderr, reason = "the example shows its result to people")]

use barewire::Client;
use barewire::transport::Child;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), barewire::Error> {
    // Problems, such as output of the server that is not a message, are logged to stderr.
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().ok_or_else(|| std::io::Error::other("usage: tools PROGRAM [ARGUMENTS]"))?;
    let client = Client::spawn(Child::new(program).args(arguments)).await?;
    let server = client.server_info();
    let name =
        server.implementation.map_or_else(|| "the server".to_owned(), |it| format!("{} {}", it.name, it.version));
    eprintln!("{name}, revision {}", server.revision);
    if server.capabilities.tools.is_some() {
        for tool in client.list_tools().await? {
            eprintln!("tool {}: {}", tool.name, tool.description.unwrap_or_default());
        }
    }
    if server.capabilities.resources.is_some() {
        for resource in client.list_resources().await? {
            eprintln!("resource {}: {}", resource.uri, resource.name);
        }
    }
    client.shutdown().await
}
