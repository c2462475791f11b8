//! The name of a host -> its configuration files on this platform.

use std::env;
use std::path::{Path, PathBuf};

use crate::platform;

/// A host with known configuration files.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Host {
    ClaudeDesktop,
    ClaudeCode,
    VsCode,
}

impl Host {
    pub(super) const NAMES: [(&str, Self); 3] =
        [("claude-desktop", Self::ClaudeDesktop), ("claude-code", Self::ClaudeCode), ("vscode", Self::VsCode)];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, host)| *host)
    }

    /// Returns the host that uses a configuration file, judging by the file's path.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        match (name, folder) {
            ("claude_desktop_config.json", _) => Some(Self::ClaudeDesktop),
            (".mcp.json" | ".claude.json", _) => Some(Self::ClaudeCode),
            ("mcp.json" | "settings.json", Some(".vscode" | "User")) => Some(Self::VsCode),
            _ => None,
        }
    }

    /// Returns the files that can list servers, the file with the highest priority first. `here` is the project folder.
    pub(super) fn files(self, here: &Path) -> Vec<PathBuf> {
        let home = platform::home();
        let mut files = Vec::new();
        match self {
            Self::ClaudeDesktop => {
                files.extend(platform::settings().map(|it| it.join("Claude/claude_desktop_config.json")))
            }
            Self::ClaudeCode => {
                let own = env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
                files.extend(upwards(here, Path::new(".mcp.json")));
                files.extend(own.or(home).map(|folder| folder.join(".claude.json")));
            }
            Self::VsCode => {
                for name in ["mcp.json", "settings.json"] {
                    files.extend(upwards(here, &Path::new(".vscode").join(name)));
                }
                for flavour in ["Code", "Code - Insiders"] {
                    let user = platform::settings().map(|it| it.join(flavour).join("User"));
                    files.extend(user.iter().flat_map(|user| [user.join("mcp.json"), user.join("settings.json")]));
                }
            }
        }
        files
    }

    /// Tells the user how to make the host read its changed configuration.
    pub(super) fn restart(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => {
                "quit Claude Desktop and start it again: it reads its configuration only at the start"
            }
            Self::ClaudeCode => "start Claude Code again: a running session keeps the old server",
            Self::VsCode => "restart the server in VS Code: run MCP: List Servers, select it, then Restart Server",
        }
    }
}

/// Looks for the file in this folder and then in each parent folder. If no folder has it, returns its path in this
/// folder.
fn upwards(here: &Path, file: &Path) -> Option<PathBuf> {
    let found = here.ancestors().map(|folder| folder.join(file)).find(|path| path.exists());
    Some(found.unwrap_or_else(|| here.join(file)))
}
