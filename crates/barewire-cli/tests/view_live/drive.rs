//! Servers that the page drives, over stdio and over HTTP.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::page::Page;
use crate::eventually::{DEADLINE, eventually};
use crate::http_server::HttpServer;
use crate::tap::stage::{Folder, program};

/// A page with a driven server, and the path of its source.
struct Driven {
    page: Page,
    id: String,
}

impl Driven {
    fn open(runtime: &Folder, args: &[&str]) -> Self {
        let page = Page::open(runtime, args);
        let sources = page.get("sources");
        let mut sources = sources["sources"].as_array().expect("a list").iter();
        let source = sources.find(|source| source["drivable"] == true).expect("a driven source");
        let id = source["id"].as_str().expect("an id").to_owned();
        Self { page, id }
    }

    fn get(&self, path: &str) -> Value {
        self.page.get(&format!("s/{}/{path}", self.id))
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.page.post(&format!("s/{}/{path}", self.id), body)
    }

    fn call(&self, tool: &str, arguments: &Value) -> u64 {
        let params = json!({"name": tool, "arguments": arguments}).to_string();
        let (status, answer) = self.post("call", &json!({"method": "tools/call", "params": params}));
        assert_eq!(status, 200, "{answer}");
        answer["call"].as_u64().expect("a number")
    }

    /// Waits until a call is as it should be, and returns it. Panics if it has ended in another way, because it will not
    /// change any more.
    #[track_caller]
    fn wait_for(&self, call: u64, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let state = self.get(&format!("call/{call}"));
            if holds(&state) {
                return state;
            }
            let is_hopeless = state["state"] == "failed" || start.elapsed() > DEADLINE;
            assert!(!is_hopeless, "the call is not as expected: {state}; its source: {}", self.source());
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    fn question(&self, method: &str) -> Value {
        let mut asked = Value::Null;
        let start = Instant::now();
        while asked["method"] != method || (method == "sampling/createMessage" && !asked["frame"].is_u64()) {
            assert!(start.elapsed() < DEADLINE, "there is no such question: {asked}; the source: {}", self.source());
            thread::sleep(Duration::from_millis(5));
            asked = self.get("questions")["questions"][0].clone();
        }
        asked
    }

    fn source(&self) -> Value {
        let sources = self.page.get("sources");
        let mut sources = sources["sources"].as_array().expect("a list").iter();
        sources.find(|source| source["id"] == *self.id).expect("the source").clone()
    }

    fn frames(&self) -> u64 {
        self.source()["frames"].as_u64().expect("a number")
    }

    /// Drives the test server: a call with progress, one that is cancelled, and a question.
    fn calls_work(&self) {
        let catalog = self.get("catalog");
        let tools = catalog["tools"].as_array().expect("tools");
        assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{catalog}");
        assert_eq!((&catalog["server"]["name"], &catalog["errors"]), (&"barewire".into(), &json!([])), "{catalog}");

        let call = self.call("echo", &json!({"text": "hello"}));
        let done = self.wait_for(call, |call| call["state"] == "done" && call["frames"]["response"].is_u64());
        assert!(done["result"].as_str().expect("a result").contains("hello"), "{done}");
        let frame = self.get(&format!("frame/{}", done["frames"]["request"]));
        assert!(frame["text"].as_str().expect("a text").contains(r#""text":"hello""#), "{frame}");

        let call = self.call("sleep", &json!({"ms": 500}));
        let done = self.wait_for(call, |call| call["state"] == "done");
        assert_eq!(done["progress"]["total"].as_f64(), Some(10.0), "{done}");

        let call = self.call("sleep", &json!({"ms": 3_600_000}));
        self.wait_for(call, |call| call["frames"]["request"].is_u64());
        assert_eq!(self.post(&format!("call/{call}/cancel"), &json!({})).0, 204);
        self.wait_for(call, |call| call["state"] == "cancelled");
        assert_eq!(self.post(&format!("call/{call}/cancel"), &json!({})).0, 409);

        let call = self.call("greet", &json!({}));
        let asked = self.question("elicitation/create");
        assert_eq!(asked["params"]["message"], "What is your name?", "{asked}");
        let id = asked["id"].as_str().expect("an id");
        let answer = json!({"action": "accept", "content": {"name": "Ada"}});
        assert_eq!(self.post(&format!("questions/{id}"), &answer).0, 204);
        let done = self.wait_for(call, |call| call["state"] == "done");
        assert!(done["result"].as_str().expect("a result").contains("Hello, Ada!"), "{done}");
        assert_eq!(self.post(&format!("questions/{id}"), &answer).0, 404);

        let (status, values) = self.post(
            "complete",
            &json!({"ref": {"type": "ref/prompt", "name": "introduce"}, "argument": {"name": "name", "value": "a"}}),
        );
        assert_eq!((status, &values["values"]), (200, &json!(["Ada", "Alan"])), "{values}");

        let before = self.frames();
        let broken = r#"{"jsonrpc":"2.0","id":"mine","method":"#;
        assert_eq!(self.post("send", &json!({"text": broken})).0, 204);
        let found = |needle: &str| {
            (before + 1..=self.frames()).any(|number| {
                self.get(&format!("frame/{number}"))["text"].as_str().is_some_and(|text| text.contains(needle))
            })
        };
        // Frames of what was done before may still follow, so the number of frames says nothing.
        eventually("the broken frame and its answer", || found(broken) && found("-32700"));
        // The session goes on.
        let call = self.call("add", &json!({"a": 19, "b": 23}));
        let done = self.wait_for(call, |call| call["state"] == "done");
        assert!(done["result"].as_str().expect("a result").contains("42"), "{done}");
    }
}

#[test]
fn a_program_is_driven() {
    let runtime = Folder::new("view-drive");
    let driven = Driven::open(&runtime, &["--", program(), "serve"]);
    driven.calls_work();
    let source = driven.source();
    assert_eq!((&source["kind"], &source["calls"], &source["questions"]), (&"driven".into(), &json!(0), &json!(0)));
}

#[test]
fn calls_and_their_results_are_bounded() {
    const RUNNING: u64 = 64;
    const KEPT_CALLS: u64 = 200;
    let runtime = Folder::new("view-drive-many");
    let driven = Driven::open(&runtime, &["--", program(), "serve"]);
    let sleep = json!({"name": "sleep", "arguments": {"ms": 3_600_000}}).to_string();
    let running: Vec<u64> = (0..RUNNING).map(|_| driven.call("sleep", &json!({"ms": 3_600_000}))).collect();
    let (status, answer) = driven.post("call", &json!({"method": "tools/call", "params": sleep}));
    assert_eq!(status, 429, "{answer}");
    assert!(answer["error"].as_str().is_some_and(|error| error.contains("64 calls are running")), "{answer}");
    for call in &running {
        assert_eq!(driven.post(&format!("call/{call}/cancel"), &json!({})).0, 204);
    }
    let mut last = 0;
    for number in 0..KEPT_CALLS {
        last = driven.call("echo", &json!({"text": number.to_string()}));
        driven.wait_for(last, |call| call["state"] == "done");
    }
    let status = |call: u64| driven.page.status(&format!("s/{}/call/{call}", driven.id));
    assert_eq!((status(last - KEPT_CALLS), status(last - KEPT_CALLS + 1), status(last)), (404, 200, 200));
}

#[test]
fn a_long_result_is_only_in_its_frame() {
    const MAX_RESULT_BYTES: usize = 256 * 1024;
    let runtime = Folder::new("view-drive-long");
    let driven = Driven::open(&runtime, &["--", program(), "serve"]);
    for (length, is_cut) in [(MAX_RESULT_BYTES - 1024, false), (MAX_RESULT_BYTES, true)] {
        let call = driven.call("echo", &json!({"text": "x".repeat(length)}));
        let done = driven.wait_for(call, |call| call["state"] == "done" && call["frames"]["response"].is_u64());
        assert_eq!((&done["cut"], done["result"].is_null()), (&json!(is_cut), is_cut), "{length}");
        let frame = driven.get(&format!("frame/{}", done["frames"]["response"]));
        assert!(frame["length"].as_u64() > u64::try_from(length).ok(), "{length}");
    }
}

/// A legacy server that asks more than a person answers, and tells which question was answered first.
const ASKING: &str = r#"
say() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
while read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    case $line in
        *'"server/discover"'*) say "\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}" ;;
        *'"initialize"'*) say "\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"asker\",\"version\":\"1\"}}" ;;
        *'"tools/call"'*) call=$id; n=1; while [ $n -le 65 ]; do
            say "\"id\":$((1000 + n)),\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"question $n\"}}],\"maxTokens\":5}"
            n=$((n + 1)); done ;;
        *'"id":10'*) say "\"id\":$call,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"answered $id\"}]}" ;;
    esac
done
"#;

#[test]
fn a_server_has_a_maximum_number_of_open_questions() {
    let runtime = Folder::new("view-drive-asks");
    let driven = Driven::open(&runtime, &["--", "sh", "-c", ASKING]);
    let call = driven.call("think", &json!({}));
    // Nobody answers, so only a question for which there is no room has an answer.
    let done = driven.wait_for(call, |call| call["state"] == "done");
    assert!(done["result"].as_str().expect("a result").contains("answered 1065"), "{done}");
    let questions = driven.get("questions");
    let texts =
        questions["questions"].as_array().expect("a list").iter().map(|it| it["params"]["messages"][0].to_string());
    let texts: Vec<String> = texts.collect();
    assert_eq!(texts.len(), 64);
    assert!(texts[63].contains("question 64"), "{}", texts[63]);
    assert_eq!(driven.source()["questions"], 64);
}

#[test]
fn a_server_at_a_url_is_driven() {
    let runtime = Folder::new("view-drive-url");
    let server = HttpServer::new(&[]);
    Driven::open(&runtime, &["--url", &server.url]).calls_work();
}

/// A legacy server that asks for a sample in mid-call.
const SAMPLING: &str = r#"
say() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
while read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    case $line in
        *'"server/discover"'*) say "\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}" ;;
        *'"initialize"'*) say "\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"sampler\",\"version\":\"1\"}}" ;;
        *'"tools/call"'*) call=$id; say '"id":"s","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"maxTokens":5}' ;;
        *'"id":"s"'*) case $line in *four*) text=four ;; *) text=nothing ;; esac
            say "\"id\":$call,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}" ;;
    esac
done
"#;

#[test]
fn a_request_for_a_sample_is_answered_in_the_page() {
    let runtime = Folder::new("view-sample");
    let driven = Driven::open(&runtime, &["--", "sh", "-c", SAMPLING]);
    let call = driven.call("think", &json!({}));
    let asked = driven.question("sampling/createMessage");
    assert_eq!(asked["params"]["maxTokens"], 5, "{asked}");
    let content = json!({"type": "text", "text": "four"});
    let answer = json!({"result": {"role": "assistant", "content": content, "model": "a person"}});
    assert_eq!(driven.post(&format!("questions/{}", asked["id"].as_str().expect("an id")), &answer).0, 204);
    let done = driven.wait_for(call, |call| call["state"] == "done");
    assert!(done["result"].as_str().expect("a result").contains("four"), "{done}");
}

#[test]
fn a_capture_is_replayed_to_the_driven_server() {
    let runtime = Folder::new("view-replay");
    let capture = runtime.file("good.wire");
    let recorded = crate::tap::stage::barewire()
        .args(["call", "echo", "text=hi", "--", program(), "tap", "--record"])
        .arg(&capture)
        .args(["--", program(), "serve"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(recorded.expect("it runs").success());
    let driven = Driven::open(&runtime, &[capture.to_str().expect("UTF-8"), "--", program(), "serve"]);
    let file = driven.page.source("good.wire").expect("the capture");
    let (status, started) = driven.post("replay", &json!({"source": file["id"]}));
    assert_eq!(status, 200, "{started}");
    let mut report = Value::Null;
    eventually("the replay", || {
        report = driven.get(&format!("replay/{}", started["run"]));
        report["state"] != "running"
    });
    assert_eq!((&report["state"], &report["differences"]), (&"done".into(), &json!([])), "{report}");
}
