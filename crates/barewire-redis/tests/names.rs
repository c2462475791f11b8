//! No two public types of this crate have the same name, so that an import is unambiguous.

#[path = "../../barewire-proto/tests/public_names/mod.rs"]
mod public_names;

use public_names::{assert_unique, definitions};

#[test]
fn no_public_name_is_defined_twice() {
    assert_unique(definitions(env!("CARGO_MANIFEST_DIR"), "RedisBuilder", 3));
}
