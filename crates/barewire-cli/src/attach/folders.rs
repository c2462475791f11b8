//! The folders in which hosts keep their configuration, on each platform.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::platform;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Platform {
    Linux,
    MacOs,
    Windows,
}

/// The folder of a configuration file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Folder {
    /// The project folder, and each folder above it.
    Project,
    Home,
    /// `$XDG_CONFIG_HOME` or `~/.config`, also on macOS and Windows.
    Config,
    /// The folder for settings of applications: as `Config` on Linux, `~/Library/Application Support` on macOS and
    /// `%APPDATA%` on Windows.
    AppSettings,
    /// `Config` on Linux and macOS, `%APPDATA%` on Windows.
    ConfigOrAppData,
    /// `%LOCALAPPDATA%`, on Windows only.
    LocalAppData,
    /// The folder that this environment variable names, or else this folder in the home folder.
    VariableOr(&'static str, &'static str),
    /// The file that this environment variable names.
    File(&'static str),
    /// The path is absolute, and for this platform only.
    System(Platform),
}

/// The facts about a machine that decide where the folders are.
pub(super) struct Folders {
    pub(super) platform: Platform,
    pub(super) home: Option<PathBuf>,
    /// The project folder.
    pub(super) project: PathBuf,
    pub(super) variable: fn(&str) -> Option<OsString>,
}

impl Folders {
    /// Returns the folders of this machine.
    pub(super) fn here(project: &Path) -> Self {
        let platform = match platform::NAME {
            "windows" => Platform::Windows,
            "macos" => Platform::MacOs,
            _ => Platform::Linux,
        };
        Self { platform, home: platform::home(), project: project.to_owned(), variable: |name| std::env::var_os(name) }
    }

    /// Returns the path of a folder; `None` if this machine has no such folder.
    pub(super) fn path(&self, folder: Folder) -> Option<PathBuf> {
        match (folder, self.platform) {
            (Folder::Project, _) => Some(self.project.clone()),
            (Folder::Home, _) => self.home.clone(),
            (Folder::Config, _)
            | (Folder::AppSettings, Platform::Linux)
            | (Folder::ConfigOrAppData, Platform::Linux | Platform::MacOs) => {
                // A relative path is ignored, as the XDG specification requires.
                let given = self.given("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
                given.or_else(|| self.in_home(".config"))
            }
            (Folder::AppSettings, Platform::MacOs) => self.in_home("Library/Application Support"),
            (Folder::AppSettings | Folder::ConfigOrAppData, Platform::Windows) => {
                self.given("APPDATA").or_else(|| self.in_home("AppData/Roaming"))
            }
            (Folder::LocalAppData, Platform::Windows) => {
                self.given("LOCALAPPDATA").or_else(|| self.in_home("AppData/Local"))
            }
            (Folder::LocalAppData, _) => None,
            (Folder::VariableOr(name, default), _) => self.given(name).or_else(|| self.in_home(default)),
            (Folder::File(name), _) => self.given(name),
            (Folder::System(platform), _) => (platform == self.platform).then(PathBuf::new),
        }
    }

    fn given(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    fn in_home(&self, path: &str) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(path))
    }
}
