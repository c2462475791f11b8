//! The configurations of all known hosts, each in its own syntax and place.

use std::fs;

use super::place::*;

/// The name of a host, the path of its file in the home folder, the text of the file, and lines of it after attaching
/// the server `files`.
const CASES: &[(&str, &str, &str, &[&str])] = &[
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "{\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"s\"]}}}\n",
        &[r#""command": "/b/barewire", "args": ["tap", "--record", "/%t.wire", "--", "npx", "-y", "s"]"#],
    ),
    (
        "claude-code",
        ".claude.json",
        "{\"mcpServers\": {\"files\": {\"type\": \"stdio\", \"command\": \"npx\", \"args\": [], \"env\": {}}}}",
        &[r#""args": ["tap", "--record", "/%t.wire", "--", "npx"]"#],
    ),
    (
        "vscode",
        ".config/Code/User/profiles/a1/mcp.json",
        "{\n\t\"servers\": {\n\t\t\"files\": {\n\t\t\t\"command\": \"npx\", // here\n\t\t},\n\t},\n}\n",
        &["\t\t\t\"args\": [\"tap\", \"--record=/%t.wire\", \"--\", \"npx\"], // here"],
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\"mcpServers\":{\"files\":{\"command\":\"npx\",\"args\":[\"s\"]}}}",
        &[r#""--", "npx", "s"]"#],
    ),
    (
        "windsurf",
        ".codeium/windsurf/mcp_config.json",
        "{\"mcpServers\": {\"web\": {\"serverUrl\": \"https://x\"}, \"files\": {\"command\": \"npx\", \"args\": [\"s\"]}}}",
        &[r#""--", "npx", "s"]"#],
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\"theme\": \"x\", \"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": [\"s\"], \"trust\": false}}}",
        &[r#""--", "npx", "s"], "trust": false"#],
    ),
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"m\"\r\n\n[mcp_servers.web]\nurl = \"https://x\"\n\n[mcp_servers.files] # local\ncommand = 'npx' # c\nargs = [\n  \"-y\", # yes\n  's',\n]\nenv = { K = \"v\" }\n\n[mcp_servers.files.tools.x]\nok = true\n",
        &["command = \"/b/barewire\" # c", "  \"--record\",", "  'npx',", "  \"-y\", # yes"],
    ),
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        "{\n  // mine\n  \"mcp\": {\n    \"web\": {\"type\": \"remote\", \"url\": \"https://x\"},\n    \"files\": {\n      \"type\": \"local\",\n      \"command\": [\"npx\", \"-y\", \"s\"],\n      \"enabled\": true,\n    },\n  },\n}\n",
        &[r#"      "command": ["/b/barewire", "tap", "--record", "/%t.wire", "--", "npx", "-y", "s"],"#],
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "// Zed\n{\n  \"context_servers\": {\n    \"ext\": {\"source\": \"extension\", \"settings\": {}},\n    \"files\": {\"source\": \"custom\", \"command\": \"npx\", \"args\": [\"s\"], \"env\": {}}\n  }\n}\n",
        &[r#""command": "/b/barewire", "args": ["tap", "--record", "/%t.wire", "--", "npx", "s"]"#],
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "{\"context_servers\": {\"files\": {\"command\": {\"path\": \"npx\", \"args\": [\"s\"]}, \"settings\": {}}}}",
        &[r#""command": {"path": "/b/barewire", "args": ["tap", "--record", "/%t.wire", "--", "npx", "s"]}"#],
    ),
    (
        "cline",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "{\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": [\"s\"], \"disabled\": false, \"autoApprove\": []}}}",
        &[r#""--", "npx", "s"], "disabled": false"#],
    ),
    (
        "continue",
        ".continue/config.yaml",
        "name: c # x\nmcpServers:\n  - name: web\n    url: https://x\n  - name: files\n    command: npx # c\n    args:\n      - \"-y\"\n      # yes\n      - s\n    env:\n      K: v\nmodels: []\n",
        &["    command: \"/b/barewire\" # c", "      - \"--record\"", "      - npx", "      - \"-y\"", "      # yes"],
    ),
    (
        "continue",
        ".continue/mcpServers/f.yaml",
        "name: f\r\nmcpServers:\r\n- command: npx\r\n  name: files\r\n",
        &["- command: \"/b/barewire\"", "  args: [\"tap\", \"--record=/%t.wire\", \"--\", npx]", "  name: files"],
    ),
    (
        "continue",
        ".continue/mcpServers/g.yml",
        "mcpServers:\n  - name: files\n    command: 'npx'\n    args: ['-y', s, ]\n",
        &["    args: [\"tap\", \"--record\", \"/%t.wire\", \"--\", 'npx', '-y', s, ]"],
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers]\nfiles = { command = \"npx\" }\nother.command = \"x\"\n",
        &["files = { command = \"/b/barewire\", args = [\"tap\", \"--record=/%t.wire\", \"--\", \"npx\"] }"],
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers]\n  files.command = \"npx\" # c\nfiles.cwd = \"/\"\n",
        &["  files.command = \"/b/barewire\"", "  files.args = [\"tap\", \"--record=/%t.wire\", \"--\", \"npx\"] # c"],
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers.\"files\"]\nargs = []\ncommand = \"\"\"npx\"\"\"",
        &["args = [\"tap\", \"--record\", \"/%t.wire\", \"--\", \"\"\"npx\"\"\"]", "command = \"/b/barewire\""],
    ),
];

#[test]
fn every_host_is_attached_and_restored() {
    for (host, path, before, expected) in CASES {
        let place = Place::new();
        place.write(path, before);
        let (_, said) = place.done(&attach(host, "files"));
        assert!(said.starts_with(&format!("attached files in {}\n", place.path(path).display())), "{host}: {said}");
        let attached = place.read(path);
        let lines: Vec<&str> = attached.lines().collect();
        for line in *expected {
            assert!(lines.iter().any(|it| it.contains(line)), "{host}: {line}\n{attached}");
        }
        let (listed, _) = place.done(&["attach", host]);
        assert!(listed.contains("attached  npx"), "{host}: {listed}");
        place.done(&["detach", host, "files"]);
        assert_eq!(place.read(path), *before, "{host}");
    }
}

/// The attached file means the same to a parser of its syntax, but for the command and the arguments.
#[test]
fn attached_toml_has_the_expected_values() {
    for (host, path, before, _) in CASES.iter().filter(|(host, ..)| *host == "codex") {
        let place = Place::new();
        place.write(path, before);
        place.done(&attach(host, "files"));
        let after: toml_edit::DocumentMut = place.read(path).parse().expect("TOML");
        let files = &after["mcp_servers"]["files"];
        assert_eq!(files["command"].as_str(), Some("/b/barewire"));
        let args: Vec<&str> = files["args"].as_array().expect("a list").iter().filter_map(|it| it.as_str()).collect();
        assert_eq!(args[0], "tap");
        let own = args.iter().position(|arg| *arg == "--").expect("a separator") + 1;
        let had: toml_edit::DocumentMut = before.parse().expect("TOML");
        let own_args =
            had["mcp_servers"]["files"].get("args").and_then(|it| it.as_array().cloned()).unwrap_or_default();
        let own_args: Vec<&str> = own_args.iter().filter_map(|it| it.as_str()).collect();
        assert_eq!((args[own], &args[own + 1..]), ("npx", &own_args[..]));
    }
}

#[test]
fn the_files_of_a_project_come_first() {
    for (host, own, project) in [
        ("cursor", ".cursor/mcp.json", "p/.cursor/mcp.json"),
        ("gemini", ".gemini/settings.json", "p/.gemini/settings.json"),
    ] {
        let place = Place::new();
        let text = "{\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": []}}}";
        place.write(own, text);
        place.write(project, text);
        fs::create_dir_all(place.path("p/deep")).expect("it can be made");
        let inside = [&attach(host, "files")[..], &["--project", "p/deep"]].concat();
        let (_, said) = place.done(&inside);
        assert!(said.contains(&format!("attached files in {}", place.path(project).display())), "{said}");
        assert!(said.contains(&format!("{} also has a server with this name", place.path(own).display())), "{said}");
        assert_eq!(place.read(own), text);
    }
}

#[test]
fn all_servers_of_a_host_are_attached_and_restored() {
    let place = Place::new();
    let user = "[mcp_servers.a]\ncommand = \"a\"\n[mcp_servers.b]\ncommand = \"b\"\nargs = [\"x\"]\n[mcp_servers.w]\nurl = \"u\"\n";
    let project = "[mcp_servers.a]\ncommand = \"c\"\n";
    place.write(".codex/config.toml", user);
    place.write("p/.codex/config.toml", project);
    let all = ["attach", "codex", "--all", "--project", "p", "--barewire", "/b/barewire"];
    let (diff, _) = place.done(&[&all[..], &["--dry-run"]].concat());
    assert_eq!((diff.matches("--- ").count(), diff.matches("+command = \"/b/barewire\"").count()), (2, 3), "{diff}");
    assert_eq!((place.read(".codex/config.toml"), place.read("p/.codex/config.toml")), (user.into(), project.into()));
    let (_, said) = place.done(&all);
    assert_eq!((said.matches("attached ").count(), said.matches("start Codex again").count()), (3, 1), "{said}");
    assert!(said.contains("w in ") && said.contains("stays as it is: it is a server at a URL"), "{said}");
    let attached = place.read(".codex/config.toml");
    assert_eq!(attached.matches("/b/barewire").count(), 2, "{attached}");
    let (_, again) = place.done(&all);
    // Lines that are the same for several servers are printed once.
    assert_eq!(again.matches("is already attached").count(), 2, "{again}");
    assert_eq!(place.read(".codex/config.toml"), attached);
    place.done(&["detach", "codex", "--all", "--project", "p"]);
    assert_eq!((place.read(".codex/config.toml"), place.read("p/.codex/config.toml")), (user.into(), project.into()));
    // All servers would write to one file.
    assert!(place.failed(&["attach", "codex", "--all", "--record", "/x.wire"]).contains("cannot be used with"));
    assert!(place.failed(&["attach", "codex", "a", "--all"]).contains("cannot be used with"));
}

#[test]
fn one_entry_that_cannot_be_changed_does_not_keep_the_others_as_they_are() {
    let place = Place::new();
    let text = "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": 1}, \"b\": {\"command\": \"x\"}, \"c\": 3}}";
    place.write("c.json", text);
    let (_, said) = place.done(&["attach", "c.json", "--all", "--barewire", "/b/barewire"]);
    assert!(said.contains("a in ") && said.contains("it has args that are not an array"), "{said}");
    assert!(said.contains("attached b in "), "{said}");
    place.done(&["detach", "c.json", "--all"]);
    assert_eq!(place.read("c.json"), text);
}

#[test]
fn all_hosts_of_the_machine_are_listed() {
    let place = Place::new();
    let none = place.run(&["attach", "--list"]);
    assert_eq!((none.status.code(), text(&none.stdout)), (Some(1), String::new()));
    assert!(text(&none.stderr).starts_with("no server was found in the configurations of Claude Desktop, "));
    for (_, path, text, _) in CASES.iter().take(11) {
        place.write(path, text);
    }
    place.write(".gemini/settings.json", "");
    let (listed, _) = place.done(&["attach", "--list"]);
    for host in ["Claude Desktop (claude-desktop)", "Claude Code (claude-code)", "Codex (codex)", "Cline (cline)"] {
        assert!(listed.contains(host), "{listed}");
    }
    // One host has two forms of the same file, and one file is empty.
    assert_eq!(listed.matches("  files  direct    npx\n").count(), 9, "{listed}");
    assert!(listed.contains(".gemini/settings.json: no servers\n"), "{listed}");
    place.write(".cursor/mcp.json", "{");
    let output = place.run(&["attach", "--list"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("is not JSON"), "{output:?}");
}

/// "There are no servers" is said only if it is true, and it is not a success.
#[test]
fn no_servers_are_no_success() {
    let place = Place::new();
    for (path, text) in [("a.json", "{\"mcpServers\": {}}"), ("b.toml", "model = 1\n"), ("c.yaml", "mcpServers: []\n")]
    {
        place.write(path, text);
        for verb in [&["attach", path][..], &["attach", path, "--all"], &["detach", path], &["detach", path, "--all"]] {
            let output = place.run(verb);
            assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]), "{verb:?}");
            let expected = format!("there are no servers in {}\n", place.path(path).display());
            assert_eq!(super::place::text(&output.stderr), expected);
        }
    }
    place.write("d.yaml", "mcpServers:\n  a:\n    command: b\n");
    assert!(place.failed(&["attach", "d.yaml"]).contains("line 2, column 3: attach reads mcpServers only as a list"));
    place.write("e.toml", "a = \n");
    assert!(place.failed(&["attach", "e.toml", "x"]).contains("e.toml is not TOML: line 1, column 5"));
    let none = place.failed(&["attach", "zed"]);
    assert!(none.contains("zed has no configuration here: looked for ") && none.contains(".config/zed/settings.json"));
}

#[test]
fn variables_of_the_hosts_name_their_files() {
    let place = Place::new();
    let json = "{\"mcpServers\": {\"files\": {\"command\": \"npx\"}}}";
    for (host, variable, value, file, text) in [
        ("codex", "CODEX_HOME", "x", "x/config.toml", "[mcp_servers.files]\ncommand = \"npx\"\n"),
        ("claude-code", "CLAUDE_CONFIG_DIR", "y", "y/.claude.json", json),
        ("gemini", "GEMINI_CLI_HOME", "z", "z/.gemini/settings.json", json),
        ("continue", "CONTINUE_GLOBAL_DIR", "c", "c/mcpServers/a.json", json),
        ("opencode", "OPENCODE_CONFIG", "o/my.json", "o/my.json", "{\"mcp\": {\"files\": {\"command\": [\"npx\"]}}}"),
        (
            "zed",
            "XDG_CONFIG_HOME",
            "w",
            "w/zed/settings.json",
            "{\"context_servers\": {\"files\": {\"command\": \"npx\"}}}",
        ),
    ] {
        let path = place.write(file, text);
        let mut command = place.command(env!("CARGO_BIN_EXE_barewire"));
        command.args(["attach", host]).env(variable, place.path(value));
        let output = command.output().expect("it runs");
        let printed = super::place::text(&output.stdout);
        assert_eq!(printed, format!("{}\n  files  direct    npx\n", path.display()), "{host}: {output:?}");
    }
}

/// An entry that starts a tap without a `--`, which can be left out, is not attached once more.
#[test]
fn a_tap_by_hand_without_a_separator_is_recognized() {
    let place = Place::new();
    for text in [
        r#"{"mcpServers": {"s": {"command": "/b/barewire", "args": ["tap", "--log", "stderr", "npx", "-y", "x"]}}}"#,
        r#"{"mcp": {"s": {"type": "local", "command": ["barewire", "tap", "--record=/a.wire", "npx"]}}}"#,
    ] {
        place.write("c.json", text);
        let (listed, _) = place.done(&["attach", "c.json"]);
        assert!(listed.ends_with("  s  by hand   npx\n"), "{listed}");
        assert!(place.failed(&attach("c.json", "s")).contains("its entry was not written by attach"));
    }
}
