//! The files of hosts: finding them, and changing nothing else about them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;

use serde_json::{Value, json};

use super::place::{Place, attach, text};
use super::shapes::SHAPES;

#[test]
fn deep_and_large_files_are_fine() {
    let place = Place::new();
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let env: Vec<String> = (0..50_000).map(|it| format!("\"K{it}\": \"v\"")).collect();
    let before = format!(
        "{{\"history\": {deep}, \"mcpServers\": {{\"s\": {{\"env\": {{{}}}, \"x\": {deep}, \"command\": \"a\"}}}}}}",
        env.join(",")
    );
    place.write("c.json", &before);
    place.done(&attach("c.json", "s"));
    assert_ne!(place.read("c.json"), before);
    place.done(&["detach", "c.json", "s"]);
    assert!(place.read("c.json") == before);
    place.write("c.json", "[".repeat(100_000));
    assert!(place.failed(&["attach", "c.json", "s"]).contains("column 100001: expected a value"));
}

#[test]
fn links_and_permissions_stay() {
    let place = Place::new();
    place.write("dotfiles/mcp.json", SHAPES[0].1);
    fs::set_permissions(place.path("dotfiles/mcp.json"), fs::Permissions::from_mode(0o640)).expect("it is ours");
    symlink("dotfiles/mcp.json", place.path("one.json")).expect("it can be made");
    symlink(place.path("one.json"), place.path("two.json")).expect("it can be made");
    let (_, said) = place.done(&attach("two.json", "s"));
    assert!(said.contains("dotfiles/mcp.json"), "{said}");
    assert_eq!(place.read("dotfiles/mcp.json"), SHAPES[0].2);
    for link in ["one.json", "two.json"] {
        assert!(fs::symlink_metadata(place.path(link)).expect("it is there").is_symlink(), "{link}");
    }
    place.done(&["detach", "one.json", "s"]);
    assert_eq!(place.read("two.json"), SHAPES[0].1);
    assert_eq!(fs::metadata(place.path("one.json")).expect("it is there").mode() & 0o7777, 0o640);
    fs::hard_link(place.path("dotfiles/mcp.json"), place.path("hard.json")).expect("it can be made");
    assert!(place.done(&attach("hard.json", "s")).1.contains("other hard links"));
    symlink("nowhere", place.path("dangling.json")).expect("it can be made");
    assert!(place.failed(&attach("dangling.json", "s")).contains("there is no file dangling.json"));
}

#[test]
fn a_folder_that_cannot_be_written_leaves_the_file() {
    let place = Place::new();
    place.write("c.json", SHAPES[0].1);
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o500)).expect("it is ours");
    if fs::write(place.path("try"), "").is_ok() {
        // Permissions do not stop root.
        return;
    }
    let said = place.failed(&attach("c.json", "s"));
    assert!(said.contains("cannot write ") && said.contains("hint: the file is unchanged"), "{said}");
    assert_eq!(place.read("c.json"), SHAPES[0].1);
    assert_eq!(place.files(), ["c.json"]);
}

#[test]
fn a_full_disk_leaves_the_file() {
    let place = Place::new();
    place.write("c.json", SHAPES[0].1);
    // No file may grow: the signal is ignored, so that the write fails as on a full disk.
    let script = format!("trap '' XFSZ; ulimit -f 0; exec {} \"$@\"", env!("CARGO_BIN_EXE_barewire"));
    let mut command = place.command("sh");
    let output = command.args(["-c", &script, "sh"]).args(attach("c.json", "s")).output().expect("it runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot write ") && said.contains("hint: the file is unchanged"), "{said}");
    assert_eq!(place.read("c.json"), SHAPES[0].1);
    assert_eq!(place.files(), ["c.json"], "what was begun is removed");
}

#[test]
fn the_owner_of_a_file_stays() {
    let place = Place::new();
    let path = place.write("c.json", SHAPES[0].1);
    if std::os::unix::fs::chown(&path, Some(12345), Some(54321)).is_err() {
        // Only root can give a file to another user.
        return;
    }
    place.done(&attach("c.json", "s"));
    let owned = fs::metadata(Path::new(&path)).expect("it is there");
    assert_eq!((owned.uid(), owned.gid()), (12345, 54321));
}

/// A folder that all users may write to, with a file of a group that the user is not in.
#[test]
fn a_group_that_cannot_be_set_is_reported() {
    let place = Place::new();
    let path = place.write("c.json", SHAPES[0].1);
    if std::os::unix::fs::chown(&path, Some(65534), Some(54321)).is_err() {
        // Only root can create such a file, and change to another user.
        return;
    }
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let mut command = place.command(env!("CARGO_BIN_EXE_barewire"));
    let Ok(output) = command.args(attach("c.json", "s")).uid(65534).gid(65534).output() else {
        // The program is in a folder that other users cannot read.
        return;
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the new file cannot get its owner and group, 65534:54321: "), "{said}");
    assert!(said.contains("hint: the file is unchanged; ") && !said.contains("writable"), "{said}");
    assert_eq!(place.read("c.json"), SHAPES[0].1);
    assert_eq!(place.files(), ["c.json"], "what was begun is removed");
}

/// VS Code reads `servers`, so an entry in `mcpServers` is not changed.
#[test]
fn the_entry_that_the_host_reads_is_changed() {
    let place = Place::new();
    let before = r#"{"mcpServers":{"s":{"command":"a"}},"servers":{"s":{"command":"b"}}}"#;
    let path = place.write(".vscode/mcp.json", before);
    let path = path.display();
    for config in ["vscode", ".vscode/mcp.json"] {
        let (_, said) = place.done(&attach(config, "s"));
        let now: Value = serde_json::from_str(&place.read(".vscode/mcp.json")).expect("JSON");
        assert_eq!(
            (&now["mcpServers"]["s"]["command"], &now["servers"]["s"]["command"]),
            (&json!("a"), &json!("/b/barewire"))
        );
        assert!(said.starts_with(&format!("attached s in {path}, under servers\n")), "{said}");
        let other = format!("\n{path}, under mcpServers, also has a server with this name, which was not changed\n");
        assert!(said.contains(&other), "{said}");
        let (_, said) = place.done(&["detach", config, "s"]);
        assert!(said.starts_with(&format!("detached s in {path}, under servers\n")), "{said}");
        assert_eq!(place.read(".vscode/mcp.json"), before);
    }
    // Of an unknown file the host most likely reads `mcpServers`.
    place.write("c.json", before);
    assert!(place.done(&attach("c.json", "s")).1.contains("c.json, under mcpServers\n"));
}

#[test]
fn hosts_are_found_by_name() {
    let place = Place::new();
    let settings = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
    let one = |name: &str| format!("{{\"mcpServers\":{{\"{name}\":{{\"command\":\"a\"}}}}}}");
    let desktop = format!("{settings}/Claude/claude_desktop_config.json");
    place.write(&desktop, one("s"));
    let (_, said) = place.done(&attach("claude-desktop", "s"));
    assert!(said.contains("quit Claude Desktop and start it again"), "{said}");
    assert!(place.read(&desktop).contains("/b/barewire"));

    // VS Code: the file of the folder above, then that of the user.
    let user = format!("{settings}/Code/User/mcp.json");
    place.write(&user, "{\"servers\":{\"u\":{\"command\":\"a\"},\"w\":{\"command\":\"user\"}}}");
    place.write("work/.vscode/mcp.json", "{\"servers\":{\"w\":{\"command\":\"a\"}}}");
    fs::create_dir_all(place.path("work/deep/er")).expect("it can be made");
    let (_, said) = place.done(&[&attach("vscode", "w")[..], &["--project", "work/deep/er"]].concat());
    assert!(said.contains("work/.vscode/mcp.json") && said.contains("MCP: List Servers"), "{said}");
    assert!(said.contains("Code/User/mcp.json also has a server with this name, which was not changed"), "{said}");
    place.done(&attach("vscode", "u"));
    assert!(place.read(&user).contains("/b/barewire"));
    let (printed, _) = place.done(&["attach", "vscode", "--project", "work"]);
    assert_eq!(printed.matches("attached").count(), 2, "{printed}");
    assert_eq!(printed.matches("direct").count(), 1, "{printed}");
    // A broken file is reported only if it is needed.
    place.write(&format!("{settings}/Code/User/settings.json"), "{");
    place.done(&["detach", "vscode", "u"]);
    assert!(place.failed(&["detach", "vscode", "unknown"]).contains("settings.json is not JSON"));
}

#[test]
fn claude_code_has_three_scopes() {
    let place = Place::new();
    let here = place.0.display().to_string();
    let own = json!({
        "numStartups": 3,
        "projects": {
            &here: {"allowedTools": [], "mcpServers": {"local": {"command": "a"}, "all": {"command": "local"}}},
            "/elsewhere": {"mcpServers": {"other": {"command": "a"}}},
        },
        "mcpServers": {"user": {"command": "a"}, "all": {"command": "user"}},
    });
    let before = serde_json::to_string_pretty(&own).expect("it is written");
    place.write(".claude.json", &before);
    place.write(".mcp.json", r#"{"mcpServers":{"shared":{"command":"a"},"all":{"command":"shared"}}}"#);
    let (_, said) = place.done(&attach("claude-code", "all"));
    assert!(said.contains("Claude Code writes this file itself") && said.contains("start Claude Code again"), "{said}");
    assert!(said.contains(&format!("attached all in {here}/.claude.json, for {here}\n")), "{said}");
    assert!(said.contains(&format!("{here}/.claude.json, under mcpServers, also has a server with this")), "{said}");
    assert!(said.contains(&format!("\n{here}/.mcp.json also has a server with this name")), "{said}");
    let now: Value = serde_json::from_str(&place.read(".claude.json")).expect("JSON");
    assert_eq!(now["projects"][&here]["mcpServers"]["all"]["command"], "/b/barewire");
    assert_eq!(now["mcpServers"], own["mcpServers"]);
    for (server, file) in [("local", ".claude.json"), ("user", ".claude.json"), ("shared", ".mcp.json")] {
        assert!(place.done(&attach("claude-code", server)).1.contains(file), "{server}");
    }
    let said = place.failed(&attach("claude-code", "other"));
    assert!(said.contains("hint: the folder /elsewhere has this server: --project /elsewhere"), "{said}");
    place.done(&[&attach("claude-code", "other")[..], &["--project", "/elsewhere"]].concat());
    for server in ["all", "local", "user", "shared"] {
        place.done(&["detach", "claude-code", server]);
    }
    place.done(&["detach", ".claude.json", "other", "--project", "/elsewhere"]);
    assert_eq!(place.read(".claude.json"), before);
}
