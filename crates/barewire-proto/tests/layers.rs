//! Each layer depends only on the layers below it, and none of them does I/O.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers, from the lowest on.
const LAYERS: [&str; 8] = ["json", "frame", "rpc", "session", "mcp", "http", "auth", "transcript"];

/// The same layers by name.
const LAYERS_BY_NAME: [&str; 8] = ["auth", "frame", "http", "json", "mcp", "rpc", "session", "transcript"];

/// The layers that a layer may use besides itself.
fn below(layer: &str) -> &'static [&'static str] {
    match layer {
        "json" => &[],
        "frame" => &["json"],
        "rpc" => &["json", "frame"],
        "session" => &["json", "rpc"],
        "mcp" => &["json", "rpc", "session"],
        "http" => &["json", "rpc", "mcp"],
        "auth" => &["json", "mcp", "http"],
        // A transcript is bytes and text without a meaning.
        "transcript" => &[],
        other => panic!("{other} is not in the order of layers: add it"),
    }
}

/// All source files of the crate without comments, as (layer, file, text).
fn sources() -> Vec<(String, String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for layer in fs::read_dir(&src).expect("src").map(|entry| entry.expect("entry").path()) {
        if !layer.is_dir() {
            continue;
        }
        let name = layer.file_name().expect("a name").to_string_lossy().into_owned();
        for file in files(&layer) {
            let text = fs::read_to_string(&file).expect("UTF-8");
            found.push((name.clone(), file.display().to_string(), without_comments(&text)));
        }
    }
    assert!(found.len() > 15, "the sources were found");
    found
}

/// All files of a folder and of the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_layer_uses_one_that_comes_after_it() {
    let mut seen = std::collections::BTreeSet::new();
    for (layer, file, code) in sources() {
        let reaches = |used: &str| ["crate::", "super::"].iter().any(|up| code.contains(&format!("{up}{used}::")));
        for used in LAYERS.iter().filter(|used| reaches(used)) {
            let allowed = layer == **used || below(&layer).contains(used);
            assert!(allowed, "{file}: {layer} uses {used}, which is not below it");
        }
        for hidden in ["use crate::{", "super::super", "use super::{self", "crate::*"] {
            assert!(!code.contains(hidden), "{file}: {hidden} hides from this test which layer is used");
        }
        seen.insert(layer);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), LAYERS_BY_NAME);
}

#[test]
fn no_layer_does_io() {
    let world = [
        "std::net",
        "std::fs",
        "std::process",
        "std::thread",
        "std::env",
        "std::io",
        "std::os",
        "std::sync",
        "Instant::now",
        "SystemTime",
        "tokio",
        "async ",
        ".await",
        "println!",
        "eprintln!",
        "unsafe",
        "rand::",
    ];
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let above = ["lib.rs", "setters.rs"].map(|file| {
        let text = fs::read_to_string(src.join(file)).expect("UTF-8");
        ("no layer".into(), file.into(), without_comments(&text))
    });
    for (_, file, code) in sources().into_iter().chain(above) {
        assert!(!code.contains("use std::{"), "{file}: write the module in the path, so that this test can find it");
        for word in world {
            assert!(!code.contains(word), "{file}: {word}");
        }
    }
}

#[test]
fn the_manifest_names_three_dependencies_and_no_features() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("readable");
    let mut section = "";
    let mut dependencies = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]"
            && let Some(name) = line.split(['.', '=', ' ']).next()
            && !name.is_empty()
            && !name.starts_with('#')
        {
            dependencies.push(name);
        }
    }
    assert_eq!(dependencies, ["memchr", "serde", "serde_json"]);
    assert!(!manifest.contains("[features]"));
    assert!(!manifest.contains("target."), "no dependency is limited to a platform");
}
