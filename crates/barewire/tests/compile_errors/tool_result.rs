//~ cannot be the result of a tool
//~ returns a type that is not a result of a tool
//~ a tool returns text, a number, a `bool`, `()`, `serde_json::Value`, `Content`, several `Content`s or `CallToolResult`; or a `Result` of one of these, with any error that can be displayed
//~ a type that derives `Serialize` and `JsonSchema` is returned as `Structured(value)`
use std::collections::BTreeMap;

use barewire::server::Server;

type Counts = BTreeMap<String, String>;

pub fn server() -> Server {
    Server::new("case", "1.0").tool("count", "Counts", || async { Ok::<Counts, String>(Counts::new()) })
}
