//! surface.json, as the server and the client on the official SDK read it.

use std::sync::LazyLock;

use serde_json::Value;

/// What the demo servers have and what their clients expect.
pub static SURFACE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../surface.json")).expect("surface.json is JSON"));
