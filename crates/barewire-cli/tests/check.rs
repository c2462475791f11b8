//! `barewire check` tells the truth: a server with one fault is found out by exactly the check that is for it, and one without
//! any by none.

#![cfg(unix)]

mod checked;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use checked::{catalogue, each_fault_is_found, faults, fixture, with_status};
use serde_json::Value;

fn barewire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
}

fn faulty_server() -> PathBuf {
    fixture("faulty-server")
}

/// Patience that is enough for a busy machine, and that is only used up where something does not come.
fn check(args: &[&str], server: &[&str]) -> (Value, Output) {
    let output = barewire()
        .args(["check", "--json", "--quiet", "--patience", "2"])
        .args(args)
        .arg("--")
        .arg(faulty_server())
        .args(server)
        .output()
        .expect("it runs");
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{server:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    (report, output)
}

const SLOW: &str = r#"slow={"ms":500}"#;

#[test]
fn every_fault_is_found_by_its_check_and_by_no_other() {
    each_fault_is_found(faults(&faulty_server()), 8, |fault, expected| {
        // The others need no tool that takes its time.
        let needs_slow = matches!(expected, "concurrency" | "late-answer");
        let args: &[&str] = if needs_slow { &["--call", SLOW] } else { &[] };
        check(args, &["--fault", fault])
    });
}

#[test]
fn every_check_has_a_fault_that_it_finds() {
    let found: BTreeSet<String> = faults(&faulty_server()).into_iter().map(|(_, check)| check).collect();
    for check in catalogue() {
        let id = check["id"].as_str().expect("an id");
        // What only HTTP has is tested with a server of its own.
        let places = check["places"].as_array().expect("places");
        if !places.iter().any(|it| it == "live (stdio)") {
            continue;
        }
        assert!(found.contains(id), "no fault of the fixture is found by {id}");
    }
}

#[test]
fn nothing_is_found_in_a_healthy_server() {
    for era in [&[][..], &["--legacy"], &["--modern"]] {
        let (report, output) = check(&["--call", SLOW], era);
        assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{era:?}: {report}");
        assert_eq!(with_status(&report, "incomplete"), BTreeSet::new(), "{era:?}: {report}");
        assert_eq!(output.status.code(), Some(0), "{era:?}");
        if era.is_empty() {
            // There is something to look at for every check but those of what a healthy server does not do.
            let skipped = BTreeSet::from(["input-required", "stderr-hygiene", "undeclared-client-capability"]);
            assert_eq!(with_status(&report, "skip"), skipped, "{report}");
        }
    }
}

/// Our own server, in all revisions, and as one that knows only some of them.
#[test]
fn nothing_is_found_in_barewire_serve() {
    for revisions in [&[][..], &["--revision", "2026-07-28"], &["--revision", "2024-11-05,2025-06-18"]] {
        let own = env!("CARGO_BIN_EXE_barewire");
        let output = barewire()
            .args(["check", "--quiet", "--call", r#"sleep={"ms":400}"#, "--call", r#"fail={"message":"no"}"#])
            .args(["--call", "greet={}", "--", own, "serve"])
            .args(revisions)
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{revisions:?}: {told}");
    }
}

/// `BLESS=1` writes the page anew; the review is `git diff`.
#[test]
fn the_page_about_checks_is_what_the_catalogue_says() {
    let output = barewire().args(["check", "--page"]).output().expect("it runs");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checks.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &output.stdout).expect("it can be written");
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page.as_bytes() == output.stdout, "docs/checks.md is stale: BLESS=1 writes it anew");
}

/// A folder of our own, gone when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-check-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_in_the_baseline_does_not_count_and_what_is_gone_does() {
    let folder = Folder::new("baseline");
    let known = folder.file("known.json");
    let only = ["--only", "stdout-purity,exit-code"];
    let run = |args: &[&str], fault: &str| {
        let args: Vec<&str> = args.iter().copied().chain(only).collect();
        check(&args, &["--fault", fault])
    };
    let (_, output) = run(&["--write-baseline", &known], "banner");
    assert_eq!(output.status.code(), Some(1));
    let (report, output) = run(&["--baseline", &known], "banner");
    assert_eq!(output.status.code(), Some(0), "{report}");
    // Something else is wrong with it.
    let (report, output) = run(&["--baseline", &known], "exits-with-three");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["stale"].as_array().map(Vec::len), Some(1), "{report}");
    // Nothing is, and the baseline says otherwise.
    let (report, output) = run(&["--baseline", &known], "none");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["verdict"], "fail");
    assert_eq!(with_status(&report, "fail"), BTreeSet::new());
}

#[test]
fn severity_decides_and_what_is_not_wanted_is_not_run() {
    let (report, output) = check(&["--fail-on", "medium", "--only", "exit-code"], &["--fault", "exits-with-three"]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::from(["exit-code"]));
    assert_eq!(output.status.code(), Some(0), "it is only a low one");
    let (report, _) = check(&["--skip", "exit-code"], &["--fault", "exits-with-three"]);
    assert!(report["checks"].as_array().expect("checks").iter().all(|it| it["id"] != "exit-code"));
}

/// What is asked for and cannot be done is not passed over.
#[test]
fn a_tool_that_is_not_there_and_a_check_that_is_not_made_here_are_told() {
    let (report, output) = check(&["--only", "output-schema", "--call", "no-such={}"], &[]);
    assert_eq!(output.status.code(), Some(3), "{report}");
    assert!(report.to_string().contains("the server lists no tool no-such, which was to be called"), "{report}");
    let program = env!("CARGO_BIN_EXE_barewire");
    let output = Command::new(program).args(["check", "--only", "http-origin", "--", program, "serve"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none of these can be made here"));
}

#[test]
fn a_tool_that_may_change_something_is_not_called() {
    let folder = Folder::new("permission");
    let wire = folder.file("run.wire");
    let called = |text: &str, tool: &str| text.contains(&format!("\"name\":\"{tool}\""));
    let sent = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--record", &wire]).collect();
        let (report, output) = check(&args, &[]);
        assert_eq!(output.status.code(), Some(0), "{report}");
        let text = std::fs::read_to_string(&wire).expect("the capture");
        let calls: Vec<&str> = text.lines().filter(|line| line.contains("\"method\":\"tools/call\"")).collect();
        (report, calls.join("\n"))
    };
    let (report, calls) = sent(&[]);
    assert!(called(&calls, "echo") && !called(&calls, "write"), "{calls}");
    let slow = report["checks"].as_array().expect("checks").iter().find(|it| it["id"] == "concurrency");
    assert_eq!(slow.expect("it is there")["skip"], "permission");
    assert!(called(&sent(&["--allow-calls"]).1, "write"));
    // Once, though the server has two eras, and with nothing else.
    let calls = sent(&["--call", r#"write={"text":"this and no other"}"#]).1;
    let written: Vec<&str> = calls.lines().filter(|line| called(line, "write")).collect();
    assert_eq!(written.len(), 1, "{calls}");
    assert!(written[0].contains(r#""arguments":{"text":"this and no other"}"#), "{calls}");
}

/// A tool that took long once, as any does on a busy machine, says nothing about what waits for what; one that always does, does.
#[test]
fn a_tool_that_is_slow_once_is_not_taken_for_a_slow_one() {
    let server = |slow: &str| {
        let script = r#"n=0
            answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
            while read -r line; do
                id=${line#*\"id\":}; id=${id%%,*}
                case $line in
                *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
                *'"tools/list"'*) answer '{"tools":[{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}' ;;
                *'"tools/call"'*) n=$((n+1)); SLOW; answer '{"content":[]}' ;;
                *'"ping"'*) answer '{}' ;;
                *'"id"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}" ;;
                esac
            done"#;
        let output = barewire()
            .args(["check", "--json", "--quiet", "--only", "concurrency", "--", "sh", "-c"])
            .arg(script.replace("SLOW", slow))
            .output()
            .expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let checks = report["checks"].as_array().expect("checks");
        let check = checks.iter().find(|it| it["id"] == "concurrency").expect("it is there");
        (check["status"].as_str().expect("a status").to_owned(), check["skip"].clone())
    };
    assert_eq!(server("[ $n != 1 ] || sleep 0.5"), ("skip".to_owned(), "permission".into()));
    assert_eq!(server("sleep 0.5"), ("fail".to_owned(), Value::Null));
}

/// A tool that takes longer than anybody waits for is not a fault, and what comes after it is checked all the same.
#[test]
fn a_tool_that_takes_very_long_is_given_up() {
    let (report, output) = check(&["--call", r#"slow={"ms":12000}"#], &["--legacy"]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
    assert_eq!(output.status.code(), Some(0), "{report}");
}

#[test]
fn what_keeps_a_check_from_being_made_is_reported_with_it() {
    let run = |args: &[&str], program: &[&str]| {
        let output = barewire()
            .args(["check", "--json", "--quiet", "--patience", "0.3"])
            .args(args)
            .arg("--")
            .args(program)
            .output()
            .expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let failed = with_status(&report, "fail").into_iter().map(str::to_owned).collect::<Vec<_>>();
        (failed.join(","), output.status.code())
    };
    let dead = ["sh", "-c", "exit 3"];
    let mute = ["sh", "-c", "cat >/dev/null"];
    assert_eq!(run(&["--only", "stdout-purity"], &dead), ("early-exit".to_owned(), Some(1)));
    assert_eq!(run(&["--only", "id-fidelity"], &mute), ("mute-server".to_owned(), Some(1)));
    assert_eq!(run(&["--only", "eof-exit", "--fail-on", "critical"], &mute).1, Some(1));
    // Whoever leaves the cause out has still not seen what he wanted to see.
    assert_eq!(run(&["--skip", "early-exit,mute-server"], &dead), (String::new(), Some(3)));
}

/// A server that names in its refusal what it speaks is asked for that.
#[test]
fn who_says_what_he_speaks_is_spoken_to() {
    let script = r#"while read -r line; do
        case $line in
            *server/discover*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}';;
            *tools/list*) echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found"}}';;
            *initialize*2025-06-18*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"strict","version":"1"}}}';;
            *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2025-06-18"]}}}';;
            *ping*) echo '{"jsonrpc":"2.0","id":2,"result":{}}';;
        esac
    done"#;
    let output = barewire()
        .args(["check", "--json", "--quiet", "--patience", "2", "--only", "ping,version-negotiation"])
        .args(["--", "sh", "-c", script])
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(with_status(&report, "pass"), BTreeSet::from(["ping", "version-negotiation"]), "{report}");
}

/// Whoever crashes is quoted, with what he was asked.
#[test]
fn a_crash_is_told_with_what_it_comes_of() {
    let (report, _) = check(&[], &["--fault", "dies-in-between", "--legacy"]);
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|it| it["id"] == "stays-alive").expect("it is there");
    let finding = &found["findings"][0];
    let detail = finding["detail"].as_str().unwrap_or_default();
    assert!(detail.ends_with("exits with code 1, after logging/setLevel"), "{finding}");
    assert!(finding["frame"].is_u64(), "{finding}");
}

#[test]
fn who_was_never_answered_is_told_in_a_capture_too() {
    let folder = Folder::new("mute");
    let wire = folder.file("mute.wire");
    let text = "wire 1\n>(+0.1) {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n@(+30) exit signal 15\n";
    std::fs::write(&wire, text).expect("it can be written");
    let output = barewire().args(["check", "--json", &wire]).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(with_status(&report, "fail"), BTreeSet::from(["unanswered-request"]), "{report}");
}

#[test]
fn a_capture_of_nothing_proves_nothing() {
    let folder = Folder::new("empty");
    let wire = folder.file("empty.wire");
    std::fs::write(&wire, "").expect("it can be written");
    let output = barewire().args(["check", &wire]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("UNKNOWN  the capture has no frames"), "{told}");
}

/// Which era the server speaks makes no difference to how it must end.
#[test]
fn one_era_is_enough_to_be_found_out() {
    for era in ["--legacy", "--modern"] {
        for (fault, expected) in [("stays-after-eof", "eof-exit"), ("leaves-a-child", "orphan-processes")] {
            let (report, output) = check(&[], &["--fault", fault, era]);
            assert_eq!(with_status(&report, "fail"), BTreeSet::from([expected]), "{fault} {era}");
            assert_eq!(output.status.code(), Some(1));
        }
    }
}

/// A launcher and what it has launched do not end in the same moment.
#[test]
fn who_follows_soon_is_no_orphan() {
    let server = faulty_server();
    let script = format!("(sleep 0.2; :) & {}; exit 0", server.display());
    let output = barewire()
        .args(["check", "--json", "--quiet", "--only", "orphan-processes", "--", "sh", "-c", &script])
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
}

#[test]
fn a_program_that_never_stops_talking_is_given_up() {
    let began = std::time::Instant::now();
    let output = barewire().args(["check", "--quiet", "--patience", "0.2", "--timeout", "30", "--", "yes"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("none of them is an answer"), "{told}");
    assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
}

/// A baseline knows what it was made of, however often it was found, and nothing else.
#[test]
fn what_is_new_is_seen_behind_any_number_of_known_ones() {
    let folder = Folder::new("many");
    let (wire, known) = (folder.file("run.wire"), folder.file("known.json"));
    let banner = "< banner\n".repeat(25);
    std::fs::write(&wire, &banner).expect("it can be written");
    let run = |args: &[&str]| {
        let output = barewire().arg("check").args(args).arg(&wire).output().expect("it runs");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    };
    assert_eq!(run(&["--write-baseline", &known]).1, Some(1));
    let (told, code) = run(&["--baseline", &known]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("failed as known"), "{told}");
    std::fs::write(&wire, format!("{banner}< Content-Length: 7\n")).expect("it can be written");
    let (told, code) = run(&["--baseline", &known]);
    assert_eq!(code, Some(1), "{told}");
}

#[test]
fn one_form_is_printed_at_a_time() {
    let output = barewire().args(["check", "--json", "--sarif", "--", "true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("only one of --json"));
}

#[test]
fn what_is_recorded_is_private_and_reads_like_the_run() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("record");
    let wire = folder.file("run.wire");
    let (live, _) = check(&["--record", &wire], &["--fault", "banner"]);
    let mode = std::fs::metadata(&wire).expect("the capture").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let output = barewire().args(["check", "--json", &wire]).output().expect("it runs");
    let again: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let purity = |report: &Value| {
        let checks = report["checks"].as_array().expect("checks").clone();
        let found = checks.into_iter().find(|it| it["id"] == "stdout-purity").expect("it is there");
        (found["findings"][0]["frame"].clone(), found["findings"][0]["offset"].clone(), found["more"].clone())
    };
    assert_eq!(purity(&live), purity(&again));
}

#[test]
fn when_time_is_up_the_evidence_is_incomplete() {
    let (report, output) = check(&["--timeout", "1.5", "--call", r#"slow={"ms":4000}"#], &[]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
    assert!(!with_status(&report, "incomplete").is_empty(), "{report}");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn what_cannot_be_started_cannot_be_checked() {
    let output = barewire().args(["check", "--", "./no-such-server"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("no-such-server") && told.contains("hint:"), "{told}");
}

#[test]
fn other_programs_can_read_what_was_found() {
    let folder = Folder::new("forms");
    let (sarif, junit) = (folder.file("out.sarif"), folder.file("out.xml"));
    let (report, _) = check(&[&format!("--sarif={sarif}"), &format!("--junit={junit}")], &["--fault", "dies-of-junk"]);
    let sarif: Value = serde_json::from_slice(&std::fs::read(&sarif).expect("SARIF")).expect("JSON");
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), catalogue().len());
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), 1, "{results:?}");
    let index = results[0]["ruleIndex"].as_u64().and_then(|at| usize::try_from(at).ok()).expect("an index");
    assert_eq!(rules[index]["id"], results[0]["ruleId"]);
    assert_eq!(results[0]["ruleId"], "parse-error-recovery");
    let junit = std::fs::read_to_string(&junit).expect("XML");
    let checks = report["checks"].as_array().expect("checks").len();
    assert!(junit.contains("<testsuite name=\"barewire check ") && junit.contains("failures=\"1\""), "{junit}");
    assert_eq!(junit.matches("<testcase ").count(), checks);
    assert_eq!(junit.matches("<failure ").count(), 1);
}
