//! No two public types of this crate have the same name, so that an import is unambiguous.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The name of the public type or trait that a line defines, if it defines one.
fn defined(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// The public types of this crate, with the files that define a type of that name.
fn definitions() -> BTreeMap<String, Vec<String>> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        for line in fs::read_to_string(&file).expect("UTF-8").lines() {
            if let Some(name) = defined(line) {
                found.entry(name.to_owned()).or_default().push(file.display().to_string());
            }
        }
    }
    assert!(found.contains_key("Session") && found.len() >= 80, "the sources were found: {}", found.len());
    found
}

#[test]
fn no_public_name_is_defined_twice() {
    let twice: Vec<_> = definitions().into_iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}
