//! Each part uses only those before it, and none knows what belongs to the program: options, a terminal, exit codes.

use std::fs;
use std::path::{Path, PathBuf};

/// The parts in the order of the data, each with those that it may use besides itself and the common modules.
const LAYERS: &[(&str, &[&str])] = &[
    ("frames", &[]),
    ("operations", &["frames"]),
    ("filter", &["frames", "operations"]),
    ("rows", &["frames", "operations"]),
    ("secrets", &["frames"]),
    ("capture", &["secrets"]),
    ("pipeline", &["frames", "operations", "secrets", "capture"]),
    ("diagram", &["frames", "operations", "filter", "rows", "pipeline"]),
    ("export", &["frames", "operations", "secrets", "capture", "pipeline"]),
    ("http", &[]),
    ("check", &["frames", "operations", "secrets", "capture", "pipeline", "http"]),
    ("fault", &[]),
    ("relay", &["frames", "capture", "pipeline", "http", "fault"]),
    ("replay", &["frames", "secrets", "capture", "http"]),
    ("compare", &["frames", "operations", "rows", "pipeline", "replay"]),
    ("load", &[]),
    ("probe", &["frames", "capture", "pipeline", "check", "relay", "replay"]),
    ("index", &["frames", "operations", "filter", "rows", "secrets", "capture", "pipeline", "check"]),
    ("view", VIEW),
];

/// The parts that the page shows.
const VIEW: &[&str] = &[
    "frames",
    "operations",
    "filter",
    "rows",
    "secrets",
    "capture",
    "pipeline",
    "http",
    "diagram",
    "export",
    "http",
    "check",
    "compare",
    "relay",
    "replay",
    "index",
];

/// The modules that every part may use.
const COMMON: &[&str] = &["duration", "error", "nearest", "platform", "text", "text_writer", "tree", "xml"];

struct Source {
    path: PathBuf,
    /// The part it belongs to.
    part: String,
    /// Its code, without comments and without unit tests.
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut found) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() {
                folders.extend((name != "tests").then_some(path));
                continue;
            }
            if name == "tests" {
                continue;
            }
            let inside = path.strip_prefix(&root).expect("it is inside");
            let part = inside.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
            let part = part.strip_suffix(".rs").unwrap_or(&part).to_owned();
            let text = fs::read_to_string(&path).expect("UTF-8");
            found.push(Source { path, part, code: code(&text) });
        }
    }
    assert!(found.len() > 150, "the sources were found");
    found
}

fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let mut code = String::new();
    let mut is_continued = false;
    // A string that goes on in the next line is one line.
    for line in text.lines().filter(is_code) {
        code.push_str(if is_continued { line.trim_start() } else { line });
        is_continued = code.ends_with('\\') && code.pop().is_some();
        if !is_continued {
            code.push('\n');
        }
    }
    code
}

#[test]
fn no_part_uses_one_that_comes_after_it() {
    let names: Vec<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    for Source { path, part, code } in sources() {
        if part == "lib" {
            continue;
        }
        let below = LAYERS.iter().find(|(name, _)| *name == part).map(|(_, below)| *below);
        assert!(below.is_some() || COMMON.contains(&&*part), "{part} is missing in LAYERS");
        for used in &names {
            let reaches = code.contains(&format!("crate::{used}::")) || code.contains(&format!("crate::{{{used}"));
            let allowed = part == **used || below.is_some_and(|below| below.contains(used));
            assert!(!reaches || allowed, "{}: {part} uses {used}, which is not below it", path.display());
        }
    }
}

/// Options are named only in the program, and in the command lines that the page of `view` gives to copy.
#[test]
fn no_text_names_an_option() {
    for Source { path, code, .. } in sources().into_iter().filter(|source| !source.path.ends_with("view/copy.rs")) {
        for (number, line) in code.lines().enumerate() {
            for text in line.replace("\\\"", "").split('"').skip(1).step_by(2) {
                let mut words = text.split(|c: char| c.is_whitespace() || "`(".contains(c));
                let option = words.find(|word| {
                    let name = word.strip_prefix("--").unwrap_or_default();
                    name.len() > 1 && name.starts_with(|c: char| c.is_ascii_lowercase())
                });
                assert_eq!(option, None, "{}, line {number} of its code: {line}", path.display());
            }
        }
    }
}

#[test]
fn nothing_prints_or_checks_for_a_terminal_or_ends_the_process() {
    for Source { path, code, .. } in sources() {
        let forbidden = [
            "IsTerminal",
            "is_terminal",
            "terminal_size",
            "io::stdout",
            "io::stderr",
            "println!",
            "eprint",
            "process::ExitCode",
            "process::exit",
            "clap::",
        ];
        for word in forbidden {
            assert!(!code.contains(word), "{} has {word}", path.display());
        }
    }
}

#[test]
fn only_the_platform_depends_on_the_system() {
    for Source { path, part, code } in sources().into_iter().filter(|source| source.part != "platform") {
        for word in
            ["rustix", "std::os::", "cfg(unix", "cfg(not(unix", "target_os", "signal::unix", "net::unix", "/proc/"]
        {
            assert!(!code.contains(word), "{} has {word}: {part} is not the platform", path.display());
        }
    }
}
