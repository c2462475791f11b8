//! The files of a folder of `testdata`, and the comparison of a file with the text that a test has made of it.

use std::path::{Path, PathBuf};

/// Returns the files of a folder of `testdata`, by name.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files = entries.map(|file| file.expect("a file").path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Checks that `actual` is the text of the file. With `BLESS=1` it becomes the text of the file.
pub(crate) fn check_or_bless(file: &Path, text: &str, actual: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, actual).expect("writable");
        return;
    }
    for (number, (expected, actual)) in (1..).zip(text.lines().zip(actual.lines())) {
        assert_eq!(actual, expected, "{}:{number}", file.display());
    }
    assert_eq!(text.lines().count(), actual.lines().count(), "{}", file.display());
}
