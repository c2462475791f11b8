//! A server's name and `--record` -> the path of its captures, in the form for `barewire tap --record`.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::platform;

use super::file::name;

pub(super) struct CapturePath {
    /// An absolute path, because a host can start servers in any folder. Tap replaces `%t`, `%p` and `%%` in it.
    pub(super) path: String,
    /// The default folder for captures, which `attach` creates; `None` if the user chose the path.
    folder: Option<PathBuf>,
}

impl CapturePath {
    pub(super) fn given(path: &Path) -> Result<Self, Failure> {
        let given = utf8(path)?;
        let path = if path.is_absolute() {
            given.to_owned()
        } else {
            let here = std::env::current_dir();
            let here = here.map_err(|error| Failure::new(format!("cannot find the current folder: {error}")))?;
            format!("{}/{given}", utf8(&here)?.replace('%', "%%"))
        };
        // If the folder did not exist, tap would record nothing, and only the host's log would show why.
        let folder = Path::new(&path).parent().unwrap_or(Path::new("/"));
        if !folder.as_os_str().as_encoded_bytes().contains(&b'%') && !folder.is_dir() {
            return Err(Failure::new(format!("there is no folder {}", name(folder))).with_hint("create it first"));
        }
        Ok(Self { path, folder: None })
    }

    /// Returns a path in the default folder. Each start of the server writes a new file.
    pub(super) fn default_for(server: &str) -> Result<Self, Failure> {
        let folder = platform::captures().ok_or_else(|| {
            Failure::new("cannot find a home folder to store captures in").with_hint("choose a file with --record FILE")
        })?;
        let plain = utf8(&folder)?.replace('%', "%%");
        Ok(Self { path: format!("{plain}/{}-%t-%p.wire", file_name(server)), folder: Some(folder) })
    }

    pub(super) fn explanation(&self) -> &'static str {
        let plain = self.path.replace("%%", "");
        match (plain.contains("%t"), plain.contains("%p")) {
            (true, true) => "%t is the start time, %p the process id",
            (true, false) => "%t is the start time",
            (false, true) => "%p is the process id",
            (false, false) => "later starts of the server add a number to the name: .2, .3 and so on",
        }
    }

    /// Creates the default folder, readable only by the user.
    pub(super) fn create_folder(&self) -> Result<(), Failure> {
        let Some(folder) = &self.folder else { return Ok(()) };
        platform::private_folder().create(folder).map_err(|error| {
            Failure::new(format!("cannot create the folder for captures, {}: {error}", name(folder)))
                .with_hint("choose another place with --record FILE")
        })
    }
}

/// Makes a server's name safe for a file name: replaces all characters but letters, digits, dots, dashes and
/// underscores by underscores.
fn file_name(server: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = server.chars().take(MAX_SERVER_CHARS).map(plain).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

/// Returns a path as text. Fails if the path is not UTF-8, because JSON can hold only UTF-8.
fn utf8(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure::new(format!("{} is not UTF-8", name(path))))
}

/// The maximum number of characters of a server's name in a file name. A file name has at most 255 bytes. A character
/// takes up to four bytes, and the time, the process id and the extension are appended.
const MAX_SERVER_CHARS: usize = 40;
