//! The front door of the checks: a server of this process, a program, a URL and a capture.

use barewire::Server;
use barewire::server::Tool;
use barewire_workbench::check::catalogue::Severity;
use barewire_workbench::check::{Baseline, Checks, Target, Verdict};
use serde_json::json;

fn greeter() -> Server {
    Server::new("greeter", "1.0").tool("greet", "Greets", || async { "hello" })
}

#[test]
fn a_good_server_is_clean_over_memory() {
    let report = Checks::new().allow_calls(true).run(Target::server(&greeter())).expect("it runs");
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.verdict(), Verdict::Pass);
    let text = report.to_string();
    assert!(text.starts_with("a server in this process\ngreeter 1.0; speaks "), "{text}");
    assert!(text.contains("\nverdict: pass: "), "{text}");
    // `{:#}` names what passed.
    let all = format!("{report:#}");
    assert!(all.contains("\nPASS  parse-error-recovery"), "{all}");
    assert!(all.contains("\nPASS  eof-exit"), "{all}");
}

/// A tool whose result is not what its schema says is found wherever it runs.
#[test]
fn a_bad_server_is_not_clean() {
    let definition = json!({
        "name": "sum",
        "description": "Adds",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
        "annotations": {"readOnlyHint": true},
    });
    let definition = serde_json::from_value(definition).expect("a definition");
    let sum = Tool::unchecked(definition, |_: Box<serde_json::value::RawValue>| async { json!({"total": 3}) });
    let server = Server::new("calculator", "1.0").with(sum);
    let report = Checks::new().run(Target::server(&server)).expect("it runs");
    assert!(!report.is_clean(), "{report}");
    let finding = report.findings().find(|it| it.check.id == "output-schema").expect("it is found");
    assert_eq!(finding.party.as_str(), "server");
    assert!(finding.location.frame.is_some(), "{finding:?}");
    assert!(report.to_string().contains("FAIL  output-schema (high, MUST)"), "{report}");
    // What is known does not count.
    let known = Baseline::of(&report);
    let mut again = Checks::new().run(Target::server(&server)).expect("it runs");
    again.apply_baseline(known);
    assert!(again.is_clean(), "{again}");
}

#[test]
fn a_check_that_does_not_exist_is_named() {
    let error = Checks::new().only(["stdout-puritty"]).run(Target::server(&greeter())).expect_err("no such check");
    assert_eq!(error.to_string(), "there is no check stdout-puritty");
    assert_eq!(error.hint().as_deref(), Some("did you mean stdout-purity? `catalogue::all` lists all checks"));
}

#[test]
fn settings_are_called_by_their_names_here() {
    let server = Server::new("s", "1").tool("delete_all", "Deletes everything", || async { "done" });
    let report = Checks::new().run(Target::server(&server)).expect("it runs");
    let text = format!("{report:#}");
    assert!(text.contains("`Checks::allow_calls`") && !text.contains("--"), "{text}");
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let error = Checks::new().run(Target::program(["/no/such/program"])).expect_err("there is none");
    assert!(error.to_string().contains("/no/such/program"), "{error}");
    assert_eq!(error.hint().as_deref(), Some("check the path"));
}

/// The server runs on the same thread as the test: nothing may wait for it there.
#[tokio::test(flavor = "current_thread")]
async fn a_url_is_checked_without_blocking_the_thread() {
    let listener = greeter().http().bind("127.0.0.1:0").await.expect("a port");
    let url = listener.url();
    tokio::spawn(listener.run());
    let report = Checks::new().hostile(true).fail_on(Severity::Medium).run_async(Target::url(url)).await;
    let report = report.expect("it runs");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_capture_is_judged_by_what_was_said_in_it() {
    let wire = "wire 1\n\
        > {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\
        < {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n";
    let file = std::env::temp_dir().join(format!("barewire-workbench-{}.wire", std::process::id()));
    std::fs::write(&file, wire).expect("it is written");
    let report = Checks::new().run(Target::capture(&file)).expect("it is read");
    std::fs::remove_file(&file).expect("it is ours");
    assert_eq!(report.verdict(), Verdict::Fail, "{report}");
    assert!(report.findings().any(|finding| finding.check.id == "id-fidelity"), "{report}");
}
