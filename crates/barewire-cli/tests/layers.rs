//! No verb of the program uses another, and only `platform` depends on the operating system.

use std::fs;
use std::path::{Path, PathBuf};

/// The verbs, each with its own file or folder.
const VERBS: &[&str] = &[
    "attach",
    "bench",
    "call",
    "check",
    "completions",
    "demo",
    "explain",
    "login",
    "man",
    "probe",
    "read",
    "replay",
    "serve",
    "tap",
    "view",
];

/// The files and folders that verbs share.
const SHARED: &[&str] = &[
    "ask",
    "check_entry",
    "failure",
    "input",
    "input_files",
    "log",
    "main",
    "output",
    "platform",
    "probe_folder",
    "program_word",
    "renewals",
    "url_headers",
];

/// Returns every source file, with the verb or shared part that it belongs to, and its code without comments.
fn sources() -> Vec<(PathBuf, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut found) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let inside = path.strip_prefix(&root).expect("it is inside");
            let part = inside.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
            let part = part.strip_suffix(".rs").unwrap_or(&part).to_owned();
            let text = fs::read_to_string(&path).expect("UTF-8");
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            found.push((path, part, text.lines().filter(is_code).collect::<Vec<_>>().join("\n")));
        }
    }
    assert!(found.len() > 50, "the sources were found");
    found
}

#[test]
fn no_verb_uses_another() {
    for (path, part, code) in sources() {
        assert!(VERBS.contains(&&*part) || SHARED.contains(&&*part), "{part} is neither a verb nor shared");
        for verb in VERBS.iter().filter(|verb| **verb != part && part != "main") {
            let uses = [format!("crate::{verb}::"), format!("crate::{verb};"), format!("crate::{{{verb}")];
            assert!(!uses.iter().any(|text| code.contains(text)), "{}: {part} uses {verb}", path.display());
        }
    }
}

#[test]
fn only_the_platform_depends_on_the_system() {
    for (path, part, code) in sources().into_iter().filter(|(_, part, _)| part != "platform") {
        for word in ["rustix", "std::os::", "cfg(unix", "cfg(not(unix", "target_os", "signal::unix", "net::unix"] {
            assert!(!code.contains(word), "{} has {word}: {part} is not the platform", path.display());
        }
    }
}
