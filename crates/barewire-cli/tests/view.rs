//! `barewire view`: a real process and real connections. Who may read the page's data, and what it says about captures.

mod shown;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::eventually::eventually;

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire");

/// A running `barewire view`, and the cookie of a page that has entered.
struct View {
    process: Child,
    port: u16,
    token: String,
    cookie: String,
}

/// An answer: its status, its head and its body.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).expect("JSON")
    }
}

impl View {
    fn of(args: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["view", "--no-open"]).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it runs");
        let mut url = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut url).expect("a line");
        let (address, token) = url.trim().split_once("/#token=").expect("a URL with a token");
        let port = address.strip_prefix("http://127.0.0.1:").and_then(|port| port.parse().ok()).expect("a port");
        let mut view = Self { process, port, token: token.to_owned(), cookie: String::new() };
        let entered = view.enter(token);
        assert_eq!((entered.status, entered.body.as_str()), (204, ""));
        let cookie = entered.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
        view.cookie = cookie.split(';').next().expect("a value").to_owned();
        view
    }

    fn enter(&self, token: &str) -> Reply {
        let (origin, body) = (format!("http://127.0.0.1:{}", self.port), format!("{{\"token\":\"{token}\"}}"));
        self.send("POST /api/enter", &[("origin", &origin), ("content-type", "application/json")], &body)
    }

    /// Sends a request with these headers, and with the right `Host` if it has none.
    fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut request = format!("{line} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            let _ = write!(request, "host: 127.0.0.1:{}\r\n", self.port);
        }
        for (name, value) in headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).expect("it reads");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("an answer in UTF-8");
        let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET /api/{path}"), &[("cookie", &self.cookie)], "")
    }

    fn json(&self, path: &str) -> Value {
        self.get(path).json()
    }

    /// Waits until the first source is read whole.
    fn complete(&self) -> Value {
        let mut source = Value::Null;
        eventually("the capture is read", || {
            source = self.json("sources")["sources"][0].clone();
            source["state"] != "reading"
        });
        source
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-view-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn capture(&self, name: &str, lines: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, format!("wire 1 started=2026-07-28T09:30:00Z\n{lines}")).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/files").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn only_the_page_with_the_token_gets_data() {
    let view = View::of(&[&file("session.wire")]);
    let own = format!("http://127.0.0.1:{}", view.port);
    let cookie = ("cookie", view.cookie.as_str());
    let json = ("content-type", "application/json");
    let enter = format!("{{\"token\":\"{}\"}}", view.token);
    let other = format!("127.0.0.1:{}", view.port ^ 1);
    let tab = |site, mode, destination| {
        vec![("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", destination)]
    };
    for (line, headers, body, status) in [
        ("GET /api/sources", vec![cookie], "", 200),
        ("GET /api/sources", vec![], "", 401),
        ("GET /api/events", vec![], "", 401),
        ("GET /api/sources", vec![("cookie", "barewire-view=x")], "", 401),
        ("GET /api/sources", vec![cookie, ("host", "example.com")], "", 403),
        ("GET /api/sources", vec![cookie, ("host", &other)], "", 403),
        ("GET /", vec![("host", "rebound.example.com")], "", 403),
        ("GET /api/sources", vec![cookie, ("origin", "https://example.com")], "", 403),
        ("GET /api/sources", vec![cookie, ("origin", "null")], "", 403),
        ("GET /api/sources", vec![cookie, ("sec-fetch-site", "cross-site")], "", 403),
        ("GET /api/sources", vec![cookie, ("sec-fetch-site", "same-site")], "", 403),
        // A link in another page may open the page in a tab, but nothing else.
        ("GET /", tab("cross-site", "navigate", "document"), "", 200),
        ("GET /", tab("same-site", "navigate", "document"), "", 200),
        ("HEAD /", tab("cross-site", "navigate", "document"), "", 200),
        ("GET /", tab("cross-site", "navigate", "iframe"), "", 403),
        ("GET /", tab("cross-site", "no-cors", "document"), "", 403),
        ("GET /", tab("cross-site", "no-cors", "script"), "", 403),
        ("GET /", vec![("sec-fetch-site", "cross-site")], "", 403),
        ("GET /app.js", tab("cross-site", "navigate", "document"), "", 403),
        ("POST /", tab("cross-site", "navigate", "document"), "", 403),
        ("GET /api/sources", [vec![cookie], tab("cross-site", "navigate", "document")].concat(), "", 403),
        ("GET /api/s/1/export/wire", [vec![cookie], tab("cross-site", "navigate", "document")].concat(), "", 403),
        ("DELETE /api/sources", vec![cookie, ("origin", &own)], "", 405),
        ("OPTIONS /api/sources", vec![cookie, ("origin", &own)], "", 405),
        ("POST /index.html", vec![("origin", &own)], "", 405),
        ("POST /api/enter", vec![("origin", &own), json], "{\"token\":\"x\"}", 403),
        ("POST /api/enter", vec![("origin", &own), json], "{}", 400),
        ("POST /api/enter", vec![("origin", "http://example.com"), json], &enter, 403),
        ("POST /api/enter", vec![json], &enter, 403),
        ("POST /api/enter", vec![("origin", &own), ("content-type", "text/plain")], &enter, 415),
        ("POST /api/s/1/rows", vec![cookie, ("origin", &own), json], "{}", 404),
        ("GET /api/s/9/rows", vec![cookie], "", 404),
        ("GET /api/s/1/frame/999", vec![cookie], "", 404),
        ("GET /api/s/1/rows?filter=size:x", vec![cookie], "", 400),
        ("GET /../Cargo.toml", vec![], "", 404),
    ] {
        let reply = view.send(line, &headers, body);
        assert_eq!(reply.status, status, "{line} {headers:?}: {}", reply.body);
        assert!(reply.head.contains("content-security-policy: default-src 'none'; script-src 'self';"), "{line}");
        assert!(reply.head.contains("x-content-type-options: nosniff"), "{line}");
        assert!(reply.head.contains("cache-control: no-store"), "{line}");
        assert!(status < 400 || !reply.head.contains("set-cookie"), "{line}");
    }
    // The token of another server is worth nothing here.
    let second = View::of(&[&file("session.wire")]);
    assert_eq!(view.enter(&second.token).status, 403);
    assert_eq!(second.send("GET /api/sources", &[cookie], "").status, 401);
    assert_eq!(view.enter(&view.token).status, 204);
}

#[test]
fn the_files_of_the_page_need_no_token_and_have_no_data() {
    let view = View::of(&[&file("session.wire")]);
    for (path, kind) in
        [("/", "text/html"), ("/app.css", "text/css"), ("/app.js", "text/javascript"), ("/icon.svg", "image/svg+xml")]
    {
        let reply = view.send(&format!("GET {path}"), &[], "");
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.head.contains(&format!("content-type: {kind}")), "{path}: {}", reply.head);
        assert!(!reply.body.contains(&view.token) && !reply.body.is_empty());
    }
    let page = view.send("GET /", &[], "").body;
    assert!(page.contains("src=\"app.js\"") && !page.contains("<script>"), "{page}");
}

#[test]
fn rows_frames_and_operations_are_those_of_the_capture() {
    let view = View::of(&[&file("http.wire")]);
    let source = view.complete();
    assert_eq!((&source["frames"], &source["operations"]), (&Value::from(9), &Value::from(4)));
    let session = &source["conversations"][0];
    assert_eq!((&session["client"]["name"], &session["server"]["name"]), (&"desk".into(), &"library".into()));
    let flat = view.json("s/1/rows?count=500");
    assert_eq!((&flat["total"], &flat["final"]), (&Value::from(19), &Value::from(true)));
    let folded = view.json("s/1/rows?fold=1");
    assert!(folded["total"].as_u64() < flat["total"].as_u64(), "{folded}");
    let request =
        folded["rows"].as_array().expect("rows").iter().find(|row| row["frame"] == 4).expect("frame 4").clone();
    assert_eq!(
        (&request["method"], &request["name"], &request["op"]),
        (&"tools/call".into(), &"search".into(), &2.into())
    );
    let unfolded = view.json("s/1/rows?fold=1&expand=2");
    let more = request["children"].as_u64().expect("a number");
    assert_eq!(unfolded["total"].as_u64(), folded["total"].as_u64().map(|total| total + more));
    let errors = view.json("s/1/rows?filter=errors");
    assert!(errors["rows"].as_array().expect("rows").iter().any(|row| row["frame"] == 9), "{errors}");
    let texts = view.json("s/1/rows?filter=notifications%2Finitialized");
    assert!(texts["rows"].as_array().expect("rows").iter().any(|row| row["frame"] == 3), "{texts}");
    // A question during a call is inside it.
    let bars = view.json("s/1/timeline");
    let question = bars["bars"].as_array().expect("bars").iter().find(|bar| bar["method"] == "roots/list").cloned();
    let question = question.expect("the question");
    assert_eq!((&question["parent"], &question["depth"]), (&2.into(), &1.into()));
    let frame = view.json("s/1/frame/7");
    assert_eq!(frame["operation"]["children"][0]["op"], 3);
    assert_eq!(frame["http"]["response"]["status"], 200);
    assert_eq!(view.json("s/1/find?fold=1&frame=4")["op"], Value::Null);
    let methods = view.json("s/1/stats");
    assert!(
        methods["methods"]
            .as_array()
            .expect("methods")
            .iter()
            .any(|it| it["method"] == "tools/call" && it["p50"] == 0.082)
    );
    let findings = view.json("s/1/findings");
    assert!(findings["groups"].as_array().expect("groups").iter().any(|it| it["check"] == "http-protocol-version"));
    assert!(view.json("explain?word=-32601")["text"].as_str().expect("text").contains("Method not found"));
    assert_eq!(view.get("explain?word=nothing-of-the-kind").status, 404);
}

#[test]
fn bad_bytes_are_shown_with_the_place_of_the_error() {
    let folder = Folder::new("bad");
    let bad = folder.capture("bad.wire", ">(+0.1) {\"jsonrpc\":\"2.0\",\"id\":1,}\n>(+0.2 esc) {\"a\":\"\\xff\"}\n");
    let view = View::of(&[&bad]);
    view.complete();
    let frame = view.json("s/1/frame/1");
    assert_eq!((&frame["invalid"]["rule"], &frame["invalid"]["at"]), (&"syntax".into(), &24.into()), "{frame}");
    assert!(frame["row"]["bad"] == true && frame["tree"].as_array().expect("nodes").is_empty());
    let frame = view.json("s/1/frame/2");
    assert_eq!((&frame["text"], &frame["lossy"]), (&"{\"a\":\"\\xff\"}".into(), &true.into()));
}

#[test]
fn no_answer_has_a_secret() {
    let folder = Folder::new("secret");
    let token = ["ghp_", "0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let lines = format!(
        ">(+0.1) {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"a\",\"arguments\":{{\"token\":\"{token}\"}}}}}}\n\
         !(+0.2) using {token}\n<(+0.3) {{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"{token}\"}}\n"
    );
    let capture = folder.capture("secret.wire", &lines);
    let paths =
        ["sources", "s/1/rows", "s/1/frame/1", "s/1/frame/2", "s/1/frame/1/text", "s/1/findings", "s/1/timeline"];
    for (options, is_shown) in [(vec![capture.as_str()], false), (vec!["--no-redact", &capture], true)] {
        let view = View::of(&options);
        view.complete();
        assert_eq!(view.json("sources")["redacted"], !is_shown);
        let has_it = |path: &&str| view.get(path).body.contains(&token);
        assert_eq!(paths.iter().any(has_it), is_shown, "{options:?}");
        let found = view.json(&format!("s/1/rows?filter={token}"));
        assert_eq!(found["total"].as_u64() > Some(0), is_shown);
    }
}

/// Markup, a message of 64 MiB, and one of 100,000 levels: all of it is text of bounded length, found soon.
#[test]
fn a_hostile_capture_is_only_text() {
    let folder = Folder::new("hostile");
    let markup = "<script>alert(1)</script><img src=x onerror=alert(1)>\\u202e";
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = "x".repeat(64 * 1024 * 1024 - 200);
    let lines = format!(
        ">(+0.1) {{\"jsonrpc\":\"2.0\",\"id\":\"{markup}\",\"method\":\"{markup}\",\"params\":{{\"name\":\"{markup}\"}}}}\n\
         >(+0.2) {{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"deep\",\"params\":{{\"a\":{deep}}}}}\n\
         <(+0.3) {{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"{long}\"}}\n"
    );
    let view = View::of(&[&folder.capture("hostile.wire", &lines)]);
    assert_eq!(view.complete()["frames"], 3);
    let rows = view.get("s/1/rows");
    assert!(rows.head.contains("content-type: application/json") && rows.body.len() < 20_000, "{}", rows.body.len());
    assert_eq!(rows.json()["rows"][0]["method"], "<script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}");
    // Each level is asked for alone.
    let frame = view.json("s/1/frame/2");
    let params = frame["tree"].as_array().expect("nodes").iter().find(|node| node["key"] == "params").expect("params");
    let mut at = view.json(&format!("s/1/frame/2/tree?at={}", params["at"]))["nodes"][0]["at"].clone();
    for _ in 0..20 {
        at = view.json(&format!("s/1/frame/2/tree?at={at}"))["nodes"][0]["at"].clone();
    }
    let innermost = view.json(&format!("s/1/frame/2/tree?at={}", at.as_u64().expect("an offset") + 99_979));
    assert_eq!((&innermost["total"], &innermost["nodes"][0]["preview"]), (&1.into(), &"1".into()), "{innermost}");
    let begin = Instant::now();
    let frame = view.get("s/1/frame/3");
    assert!(frame.body.len() < 200_000, "{}", frame.body.len());
    // A time that grows with the square of the length would be hours.
    assert!(begin.elapsed() < Duration::from_secs(120), "{:?}", begin.elapsed());
    assert_eq!(frame.json()["text_complete"], false);
    let part = view.json("s/1/frame/3/text?from=60000000&count=10");
    assert_eq!(part["text"], "xxxxxxxxxx");
}

/// The first rows are there while the rest is still read. An optimised build reads ten times as fast.
#[test]
fn the_first_rows_of_a_large_capture_come_at_once() {
    let folder = Folder::new("large");
    let mut lines = String::new();
    for id in 1..=50_000 {
        let time = f64::from(id) / 1000.0;
        let _ = writeln!(
            lines,
            ">(+{time:.6}) {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t{}\"}}}}",
            id % 7
        );
        let _ = writeln!(lines, "<(+{:.6}) {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}", time + 0.0005);
    }
    let capture = folder.capture("large.wire", &lines);
    let begin = Instant::now();
    let view = View::of(&[&capture]);
    let mut is_reading = false;
    eventually("the first rows", || {
        // If the rest is still read after the answer, the rows did not wait for it, however slow the machine is.
        let rows = view.json("s/1/rows?fold=1&count=50");
        is_reading = view.json("sources")["sources"][0]["state"] == "reading";
        rows["total"].as_u64() >= Some(50)
    });
    assert!(is_reading || begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(view.complete()["frames"], 100_000);
    let last = view.json("s/1/rows?from=99999&count=10");
    assert_eq!((&last["total"], &last["rows"][0]["frame"]), (&100_000.into(), &100_000.into()));
    let near = view.json("s/1/near?time=25");
    assert_eq!(near["index"], 49_998);
    // A text is searched in pieces.
    let mut found = Value::Null;
    eventually("the text is found", || {
        found = view.json("s/1/rows?filter=%22%5C%22id%5C%22%3A49999%2C%22");
        found["final"] == true
    });
    assert_eq!(found["total"], 2, "{found}");
    let timeline = view.json("s/1/timeline?width=800");
    assert_eq!(timeline["bars"].as_array().map(Vec::len), Some(500));
    let counted =
        timeline["buckets"].as_array().expect("buckets").iter().filter_map(|it| it["count"].as_u64()).sum::<u64>();
    assert_eq!(counted, 50_000);
}

/// A page that does not read its events holds up nobody.
#[test]
fn events_come_at_once_and_a_slow_page_is_alone() {
    let view = View::of(&[&file("session.wire")]);
    view.complete();
    let request =
        format!("GET /api/events HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncookie: {}\r\n\r\n", view.port, view.cookie);
    let open = || {
        let mut stream = TcpStream::connect(("127.0.0.1", view.port)).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    };
    let silent: Vec<TcpStream> = (0..20).map(|_| open()).collect();
    let lines = BufReader::new(open()).lines().map(|line| line.expect("text"));
    let data = lines.into_iter().find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).expect("an event");
    let sources: Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!(sources["sources"][0]["state"], "complete");
    assert_eq!(view.get("sources").status, 200);
    drop(silent);
}

/// A file to save can be as long as the capture.
#[cfg(target_os = "linux")]
#[test]
fn a_long_export_takes_little_memory() {
    const CALLS: usize = 64;
    let folder = Folder::new("export");
    let long = "x".repeat(512 * 1024);
    let mut lines = String::new();
    for id in 0..CALLS {
        let _ = writeln!(
            lines,
            ">(+{id}.1) {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t\"}}}}"
        );
        let _ = writeln!(lines, "<(+{id}.2) {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"x\":\"{long}\"}}}}");
    }
    let view = View::of(&[&folder.capture("export.wire", &lines)]);
    assert_eq!(view.complete()["frames"], 2 * CALLS);
    let peak = || -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", view.process.id())).expect("it runs");
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux has it");
        kib.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    let before = peak();
    for format in ["wire", "har"] {
        let reply = view.get(&format!("s/1/export/{format}"));
        assert_eq!(reply.status, 200);
        assert!(reply.head.contains(&format!("content-length: {}\r\n", reply.body.len())), "{}", reply.head);
        assert!(reply.body.len() > CALLS * long.len(), "{format}: {}", reply.body.len());
        let grown = peak().saturating_sub(before);
        assert!(grown < 16 * 1024, "{format}: {grown} KiB");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_at_once() {
    let output = Command::new(PROGRAM).args(["view", "--no-open", "/nowhere/x.wire"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read /nowhere/x.wire"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_with_success() {
    use rustix::process::{Pid, Signal, kill_process};

    let mut view = View::of(&[&file("session.wire")]);
    let id = Pid::from_child(&view.process);
    kill_process(id, Signal::INT).expect("it runs");
    assert_eq!(view.process.wait().expect("it ends").code(), Some(0));
}
