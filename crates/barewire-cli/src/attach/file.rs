//! A configuration file -> its text, and back: all of the new text or none of it, and only over the text that was read.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::excerpt::Excerpt;
use crate::output::shown;
use crate::platform;

use super::jsonc::{Document, ParseError};

/// A file as it was read.
pub(super) struct Config {
    /// Where it is, with no symlink left: what is renamed over a link would replace the link.
    path: PathBuf,
    pub(super) text: String,
    metadata: Metadata,
}

impl Config {
    /// Reads a file. `None` if it is not there.
    pub(super) fn read(named: &Path) -> Result<Option<Self>, Failure> {
        let cannot = |error: &io::Error| Failure::new(format!("cannot read {}: {error}", name(named)));
        let path = match fs::canonicalize(named) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot(&error)),
        };
        let metadata = fs::metadata(&path).map_err(|error| cannot(&error))?;
        if !metadata.is_file() {
            return Err(Failure::new(format!("{} is no file", name(named))));
        }
        let bytes = contents(&path).map_err(|error| cannot(&error))?;
        if bytes.len() > MAX_CONFIG_BYTES {
            return Err(Failure::new(format!("{} is larger than {MAX_CONFIG_BYTES} bytes", name(named))));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            broken(named, error.as_bytes(), &ParseError { at, message: "not UTF-8".to_owned() })
        })?;
        Ok(Some(Self { path, text, metadata }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn document(&self) -> Result<Document<'_>, Failure> {
        if self.text.trim_start_matches('\u{feff}').trim().is_empty() {
            return Err(Failure::new(format!("{} is empty", name(&self.path))));
        }
        Document::parse(&self.text).map_err(|bad| broken(&self.path, self.text.as_bytes(), &bad))
    }

    /// How many other names the file has, which keep the old text.
    pub(super) fn other_names(&self) -> u64 {
        platform::other_names(&self.metadata)
    }

    /// Replaces the file's text. A reader sees the old one or the new one, also if we or the machine stop in between.
    pub(super) fn replace(&self, text: &str) -> Result<(), Failure> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let beside = folder.join(format!(".{file}.barewire-{}", std::process::id()));
        let written = self.write_beside(&beside, text).and_then(|()| {
            // As late as can be: whoever wrote it meanwhile, as a host that is running, would lose what it wrote.
            if contents(&self.path)? != self.text.as_bytes() {
                return Ok(ReplaceResult::Changed);
            }
            fs::rename(&beside, &self.path)?;
            Ok(ReplaceResult::Replaced)
        });
        if !matches!(written, Ok(ReplaceResult::Replaced)) {
            // It may never have been made.
            let _ = fs::remove_file(&beside);
        }
        let known = name(&self.path);
        match written {
            Ok(ReplaceResult::Replaced) => {
                // The name is in the folder; not every file system lets a folder be synced, and the text is complete either way.
                let _ = File::open(folder).and_then(|folder| folder.sync_all());
                Ok(())
            }
            Ok(ReplaceResult::Changed) => Err(Failure::new(format!("{known} was changed by somebody else meanwhile: nothing is written"))
                .with_hint("try again; if the host is running and writes this file, close it first")),
            Err(WriteError::Writing(error)) => Err(Failure::new(format!("cannot write {known}: {error}"))
                .with_hint("the file is as it was; a new one is made beside it first, so its folder must be writable and have room")),
            Err(WriteError::Owner(error)) => {
                let owner = platform::owner(&self.metadata);
                let why = format!("a new file cannot be given to its owner and group, {owner}: {error}");
                Err(Failure::new(format!("cannot write {known}: {why}"))
                    .with_hint("the file is as it was; root can do it, and its owner if they are in that group"))
            }
        }
    }

    fn write_beside(&self, beside: &Path, text: &str) -> Result<(), WriteError> {
        let mut file = platform::private_options().write(true).create_new(true).open(beside)?;
        file.write_all(text.as_bytes())?;
        platform::copy_owner(&file, &self.metadata).map_err(WriteError::Owner)?;
        platform::copy_permissions(&file, &self.metadata)?;
        Ok(file.sync_all()?)
    }
}

/// What could not be done.
enum WriteError {
    Writing(io::Error),
    /// Only who may do everything gives a file away, or to a group that they are not in.
    Owner(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Writing(error)
    }
}

enum ReplaceResult {
    Replaced,
    /// Somebody else has written the file since it was read.
    Changed,
}

/// A path as it is shown.
pub(super) fn name(path: &Path) -> String {
    shown(path.as_os_str().as_encoded_bytes(), 300)
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_CONFIG_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What is wrong, with the line, a caret under the place, and both numbers.
fn broken(path: &Path, text: &[u8], bad: &ParseError) -> Failure {
    let start = text[..bad.at].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let end = text[bad.at..].iter().position(|b| *b == b'\n').map_or(text.len(), |at| bad.at + at);
    let number = text[..start].iter().filter(|b| **b == b'\n').count() + 1;
    let column = String::from_utf8_lossy(&text[start..bad.at]).chars().filter(|c| *c != '\u{feff}').count() + 1;
    // A tab has no width that could be known here; a space is as good.
    let line: Vec<u8> = text[start..end].iter().map(|b| if *b == b'\t' { b' ' } else { *b }).collect();
    let line = line.strip_suffix(b"\r").unwrap_or(&line);
    let excerpt = Excerpt::around(line, bad.at - start);
    let margin = number.to_string();
    let space = " ".repeat(margin.len());
    Failure::new(format!(
        "{} is not JSON: line {number}, column {column}: {}\n  {margin} | {}\n  {space} | {}^",
        name(path),
        bad.message,
        excerpt.line,
        " ".repeat(excerpt.column),
    ))
}

/// No configuration is larger. Claude Code's own file, which also keeps histories, has a few mebibytes.
const MAX_CONFIG_BYTES: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("barewire-file-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("it can be made");
        folder.join("mcp.json")
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_stays() {
        let path = fresh("changed");
        fs::write(&path, "{}").expect("it is written");
        let config = Config::read(&path).ok().flatten().expect("it is read");
        fs::write(&path, "{\"mine\":1}").expect("it is written");
        let Err(failure) = config.replace("{\"new\":1}") else { panic!("it was replaced") };
        assert!(failure.to_string().contains("was changed by somebody else"), "{failure}");
        let folder = path.parent().expect("a folder");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "{\"mine\":1}");
        assert_eq!(fs::read_dir(folder).expect("it is there").count(), 1, "nothing is left beside it");
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
