//! A server's name and what the user says -> the file that its captures go to, as `barewire tap --record` takes it.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::platform;

use super::file::name;

/// Where captures go.
pub(super) struct CapturePath {
    /// Absolute, as hosts start servers wherever they like; with `%t`, `%p` and `%%` as tap fills them in.
    pub(super) path: String,
    /// The folder that is ours to make.
    folder: Option<PathBuf>,
}

impl CapturePath {
    pub(super) fn new(told: Option<&Path>, server: &str) -> Result<Self, Failure> {
        match told {
            Some(told) => Self::told(told),
            None => Self::usual(server),
        }
    }

    fn told(told: &Path) -> Result<Self, Failure> {
        let told = told.to_str().ok_or_else(|| no_text(told))?;
        let path = if Path::new(told).is_absolute() {
            told.to_owned()
        } else {
            let here = std::env::current_dir();
            let here = here.map_err(|error| Failure::new(format!("cannot tell where we are: {error}")))?;
            format!("{}/{told}", here.to_str().ok_or_else(|| no_text(&here))?.replace('%', "%%"))
        };
        // Tap would pass everything on without it, and what it says about that is in the log of the host, where nobody looks.
        let folder = Path::new(&path).parent().unwrap_or(Path::new("/"));
        if !folder.as_os_str().as_encoded_bytes().contains(&b'%') && !folder.is_dir() {
            return Err(Failure::new(format!("there is no folder {}", name(folder))).with_hint("make it first"));
        }
        Ok(Self { path, folder: None })
    }

    /// A file a start, in a folder of ours.
    fn usual(server: &str) -> Result<Self, Failure> {
        let folder = platform::captures().ok_or_else(|| {
            Failure::new("there is no home folder to put captures into").with_hint("--record FILE says where they go")
        })?;
        let plain = folder.to_str().ok_or_else(|| no_text(&folder))?.replace('%', "%%");
        Ok(Self { path: format!("{plain}/{}-%t-%p.wire", file_name(server)), folder: Some(folder) })
    }

    /// What tap makes of the name.
    pub(super) fn filled_in(&self) -> &'static str {
        let plain = self.path.replace("%%", "");
        match (plain.contains("%t"), plain.contains("%p")) {
            (true, true) => "%t is the time of a start, %p its process",
            (true, false) => "%t is the time of a start",
            (false, true) => "%p is the process of a start",
            (false, false) => "every start of the server overwrites it; with %t in its name none does",
        }
    }

    /// What was said between a host and a server is nobody else's business.
    pub(super) fn make_folder(&self) -> Result<(), Failure> {
        let Some(folder) = &self.folder else { return Ok(()) };
        platform::private_folder().create(folder).map_err(|error| {
            Failure::new(format!("cannot make the folder for captures, {}: {error}", name(folder)))
                .with_hint("--record FILE says where else they go")
        })
    }
}

/// The name of a server as a part of a file's: what is no letter, digit, dot, dash or underscore becomes an underscore.
fn file_name(server: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = server.chars().take(MAX_SERVER_CHARS).map(plain).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

fn no_text(path: &Path) -> Failure {
    Failure::new(format!("{} is no UTF-8, as JSON is", name(path)))
}

/// File names have at most 255 bytes; a character has at most four, and there are a time, a number and an ending besides.
const MAX_SERVER_CHARS: usize = 40;
