//~ is not a handler of a tool, a resource or a prompt
//~ several arguments are fields of that type
use barewire::server::Server;

pub fn server() -> Server {
    Server::new("case", "1.0").tool("add", "Adds", |a: f64, b: f64| async move { a + b })
}
