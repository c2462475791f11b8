//! No two public types of this crate have the same name, so that an import is unambiguous.

mod public_names;

use public_names::{assert_unique, definitions};

#[test]
fn no_public_name_is_defined_twice() {
    assert_unique(definitions(env!("CARGO_MANIFEST_DIR"), "Session", 80));
}
