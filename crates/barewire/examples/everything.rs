//! An MCP server with every feature, on stdin and stdout: the transcripts in `testdata/mcp` test it.
//!
//! ```text
//! $ echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | cargo run -q -p barewire --example everything
//! {"jsonrpc":"2.0","id":1,"result":{}}
//! ```

#[path = "../tests/mcp/fixture.rs"]
mod fixture;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), barewire::Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    fixture::server(&arguments).serve_stdio().await
}
