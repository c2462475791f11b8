//! Reads a configuration file, and replaces its text atomically if no other program has changed it since it was read.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::excerpt::Excerpt;
use crate::output::shown;
use crate::platform;

use super::jsonc::{Document, ParseError};

/// A configuration file, as it was when it was read.
pub(super) struct Config {
    /// The path with symlinks resolved, because renaming over a symlink would replace the link.
    pub(super) path: PathBuf,
    pub(super) text: String,
    metadata: Metadata,
}

impl Config {
    /// Reads a file. Returns `None` if it does not exist.
    pub(super) fn read(named: &Path) -> Result<Option<Self>, Failure> {
        let cannot = |error: &io::Error| Failure::new(format!("cannot read {}: {error}", name(named)));
        let path = match fs::canonicalize(named) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot(&error)),
        };
        let metadata = fs::metadata(&path).map_err(|error| cannot(&error))?;
        if !metadata.is_file() {
            return Err(Failure::new(format!("{} is not a file", name(named))));
        }
        let bytes = contents(&path).map_err(|error| cannot(&error))?;
        if bytes.len() > MAX_CONFIG_BYTES {
            return Err(Failure::new(format!("{} is larger than {MAX_CONFIG_BYTES} bytes", name(named))));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            syntax_failure(named, error.as_bytes(), &ParseError { at, message: "not UTF-8".to_owned() })
        })?;
        Ok(Some(Self { path, text, metadata }))
    }

    pub(super) fn document(&self) -> Result<Document<'_>, Failure> {
        if self.text.trim_start_matches('\u{feff}').trim().is_empty() {
            return Err(Failure::new(format!("{} is empty", name(&self.path))));
        }
        Document::parse(&self.text).map_err(|error| syntax_failure(&self.path, self.text.as_bytes(), &error))
    }

    /// Returns the number of other hard links to the file. They will still have the old text.
    pub(super) fn other_links(&self) -> u64 {
        platform::other_names(&self.metadata)
    }

    /// Replaces the file's text atomically: readers see the old text or the new one, even if this program or the
    /// machine crashes.
    pub(super) fn replace(&self, text: &str) -> Result<(), Failure> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = folder.join(format!(".{file}.barewire-{}", std::process::id()));
        let replaced = self.write_temporary(&temporary, text).and_then(|()| {
            // Checked as late as possible: a running host may have changed the file since it was read, and its changes
            // must not be lost.
            if contents(&self.path)? != self.text.as_bytes() {
                return Err(ReplaceError::Changed);
            }
            Ok(fs::rename(&temporary, &self.path)?)
        });
        let Err(error) = replaced else {
            // Some file systems cannot sync a folder. The error is ignored, because the file's text is complete either
            // way.
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
            return Ok(());
        };
        // The temporary file may not exist, so an error is ignored.
        let _ = fs::remove_file(&temporary);
        let path = name(&self.path);
        Err(match error {
            ReplaceError::Changed => Failure::new(format!("{path} was changed by another program meanwhile: nothing is written"))
                .with_hint("try again; if the host is running and writes this file, close it first"),
            ReplaceError::Write(error) => Failure::new(format!("cannot write {path}: {error}"))
                .with_hint("the file is unchanged; a new file is first written to its folder, which must be writable and have space"),
            ReplaceError::Owner(error) => {
                let owner = platform::owner(&self.metadata);
                let why = format!("the new file cannot get its owner and group, {owner}: {error}");
                Failure::new(format!("cannot write {path}: {why}"))
                    .with_hint("the file is unchanged; run this as root, or as its owner if the owner is in that group")
            }
        })
    }

    fn write_temporary(&self, path: &Path, text: &str) -> Result<(), ReplaceError> {
        let mut file = platform::private_options().write(true).create_new(true).open(path)?;
        file.write_all(text.as_bytes())?;
        platform::copy_owner(&file, &self.metadata).map_err(ReplaceError::Owner)?;
        platform::copy_permissions(&file, &self.metadata)?;
        Ok(file.sync_all()?)
    }
}

/// The reason why a file was not replaced.
enum ReplaceError {
    /// Another program has written the file since it was read.
    Changed,
    Write(io::Error),
    /// The new file cannot get the owner or group of the old one. Only root can give a file to another user, or to a
    /// group that the user is not in.
    Owner(io::Error),
}

impl From<io::Error> for ReplaceError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Returns a path in the form shown to the user.
pub(super) fn name(path: &Path) -> String {
    shown(path.as_os_str().as_encoded_bytes(), 300)
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_CONFIG_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the failure for a syntax error, with its line and column and a caret under its position.
fn syntax_failure(path: &Path, text: &[u8], error: &ParseError) -> Failure {
    let start = text[..error.at].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let end = text[error.at..].iter().position(|b| *b == b'\n').map_or(text.len(), |at| error.at + at);
    let number = text[..start].iter().filter(|b| **b == b'\n').count() + 1;
    let column = String::from_utf8_lossy(&text[start..error.at]).chars().filter(|c| *c != '\u{feff}').count() + 1;
    // The display width of a tab is unknown, so a tab is shown as a space.
    let line: Vec<u8> = text[start..end].iter().map(|b| if *b == b'\t' { b' ' } else { *b }).collect();
    let line = line.strip_suffix(b"\r").unwrap_or(&line);
    let excerpt = Excerpt::around(line, error.at - start);
    let margin = number.to_string();
    let space = " ".repeat(margin.len());
    Failure::new(format!(
        "{} is not JSON: line {number}, column {column}: {}\n  {margin} | {}\n  {space} | {}^",
        name(path),
        error.message,
        excerpt.line,
        " ".repeat(excerpt.column),
    ))
}

/// The maximum size of a configuration file. Claude Code's own file, which also stores histories, can have a few
/// mebibytes.
const MAX_CONFIG_BYTES: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("barewire-file-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder.join("mcp.json")
    }

    #[test]
    fn changes_of_another_program_stay() {
        let path = fresh("changed");
        fs::write(&path, "{}").expect("written");
        let config = Config::read(&path).ok().flatten().expect("a file");
        fs::write(&path, "{\"mine\":1}").expect("written");
        let Err(failure) = config.replace("{\"new\":1}") else { panic!("it was replaced") };
        assert!(failure.to_string().contains("was changed by another program"), "{failure}");
        let folder = path.parent().expect("a folder");
        assert_eq!(fs::read_to_string(&path).expect("a path"), "{\"mine\":1}");
        assert_eq!(fs::read_dir(folder).expect("a path").count(), 1, "nothing is left beside it");
        fs::remove_dir_all(folder).expect("removed");
    }
}
