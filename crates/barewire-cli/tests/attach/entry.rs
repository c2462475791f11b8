//! The entry of a server, before, while and after it is attached.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::place::{Place, attach, text};
use super::shapes::SHAPES;

#[test]
fn only_the_entry_is_changed_and_it_is_restored() {
    let place = Place::new();
    for (why, before, attached) in SHAPES {
        place.write("c.json", before);
        let (printed, said) = place.done(&attach("c.json", "s"));
        assert_eq!(place.read("c.json"), *attached, "{why}");
        assert!(printed.is_empty() && said.contains("attached s in ") && said.contains("restart"), "{why}: {said}");
        assert!(place.done(&attach("c.json", "s")).1.contains("s is already attached; captures go to /%t.wire"));
        assert_eq!(place.read("c.json"), *attached, "{why}, once more");
        assert!(place.done(&["detach", "c.json", "s"]).1.contains("detached s in "));
        assert_eq!(place.read("c.json"), *before, "{why}, detached");
        assert!(place.done(&["detach", "c.json", "s"]).1.contains("s is not attached"));
        assert_eq!(place.read("c.json"), *before, "{why}, detached once more");
    }
    assert_eq!(place.files(), ["c.json"], "nothing is left beside it");
}

#[test]
fn defaults_are_this_program_and_a_new_file_for_every_start() {
    let place = Place::new();
    place.write("c.json", r#"{"mcpServers":{"my server/1":{"command":"a"}}}"#);
    let (_, said) = place.done(&["attach", "c.json", "my server/1"]);
    let config: Value = serde_json::from_str(&place.read("c.json")).expect("JSON");
    let entry = &config["mcpServers"]["my server/1"];
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_barewire")).expect("it is there");
    assert_eq!(entry["command"], json!(program));
    let folder = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    let folder = place.path(folder).join("barewire");
    let file = format!("{}/my_server_1-%t-%p.wire", folder.display());
    assert_eq!(entry["args"], json!(["tap", format!("--record={file}"), "--", "a"]));
    assert!(said.contains(&file), "{said}");
    assert_eq!(fs::metadata(&folder).expect("it is made").mode() & 0o777, 0o700);
}

#[test]
fn options_that_tap_would_refuse_are_refused_first() {
    let place = Place::new();
    place.write("c.json", SHAPES[0].1);
    for (options, why) in [
        (&["--bogus"][..], "unexpected argument '--bogus' found"),
        (&["--log", "/tmp/x.log", "--bogus"], "unexpected argument '--bogus' found"),
        (&["--log"], "a value is required for '--log <stderr|FILE|unix:PATH>'"),
        (&["--fault", "<:nothing"], "invalid value '<:nothing' for '--fault <SPEC>'"),
        (&["--seed", "1"], "the following required arguments were not provided: --fault <SPEC>"),
        (&["--log", "a", "b"], "unexpected argument 'b' found"),
        (&["--help"], "it would print a text instead of starting the server"),
    ] {
        let said = place.failed(&[&attach("c.json", "s")[..], &["--"], options].concat());
        let told = format!("barewire: barewire tap does not take these options: {why}");
        assert!(said.starts_with(&told), "{options:?}: {said}");
        assert!(said.ends_with("\nhint: see barewire tap --help\n"), "{said}");
    }
    assert_eq!(place.read("c.json"), SHAPES[0].1);
}

#[test]
fn options_for_tap_and_a_relative_file() {
    let place = Place::new();
    place.write("c.json", r#"{"mcpServers":{"s":{"command":"a","args":["b"]}}}"#);
    let (_, said) = place.done(&["attach", "c.json", "s", "--record", "x.wire", "--", "--log", "stderr"]);
    assert!(said.contains("later starts of the server add a number to the name"), "{said}");
    let config: Value = serde_json::from_str(&place.read("c.json")).expect("JSON");
    let file = place.path("x.wire");
    assert_eq!(config["mcpServers"]["s"]["args"], json!(["tap", "--record", file, "--log", "stderr", "--", "a", "b"]));
    place.done(&["detach", "c.json", "s"]);
    assert_eq!(place.read("c.json"), r#"{"mcpServers":{"s":{"command":"a","args":["b"]}}}"#);
    let said = place.failed(&["attach", "c.json", "s", "--record", "none/x.wire"]);
    assert!(said.contains("there is no folder ") && said.contains("/none"), "{said}");
    assert!(place.failed(&["attach", "c.json", "s", "--", "npx"]).contains("only options of barewire tap"));
    assert!(place.failed(&["attach", "c.json", "s", "--", "--log", "x", "--", "npx"]).contains("only options"));
    assert!(place.failed(&["attach", "c.json", "s", "--", "--record=x"]).contains("give --record before"));
}

#[test]
fn changes_in_between_stay() {
    let place = Place::new();
    place.write("c.json", "{\n  \"mcpServers\": {\n    \"s\": {\"command\": \"a\"}\n  }\n}\n");
    place.done(&attach("c.json", "s"));
    // Another server, another variable, another argument for the server.
    let edited =
        place.read("c.json").replace("\"--\", \"a\"]", "\"--\", \"a\", \"--verbose\"], \"env\": {\"A\": \"1\"}");
    let edited = edited.replace("\"mcpServers\": {", "\"mcpServers\": {\n    \"t\": {\"command\": \"t\"},");
    place.write("c.json", &edited);
    place.done(&["detach", "c.json", "s"]);
    let config: Value = serde_json::from_str(&place.read("c.json")).expect("JSON");
    assert_eq!(
        config,
        json!({"mcpServers": {
            "t": {"command": "t"}, "s": {"command": "a", "args": ["--verbose"], "env": {"A": "1"}}}})
    );
}

#[test]
fn an_added_list_that_was_moved_is_left_empty() {
    let place = Place::new();
    place.write("c.json", r#"{"mcpServers":{"s":{"command":"a"}}}"#);
    place.done(&attach("c.json", "s"));
    let config: Value = serde_json::from_str(&place.read("c.json")).expect("JSON");
    let args = config["mcpServers"]["s"]["args"].to_string();
    // With a trailing comma, as some formatters write it.
    let args = args.replace("\"]", "\",]");
    place.write("c.json", format!("{{\"mcpServers\":{{\"s\":{{\"args\":{args},\"command\":\"/b/barewire\"}}}}}}"));
    let (_, said) = place.done(&["detach", "c.json", "s"]);
    assert_eq!(place.read("c.json"), r#"{"mcpServers":{"s":{"args":[],"command":"a"}}}"#);
    assert!(said.contains("it now has an empty args list"), "{said}");
}

#[test]
fn entries_tapped_by_hand_are_not_changed() {
    let place = Place::new();
    let before = r#"{"mcpServers":{"s":{"command":"barewire","args":["tap","--log","stderr","--","a","b"]}}}"#;
    place.write("c.json", before);
    assert!(place.done(&["attach", "c.json"]).0.contains("s  by hand   a"));
    for verb in ["attach", "detach"] {
        let said = place.failed(&[verb, "c.json", "s"]);
        assert!(said.contains("s already starts barewire tap, but its entry was not written by attach"), "{said}");
        assert!(said.contains("hint: edit its args by hand"), "{said}");
    }
    assert_eq!(place.read("c.json"), before);
}

/// Of duplicate members hosts use the last; the user may be looking at the first.
#[test]
fn duplicate_members_are_reported() {
    let place = Place::new();
    for (name, before) in [
        ("s", r#"{"mcpServers":{"s":{"command":"a"},"s":{"command":"b"}}}"#),
        ("mcpServers", r#"{"mcpServers":{"s":{"command":"a"}},"mcpServers":{"s":{"command":"b"}}}"#),
        ("command", r#"{"mcpServers":{"s":{"command":"a","command":"b"}}}"#),
        ("args", r#"{"mcpServers":{"s":{"command":"a","args":["1"],"args":["2"]}}}"#),
        ("servers", r#"{"mcp":{"servers":{"s":{"command":"a"}},"servers":{"s":{"command":"b"}}}}"#),
    ] {
        place.write("c.json", before);
        let told = format!("\n{name} occurs more than once: hosts use the last, which was changed\n");
        assert!(place.done(&attach("c.json", "s")).1.contains(&told), "{before}");
        assert!(place.done(&["detach", "c.json", "s"]).1.contains(&told), "{before}");
        assert_eq!(place.read("c.json"), before);
    }
}

/// Starts the entry as a host would: the server answers through the tap, every start has a capture of its own, and
/// after detaching it answers as before.
#[test]
fn an_attached_server_is_recorded_each_time_it_is_started() {
    let place = Place::new();
    let barewire = env!("CARGO_BIN_EXE_barewire");
    let before = json!({"mcpServers": {"demo": {"command": barewire, "args": ["serve", "--lenient"]}}}).to_string();
    place.write("c.json", &before);
    place.done(&["attach", "c.json", "demo"]);
    let ask = || {
        let config: Value = serde_json::from_str(&place.read("c.json")).expect("JSON");
        let entry = &config["mcpServers"]["demo"];
        let words = entry["args"].as_array().expect("an array").iter();
        let words: Vec<&str> = words.map(|it| it.as_str().expect("a text")).collect();
        let command = entry["command"].as_str().expect("a text");
        let words = [&["call", "add", "a=19", "b=23", "--", command], &words[..]].concat();
        assert_eq!(place.done(&words).0, "42\n");
    };
    ask();
    ask();
    let folder = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    let folder = place.path(folder).join("barewire");
    let captures = || fs::read_dir(&folder).expect("it is made").map(|it| it.expect("read").path());
    // Beside them is the folder in which running taps announce themselves.
    let captures = || captures().filter(|path| !path.ends_with("taps")).collect::<Vec<PathBuf>>();
    assert_eq!(captures().len(), 2, "{:?}", captures());
    for capture in captures() {
        let name = text(capture.file_name().expect("a name").as_encoded_bytes());
        assert!(name.starts_with("demo-20") && name.ends_with(".wire") && !name.contains('%'), "{name}");
        let (printed, said) = place.done(&["read", capture.to_str().expect("UTF-8")]);
        assert!(printed.contains("tools/call") && said.contains("all well formed"), "{printed}{said}");
    }
    place.done(&["detach", "c.json", "demo"]);
    assert_eq!(place.read("c.json"), before);
    ask();
    assert_eq!(captures().len(), 2, "{:?}", captures());
}
