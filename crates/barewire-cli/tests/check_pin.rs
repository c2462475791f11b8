//! `barewire check --pin`: the definitions of a server are written down, compared and accepted.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::checked::fixture;
use crate::http_server::HttpServer;

/// A folder with a pin file, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-pin-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn pin(&self) -> PathBuf {
        self.0.join("pin.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.pin()).expect("the pin file")
    }

    fn pinned(&self) -> Value {
        serde_json::from_str(&self.text()).expect("JSON")
    }

    /// Checks the definitions, with these words after the options.
    fn check(&self, options: &[&str], target: &[&str]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_barewire"))
            .args(["check", "--json", "--quiet", "--patience", "2", "--only", "definition-pin", "--pin"])
            .arg(self.pin())
            .args(options)
            .args(target)
            .output()
            .expect("it runs");
        Run(output)
    }

    /// Checks a shell script that answers `tools/list` and `prompts/list` as given.
    fn script(&self, options: &[&str], tools: &str, prompts: &str) -> Run {
        self.check(options, &["--", "sh", "-c", SCRIPT, "sh", tools, prompts])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A legacy server whose lists are its arguments. A list that is empty is not answered.
const SCRIPT: &str = r#"answer() { [ -z "$1" ] || echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
    while read -r line; do
        id=${line#*\"id\":}; id=${id%%,*}
        case $line in
        *'"initialize"'*) answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
        *'"tools/list"'*) answer "$1" ;;
        *'"prompts/list"'*) [ "$2" != exit ] || exit 1; answer "$2" ;;
        *'"ping"'*) answer '"result":{}' ;;
        *'"id"'*) answer '"error":{"code":-32601,"message":"no"}' ;;
        esac
    done"#;

struct Run(Output);

impl Run {
    fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    fn check(&self) -> Value {
        let report: Value = serde_json::from_slice(&self.0.stdout).unwrap_or_else(|_| panic!("{}", self.stderr()));
        let checks = report["checks"].as_array().expect("checks");
        checks.iter().find(|check| check["id"] == "definition-pin").cloned().unwrap_or_else(|| panic!("{report}"))
    }

    fn details(&self) -> Vec<String> {
        let check = self.check();
        let findings = check["findings"].as_array().cloned().unwrap_or_default();
        findings.iter().map(|finding| finding["detail"].as_str().expect("text").to_owned()).collect()
    }
}

const TOOLS: &str = r#""result":{"tools":[{"name":"add","description":"Adds","inputSchema":{"type":"object"}}]}"#;
const PROMPTS: &str = r#""result":{"prompts":[{"name":"greet"}]}"#;
const NOTHING: [&str; 0] = [];

#[test]
fn definitions_are_written_compared_and_accepted() {
    let folder = Folder::new("accepted");
    let first = folder.script(&[], TOOLS, PROMPTS);
    assert_eq!(first.code(), Some(0), "{}", first.check());
    assert_eq!(first.check()["measure"], json!({"pinned": 2}));
    assert!(first.stderr().contains("2 definitions are pinned in "), "{}", first.stderr());
    let mode = fs::metadata(folder.pin()).expect("the pin file").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let pinned = folder.pinned();
    assert_eq!(
        (&pinned["version"], &pinned["server"], &pinned["eras"]),
        (&json!(1), &json!("sh 1"), &json!(["legacy"]))
    );
    let add = &pinned["definitions"][0];
    assert_eq!((&add["kind"], &add["name"]), (&json!("tool"), &json!("add")));
    assert_eq!(add["definition"], json!({"/description": "Adds", "/inputSchema/type": "object", "/name": "add"}));
    // Without spaces and in this order, the object has the hash in the file.
    let text = r#"{"/description":"Adds","/inputSchema/type":"object","/name":"add"}"#;
    let sum = Command::new("sh").args(["-c", "printf %s \"$1\" | sha256sum", "sh", text]).output().expect("it runs");
    assert!(sum.stdout.starts_with(add["sha256"].as_str().expect("a hash").as_bytes()));

    let again =
        folder.script(&[], &TOOLS.replace("\"name\":\"add\",", "").replace("}}]", "},\"name\":\"add\"}]"), PROMPTS);
    assert_eq!((again.code(), again.details()), (Some(0), Vec::new()));
    assert!(!again.stderr().contains("pinned"), "{}", again.stderr());

    let before = folder.text();
    let changed = TOOLS.replace("\"Adds\"", "\"Adds\\u202e, and more\"").replace("]}", ",{\"name\":\"sub\"}]}");
    let run = folder.script(&[], &changed, r#""result":{"prompts":[]}"#);
    assert_eq!(run.code(), Some(1));
    let expected = [
        r#"the prompt greet is gone"#,
        r#"the tool add has changed: /description was "Adds", is "Adds\xe2\x80\xae, and more""#,
        r#"the tool sub is new"#,
    ];
    let mut details = run.details();
    details.sort();
    assert_eq!(details, expected);
    assert_eq!(folder.text(), before, "a run that fails accepts nothing");

    let accepted = folder.script(&["--pin-update"], &changed, PROMPTS);
    assert_eq!(accepted.code(), Some(0), "{}", accepted.check());
    assert!(folder.text().contains("\\u202e"), "{}", folder.text());
    assert_eq!(folder.script(&[], &changed, PROMPTS).code(), Some(0));
    // Nothing but the pin file is left.
    assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 1);
}

#[test]
fn a_list_that_is_not_read_to_its_end_is_never_taken_for_shorter() {
    let folder = Folder::new("incomplete");
    let endless = r#""result":{"prompts":[],"nextCursor":"again"}"#;
    let refused = r#""error":{"code":-32603,"message":"no"}"#;
    for prompts in ["", "exit", endless, refused] {
        let run = folder.script(&[], TOOLS, prompts);
        assert_eq!(run.check()["status"], "incomplete", "{prompts}: {}", run.check());
        assert_eq!(run.code(), Some(3), "{prompts}");
        assert!(!folder.pin().exists(), "{prompts}");
    }
    assert_eq!(folder.script(&[], TOOLS, PROMPTS).code(), Some(0));
    let before = folder.text();
    for prompts in ["", "exit", endless, refused] {
        let run = folder.script(&[], TOOLS, prompts);
        assert_eq!((run.code(), run.details()), (Some(3), Vec::new()), "{prompts}: {}", run.check());
        let reason = run.check().to_string();
        assert!(reason.contains("not all definitions of prompts/list could be read"), "{reason}");
        assert_eq!(folder.script(&["--pin-update"], TOOLS, prompts).code(), Some(3), "{prompts}");
        assert_eq!(folder.text(), before, "{prompts}");
    }
    // What was read is still compared.
    let run = folder.script(&[], &TOOLS.replace("Adds", "Sums"), "");
    assert_eq!(run.code(), Some(1));
    assert_eq!(run.details(), [r#"the tool add has changed: /description was "Adds", is "Sums""#]);
    // A list that does not exist has no definitions.
    let run = folder.script(&[], TOOLS, r#""error":{"code":-32601,"message":"no"}"#);
    assert_eq!(run.details(), ["the prompt greet is gone"]);
}

#[test]
fn each_era_is_compared() {
    let folder = Folder::new("eras");
    let server = fixture("faulty-server").display().to_string();
    let run = |words: &[&str]| folder.check(&[], &[&["--", &server], words].concat());
    assert_eq!(run(&["--legacy"]).code(), Some(0));
    assert_eq!(folder.pinned()["eras"], json!(["legacy"]));
    // Another era with the same definitions tells nothing new.
    assert_eq!((run(&[]).code(), run(&[]).details()), (Some(0), Vec::new()));
    assert_eq!(folder.check(&["--pin-update"], &["--", &server]).code(), Some(0));
    assert_eq!(folder.pinned()["eras"], json!(["legacy", "modern"]));
    let run_modern = run(&["--modern"]);
    assert_eq!((run_modern.code(), run_modern.details()), (Some(3), Vec::new()));
    let text = run_modern.check().to_string();
    assert!(text.contains("the server has not answered in the legacy era, which is pinned"), "{text}");
}

#[test]
fn a_server_over_http_is_pinned_too() {
    let folder = Folder::new("http");
    let server = HttpServer::new(&[]);
    let run = || folder.check(&[], &["--url", &server.url]);
    let first = run();
    assert_eq!(first.code(), Some(0), "{}", first.check());
    let pinned = first.check()["measure"]["pinned"].as_u64().expect("a number");
    assert!(pinned > 3, "{pinned}");
    assert_eq!((run().code(), run().details()), (Some(0), Vec::new()));
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_before_the_run() {
    let folder = Folder::new("errors");
    fs::write(folder.pin(), "{\"version\":9,\"eras\":[],\"definitions\":[]}").expect("it is written");
    let run = folder.script(&[], TOOLS, PROMPTS);
    assert_eq!(run.code(), Some(2));
    let stderr = run.stderr();
    assert!(stderr.contains("its version is 9; only version 1 is supported"), "{stderr}");
    assert!(stderr.contains("hint: --pin-update writes it again"), "{stderr}");
    assert_eq!(folder.script(&["--pin-update"], TOOLS, PROMPTS).code(), Some(0));
    assert_eq!(folder.pinned()["version"], 1);
    let run = folder.check(&["--skip", "definition-pin"], &["--", "true"]);
    assert_eq!(run.code(), Some(2), "{}", run.stderr());
    // A server that does not answer is no reason to write or to change a file.
    let before = folder.text();
    let run = folder.check(&["--pin-update"], &["--", "sh", "-c", "exit 1"]);
    assert_eq!((run.code(), folder.text()), (Some(1), before));
    assert_eq!(run.details(), NOTHING);
}
