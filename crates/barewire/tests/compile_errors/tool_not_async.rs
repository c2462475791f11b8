//~ is not a handler of a tool, a resource or a prompt
//~ a handler is an async function or closure
use std::collections::BTreeMap;

use barewire::server::Server;

fn greet(_: BTreeMap<String, String>) -> String {
    String::new()
}

pub fn server() -> Server {
    Server::new("case", "1.0").tool("greet", "Greets", greet)
}
