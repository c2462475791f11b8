//! The compiler's errors for wrong handlers: programs that do not compile -> the sentences that must be in the error.
//!
//! Each file in `compile_errors/` is one program. The lines that begin with `//~` are our sentences in the error; the
//! rest of the error differs between versions of the compiler and is not compared. `control.rs` must compile.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

#[test]
fn the_error_for_a_wrong_handler_says_what_a_handler_is() {
    let library = library();
    for path in files(&programs(), "rs") {
        if path.ends_with("control.rs") {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a source file of this repository");
        let sentences: Vec<_> = source.lines().filter_map(|line| line.strip_prefix("//~ ")).collect();
        let name = path.display();
        assert!(!sentences.is_empty(), "{name} has no expected sentence");
        let compiled = compile(&path, &library);
        let error = String::from_utf8_lossy(&compiled.stderr);
        assert!(!compiled.status.success(), "{name} compiles");
        for sentence in sentences {
            assert!(error.contains(sentence), "{name}: the error does not contain {sentence:?}:\n{error}");
        }
    }
}

/// The library that these tests are linked with: the last build that has the features which the programs need.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let mut built = files(test.parent().expect("a program is in a folder"), "rlib");
    built.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libbarewire-")));
    built.sort_by_key(|path| path.metadata().and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH));
    let control = programs().join("control.rs");
    let mut errors = Vec::new();
    for library in built.into_iter().rev() {
        let compiled = compile(&control, &library);
        if compiled.status.success() {
            return library;
        }
        errors.push(String::from_utf8_lossy(&compiled.stderr).into_owned());
    }
    panic!("control.rs compiles with no build of the library: {}", errors.join("\n"));
}

fn compile(program: &Path, library: &Path) -> Output {
    let mut with = std::ffi::OsString::from("barewire=");
    with.push(library);
    Command::new("rustc")
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--color", "never"])
        .args(["--out-dir", env!("CARGO_TARGET_TMPDIR"), "--extern"])
        .arg(with)
        .arg("-L")
        .arg(library.parent().expect("a file is in a folder"))
        .arg(program)
        .output()
        .expect("rustc exists, because it has compiled this test")
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_errors")
}

/// The files of a folder with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder that can be read");
    let paths = entries.map(|entry| entry.expect("an entry of a folder").path());
    paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
}
