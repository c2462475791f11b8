//! A running `barewire view`, and the requests of its page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::eventually::{DEADLINE, eventually};
use crate::tap::stage::{Folder, barewire};

pub(super) struct Page {
    pub(super) process: Child,
    address: String,
    cookie: String,
    /// What the view has written to stderr, for the message of a test that fails.
    stderr: Arc<Mutex<String>>,
}

impl Page {
    /// Starts `barewire view` with this folder as the user's runtime folder.
    pub(super) fn open(runtime: &Folder, args: &[&str]) -> Self {
        let mut command = barewire();
        command.args(["view", "--no-open"]).args(args).stdin(Stdio::null());
        Self::of(with_runtime(&mut command, runtime))
    }

    fn of(command: &mut Command) -> Self {
        Self::with_url(command).0
    }

    /// Starts a view. Also returns the URL that it prints.
    pub(super) fn with_url(command: &mut Command) -> (Self, String) {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = collect(BufReader::new(process.stderr.take().expect("piped")));
        let mut url = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut url).expect("it prints its URL");
        (Self::enter(process, stderr, url.trim()), url.trim().to_owned())
    }

    /// Returns the address on which the view listens.
    #[cfg(target_os = "linux")]
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Exchanges the token in the URL for a cookie.
    pub(super) fn enter(process: Child, stderr: Arc<Mutex<String>>, url: &str) -> Self {
        let place = url.strip_prefix("http://").and_then(|it| it.split_once("/#token="));
        let Some((address, token)) = place else {
            panic!("not a URL: {url:?}; stderr:\n{}", stderr.lock().expect("no panic"));
        };
        let mut page = Self { process, address: address.to_owned(), cookie: String::new(), stderr };
        let (status, head, _) = page.request("POST", "enter", Some(&format!("{{\"token\":\"{token}\"}}")));
        assert_eq!(status, 204, "{head}");
        let cookie = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("set-cookie").then(|| value.split(';').next().unwrap_or_default().trim())
        });
        page.cookie = cookie.expect("a cookie").to_owned();
        page
    }

    pub(super) fn get(&self, path: &str) -> Value {
        let (status, head, body) = self.request("GET", path, None);
        assert_eq!(status, 200, "{path}: {head} {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, _, answer) = self.request("POST", path, Some(&body.to_string()));
        (status, serde_json::from_str(&answer).unwrap_or_default())
    }

    /// The status of the answer to a request.
    pub(super) fn status(&self, path: &str) -> u16 {
        self.request("GET", path, None).0
    }

    /// The first source whose name has this text.
    pub(super) fn source(&self, name: &str) -> Option<Value> {
        let sources = self.get("sources");
        let sources = sources["sources"].as_array().expect("a list").clone();
        sources.into_iter().find(|source| source["name"].as_str().is_some_and(|it| it.contains(name)))
    }

    /// Waits until the source with this name is as it should be, and returns it.
    #[track_caller]
    pub(super) fn wait_for(&self, name: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let mut found = None;
        eventually(name, || {
            found = self.source(name);
            found.as_ref().is_some_and(&mut holds)
        });
        found.expect("it was found")
    }

    fn request(&self, method: &str, path: &str, body: Option<&str>) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let (address, cookie) = (&self.address, &self.cookie);
        let mut head = format!("{method} /api/{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        if !cookie.is_empty() {
            head.push_str(&format!("cookie: {cookie}\r\n"));
        }
        if let Some(body) = body {
            let length = body.len();
            head.push_str(&format!(
                "origin: http://{address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
            ));
        }
        let body = body.unwrap_or_default();
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        if let Err(error) = stream.read_to_string(&mut answer) {
            panic!("{method} {path}: {error} after {answer:?}");
        }
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        (status, head.to_owned(), body)
    }
}

impl Drop for Page {
    #[expect(clippy::print_stderr, reason = "the harness shows it with the failure")]
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            eprintln!("the stderr of view:\n{}", self.stderr.lock().map_or(String::new(), |text| text.clone()));
        }
    }
}

/// Collects the lines of stderr, on a thread, so that the view can always write.
pub(super) fn collect(mut stderr: impl BufRead + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let collected = Arc::clone(&text);
    thread::spawn(move || {
        let mut line = Vec::new();
        while stderr.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            collected.lock().expect("no panic").push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    text
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).expect("a length");
        if length == 0 {
            break;
        }
        whole.push_str(&rest[..length]);
        body = &rest[length + 2..];
    }
    whole
}

/// Sets the folders in which taps announce themselves and are found, so that tests do not see each other's.
pub(super) fn with_runtime<'a>(command: &'a mut Command, runtime: &Folder) -> &'a mut Command {
    command.env("XDG_RUNTIME_DIR", runtime.file("")).env("XDG_STATE_HOME", runtime.file("state"))
}
