//! A plain JSON-RPC peer on stdin and stdout that answers every method with its params.
//!
//! ```text
//! $ echo '{"jsonrpc":"2.0","id":1,"method":"anything","params":[1,"two"]}' | cargo run -q -p barewire --example echo
//! {"jsonrpc":"2.0","id":1,"result":[1,"two"]}
//! ```

use barewire::peer::{Connection, Context, Methods, Raw};
use barewire::transport::stdio;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), barewire::Error> {
    let methods = Methods::new().fallback(|_: Context, params: Raw| async move { Ok(params) });
    Connection::new(stdio()?).methods(methods).run().await
}
