//! Code that depends on the operating system is in one module, so that support for another system is one more file.

use std::fs;
use std::path::{Path, PathBuf};

/// Every source file below `dir`.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("entry").path()) {
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false => found.push(path),
        }
    }
    found
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn nothing_outside_the_platform_module_depends_on_the_system() {
    let system = [
        "rustix",
        "libc::",
        "cfg(unix",
        "cfg(not(unix",
        "cfg(windows",
        "any(unix",
        "all(unix",
        "target_os",
        "target_family",
        "target_vendor",
        "os::unix",
        "os::fd",
        "os::windows",
        "os::linux",
        "tokio::signal",
        "net::unix",
        "net::Unix",
        "io::unix",
        "UnixStream",
        "UnixListener",
        "/dev/",
        "/proc/",
    ];
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (inside, outside): (Vec<_>, Vec<_>) =
        sources(&src).into_iter().partition(|file| file.starts_with(src.join("platform")));
    assert!(outside.len() > 100, "the sources were found");
    for file in &outside {
        let code = without_comments(&fs::read_to_string(file).expect("UTF-8"));
        for word in system {
            assert!(!code.contains(word), "{}: {word} belongs into src/platform", file.display());
        }
    }
    let contains = |word: &str| {
        inside.iter().any(|file| without_comments(&fs::read_to_string(file).expect("UTF-8")).contains(word))
    };
    assert!(contains("rustix") && contains("cfg(unix"), "the platform module was found");
}
