//! The reason why a program could not be started, so that the user can see what to change.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::Child;
use crate::platform::{StartFault, can_enter, start_fault};
use crate::transport::exit::escape_line;

/// The reason why a program could not be started.
#[non_exhaustive]
pub enum SpawnError {
    /// No file with this name exists.
    NotFound {
        /// The name or path of the program, as it was given.
        program: String,
    },
    /// The file exists, but the interpreter or loader that it names does not.
    NoInterpreter {
        /// The name or path of the program, as it was given.
        program: String,
    },
    /// The file exists but cannot be run: no permission, a directory, or not a program.
    NotExecutable {
        /// The name or path of the program, as it was given.
        program: String,
    },
    /// The working directory does not exist, is not a directory, or cannot be entered.
    Directory {
        /// The directory.
        dir: PathBuf,
    },
    /// Any other error.
    Io {
        /// The name or path of the program, as it was given.
        program: String,
        /// The error that the operating system reported.
        source: io::Error,
    },
}

impl SpawnError {
    /// Returns the error for `child`. The system uses one error code for several causes, so the files are checked to
    /// find the actual cause.
    pub(super) fn of(child: &Child, source: io::Error) -> Self {
        let program = escape_line(child.program.as_encoded_bytes());
        if let Some(dir) = &child.dir
            && !can_enter(dir)
        {
            return Self::Directory { dir: dir.clone() };
        }
        match start_fault(&source) {
            Some(StartFault::NoSuchFile) if exists(child) => Self::NoInterpreter { program },
            Some(StartFault::NoSuchFile) => Self::NotFound { program },
            Some(StartFault::NotExecutable) => Self::NotExecutable { program },
            None => Self::Io { program, source },
        }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { program } if program.contains('/') => {
                write!(f, "cannot start {program}: no such file")
            }
            Self::NotFound { program } => write!(f, "cannot start {program}: no such program in PATH"),
            Self::NoInterpreter { program } => {
                write!(f, "cannot start {program}: the interpreter in its first line is missing")
            }
            Self::NotExecutable { program } => {
                write!(f, "cannot start {program}: not an executable file")
            }
            Self::Directory { dir } => {
                write!(
                    f,
                    "cannot start in {}: not a directory that can be entered",
                    escape_line(dir.as_os_str().as_encoded_bytes())
                )
            }
            Self::Io { program, source } => write!(f, "cannot start {program}: {source}"),
        }
    }
}

/// Writes the same text as [`fmt::Display`], because an error that `main` returns is printed with `Debug`.
impl fmt::Debug for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Whether the program's file exists.
fn exists(child: &Child) -> bool {
    let here = child.dir.clone().unwrap_or_default();
    if child.program.as_encoded_bytes().contains(&b'/') {
        return here.join(&child.program).exists();
    }
    let set = child.env.iter().rev().find(|(name, _)| name == OsStr::new("PATH"));
    let path = match set {
        Some((_, path)) => path.clone(),
        None if child.clean_env => None,
        None => env::var_os("PATH"),
    };
    path.is_some_and(|path| env::split_paths(&path).any(|dir| here.join(dir).join(&child.program).is_file()))
}
