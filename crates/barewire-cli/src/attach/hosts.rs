//! The hosts that are known by name, and the places of their configuration files on each platform.

use std::fs;
use std::path::{Path, PathBuf};

use super::folders::{Folder, Folders, Platform};

/// A host with known configuration files.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The places of its files. A server in an earlier file has priority over one in a later file.
    places: &'static [ConfigPlace],
    /// The paths under which the host lists servers in its files.
    pub(super) server_paths: &'static [&'static [&'static str]],
    /// Tells the user how to make the host read its changed configuration.
    pub(super) restart: &'static str,
}

/// The place of a configuration file.
#[derive(Debug)]
struct ConfigPlace {
    folder: Folder,
    /// The path in the folder. A `*` as the name of a folder, or before the extension, stands for all of them.
    path: &'static str,
}

impl Host {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        HOSTS.iter().find(|host| host.name == name)
    }

    /// Returns the host that uses a configuration file, judging by the file's path.
    pub(super) fn of_file(path: &Path) -> Option<&'static Self> {
        let uses = |place: &ConfigPlace| {
            let file = Path::new(place.path);
            let Some(name) = file.file_name().and_then(|name| name.to_str()) else { return false };
            match file.parent().and_then(Path::file_name) {
                _ if place.path.contains('*') => false,
                _ if !GENERIC_NAMES.contains(&name) => path.ends_with(name),
                Some(folder) => path.ends_with(Path::new(folder).join(name)),
                None => false,
            }
        };
        HOSTS.iter().find(|host| host.places.iter().any(uses))
    }

    /// Returns the files that can list servers, the file with the highest priority first.
    pub(super) fn files(&self, folders: &Folders) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for file in self.places.iter().flat_map(|place| place.files(folders)) {
            // The home folder can be above the project folder, so that a file is found twice.
            if !files.contains(&file) {
                files.push(file);
            }
        }
        files
    }
}

impl ConfigPlace {
    fn files(&self, folders: &Folders) -> Vec<PathBuf> {
        match (self.folder, folders.path(self.folder)) {
            (_, None) => Vec::new(),
            (Folder::File(_), Some(file)) => vec![file],
            (Folder::System(_), Some(_)) => vec![self.path.into()],
            (Folder::Project, Some(project)) => {
                // The file is searched in the project folder, and then in each folder above it.
                let mut all = project.ancestors().map(|folder| matching(folder, self.path));
                let found = all.find(|files| files.iter().any(|file| file.exists()));
                found.unwrap_or_else(|| matching(&project, self.path))
            }
            (_, Some(folder)) => matching(&folder, self.path),
        }
    }
}

/// Returns the files of a folder that a path stands for, in the order of their names.
fn matching(folder: &Path, path: &str) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for part in path.split('/') {
        let Some((before, after)) = part.split_once('*') else {
            found.iter_mut().for_each(|it| it.push(part));
            continue;
        };
        let fits = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            name.to_str()
                .is_some_and(|name| name.starts_with(before) && name.ends_with(after) && name.len() >= part.len())
        };
        let all = |folder: &PathBuf| {
            let mut all: Vec<PathBuf> =
                fs::read_dir(folder).into_iter().flatten().flatten().filter(fits).map(|entry| entry.path()).collect();
            all.sort();
            all
        };
        found = found.iter().flat_map(all).collect();
    }
    found
}

const fn at(folder: Folder, path: &'static str) -> ConfigPlace {
    ConfigPlace { folder, path }
}

use Folder::{AppSettings, Config, File, Home, LocalAppData, Project, System, VariableOr};

/// The names of files that several hosts use. Such a file is recognized by the folder that it is in.
const GENERIC_NAMES: &[&str] =
    &["mcp.json", "settings.json", "config.toml", "config.json", "config.yaml", "mcp_config.json"];

const MCP_SERVERS: &[&[&str]] = &[&["mcpServers"]];

pub(super) const HOSTS: &[Host] = &[
    Host {
        name: "claude-desktop",
        title: "Claude Desktop",
        places: &[
            at(AppSettings, "Claude/claude_desktop_config.json"),
            // The package of the Microsoft Store redirects its settings.
            at(LocalAppData, "Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json"),
        ],
        server_paths: MCP_SERVERS,
        restart: "quit Claude Desktop and start it again: it reads its configuration only at the start",
    },
    Host {
        name: "claude-code",
        title: "Claude Code",
        places: &[
            at(System(Platform::Linux), "/etc/claude-code/managed-mcp.json"),
            at(System(Platform::MacOs), "/Library/Application Support/ClaudeCode/managed-mcp.json"),
            at(System(Platform::Windows), "C:/Program Files/ClaudeCode/managed-mcp.json"),
            at(Project, ".mcp.json"),
            at(VariableOr("CLAUDE_CONFIG_DIR", ""), ".claude.json"),
        ],
        server_paths: MCP_SERVERS,
        restart: "start Claude Code again: a running session keeps the old server",
    },
    Host {
        name: "vscode",
        title: "VS Code",
        places: &[
            at(Project, ".vscode/mcp.json"),
            at(Project, ".vscode/settings.json"),
            at(AppSettings, "Code/User/mcp.json"),
            at(AppSettings, "Code/User/settings.json"),
            at(AppSettings, "Code/User/profiles/*/mcp.json"),
            at(AppSettings, "Code - Insiders/User/mcp.json"),
            at(AppSettings, "Code - Insiders/User/settings.json"),
            at(AppSettings, "Code - Insiders/User/profiles/*/mcp.json"),
            at(AppSettings, "VSCodium/User/mcp.json"),
            at(AppSettings, "VSCodium/User/settings.json"),
        ],
        server_paths: &[&["servers"], &["mcp", "servers"], &["mcp.servers"]],
        restart: "restart the server in VS Code: run MCP: List Servers, select it, then Restart Server",
    },
    Host {
        name: "cursor",
        title: "Cursor",
        places: &[at(Project, ".cursor/mcp.json"), at(Home, ".cursor/mcp.json")],
        server_paths: MCP_SERVERS,
        restart: "switch the server off and on again in the settings of Cursor, or restart Cursor",
    },
    Host {
        name: "windsurf",
        title: "Windsurf",
        places: &[
            at(Home, ".codeium/windsurf/mcp_config.json"),
            at(Home, ".codeium/windsurf-next/mcp_config.json"),
            at(Home, ".codeium/mcp_config.json"),
        ],
        server_paths: MCP_SERVERS,
        restart: "refresh the servers in Windsurf's MCP settings, or restart Windsurf",
    },
    Host {
        name: "gemini",
        title: "Gemini CLI",
        places: &[
            at(File("GEMINI_CLI_SYSTEM_SETTINGS_PATH"), ""),
            at(System(Platform::Linux), "/etc/gemini-cli/settings.json"),
            at(System(Platform::MacOs), "/Library/Application Support/GeminiCli/settings.json"),
            at(System(Platform::Windows), "C:/ProgramData/gemini-cli/settings.json"),
            at(Project, ".gemini/settings.json"),
            at(VariableOr("GEMINI_CLI_HOME", ""), ".gemini/settings.json"),
            at(File("GEMINI_CLI_SYSTEM_DEFAULTS_PATH"), ""),
            at(System(Platform::Linux), "/etc/gemini-cli/system-defaults.json"),
            at(System(Platform::MacOs), "/Library/Application Support/GeminiCli/system-defaults.json"),
            at(System(Platform::Windows), "C:/ProgramData/gemini-cli/system-defaults.json"),
        ],
        server_paths: MCP_SERVERS,
        restart: "start Gemini CLI again: a running session keeps the old server",
    },
    Host {
        name: "codex",
        title: "Codex",
        places: &[
            at(Project, ".codex/config.toml"),
            at(VariableOr("CODEX_HOME", ".codex"), "config.toml"),
            at(System(Platform::Linux), "/etc/codex/config.toml"),
            at(System(Platform::MacOs), "/etc/codex/config.toml"),
        ],
        server_paths: &[&["mcp_servers"]],
        restart: "start Codex again: a running session keeps the old server",
    },
    Host {
        name: "opencode",
        title: "opencode",
        places: &[
            at(Project, ".opencode/opencode.json"),
            at(Project, ".opencode/opencode.jsonc"),
            at(Project, "opencode.json"),
            at(Project, "opencode.jsonc"),
            at(File("OPENCODE_CONFIG"), ""),
            at(VariableOr("OPENCODE_CONFIG_DIR", ".opencode"), "opencode.json"),
            at(VariableOr("OPENCODE_CONFIG_DIR", ".opencode"), "opencode.jsonc"),
            at(Config, "opencode/opencode.json"),
            at(Config, "opencode/opencode.jsonc"),
            at(Config, "opencode/config.json"),
        ],
        server_paths: &[&["mcp"], &["mcp", "servers"]],
        restart: "start opencode again: a running session keeps the old server",
    },
    Host {
        name: "zed",
        title: "Zed",
        places: &[
            at(Project, ".zed/settings.json"),
            // On macOS, too, Zed keeps its settings in ~/.config.
            at(Folder::ConfigOrAppData, "zed/settings.json"),
            at(Home, ".var/app/dev.zed.Zed/config/zed/settings.json"),
        ],
        server_paths: &[&["context_servers"]],
        restart: "Zed notices the change and starts the server again",
    },
    Host {
        name: "cline",
        title: "Cline",
        places: &[
            at(File("CLINE_MCP_SETTINGS_PATH"), ""),
            at(VariableOr("CLINE_DATA_DIR", ".cline/data"), "settings/cline_mcp_settings.json"),
            // Older versions kept the file with the extension, in each editor; newer ones move it.
            at(AppSettings, "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
            at(
                AppSettings,
                "Code - Insiders/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ),
            at(AppSettings, "VSCodium/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
            at(AppSettings, "Cursor/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
            at(AppSettings, "Windsurf/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        ],
        server_paths: MCP_SERVERS,
        restart: "Cline notices the change and starts the server again",
    },
    Host {
        name: "continue",
        title: "Continue",
        places: &[
            at(Project, ".continue/mcpServers/*.yaml"),
            at(Project, ".continue/mcpServers/*.yml"),
            at(Project, ".continue/mcpServers/*.json"),
            at(VariableOr("CONTINUE_GLOBAL_DIR", ".continue"), "config.yaml"),
            at(VariableOr("CONTINUE_GLOBAL_DIR", ".continue"), "mcpServers/*.yaml"),
            at(VariableOr("CONTINUE_GLOBAL_DIR", ".continue"), "mcpServers/*.yml"),
            at(VariableOr("CONTINUE_GLOBAL_DIR", ".continue"), "mcpServers/*.json"),
        ],
        server_paths: MCP_SERVERS,
        restart: "reload the configuration of Continue, or restart its editor",
    },
];

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn no_variable(_: &str) -> Option<OsString> {
        None
    }

    fn variables(name: &str) -> Option<OsString> {
        match name {
            "APPDATA" => Some("/appdata".into()),
            "LOCALAPPDATA" => Some("/local".into()),
            "XDG_CONFIG_HOME" => Some("/xdg".into()),
            "CODEX_HOME" => Some("/codex".into()),
            "CLAUDE_CONFIG_DIR" => Some("".into()),
            _ => None,
        }
    }

    /// The files of a host outside the project, on a machine whose home folder is `/home/me`.
    fn files(host: &str, platform: Platform, variable: fn(&str) -> Option<OsString>) -> Vec<String> {
        let folders = Folders { platform, home: Some("/home/me".into()), project: "/nowhere/p".into(), variable };
        let files = Host::named(host).expect("known").files(&folders);
        let own = files.iter().filter(|file| !file.starts_with("/nowhere/p"));
        own.map(|file| file.to_str().expect("UTF-8").to_owned()).collect()
    }

    #[track_caller]
    fn first(host: &str, [linux, macos, windows]: [&str; 3]) {
        let of = |platform| files(host, platform, no_variable).into_iter().find(|file| file.starts_with("/home/me"));
        let found = [Platform::Linux, Platform::MacOs, Platform::Windows].map(of);
        assert_eq!(found.map(Option::unwrap_or_default), [linux, macos, windows].map(|it| format!("/home/me/{it}")));
    }

    #[test]
    fn each_platform_has_its_own_places() {
        const SUPPORT: &str = "Library/Application Support";
        let settings = |path: &str| [".config", SUPPORT, "AppData/Roaming"].map(|folder| format!("{folder}/{path}"));
        let each = |host, path: &str| first(host, settings(path).each_ref().map(String::as_str));
        let same = |host, path| first(host, [path; 3]);
        each("claude-desktop", "Claude/claude_desktop_config.json");
        same("claude-code", ".claude.json");
        each("vscode", "Code/User/mcp.json");
        same("cursor", ".cursor/mcp.json");
        same("windsurf", ".codeium/windsurf/mcp_config.json");
        same("gemini", ".gemini/settings.json");
        same("codex", ".codex/config.toml");
        same("opencode", ".opencode/opencode.json");
        first("zed", [".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/zed/settings.json"]);
        same("cline", ".cline/data/settings/cline_mcp_settings.json");
        same("continue", ".continue/config.yaml");
        let cline = files("cline", Platform::Windows, no_variable);
        let storage = "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
        assert!(cline.contains(&format!("/home/me/AppData/Roaming/{storage}")), "{cline:?}");
        assert!(
            files("opencode", Platform::Windows, no_variable)
                .contains(&"/home/me/.config/opencode/opencode.json".to_owned())
        );
    }

    #[test]
    fn variables_and_systems_have_places() {
        assert_eq!(files("codex", Platform::Linux, variables), ["/codex/config.toml", "/etc/codex/config.toml"]);
        assert_eq!(files("codex", Platform::Windows, variables), ["/codex/config.toml"]);
        assert_eq!(
            files("claude-desktop", Platform::Windows, variables),
            ["/appdata/Claude/claude_desktop_config.json"]
        );
        assert_eq!(files("claude-desktop", Platform::Linux, variables), ["/xdg/Claude/claude_desktop_config.json"]);
        let macos = files("claude-desktop", Platform::MacOs, variables);
        assert_eq!(macos, ["/home/me/Library/Application Support/Claude/claude_desktop_config.json"]);
        let managed = |platform| files("claude-code", platform, variables);
        let own = "/home/me/.claude.json";
        assert_eq!(managed(Platform::Linux), ["/etc/claude-code/managed-mcp.json", own]);
        assert_eq!(managed(Platform::Windows), ["C:/Program Files/ClaudeCode/managed-mcp.json", own]);
        assert_eq!(managed(Platform::MacOs), ["/Library/Application Support/ClaudeCode/managed-mcp.json", own]);
    }

    /// The places of other platforms, in a folder that is made here.
    #[test]
    fn stars_stand_for_names_in_a_folder() {
        let home = std::env::temp_dir().join(format!("barewire-hosts-{}", std::process::id()));
        let package = "AppData/Local/Packages/Claude_x1/LocalCache/Roaming/Claude/claude_desktop_config.json";
        let paths =
            [package, ".continue/mcpServers/b.yaml", ".continue/mcpServers/a.yaml", ".continue/mcpServers/.yaml"];
        for path in paths {
            let path = home.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
            fs::write(path, "").expect("it is written");
        }
        let of = |host, platform| {
            let folders =
                Folders { platform, home: Some(home.clone()), project: home.join("p"), variable: no_variable };
            let files = Host::named(host).expect("known").files(&folders);
            files.into_iter().filter(|file| file.exists()).collect::<Vec<_>>()
        };
        assert_eq!(of("claude-desktop", Platform::Windows), [home.join(package)]);
        assert!(of("claude-desktop", Platform::Linux).is_empty());
        let blocks = ["a", "b"].map(|name| home.join(format!(".continue/mcpServers/{name}.yaml")));
        assert_eq!(of("continue", Platform::MacOs), blocks);
        fs::remove_dir_all(&home).expect("it is ours");
    }

    #[test]
    fn a_file_tells_its_host() {
        for (path, host) in [
            ("/a/.vscode/mcp.json", Some("vscode")),
            ("/a/Code/User/settings.json", Some("vscode")),
            ("/a/.cursor/mcp.json", Some("cursor")),
            ("/a/.mcp.json", Some("claude-code")),
            ("/a/claude_desktop_config.json", Some("claude-desktop")),
            ("/a/.gemini/settings.json", Some("gemini")),
            ("/a/.codex/config.toml", Some("codex")),
            ("/a/opencode.jsonc", Some("opencode")),
            ("/a/.zed/settings.json", Some("zed")),
            ("/a/zed/settings.json", Some("zed")),
            ("/a/cline_mcp_settings.json", Some("cline")),
            ("/a/windsurf/mcp_config.json", Some("windsurf")),
            ("/a/mcp.json", None),
            ("/a/settings.json", None),
            ("/a/b/config.toml", None),
        ] {
            assert_eq!(Host::of_file(Path::new(path)).map(|host| host.name), host, "{path}");
        }
    }
}
