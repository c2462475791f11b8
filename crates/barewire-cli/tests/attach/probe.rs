//! The entry for the probe: added to a configuration, started by it, and removed again.

use std::process::Command;

use serde_json::{Value, json};

use super::place::Place;
use super::shapes::SHAPES;

#[test]
fn the_entry_is_added_and_removed_exactly() {
    let place = Place::new();
    let shapes = SHAPES.iter().map(|(_, before, _)| ("c.json", *before));
    let others = [
        ("c.json", "{}"),
        ("c.json", "{\"mcpServers\": {}}\n"),
        ("config.toml", "model = \"x\"\n\n[mcp_servers.a]\ncommand = \"b\"\n"),
        ("config.yaml", "name: c\nmcpServers:\n  - name: a\n    command: b\n"),
    ];
    for (file, before) in shapes.chain(others) {
        place.write(file, before);
        let (diff, _) = place.done(&["attach", "--probe", file, "--dry-run"]);
        assert!(diff.contains("barewire-probe"), "{before}: {diff}");
        assert_eq!(place.read(file), before);
        let (_, said) = place.done(&["attach", "--probe", file]);
        assert!(said.contains("added barewire-probe to ") && said.contains("barewire check --host"), "{said}");
        let added = place.read(file);
        assert!(added.contains("barewire-probe") && added.contains("probe\"]"), "{added}");
        let (_, said) = place.done(&["attach", "--probe", file]);
        assert!(said.contains("already has the entry barewire-probe"), "{said}");
        assert_eq!(place.read(file), added);
        let (_, said) = match file {
            "c.json" => place.done(&["detach", file, "barewire-probe"]),
            _ => place.done(&["detach", "--probe", file]),
        };
        assert!(said.contains("removed barewire-probe from "), "{said}");
        assert_eq!(place.read(file), before);
        assert!(place.done(&["detach", "--probe", file]).1.contains("there is no entry barewire-probe"));
    }
}

/// Each host gets an entry in the form that it reads, and the entry starts the probe.
#[test]
fn the_entry_has_the_form_of_its_host() {
    let program = std::fs::canonicalize(env!("CARGO_BIN_EXE_barewire")).expect("it is there");
    for (host, file, before, path, expected) in [
        (
            "vscode",
            ".vscode/mcp.json",
            "{\"servers\": {}}",
            "/servers",
            json!({"type": "stdio", "command": program, "args": ["probe"]}),
        ),
        (
            "opencode",
            "opencode.json",
            "{\"theme\": \"x\"}",
            "/mcp",
            json!({"type": "local", "command": [program, "probe"], "enabled": true}),
        ),
        (
            "claude-code",
            ".mcp.json",
            "{\"mcpServers\": {}}",
            "/mcpServers",
            json!({"command": program, "args": ["probe"]}),
        ),
    ] {
        let place = Place::new();
        place.write(file, before);
        place.done(&["attach", "--probe", host]);
        let config: Value = serde_json::from_str(&place.read(file)).expect("JSON");
        assert_eq!(config.pointer(path).expect("the servers")["barewire-probe"], expected, "{host}");
        place.done(&["detach", "--probe", host]);
        assert_eq!(place.read(file), before, "{host}");
    }
    let place = Place::new();
    let mut call = Command::new(&program);
    let output = call.args(["call", "echo", "--"]).arg(&program).arg("probe").env("HOME", &place.0).output();
    let output = output.expect("it runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Hello, 東京"), "{output:?}");
    let (report, _) = place.done(&["check", "--host"]);
    assert!(report.contains("host: barewire ") && report.contains("sent server/discover, tools/call"), "{report}");
}

#[test]
fn a_configuration_of_another_form_is_not_changed() {
    let place = Place::new();
    for (file, before, why) in [
        ("c.json", "[]", "is not an object"),
        ("config.toml", "mcp_servers = {}\n", "has a form to which no entry can be added"),
        ("config.yaml", "mcpServers:\nname: x\n", "has no list of servers under mcpServers"),
    ] {
        place.write(file, before);
        let said = place.failed(&["attach", "--probe", file]);
        assert!(said.contains(why), "{said}");
        assert_eq!(place.read(file), before);
    }
}
