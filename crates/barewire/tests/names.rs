//! No two public types of this crate have the same name, so that an import is unambiguous.

#[path = "../../barewire-proto/tests/public_names/mod.rs"]
mod public_names;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use public_names::{assert_unique, definitions};

/// The exceptions: messages of MCP have the names of the specification, and the tools, prompts and resources of a
/// server have the same names. The docs of `barewire::mcp` explain the difference.
const ALSO_IN_MCP: [&str; 3] = ["Prompt", "Resource", "Tool"];

/// The public types of this crate, with the files that define a type of that name.
fn public_types() -> BTreeMap<String, Vec<String>> {
    definitions(env!("CARGO_MANIFEST_DIR"), "Server", 81)
}

#[test]
fn no_public_name_is_defined_twice() {
    assert_unique(public_types());
}

#[test]
fn only_the_exceptions_share_a_name_with_a_message() {
    let definitions = public_types();
    let mcp = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mcp.rs")).expect("UTF-8");
    let code: String = mcp.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut shared: Vec<&str> =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| definitions.contains_key(*word)).collect();
    shared.sort_unstable();
    assert_eq!(shared, ALSO_IN_MCP);
}
