//! A path -> the configuration file as it is now: its text, its owner and its permissions.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::output::shown;
use crate::platform;
use barewire_workbench::rows::CaretLine;

use super::document::ConfigDocument;
use super::jsonc::ParseError;
use super::node::Syntax;

/// A configuration file, as it was when it was read.
pub(super) struct Config {
    /// The path with symlinks resolved, because renaming over a symlink would replace the link.
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) syntax: Syntax,
    pub(super) metadata: Metadata,
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
        // The target of a symlink may have any name.
        let syntax = Syntax::of_file(named);
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            syntax_failure(named, error.as_bytes(), syntax, &ParseError { at, message: "not UTF-8".to_owned() })
        })?;
        Ok(Some(Self { path, text, syntax, metadata }))
    }

    pub(super) fn document(&self) -> Result<ConfigDocument<'_>, Failure> {
        if self.text.trim_start_matches('\u{feff}').trim().is_empty() {
            return Err(Failure::new(format!("{} is empty", name(&self.path))));
        }
        ConfigDocument::parse(&self.text, self.syntax)
            .map_err(|error| syntax_failure(&self.path, self.text.as_bytes(), self.syntax, &error))
    }

    /// Returns the number of other hard links to the file. They will still have the old text.
    pub(super) fn other_links(&self) -> u64 {
        platform::other_names(&self.metadata)
    }
}

/// Returns a path in the form shown to the user.
pub(super) fn name(path: &Path) -> String {
    shown(path.as_os_str().as_encoded_bytes(), 300)
}

pub(super) fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_CONFIG_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the failure for a syntax error, with its line and column and a caret under its position.
fn syntax_failure(path: &Path, text: &[u8], syntax: Syntax, error: &ParseError) -> Failure {
    let start = text[..error.at].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let end = text[error.at..].iter().position(|b| *b == b'\n').map_or(text.len(), |at| error.at + at);
    let number = text[..start].iter().filter(|b| **b == b'\n').count() + 1;
    let column = String::from_utf8_lossy(&text[start..error.at]).chars().filter(|c| *c != '\u{feff}').count() + 1;
    // The display width of a tab is unknown, so a tab is shown as a space.
    let line: Vec<u8> = text[start..end].iter().map(|b| if *b == b'\t' { b' ' } else { *b }).collect();
    let line = line.strip_suffix(b"\r").unwrap_or(&line);
    let excerpt = CaretLine::around(line, error.at - start);
    let margin = number.to_string();
    let space = " ".repeat(margin.len());
    Failure::new(format!(
        "{} is not {}: line {number}, column {column}: {}\n  {margin} | {}\n  {space} | {}^",
        name(path),
        syntax.name(),
        error.message,
        excerpt.line,
        " ".repeat(excerpt.column),
    ))
}

/// The maximum size of a configuration file. Claude Code's own file, which also stores histories, can have a few
/// mebibytes.
const MAX_CONFIG_BYTES: usize = 64 * 1024 * 1024;
