//! Starts a JSON-RPC server as a child process, calls one of its methods, and ends it.
//!
//! ```text
//! $ cargo build -p barewire --examples
//! $ cargo run -q -p barewire --example child -- target/debug/examples/echo
//! ```

#![allow(clippy::print_stderr, reason = "the example shows its result to people")]

use barewire::peer::{Connection, Raw};
use barewire::transport::Child;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), barewire::Error> {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().ok_or_else(|| std::io::Error::other("usage: child PROGRAM [ARGUMENTS]"))?;
    let child = Child::new(program).args(arguments).spawn()?;
    let peer = Connection::new(child).spawn();
    let answer: Raw = peer.call("hello", [1, 2, 3]).await?;
    eprintln!("answer: {answer}");
    peer.shutdown().await
}
