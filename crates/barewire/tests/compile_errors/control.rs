// This program compiles, so the other programs fail because of their code, and not because of the way they are compiled.
use std::collections::BTreeMap;

use barewire::Failure;
use barewire::peer::{Context, Methods};
use barewire::server::{Call, Prompt, Resource, Server, Structured};

type Arguments = BTreeMap<String, String>;

async fn tool(_: Call, arguments: Arguments) -> Structured<Arguments> {
    Structured(arguments)
}

async fn method(_: Context, (a, b): (f64, f64)) -> Result<f64, Failure> {
    Ok(a + b)
}

pub fn offered() -> (Server, Methods) {
    let server = Server::new("control", "1.0")
        .tool("tool", "A tool", tool)
        .with(Prompt::new("prompt", "A prompt", || async { "text" }))
        .with(Resource::new("control://resource", "resource", || async { "text" }));
    (server, Methods::new().on("add", method))
}
