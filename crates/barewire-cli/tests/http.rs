//! `barewire serve --http` and `barewire call --url` over a real socket.
#![cfg(unix)]

use crate::http_server;
use crate::program_output;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use http_server::{HttpServer, PROGRAM, TOKEN};
use program_output::{NO_SERVER, ProgramOutput};
use serde_json::Value;

impl HttpServer {
    fn ask(&self, options: &[&str]) -> ProgramOutput {
        ask(&[options, &["--url", &self.url]].concat())
    }
}

fn ask(options: &[&str]) -> ProgramOutput {
    let mut command = Command::new(PROGRAM);
    let command = command.arg("call").args(options).env(TOKEN, "sesame").stdin(Stdio::null());
    ProgramOutput::of(command.output().expect("it runs"))
}

#[test]
fn a_tool_is_called_in_every_revision() {
    let server = HttpServer::new(&[]);
    server.ask(&["echo", "text=hello"]).has(0, "hello\n", "");
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        server.ask(&["add", "a=19", "b=23", "--revision", revision, "--quiet"]).has(0, "42\n", "");
        let printed = server.ask(&["echo", "text=x", "--revision", revision, "--json"]);
        let json: Value = serde_json::from_str(&printed.stdout).expect("JSON");
        assert_eq!((printed.code, &json["kind"], &json["revision"]), (Some(0), &"result".into(), &revision.into()));
    }
    let slow = server.ask(&["sleep", "ms=50"]);
    assert_eq!((slow.code, slow.stdout.as_str()), (Some(0), "slept for 50 ms\n"));
    assert!(slow.stderr.contains("progress 10/10"), "{}", slow.stderr);
    server.ask(&["greet", "--answer", "name=Ada"]).has(0, "Hello, Ada!\n", "");
    server.ask(&["greet", "--answer", "name=Ada", "--revision", "2025-06-18"]).has(0, "Hello, Ada!\n", "");
    assert_eq!(server.ask(&["fail", "message=no"]).code, Some(1));
}

#[test]
fn the_url_and_how_to_reach_it_are_on_stderr() {
    let server = HttpServer::new(&["--bearer-env", TOKEN]);
    let HttpServer { url, announcement, .. } = &server;
    assert_eq!(announcement[0], format!("barewire: serving {url}, reachable from this machine only; stop with Ctrl-C"));
    assert!(
        announcement[1].ends_with(&format!("barewire call tools --url {url} --bearer-env {TOKEN}")),
        "{}",
        announcement[1]
    );
    let entry: Value = serde_json::from_str(announcement[2].split_once("a host:").expect("an entry").1).expect("JSON");
    assert_eq!(entry["mcpServers"]["barewire"]["url"], url.as_str());
    assert!(!announcement.concat().contains("sesame"));
}

/// Sends a GET with a host and these headers, and returns the response.
fn get(server: &HttpServer, path: &str, headers: &str) -> String {
    let address = server.url.strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp")).expect("a URL");
    let mut stream = TcpStream::connect(address).expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

#[test]
fn health_is_for_anybody_and_metrics_are_for_those_with_the_token() {
    let server = HttpServer::new(&["--bearer-env", TOKEN, "--metrics", "/metrics"]);
    server.ask(&["echo", "text=x", "--bearer-env", TOKEN, "--revision", "2026-07-28"]).has(0, "x\n", "");
    for path in ["/healthz", "/readyz"] {
        let response = get(&server, path, "Host: balancer.example");
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nok\n"), "{response}");
    }
    assert!(get(&server, "/metrics", "Host: localhost").starts_with("HTTP/1.1 401 "));
    let response = get(&server, "/metrics", "Host: localhost\r\nAuthorization: Bearer sesame");
    assert!(!response.contains("era=\"modern\",outcome=\"answered\"} 0\n"), "{response}");
    assert!(response.contains("era=\"legacy\",outcome=\"answered\"} 0\n"), "{response}");
    assert!(response.ends_with("# EOF\n"), "{response}");
    // Without the option there is no such path.
    assert!(get(&HttpServer::new(&[]), "/metrics", "Host: localhost").starts_with("HTTP/1.1 404 "));
}

#[test]
fn requests_without_the_token_are_refused() {
    let server = HttpServer::new(&["--bearer-env", TOKEN]);
    let printed = server.ask(&["echo", "text=x"]);
    assert_eq!((printed.code, printed.stdout.as_str()), (Some(2), ""));
    assert!(
        printed.stderr.contains("401 Unauthorized")
            && printed.stderr.contains(&format!("hint: run: barewire login {}; or --bearer-env NAME", server.url)),
        "{}",
        printed.stderr
    );
    server.ask(&["echo", "text=x", "--bearer-env", TOKEN]).has(0, "x\n", "");
    server.ask(&["echo", "text=x", "--header", "Authorization: Bearer sesame"]).has(0, "x\n", "");
    let wrong = server.ask(&["echo", "text=x", "--header", "Authorization: Bearer open", "--json"]);
    let json: Value = serde_json::from_str(&wrong.stdout).expect("JSON");
    assert_eq!((wrong.code, &json["reason"]), (Some(2), &"unauthorized".into()));
    assert!(!wrong.stdout.contains("Bearer open") && !wrong.stderr.contains("Bearer open"));
}

#[test]
fn a_bad_url_is_explained() {
    let printed = ask(&["tools", "--url", &format!("http://{NO_SERVER}/mcp"), "--json"]);
    let json: Value = serde_json::from_str(&printed.stdout).expect("JSON");
    assert_eq!((printed.code, &json["reason"]), (Some(2), &"not-connected".into()));
    let server = HttpServer::new(&[]);
    let elsewhere = server.url.replace("/mcp", "/elsewhere");
    let printed = ask(&["tools", "--url", &elsewhere]);
    assert_eq!(printed.code, Some(2));
    assert!(printed.stderr.contains("the endpoint is /mcp"), "{}", printed.stderr);
    // A web server that does not speak MCP.
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let addr = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            // The whole request, because what is not read when the connection is closed resets it.
            let mut reader = BufReader::new(&stream);
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                let value =
                    line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::trim).map(str::to_owned);
                length = value.and_then(|value| value.parse().ok()).unwrap_or(length);
                line.clear();
            }
            let _ = reader.take(length).read_to_end(&mut Vec::new());
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhi!\x1b",
            );
        }
    });
    let printed = ask(&["tools", "--url", &format!("http://{addr}/")]);
    assert_eq!((printed.code, printed.stdout.as_str()), (Some(2), ""));
    assert!(printed.stderr.contains("is this the path of the MCP endpoint?"), "{}", printed.stderr);
    assert!(!printed.stderr.contains('\x1b'), "what a server says is escaped");
    for (options, what) in [
        (&["tools", "--url", "ftp://x/"][..], "neither http nor https"),
        (&["tools", "--url", "http://user:pw@localhost/"], "barewire: "),
        (&["tools", "--url", "http://localhost/", "--header", "secret"], "no colon"),
        (&["tools", "--url", "http://localhost/", "--bearer-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
        (&["tools", "--url", "http://localhost/", "--connect", "tcp:localhost:1"], "two targets"),
    ] {
        let printed = ask(options);
        assert_eq!(printed.code, Some(2), "{options:?}");
        assert!(printed.stderr.contains(what), "{options:?}: {}", printed.stderr);
        assert!(!printed.stderr.contains("pw@") && !printed.stderr.contains("secret"), "{}", printed.stderr);
    }
}

#[test]
fn a_signal_ends_the_server_in_order() {
    let mut server = HttpServer::new(&[]);
    let addr =
        server.url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    let mut idle = TcpStream::connect(&addr).expect("connected");
    let pid = i32::try_from(server.process.id()).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    assert_eq!(server.process.wait().expect("it ends").code(), Some(0));
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest);
    assert!(rest.is_empty());
}

#[test]
fn other_machines_need_a_host_name() {
    let mut command = Command::new(PROGRAM);
    let printed = ProgramOutput::of(command.args(["serve", "--http", "0.0.0.0:0"]).output().expect("it runs"));
    assert_eq!(printed.code, Some(2));
    assert!(
        printed.stderr.contains("can be reached from other machines") && printed.stderr.contains("hint: --host"),
        "{}",
        printed.stderr
    );
}
