//! The sources of a crate -> its public types, and the files that define them.

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

/// Returns the public types of the crate in this folder, with the files that define a type of that name. Fails if this
/// type is not among them, or if there are fewer.
pub(crate) fn definitions(folder: &str, known: &str, least: usize) -> BTreeMap<String, Vec<String>> {
    let mut files = Vec::new();
    sources(&Path::new(folder).join("src"), &mut files);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        for line in fs::read_to_string(&file).expect("UTF-8").lines() {
            if let Some(name) = defined(line) {
                found.entry(name.to_owned()).or_default().push(file.display().to_string());
            }
        }
    }
    assert!(found.contains_key(known) && found.len() >= least, "the sources were found: {}", found.len());
    found
}

/// Fails if two public types have the same name.
pub(crate) fn assert_unique(definitions: BTreeMap<String, Vec<String>>) {
    let twice: Vec<_> = definitions.into_iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}
