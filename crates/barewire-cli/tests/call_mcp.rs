//! `barewire call` as an MCP client: at a terminal, in a pipe, cancelled, and with misbehaving servers.
#![cfg(unix)]

use crate::eventually;
use crate::program_output;
#[path = "call_mcp/terminal.rs"]
pub(crate) mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use eventually::eventually;
use program_output::ProgramOutput;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire");

fn call(options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("call").args(options).stdin(Stdio::null());
    command
}

/// Calls `barewire serve`.
fn call_own_server(options: &[&str]) -> ProgramOutput {
    ProgramOutput::of(call(options).args(["--", PROGRAM, "serve"]).output().expect("it runs"))
}

/// Calls a server that is a few lines of shell.
fn call_script(options: &[&str], script: &str) -> ProgramOutput {
    ProgramOutput::of(call(options).arg("--").args(sh(script)).output().expect("it runs"))
}

/// A legacy server. `init` does the handshake, `hear` reads a message, `say` writes one, `result` answers the last
/// request.
fn sh(script: &str) -> [String; 3] {
    const HELPERS: &str = r#"
hear() { read -r line || exit 0; id=${line#*'"id":'}; id=${id%%[,\}]*}; }
say() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
result() { say "\"id\":$id,\"result\":$1"; }
init() {
    hear
    case $line in *'"initialize"'*) ;; *) say "\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}"; hear;; esac
    opening=$line
    result "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":$1,\"serverInfo\":{\"name\":\"shell\",\"version\":\"1\"}}"
    hear
}
"#;
    ["sh".to_owned(), "-c".to_owned(), format!("{HELPERS}{script}\nhear\n")]
}

impl ProgramOutput {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }
}

#[test]
fn every_revision_can_be_forced_on_either_side() {
    let revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
    for revision in revisions {
        let era = if revision == "2026-07-28" { "modern" } else { "legacy" };
        let ours = call_own_server(&["echo", "text=hi", "--json", "--revision", revision]);
        let serve = [PROGRAM, "serve", "--revision", revision];
        let theirs = call(&["echo", "text=hi", "--json", "--"]).args(serve).output().expect("it runs");
        for printed in [ours, ProgramOutput::of(theirs)] {
            assert_eq!(printed.code, Some(0), "{revision}: {}", printed.stderr);
            let answer = printed.json();
            assert_eq!(
                (&answer["kind"], &answer["revision"], &answer["era"]),
                (&json!("result"), &json!(revision), &json!(era))
            );
            assert_eq!(answer["server"], json!({"name": "barewire", "version": env!("CARGO_PKG_VERSION")}));
            assert_eq!(answer["result"]["content"], json!([{"type": "text", "text": "hi"}]));
        }
    }
}

#[test]
fn a_resource_goes_into_a_pipe_unchanged() {
    let about = "This is barewire's own server, to test clients with. \
                 Its tools, resources and prompts are simple, but do real work.";
    call_own_server(&["read", "barewire://about"]).has(0, about, "");
    let script = r#"init '{"resources":{}}'; hear; result '{"contents":[{"uri":"x:b","blob":"AP8bXTAK"}]}'"#;
    let output = call(&["read", "x:b", "--"]).args(sh(script)).output().expect("it runs");
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"\x00\xff\x1b]0\n".to_vec()));
}

#[test]
fn bytes_are_saved_under_names_that_stay_in_their_folder() {
    let dir = TempDir::new("save");
    let folder = dir.path.join("new").display().to_string();
    let printed = call_own_server(&["dot", "--save", &folder]);
    printed.has(0, &format!("[image/png, 82 B: {folder}/image.png]\n"), "");
    let dot = fs::read(dir.path.join("new/image.png")).expect("it is there");
    assert!(dot.starts_with(b"\x89PNG"));
    let script = r#"
init '{"resources":{}}'; hear
result '{"contents":[{"uri":"file:///../../a%2f..b","blob":"AQI="},{"uri":"file:///notes.md","text":"x"}]}'
"#;
    let printed = call_script(&["read", "x:b", "--save", &folder], script);
    printed.has(0, &format!("{folder}/a_2f..b  2 B\n{folder}/notes.md  1 B\n"), "");
    assert_eq!(fs::read(dir.path.join("new/notes.md")).expect("it is there"), b"x");
}

#[test]
fn all_pages_of_a_list_are_one_and_a_cursor_gives_one() {
    let script = r#"
tool() { result "{\"tools\":[{\"name\":\"$1\",\"inputSchema\":{\"type\":\"object\"},\"x-odd\":1.50}]$2}"; }
init '{"tools":{}}'
hear; case $line in *cursor*) exit 9;; esac; tool one ',"nextCursor":"2"'
hear; case $line in *'"cursor":"2"'*) ;; *) exit 9;; esac; tool two ',"nextCursor":""'
hear; case $line in *'"cursor":""'*) ;; *) exit 9;; esac; tool three
"#;
    let printed = call_script(&["tools/list", "--json"], script);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let names: Vec<Value> =
        printed.json()["result"]["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["one", "two", "three"]);
    assert_eq!(printed.json()["result"]["tools"][0]["x-odd"], 1.5);
    assert_eq!(printed.json()["result"].get("nextCursor"), None);
    let one = r#"
init '{"tools":{}}'; hear; cursor=${line#*'"cursor":"'}
result "{\"tools\":[{\"name\":\"${cursor%%\"*}\",\"inputSchema\":{}}],\"nextCursor\":\"b\"}"
"#;
    call_script(&["tools/list", "cursor=5"], one).has(0, "5\nthere is more: tools/list cursor=b\n", "");
}

#[test]
fn notifications_are_on_stderr_before_the_answer() {
    let script = r#"
init '{"tools":{},"logging":{}}'
hear; case $line in *'"logging/setLevel"'*'"warning"'*) result '{}';; *) exit 9;; esac
hear; case $line in *'"trace":5'*) ;; *) exit 9;; esac
token=${line#*'"progressToken":'}; token=${token%%[,\}]*}
case $line in *progressToken*) say "\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$token,\"progress\":1,\"total\":2,\"message\":\"half\u001b\"}"; esac
say '"method":"notifications/message","params":{"level":"warning","logger":"db","data":"slow\n"}'
say '"method":"notifications/message","params":{"level":"error","data":{"a": [1]}}'
say '"method":"notifications/tools/list_changed"'
say '"method":"notifications/odd","params":{"x": 1}'
result '{"content":[]}'
"#;
    let options = ["t", "{}", "--log-level", "warning", "--meta", "trace=5"];
    call_script(&options, script).has(
        0,
        "",
        "progress 1/2 half\\x1b\nlog warning db: slow\\x0a\nlog error: {\"a\": [1]}\n\
         notification notifications/tools/list_changed\nnotification notifications/odd {\"x\": 1}\n",
    );
    let quiet: Vec<&str> = options.into_iter().chain(["--quiet"]).collect();
    call_script(&quiet, script).has(0, "", "");
}

#[test]
fn content_of_every_kind_is_readable_and_cannot_hide() {
    let script = r#"
init '{"tools":{}}'; hear
result '{"content":[{"type":"text","text":"two\nlines"},
    {"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"image","data":"?","mimeType":"image/png"},
    {"type":"resource_link","uri":"x:1","name":"one","description":"the first","mimeType":"text/plain","size":2048},
    {"type":"resource","resource":{"uri":"x:2","text":"inside","mimeType":"text/plain"}},
    {"type":"resource","resource":{"uri":"x:3","blob":"AAE="}},{"type":"hologram","depth":3}],"structuredContent":{"n":1}}'
"#;
    // A message is a line.
    let script = &script.replace(",\n    ", ",");
    call_script(&["t", "{}"], script).has(
        0,
        "two\nlines\n[audio/wav, 3 B]\n[image/png, bad Base64: Invalid symbol 63, offset 0.]\n\
         [link to one, x:1, text/plain, 2.0 KiB]: the first\n[x:2, text/plain, 6 B]\ninside\n[x:3, 2 B]\n\
         {\"depth\":3,\"type\":\"hologram\"}\n",
        "",
    );
    let structured =
        r#"init '{"tools":{}}'; hear; result '{"content":[],"structuredContent":{"n":1.0,"list":[]},"isError":true}'"#;
    let printed = call_script(&["t", "{}"], structured);
    printed.has(1, "{\n  \"n\": 1.0,\n  \"list\": []\n}\n", "barewire: the tool failed (isError)\n");
    let printed = call_script(&["t", "{}", "--json"], structured);
    assert_eq!((printed.code, &printed.json()["result"]["isError"]), (Some(1), &json!(true)));
}

#[test]
fn a_result_that_does_not_fit_its_method_is_shown_and_is_no_answer() {
    let script = r#"init '{"tools":{}}'; hear; result '{"tools": 5}'"#;
    let why = "the result of tools/list does not fit the method: invalid type: integer `5`, expected a sequence at line 1 column 11";
    call_script(&["tools"], script).has(2, "{\n  \"tools\": 5\n}\n", &format!("barewire: {why}\n"));
    let printed = call_script(&["tools", "--json"], script);
    let answer = printed.json();
    assert_eq!(
        (&answer["kind"], &answer["reason"], &answer["detail"]),
        (&json!("failed"), &json!("bad-answer"), &json!(why))
    );
    assert_eq!((printed.code, &answer["result"]), (Some(2), &json!({"tools": 5})));
}

#[test]
fn the_reason_of_a_dead_server_is_shown() {
    let script = r#"init '{"tools":{}}'; hear; printf 'Traceback:\n  disk full\n' >&2; exit 7"#;
    let printed = call_script(&["t", "{}", "--json"], script);
    assert_eq!(printed.code, Some(2));
    let answer = printed.json();
    assert_eq!(
        (&answer["kind"], &answer["reason"], &answer["era"]),
        (&json!("failed"), &json!("closed"), &json!("legacy"))
    );
    let detail = "sh exited with code 7; its stderr ends with:\n  Traceback:\n    disk full";
    assert_eq!(answer["detail"], detail);
    assert!(printed.stderr.ends_with(&format!("barewire: {detail}\n")), "{}", printed.stderr);
}

#[test]
fn requests_that_were_not_declared_need_lenient() {
    let script = r#"init '{}'; hear; result '{"prompts":[]}'"#;
    let printed = call_script(&["prompts"], script);
    assert_eq!((printed.code, &*printed.stdout), (Some(2), ""));
    assert_eq!(
        printed.stderr,
        "barewire: prompts/list was not sent: the server does not declare the capability prompts\nhint: --lenient sends it anyway\n"
    );
    call_script(&["prompts", "--lenient"], script).has(0, "this server has no prompts\n", "");
}

#[test]
fn a_server_can_list_the_roots() {
    let dir = TempDir::new("a root");
    // There is no model, so sampling is refused.
    let script = r#"
init '{"tools":{}}'
case $opening in *'"sampling"'*) exit 8;; *'"roots"'*) ;; *) exit 9;; esac
hear; call=$id; say '"id":7,"method":"roots/list"'; hear; id=$call
result "{\"content\":[],\"structuredContent\":$line}"
"#;
    let printed = call_script(&["t", "{}", "--root", &dir.path.display().to_string()], script);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let roots = &printed.json()["result"]["roots"];
    let path = fs::canonicalize(&dir.path).expect("it is there").display().to_string();
    assert_eq!(roots[0]["uri"], format!("file://{}", path.replace(' ', "%20")));
}

#[test]
fn a_listener_can_be_called() {
    let dir = TempDir::new("mcp-socket");
    let path = dir.path.join("s");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = thread::spawn(move || {
        let stream: OwnedFd = listener.accept().expect("a connection").0.into();
        let again = stream.try_clone().expect("a descriptor");
        Command::new(PROGRAM).arg("serve").stdin(stream).stdout(again).status().expect("it runs")
    });
    let printed = ProgramOutput::of(
        call(&["add", "a=1", "b=2", "--connect", &format!("unix:{}", path.display())]).output().expect("it runs"),
    );
    printed.has(0, "3\n", "");
    assert!(server.join().expect("it serves").success());
}

#[test]
fn a_signal_cancels_the_call_on_the_wire_and_leaves_no_process_behind() {
    let script = r#"init '{"tools":{}}'; hear; printf 'called %s\n' "$id" >&2; hear; printf '%s\n' "$line" >&2"#;
    let mut child = call(&["t", "{}", "--"])
        .args(sh(script))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("UTF-8");
    let id: u64 = line.trim().strip_prefix("called ").expect("it was called").parse().expect("a number");
    signal(&child);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("UTF-8");
    let mut lines: Vec<&str> = rest.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines[0], "barewire: cancelled by SIGINT");
    let cancelled: Value = serde_json::from_str(lines[1]).expect("a message");
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(id))
    );
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
}

#[test]
fn a_signal_during_the_handshake_ends_the_program_too() {
    let mut child = call(&["tools", "--", "sh", "-c", "echo $$ >&2; cat >/dev/null; exec sleep 60"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut pid = String::new();
    stderr.read_line(&mut pid).expect("UTF-8");
    signal(&child);
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
    eventually("the server is gone", || !is_there(pid.trim()));
}

#[test]
fn a_timeout_cancels_the_request_on_the_wire() {
    let script = r#"init '{"tools":{}}'; hear; hear; printf '%s\n' "$line" >&2"#;
    let printed = call_script(&["t", "{}", "--timeout", "0.5"], script);
    assert_eq!((printed.code, &*printed.stdout), (Some(2), ""));
    assert!(
        printed
            .stderr
            .contains("barewire: no response to tools/call within 500ms\nhint: use --timeout to wait longer\n"),
        "{}",
        printed.stderr
    );
    assert!(printed.stderr.contains("notifications/cancelled"), "{}", printed.stderr);
}

#[test]
fn without_a_terminal_a_question_is_cancelled_or_answered_on_the_command_line() {
    let script = r#"
init '{"tools":{}}'; hear; call=$id
say '"id":5,"method":"elicitation/create","params":{"message":"how many?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1},"tags":{"type":"array","items":{"enum":["a","b"]}},"why":{"type":"string","default":"so"}},"required":["n"]}}'
hear; form=$line
say '"id":6,"method":"elicitation/create","params":{"mode":"url","message":"sign in","url":"https://example.org","elicitationId":"1"}'
hear; id=$call; result "{\"content\":[],\"structuredContent\":[$form,$line]}"
"#;
    let page = "barewire: the server asks for user input, but there is no terminal; cancelled: sign in (https://example.org)\n\
                hint: opening a page has to be confirmed on a terminal\n";
    let form = "barewire: the server asks for user input, but there is no terminal; cancelled: how many?\n\
                hint: --answer key=value fills in a form\n";
    let cancel = json!({"action": "cancel"});
    for (answers, content, expected) in [
        (&[][..], &cancel, form.to_owned()),
        (&["--answer", "other=1"], &cancel, form.to_owned()),
        (&["--answer", "why=not"], &cancel, form.to_owned()),
        (&["--answer", "n=0"], &cancel, format!("barewire: --answer n: must be at least 1\n{form}")),
        (
            &["--answer", "n=2", "--answer", "tags=a,b"],
            &json!({"action": "accept", "content": {"n": 2, "tags": ["a", "b"], "why": "so"}}),
            String::new(),
        ),
    ] {
        let options: Vec<&str> = ["t", "{}"].iter().chain(answers).copied().collect();
        let printed = call_script(&options, script);
        assert_eq!(printed.code, Some(0), "{}", printed.stderr);
        let results = printed.json();
        assert_eq!((&results[0]["result"], &results[1]["result"]), (content, &cancel));
        assert_eq!(printed.stderr, format!("{expected}{page}"));
    }
}

fn signal(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Whether a process runs. A zombie does not.
fn is_there(pid: &str) -> bool {
    let ps = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().expect("ps");
    let state = String::from_utf8_lossy(&ps.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

/// A directory that is removed when dropped.
struct TempDir {
    path: PathBuf,
}

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self { path }
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
