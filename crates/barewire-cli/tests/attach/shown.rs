//! The output: diffs, lists and errors.

use std::fs;
use std::process::Command;

use super::place::{Place, attach};
use super::shapes::SHAPES;

#[test]
fn a_dry_run_prints_a_diff_for_patch() {
    let place = Place::new();
    let has_patch = Command::new("patch").arg("--version").output().is_ok();
    for (why, before, attached) in SHAPES {
        place.write("c.json", before);
        let (diff, said) = place.done(&[&attach("c.json", "s")[..], &["--dry-run"]].concat());
        assert_eq!(place.read("c.json"), *before, "{why}: nothing is written");
        assert!(said.is_empty() && diff.starts_with("--- ") && diff.contains("\n@@ -"), "{why}: {diff}{said}");
        if !has_patch {
            continue;
        }
        for (diff, wanted) in [(diff, attached), (String::new(), before)] {
            let diff = if diff.is_empty() { place.done(&["detach", "c.json", "s", "--dry-run"]).0 } else { diff };
            place.write("diff", &diff);
            let patched = place.command("patch").args(["--binary", "-s", "c.json", "diff"]).output().expect("it runs");
            assert!(patched.status.success(), "{why}: {patched:?}\n{diff}");
            assert_eq!(place.read("c.json"), **wanted, "{why}: {diff}");
        }
    }
}

#[test]
fn a_diff_marks_no_unchanged_line() {
    let place = Place::new();
    place.write("c.json", SHAPES[0].1);
    let (diff, _) = place.done(&[&attach("c.json", "s")[..], &["--dry-run"]].concat());
    let changed: Vec<&str> = diff.lines().skip(2).filter(|line| line.starts_with(['-', '+'])).collect();
    assert_eq!(
        changed,
        [
            "-      \"command\": \"npx\",",
            "+      \"command\": \"/b/barewire\",",
            "+        \"tap\",",
            "+        \"--record\",",
            "+        \"/%t.wire\",",
            "+        \"--\",",
            "+        \"npx\",",
        ]
    );
}

#[test]
fn servers_are_listed_without_their_secrets() {
    let place = Place::new();
    let path = place.write(
        "c.json",
        r#"{"mcpServers":{"one":{"command":"a","args":["--key=SECRET"]},"zw\u00f6lf":{"command":"b"},
            "web":{"url":"https://x.example/mcp?key=SECRET"},"odd":{},"es\u001bc":{"command":"c"}}}"#,
    );
    place.done(&attach("c.json", "zwölf"));
    let (printed, said) = place.done(&["attach", "c.json"]);
    let wanted = format!(
        "{}\n  one      direct    a\n  zwölf    attached  b\n  web      http      https://x.example/mcp\n  odd      unknown   has neither a command nor a url\n  es\\x1bc  direct    c\n",
        path.display()
    );
    assert_eq!((printed.as_str(), said.as_str()), (wanted.as_str(), ""));
    assert_eq!(place.done(&["detach", "c.json"]).0, wanted);
}

#[test]
fn unsupported_entries_are_not_changed() {
    let place = Place::new();
    let before = r#"{"mcpServers":{"files":{"command":"a"},"web":{"type":"http","url":"https://x.example/mcp?key=SECRET"},
        "odd":{"command":1},"list":[],"args":{"command":"a","args":"b"},
        "both":{"type":"http","url":"https://x.example/mcp","command":"a","args":[]}}}"#;
    place.write("c.json", before);
    let said = place.failed(&["attach", "c.json", "flies"]);
    assert!(said.contains("there is no server flies in ") && said.contains("hint: did you mean files?"), "{said}");
    let said = place.failed(&["attach", "c.json", "web"]);
    assert!(said.contains("web is a server at https://x.example/mcp?…: there is no program"), "{said}");
    assert!(said.contains("hint: run barewire tap --http 127.0.0.1:8808 --url https://x.example/mcp"), "{said}");
    assert!(!said.contains("SECRET"), "{said}");
    let said = place.failed(&["attach", "c.json", "both"]);
    assert!(said.contains("both is a server at https://x.example/mcp: there is no program"), "{said}");
    assert!(place.failed(&["attach", "c.json", "odd"]).contains("has a command that is not a string"));
    assert!(place.failed(&["attach", "c.json", "list"]).contains("is not an object"));
    assert!(place.failed(&["attach", "c.json", "args"]).contains("has args that are not an array"));
    assert!(place.done(&["detach", "c.json", "web"]).1.contains("web is not attached"));
    assert_eq!(place.read("c.json"), before);
    assert!(place.failed(&["attach", "none.json", "s"]).contains("there is no file none.json"));
    assert!(place.failed(&["attach", "claude-dekstop", "s"]).contains("did you mean claude-desktop?"));
    assert!(place.failed(&["attach", ".", "s"]).contains("is not a file"));
    assert!(place.failed(&["attach", "vscode"]).contains("vscode has no configuration here: looked for "));
}

#[test]
fn syntax_errors_have_line_column_and_caret() {
    let place = Place::new();
    let cases: [(&[u8], &str); 8] = [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
        (
            b"{\n  \"mcpServers\": {\n    \"s\": {\"command\": \"a\" \"args\": []}\n  }\n}",
            "line 3, column 26: expected a comma or a closing brace\n  3 |     \"s\": {\"command\": \"a\" \"args\": []}\n    |                          ^",
        ),
        (
            b"{\r\n\t\"\xc3\xa9\": 'x'\r\n}",
            "line 2, column 7: strings need double quotes\n  2 |  \"\u{e9}\": 'x'\n    |       ^",
        ),
        (b"{\"a\": \xff}", "line 1, column 7: not UTF-8"),
        (b"{\"mcpServers\": {", "line 1, column 17: expected a member name in double quotes"),
        (b"{\"a\": \"\x1b[31m\"}", "a control character inside a string must be escaped"),
        (b"<html>", "line 1, column 1: expected a value"),
    ];
    for (bytes, wanted) in cases {
        place.write("c.json", bytes);
        for verb in ["attach", "detach"] {
            let said = place.failed(&[verb, "c.json", "s"]);
            assert!(said.contains(wanted), "wanted {wanted}\ngot {said}");
            assert!(!said.contains('\x1b'), "{said}");
        }
        assert_eq!(fs::read(place.path("c.json")).expect("it is there"), bytes);
    }
}
