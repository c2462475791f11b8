//! The words FILE of the command line -> the files to read, in order: a path, a folder or a pattern.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// The files to read.
pub(crate) struct InputFiles {
    /// The files; `None` is stdin.
    pub(crate) files: Vec<Option<PathBuf>>,
    /// Whether the output names the file of each frame: more than one file was named, or a pattern or folder.
    pub(crate) is_named: bool,
}

impl InputFiles {
    /// Finds the files. Files of a folder or pattern are sorted; captures with a number are in the order of their
    /// numbers.
    pub(crate) fn find(words: &[PathBuf]) -> Result<Self, Failure> {
        let mut files = Vec::new();
        let mut is_named = words.len() > 1;
        for word in words {
            if word.as_os_str() == "-" {
                files.push(None);
            } else if word.is_dir() {
                is_named = true;
                files.extend(in_folder(word)?.into_iter().map(Some));
            } else if !word.exists() && is_pattern(word) {
                is_named = true;
                files.extend(matching(word)?.into_iter().map(Some));
            } else {
                files.push(Some(word.clone()));
            }
        }
        if words.is_empty() {
            files.push(None);
        }
        if files.iter().filter(|file| file.is_none()).count() > 1 {
            return Err(Failure::new("stdin can be read only once").with_hint("give - only once"));
        }
        // A file that is named and also matches a pattern is read once, at its first place.
        let mut seen = std::collections::HashSet::new();
        files.retain(|file| seen.insert(file.clone()));
        Ok(Self { files, is_named })
    }
}

fn is_pattern(word: &Path) -> bool {
    word.to_str().is_some_and(|word| word.contains(['*', '?', '[']))
}

fn matching(pattern: &Path) -> Result<Vec<PathBuf>, Failure> {
    let text = pattern.to_string_lossy();
    // A shell does not match hidden files and folders with a star either.
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    let found = glob::glob_with(&text, options).map_err(|error| {
        Failure::new(format!("{text} is not a pattern: {}", error.msg)).with_hint("* matches any text, ? one character")
    })?;
    // A folder that cannot be listed has no files that could be read.
    let mut files: Vec<_> = found.filter_map(Result::ok).filter(|path| !path.is_dir()).collect();
    if files.is_empty() {
        return Err(Failure::new(format!("no file matches {text}")).with_hint("check the folder and the extension"));
    }
    files.sort_by_cached_key(|path| sort_key(path));
    Ok(files)
}

/// Returns the captures, logs and HAR files of a folder, but not those of the folders in it.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let name = folder.display();
    let entries = fs::read_dir(folder).map_err(|error| Failure::new(format!("cannot list {name}: {error}")))?;
    let is_known = |path: &PathBuf| path.extension().and_then(OsStr::to_str).is_some_and(|it| EXTENSIONS.contains(&it));
    let mut files: Vec<_> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_known(path) && path.is_file()).collect();
    if files.is_empty() {
        let extensions = EXTENSIONS.join(", .");
        return Err(Failure::new(format!("the folder {name} has no file with the extension .{extensions}"))
            .with_hint(format!("a pattern chooses other files: '{}/*'", folder.display())));
    }
    files.sort_by_cached_key(|path| sort_key(path));
    Ok(files)
}

/// Returns the order of a file: captures of one name are in the order of their numbers, as in `a.wire`, `a.2.wire`,
/// `a.10.wire`.
fn sort_key(path: &Path) -> (PathBuf, String, u64, PathBuf) {
    let stem = path.file_stem().map(OsStr::to_string_lossy).unwrap_or_default();
    let numbered = stem.rsplit_once('.').and_then(|(name, number)| Some((name, number.parse().ok()?)));
    let (name, number) = numbered.unwrap_or((&stem, 0));
    (path.parent().unwrap_or(Path::new("")).to_owned(), name.to_owned(), number, path.to_owned())
}

/// The extensions of the files that are read from a folder.
const EXTENSIONS: [&str; 5] = ["wire", "log", "har", "jsonl", "ndjson"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_captures_are_in_order() {
        let mut paths = ["b.wire", "a.10.wire", "a.wire", "a.2.wire", "a.x.wire"].map(PathBuf::from);
        paths.sort_by_cached_key(|path| sort_key(path));
        assert_eq!(paths, ["a.wire", "a.2.wire", "a.10.wire", "a.x.wire", "b.wire"].map(PathBuf::from));
    }
}
