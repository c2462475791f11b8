//! The name of a host -> the files that it reads its servers from, on this platform.

use std::env;
use std::path::{Path, PathBuf};

use crate::platform;

/// A host whose places are known.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Host {
    ClaudeDesktop,
    ClaudeCode,
    VsCode,
}

impl Host {
    pub(super) const NAMES: [&str; 3] = ["claude-desktop", "claude-code", "vscode"];

    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "claude-desktop" => Some(Self::ClaudeDesktop),
            "claude-code" => Some(Self::ClaudeCode),
            "vscode" => Some(Self::VsCode),
            _ => None,
        }
    }

    /// Whose file it is, by its name.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        match (name, folder) {
            ("claude_desktop_config.json", _) => Some(Self::ClaudeDesktop),
            (".mcp.json" | ".claude.json", _) => Some(Self::ClaudeCode),
            ("mcp.json" | "settings.json", Some(".vscode" | "User")) => Some(Self::VsCode),
            _ => None,
        }
    }

    /// Where it may keep its servers, the more particular places first. `here` is the folder that is worked in.
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

    /// What has to be done before it takes notice.
    pub(super) fn restart(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "quit Claude Desktop and start it again: it reads its configuration only then",
            Self::ClaudeCode => "start Claude Code again: a session that is running keeps the old server",
            Self::VsCode => "restart the server in VS Code: MCP: List Servers, the server, Restart Server",
        }
    }
}

/// The file in the folder that is worked in or the nearest one above that has it; where none has, it would be in the first.
fn upwards(here: &Path, file: &Path) -> Option<PathBuf> {
    let found = here.ancestors().map(|folder| folder.join(file)).find(|path| path.exists());
    Some(found.unwrap_or_else(|| here.join(file)))
}
