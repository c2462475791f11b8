//! surface.json (or the file in SURFACE), for the server and the client on the official SDK.

use std::sync::LazyLock;

use serde_json::Value;

/// The tools, resources and prompts that the demo servers offer and their clients expect.
pub static SURFACE: LazyLock<Value> = LazyLock::new(|| {
    let path = std::env::var("SURFACE");
    let path = path.unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../surface.json").to_owned());
    let text = std::fs::read_to_string(&path).expect("the surface is a file");
    serde_json::from_str(&text).expect("the surface is JSON")
});
