//~ is not a handler of a tool, a resource or a prompt
//~ a handler is an async function or closure that takes one of: nothing, its arguments, a `Call`, or a `Call` and its arguments in this order
//~ the arguments are one type that derives `Deserialize` (and `JsonSchema` for a tool or a prompt); several arguments are fields of that type
use std::collections::BTreeMap;

use barewire::server::{Call, Server};

async fn greet(_: BTreeMap<String, String>, _: Call) -> String {
    String::new()
}

pub fn server() -> Server {
    Server::new("case", "1.0").tool("greet", "Greets", greet)
}
