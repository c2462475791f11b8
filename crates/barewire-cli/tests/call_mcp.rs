//! `barewire call` as a client of MCP: at a terminal, in a pipe, cancelled, and with servers that do not behave.
#![cfg(unix)]

mod eventually;
mod said;
#[path = "call_mcp/terminal.rs"]
mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use eventually::eventually;
use said::Said;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire");

fn call(options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("call").args(options).stdin(Stdio::null());
    command
}

/// Asks our own server.
fn ask(options: &[&str]) -> Said {
    Said::of(call(options).args(["--", PROGRAM, "serve"]).output().expect("it runs"))
}

/// Asks a server that is a few lines of shell.
fn ask_script(options: &[&str], script: &str) -> Said {
    Said::of(call(options).arg("--").args(sh(script)).output().expect("it runs"))
}

/// A legacy server. `init` does the handshake, `hear` reads a message, `say` writes one, `result` answers the last request.
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

impl Said {
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
        let ours = ask(&["echo", "text=hi", "--json", "--revision", revision]);
        let serve = [PROGRAM, "serve", "--revision", revision];
        let theirs = call(&["echo", "text=hi", "--json", "--"]).args(serve).output().expect("it runs");
        for said in [ours, Said::of(theirs)] {
            assert_eq!(said.code, Some(0), "{revision}: {}", said.stderr);
            let answer = said.json();
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
fn a_resource_goes_into_a_pipe_as_it_is() {
    let about = "This is barewire's own server, to try clients against. Everything it offers is small and real.";
    ask(&["read", "barewire://about"]).has(0, about, "");
    let script = r#"init '{"resources":{}}'; hear; result '{"contents":[{"uri":"x:b","blob":"AP8bXTAK"}]}'"#;
    let output = call(&["read", "x:b", "--"]).args(sh(script)).output().expect("it runs");
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"\x00\xff\x1b]0\n".to_vec()));
}

#[test]
fn bytes_are_saved_under_names_that_stay_in_their_folder() {
    let dir = Dir::new("save");
    let folder = dir.path.join("new").display().to_string();
    let said = ask(&["dot", "--save", &folder]);
    said.has(0, &format!("[image/png, 82 B: {folder}/image.png]\n"), "");
    let dot = fs::read(dir.path.join("new/image.png")).expect("it is there");
    assert!(dot.starts_with(b"\x89PNG"));
    let script = r#"
init '{"resources":{}}'; hear
result '{"contents":[{"uri":"file:///../../a%2f..b","blob":"AQI="},{"uri":"file:///notes.md","text":"x"}]}'
"#;
    let said = ask_script(&["read", "x:b", "--save", &folder], script);
    said.has(0, &format!("{folder}/a_2f..b  2 B\n{folder}/notes.md  1 B\n"), "");
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
    let said = ask_script(&["tools/list", "--json"], script);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let names: Vec<Value> =
        said.json()["result"]["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["one", "two", "three"]);
    assert_eq!(said.json()["result"]["tools"][0]["x-odd"], 1.5);
    assert_eq!(said.json()["result"].get("nextCursor"), None);
    let one = r#"
init '{"tools":{}}'; hear; cursor=${line#*'"cursor":"'}
result "{\"tools\":[{\"name\":\"${cursor%%\"*}\",\"inputSchema\":{}}],\"nextCursor\":\"b\"}"
"#;
    ask_script(&["tools/list", "cursor=5"], one).has(0, "5\nthere is more: tools/list cursor=b\n", "");
}

#[test]
fn what_a_server_says_meanwhile_is_on_stderr_before_the_answer() {
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
    ask_script(&options, script).has(
        0,
        "",
        "progress 1/2 half\\x1b\nlog warning db: slow\\x0a\nlog error: {\"a\": [1]}\n\
         notification notifications/tools/list_changed\nnotification notifications/odd {\"x\": 1}\n",
    );
    let quiet: Vec<&str> = options.into_iter().chain(["--quiet"]).collect();
    ask_script(&quiet, script).has(0, "", "");
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
    ask_script(&["t", "{}"], script).has(
        0,
        "two\nlines\n[audio/wav, 3 B]\n[image/png, bad Base64: Invalid symbol 63, offset 0.]\n\
         [link to one, x:1, text/plain, 2.0 KiB]: the first\n[x:2, text/plain, 6 B]\ninside\n[x:3, 2 B]\n\
         {\"depth\":3,\"type\":\"hologram\"}\n",
        "",
    );
    let structured =
        r#"init '{"tools":{}}'; hear; result '{"content":[],"structuredContent":{"n":1.0,"list":[]},"isError":true}'"#;
    let said = ask_script(&["t", "{}"], structured);
    said.has(1, "{\n  \"n\": 1.0,\n  \"list\": []\n}\n", "barewire: the tool says that it failed (isError)\n");
    let said = ask_script(&["t", "{}", "--json"], structured);
    assert_eq!((said.code, &said.json()["result"]["isError"]), (Some(1), &json!(true)));
}

#[test]
fn a_result_that_is_none_is_shown_and_is_no_answer() {
    let script = r#"init '{"tools":{}}'; hear; result '{"tools": 5}'"#;
    let why = "the result of tools/list is not what it should be: invalid type: integer `5`, expected a sequence at line 1 column 11";
    ask_script(&["tools"], script).has(2, "{\n  \"tools\": 5\n}\n", &format!("barewire: {why}\n"));
    let said = ask_script(&["tools", "--json"], script);
    let answer = said.json();
    assert_eq!(
        (&answer["kind"], &answer["reason"], &answer["detail"]),
        (&json!("failed"), &json!("bad-answer"), &json!(why))
    );
    assert_eq!((said.code, &answer["result"]), (Some(2), &json!({"tools": 5})));
}

#[test]
fn a_server_that_dies_says_why() {
    let script = r#"init '{"tools":{}}'; hear; printf 'Traceback:\n  disk full\n' >&2; exit 7"#;
    let said = ask_script(&["t", "{}", "--json"], script);
    assert_eq!(said.code, Some(2));
    let answer = said.json();
    assert_eq!(
        (&answer["kind"], &answer["reason"], &answer["era"]),
        (&json!("failed"), &json!("closed"), &json!("legacy"))
    );
    let detail = "sh exited with code 7; its stderr ends with:\n  Traceback:\n    disk full";
    assert_eq!(answer["detail"], detail);
    assert!(said.stderr.ends_with(&format!("barewire: {detail}\n")), "{}", said.stderr);
}

#[test]
fn what_was_not_declared_is_sent_only_on_demand() {
    let script = r#"init '{}'; hear; result '{"prompts":[]}'"#;
    let said = ask_script(&["prompts"], script);
    assert_eq!((said.code, &*said.stdout), (Some(2), ""));
    assert_eq!(
        said.stderr,
        "barewire: prompts/list was not sent: the server does not declare prompts\nhint: --lenient sends it all the same\n"
    );
    ask_script(&["prompts", "--lenient"], script).has(0, "this server has no prompts\n", "");
}

#[test]
fn roots_are_told_to_a_server_that_asks() {
    let dir = Dir::new("a root");
    // There is no model to ask.
    let script = r#"
init '{"tools":{}}'
case $opening in *'"sampling"'*) exit 8;; *'"roots"'*) ;; *) exit 9;; esac
hear; call=$id; say '"id":7,"method":"roots/list"'; hear; id=$call
result "{\"content\":[],\"structuredContent\":$line}"
"#;
    let said = ask_script(&["t", "{}", "--root", &dir.path.display().to_string()], script);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let roots = &said.json()["result"]["roots"];
    let path = fs::canonicalize(&dir.path).expect("it is there").display().to_string();
    assert_eq!(roots[0]["uri"], format!("file://{}", path.replace(' ', "%20")));
}

#[test]
fn listeners_are_asked_like_programs() {
    let dir = Dir::new("mcp-socket");
    let path = dir.path.join("s");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = thread::spawn(move || {
        let stream: OwnedFd = listener.accept().expect("a connection").0.into();
        let again = stream.try_clone().expect("a descriptor");
        Command::new(PROGRAM).arg("serve").stdin(stream).stdout(again).status().expect("it runs")
    });
    let said = Said::of(
        call(&["add", "a=1", "b=2", "--connect", &format!("unix:{}", path.display())]).output().expect("it runs"),
    );
    said.has(0, "3\n", "");
    assert!(server.join().expect("it serves").success());
}

#[test]
fn a_signal_cancels_the_call_on_the_wire_and_leaves_nothing_behind() {
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
fn time_is_up_and_the_server_is_told() {
    let script = r#"init '{"tools":{}}'; hear; hear; printf '%s\n' "$line" >&2"#;
    let said = ask_script(&["t", "{}", "--timeout", "0.5"], script);
    assert_eq!((said.code, &*said.stdout), (Some(2), ""));
    assert!(
        said.stderr.contains("barewire: no answer to tools/call within 500ms\nhint: --timeout waits longer\n"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("notifications/cancelled"), "{}", said.stderr);
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
    let page = "barewire: the server asks, and there is no terminal to ask at; cancelled: sign in (https://example.org)\n\
                hint: a page is asked about at a terminal only\n";
    let form = "barewire: the server asks, and there is no terminal to ask at; cancelled: how many?\n\
                hint: --answer key=value fills in a form\n";
    let cancel = json!({"action": "cancel"});
    for (answers, content, told) in [
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
        let said = ask_script(&options, script);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let results = said.json();
        assert_eq!((&results[0]["result"], &results[1]["result"]), (content, &cancel));
        assert_eq!(said.stderr, format!("{told}{page}"));
    }
}

fn signal(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Whether a process runs. One that nobody has reaped yet does not.
fn is_there(pid: &str) -> bool {
    let ps = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().expect("ps");
    let state = String::from_utf8_lossy(&ps.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

/// A directory that is removed in the end.
struct Dir {
    path: PathBuf,
}

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self { path }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
