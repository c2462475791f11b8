//! A JSON-RPC server in one file, without a runtime: arithmetic on stdin and stdout, one message per line.
//!
//! ```text
//! $ echo '{"jsonrpc":"2.0","id":1,"method":"add","params":{"a":19,"b":23}}' | cargo run -q -p barewire --example calculator
//! {"jsonrpc":"2.0","id":1,"result":42.0}
//! ```

use barewire::blocking::{Failure, IncomingCall, serve_stdio};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Pair {
    a: f64,
    b: f64,
}

#[derive(Deserialize)]
struct Count {
    to: u32,
}

fn main() -> Result<(), barewire::Error> {
    // Refused messages and failures are logged to stderr, because stdout is only for JSON-RPC messages.
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    serve_stdio(handle)
}

fn handle(call: &mut IncomingCall<'_>) -> Result<Value, Failure> {
    match call.method() {
        "add" => {
            let Pair { a, b } = call.params()?;
            Ok(json!(a + b))
        }
        "divide" => {
            let Pair { a, b } = call.params()?;
            if b == 0.0 {
                return Err(Failure::invalid_params("b must not be zero"));
            }
            Ok(json!(a / b))
        }
        // Notifications are sent while the call runs; the response follows them.
        "count" => {
            let Count { to } = call.params()?;
            for n in 1..=to {
                call.notify("counted", &json!({ "n": n }))?;
            }
            Ok(json!(to))
        }
        // `?` turns any error into the JSON-RPC error -32603; the text of the error goes only to the log.
        "environment" => Ok(json!(std::env::var("CALCULATOR")?)),
        _ => Err(Failure::method_not_found()),
    }
}
